"""TrainStep: one weight update, with its optimizer and learning-rate schedule."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from elmo_cli.arrays import Float32Array
from elmo_cli.engine.runtime import out_of_memory_as_device_error
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.distributed import ProcessGroup
from elmo_cli.lm.forward import Dropout, forward, token_vectors
from elmo_cli.lm.language_model import LanguageModel
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.softmax import LogUniformSampler, NegativeSamples, sampled_softmax_loss
from elmo_cli.lm.stream import StreamBatch
from elmo_cli.model.bilm import State
from elmo_cli.weightfile.table import LOSS_TOKENS

_LAST_FACTOR = 0.05  # of the peak learning rate
_SMALLER_HINT = "choose a smaller `batch_size`; more `gradient_accumulation_steps` make up for it"
_TRIAL_STEPS = 3  # the first one is slower


def learning_rate_at(settings: TrainSettings, step: int, fraction_done: float) -> float:
    """Return the learning rate: constant for Adagrad; linear warmup and cosine decay for AdamW.

    Args:
        step: zero-based step.
        fraction_done: completed fraction of the whole run, 0 to 1.
    """
    if settings.optimizer == "adagrad":
        return settings.peak_rate
    warmup = min(1.0, (step + 1) / max(1, settings.warmup_steps))
    cosine = 0.5 * (1 + math.cos(math.pi * min(fraction_done, 1.0)))  # from 1 to 0
    decay = _LAST_FACTOR + (1 - _LAST_FACTOR) * cosine
    return settings.peak_rate * (warmup * decay)


def _optimizer(settings: TrainSettings, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """Create AdamW, or Adagrad with accumulators starting at 1 (bilm-tf `bilm/training.py`)."""
    rate = settings.peak_rate
    if settings.optimizer == "adagrad":
        return torch.optim.Adagrad(parameters, lr=rate, initial_accumulator_value=1.0, eps=0.0)
    return torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)


def _sampler(settings: TrainSettings, *, n_types: int) -> LogUniformSampler | None:
    """The sampler of negatives; None for the full softmax."""
    n_negatives = settings.n_negatives(n_types)
    return LogUniformSampler(n_types, n_negatives) if n_negatives else None


class TrainStep:
    """Updates the weights of a model from one batch.

    A step of R processes that accumulate N batches of B streams equals the step of one process with
    R·N·B streams: the same tokens and negative samples, the mean gradient, clipped once.

    Args:
        model: on the device of `group`; all of its parameters are trained.
        corpus: the text that the batches come from.
    """

    def __init__(
        self, model: LanguageModel, corpus: Corpus, settings: TrainSettings, group: ProcessGroup
    ) -> None:
        self.model = model
        self.corpus = corpus
        self.settings = settings
        self.group = group
        self._ids = torch.from_numpy(corpus.ids(model.vocabulary))  # (type of the corpus,)
        self._modules = nn.ModuleDict({"bilm": model.bilm, "softmax": model.softmax})
        self._parameters = list(self._modules.requires_grad_().parameters())
        self._accumulators: dict[nn.Parameter, Tensor] = {}
        self._optimizer = self._new_optimizer()
        # The same in all processes.
        self._sampler_rng = torch.Generator().manual_seed(settings.seed)
        self._dropout = Dropout(settings.dropout, torch.Generator(group.device))
        self._seed_dropout(0)
        self._dtype = torch.bfloat16 if settings.precision == "bf16" else None
        self._sampler = _sampler(settings, n_types=len(model.vocabulary))
        # See `softmax._rows`; on a GPU the gradient is dense in any case.
        self._softmax_gradient = None
        if self.is_sampled and model.softmax.weight.device.type == "cpu":
            self._softmax_gradient = torch.zeros_like(model.softmax.weight)

    def start_from(
        self, accumulators: Iterable[tuple[str, Float32Array]], *, loss_tokens: int
    ) -> None:
        """Continue with the sums of squared gradients of an earlier training with Adagrad.

        Args:
            accumulators: as `OpenModel.accumulators`.
            loss_tokens: over how many tokens that training summed its loss; here, `LOSS_TOKENS`.
        """
        factor = (LOSS_TOKENS / loss_tokens) ** 2
        parameters = dict(self._modules.named_parameters())
        for name, array in accumulators:
            self._accumulators[parameters[name]] = torch.from_numpy(array) * factor
        self._optimizer = self._new_optimizer()

    def _new_optimizer(self) -> torch.optim.Optimizer:
        optimizer = _optimizer(self.settings, self._parameters)
        for parameter, accumulator in self._accumulators.items():
            optimizer.state[parameter]["sum"].copy_(accumulator)
        return optimizer

    @property
    def is_sampled(self) -> bool:
        """Whether the loss is that of the sampled softmax."""
        return self._sampler is not None

    @property
    def own_streams(self) -> slice:
        """The streams of a batch that this process computes."""
        n_streams = self.settings.n_streams
        first = self.group.rank * n_streams
        return slice(first, first + n_streams)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the last step."""
        return float(self._optimizer.param_groups[0]["lr"])

    def new_state(self, n_streams: int) -> State:
        """Return the LSTM state before any text is read."""
        options = self.model.bilm.options
        weight = self.model.softmax.weight
        return State.zeros(options, n_streams, device=weight.device, dtype=weight.dtype)

    def __call__(
        self, batch: StreamBatch, state: State, learning_rate: float
    ) -> tuple[float, State]:
        """Update the weights.

        Args:
            batch: the streams of all processes.
            state: LSTM state of the streams of this process after the previous batch.
        Returns:
            The loss before the update, averaged over directions and the streams of all processes,
            and the state after the batch. If loss or gradient is not finite, the weights stay
            unchanged and the loss is NaN.
        Raises:
            DeviceError: the device has no memory left.
        """
        settings = self.settings
        sizes = f"a batch of {settings.batch_size} streams of {settings.bptt} tokens"
        with out_of_memory_as_device_error(self.group.device, sizes, _SMALLER_HINT):
            return self._step(batch, state, learning_rate)

    def _step(self, batch: StreamBatch, state: State, learning_rate: float) -> tuple[float, State]:
        settings = self.settings
        own_batch = batch.streams(self.own_streams)
        negatives = self._draw_negatives()
        self._clear_gradients()
        fraction = 1 / settings.gradient_accumulation_steps
        own_loss = 0.0
        states_after = []
        for first in range(0, settings.n_streams, settings.batch_size):
            streams = slice(first, first + settings.batch_size)
            state_before = state.select_rows(streams)
            loss, state_after = self.loss(own_batch.streams(streams), state_before, negatives)
            # bilm-tf clips the gradient of the loss summed over this number of tokens.
            (loss * (LOSS_TOKENS * fraction)).backward()  # type: ignore[no-untyped-call]
            own_loss += loss.item() * fraction
            states_after.append(state_after)
        mean_loss = self.group.mean(own_loss)
        if not math.isfinite(mean_loss) or not self._update(learning_rate):
            return math.nan, state
        # (layer, direction, stream, projection or cell)
        h = torch.cat([after.h for after in states_after], 2)
        c = torch.cat([after.c for after in states_after], 2)
        return mean_loss, State(h, c)

    def seconds(self, batch: StreamBatch) -> float:
        """Measure the duration of a step before the first one; all processes must call this.

        Weights and random states stay the same, and the optimizer is a new one.
        """
        sampler_state = self._sampler_rng.get_state()
        dropout_state = self._dropout.generator.get_state()
        durations = []
        for _ in range(_TRIAL_STEPS):
            start_s = time.monotonic()
            self(batch, self.new_state(self.settings.n_streams), 0.0)
            durations.append(time.monotonic() - start_s)
        self._optimizer = self._new_optimizer()
        self._sampler_rng.set_state(sampler_state)
        self._dropout.generator.set_state(dropout_state)
        return self.group.mean(min(durations))

    def loss(
        self, batch: StreamBatch, state: State, negatives: NegativeSamples | None = None
    ) -> tuple[Tensor, State]:
        """Return the mean loss of a batch, a scalar with gradient, and the state after the batch.

        Args:
            negatives: on the device of the model; None for the full softmax.
        """
        bilm = self.model.bilm
        softmax = self.model.softmax
        with self._autocast():
            vectors = token_vectors(bilm.char_cnn, self.corpus.characters, batch.inputs)
        # Both (token, direction, stream, projection).
        top, new_state = forward(bilm, vectors, state, self._dropout, dtype=self._dtype)
        h = top.flatten(0, 2)  # (prediction, projection)
        types = torch.from_numpy(batch.targets.reshape(-1)).long()  # of the corpus, (prediction,)
        targets = self._ids[types].to(h.device)  # of the vocabulary, (prediction,)
        if negatives is None:
            with self._autocast():
                return -softmax(h, targets).mean(), new_state
        loss = sampled_softmax_loss(softmax, h, targets, negatives, dtype=self._dtype)
        return loss, new_state

    def state_dict(self) -> dict[str, Any]:
        """Return weights, optimizer and random states; all processes must call this."""
        return {
            "model": self._modules.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "sampler_rng": self._sampler_rng.get_state(),
            "dropout_rng": self.group.gather_bytes(self._dropout.generator.get_state()),
            "device": self.group.device.type,
        }

    def load_state_dict(self, saved: dict[str, Any], step: int) -> None:
        """Restore a `state_dict` of `step`; the device and number of processes may differ."""
        self._optimizer.load_state_dict(saved["optimizer"])
        self._sampler_rng.set_state(saved["sampler_rng"])
        self._modules.load_state_dict(saved["model"])
        dropout_states = saved["dropout_rng"]  # of each process
        is_same_device = saved["device"] == self.group.device.type
        if is_same_device and len(dropout_states) == self.group.size:
            self._dropout.generator.set_state(dropout_states[self.group.rank])
        else:
            self._seed_dropout(step)

    def _seed_dropout(self, step: int) -> None:
        """Seed the dropout generator differently in each process and step."""
        seed = self.settings.seed + 1_000_000_007 * (self.group.rank + 1) + 998_244_353 * step
        self._dropout.generator.manual_seed(seed % (1 << 63))

    def _clear_gradients(self) -> None:
        """Remove all gradients; that of a sampled softmax keeps its memory, filled with zeros."""
        self._optimizer.zero_grad(set_to_none=True)
        if self._softmax_gradient is not None:
            self.model.softmax.weight.grad = self._softmax_gradient.zero_()

    def _draw_negatives(self) -> NegativeSamples | None:
        """Draw the negative samples of a step; None for the full softmax."""
        if self._sampler is None:
            return None
        weight = self.model.softmax.weight
        return self._sampler.draw(self._sampler_rng).to(weight.device, weight.dtype)

    def _update(self, learning_rate: float) -> bool:
        """Apply the mean gradient of all processes; return False if it is not finite."""
        gradients = [weight.grad for weight in self._parameters if weight.grad is not None]
        self.group.average_gradients(gradients)
        norm = nn.utils.clip_grad_norm_(self._parameters, self.settings.max_grad_norm)
        if not math.isfinite(norm.item()):
            return False
        for parameter_group in self._optimizer.param_groups:
            parameter_group["lr"] = learning_rate
        self._optimizer.step()
        return True

    def _autocast(self) -> torch.autocast:
        device = self.group.device.type
        return torch.autocast(device, self._dtype, enabled=self._dtype is not None)
