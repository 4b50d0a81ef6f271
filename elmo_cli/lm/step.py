"""One step of training: from a window to changed weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.distributed import ProcessGroup
from elmo_cli.lm.forward import Dropout, forward, token_vectors
from elmo_cli.lm.sampled_softmax import LogUniformSampler, sampled_softmax_loss
from elmo_cli.lm.schedule import make_optimizer
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.stream import Batch
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.model.state import State
from elmo_cli.text.vocabulary import Vocabulary

_SCALE_OF_CLIP = 20  # the originals clip the gradient of the loss times 20 steps
Negatives = tuple[Tensor, Tensor]


class Learner:
    """A model with what changes its weights.

    A step of R processes that accumulate N windows of B rows is the step of one process with
    R·N·B rows: the same windows, the same negatives, the mean gradient, clipped once.

    Args:
        bilm, head: on the device of `team`; all of their parameters are learned.
        corpus: the text whose windows are learned from.
        vocabulary: of `head`.
    Attributes:
        model: biLM and softmax in one module.
        optimizer: with its accumulators.
        negatives: random numbers of the sampled softmax, the same in all processes.
        dropped: random numbers of dropout, each process's own.
        is_sampled: whether the softmax is.
    """

    def __init__(
        self,
        bilm: BiLM,
        head: NextTokenSoftmax,
        corpus: Corpus,
        vocabulary: Vocabulary,
        settings: TrainSettings,
        team: ProcessGroup,
    ) -> None:
        self._bilm, self._head, self._corpus = bilm, head, corpus
        self._settings, self._team = settings, team
        self._ids = torch.from_numpy(corpus.ids(vocabulary))
        self.model = nn.ModuleDict({"bilm": bilm, "head": head})
        self._learned = list(self.model.requires_grad_().parameters())
        self.optimizer = make_optimizer(settings, self._learned)
        self.negatives = torch.Generator().manual_seed(settings.seed)
        self.dropped = torch.Generator(team.device)
        self.seed_dropout(0)
        self._dropout = Dropout(settings.dropout, self.dropped)
        self._dtype = torch.bfloat16 if settings.precision == "bf16" else None
        n_negatives = settings.n_negatives(len(vocabulary))
        self.is_sampled = n_negatives > 0
        # On other devices rows come with a gradient of the softmax's size all the same.
        adds_rows = self.is_sampled and head.weight.device.type == "cpu"
        self._kept = torch.zeros_like(head.weight) if adds_rows else None
        self._sampler = LogUniformSampler(len(vocabulary), n_negatives)

    @property
    def n_rows(self) -> int:
        """Rows of this process, over all windows of a step."""
        return self._settings.batch_size * self._settings.gradient_accumulation_steps

    @property
    def own_rows(self) -> slice:
        """Which of the stream's rows are this process's."""
        return slice(self._team.rank * self.n_rows, (self._team.rank + 1) * self.n_rows)

    def seed_dropout(self, step: int) -> None:
        """Random numbers of dropout from a beginning that no other process or step has."""
        numbers = (self._settings.seed, self._team.rank + 1, step)
        mixed = sum(number * prime for number, prime in zip(numbers, _PRIMES, strict=True))
        self.dropped.manual_seed(mixed % (1 << 63))

    def new_state(self) -> State:
        """The state of this process's rows before anything was read."""
        weight = self._head.weight
        return State.zeros(
            self._bilm.options, self.n_rows, device=weight.device, dtype=weight.dtype
        )

    def learn(self, batch: Batch, state: State) -> tuple[float, State]:
        """Change the weights by what a window teaches.

        Args:
            window: all rows of all processes.
            state: of this process's rows, as the window before left it.
        Returns:
            The loss before the change, the mean over directions and rows of all processes; the
            state after the window. Where loss or gradient is no number nothing is changed, and the
            loss is NaN or infinite.
        """
        batch = batch.streams(self.own_rows)
        negatives = self.draw()
        self.forget_gradients()
        share = 1 / self._settings.gradient_accumulation_steps
        value, states = 0.0, []
        for k in range(self._settings.gradient_accumulation_steps):
            rows = slice(k * self._settings.batch_size, (k + 1) * self._settings.batch_size)
            loss, left = self.loss(batch.streams(rows), state.select_rows(rows), negatives)
            (loss * (_SCALE_OF_CLIP * share)).backward()  # type: ignore[no-untyped-call]
            value += loss.item() * share
            states.append(left)
        value = self._team.mean(value)
        if not math.isfinite(value) or not math.isfinite(self.change()):
            return math.nan, state
        return value, State(
            torch.cat([left.h for left in states], 2), torch.cat([left.c for left in states], 2)
        )

    def forget_gradients(self) -> None:
        """Begin a step. The softmax's gradient keeps its memory where only some of its rows get one
        (`sampled_softmax_loss`); all others come new, so that none has to be added to zeros."""
        self.optimizer.zero_grad(set_to_none=True)
        if self._kept is not None:
            self._head.weight.grad = self._kept.zero_()

    def loss(self, batch: Batch, state: State, negatives: Negatives | None) -> tuple[Tensor, State]:
        """The loss on a window, a scalar that gradients flow from, and the state after it.

        Args:
            negatives: of `LogUniformSampler.draw`; None for the full softmax.
        """
        top, left = self.outputs(self.vectors(batch), state)
        return self.loss_of(top, batch, negatives), left

    def vectors(self, batch: Batch) -> Tensor:
        """Token vectors of what is read, (token, direction, row, projection)."""
        with self._autocast():
            return token_vectors(self._bilm.char_cnn, self._corpus.characters, batch.inputs)

    def outputs(self, vectors: Tensor, state: State) -> tuple[Tensor, State]:
        """The top layer's outputs, (token, direction, row, projection), and the state left."""
        return forward(self._bilm, vectors, state, self._dropout, dtype=self._dtype)

    def loss_of(self, top: Tensor, batch: Batch, negatives: Negatives | None) -> Tensor:
        """The loss of predicting a window from the top layer's outputs."""
        h = top.flatten(0, 2)
        predicted = torch.from_numpy(batch.targets.reshape(-1)).long()
        targets = self._ids[predicted].to(h.device)
        if negatives is not None:
            return sampled_softmax_loss(self._head, h, targets, *negatives, dtype=self._dtype)
        with self._autocast():
            loss: Tensor = -self._head(h, targets).mean()
        return loss

    def draw(self) -> Negatives | None:
        """Negatives of a step; None for the full softmax."""
        if not self.is_sampled:
            return None
        negatives, expected = self._sampler.draw(self.negatives)
        weight = self._head.weight
        return negatives.to(weight.device), expected.to(weight)

    def change(self) -> float:
        """Change the weights by the mean gradient of all processes; returns the gradient's norm,
        and changes nothing where that is no number."""
        self._team.average_gradients([p.grad for p in self._learned if p.grad is not None])
        norm = nn.utils.clip_grad_norm_(self._learned, self._settings.max_grad_norm).item()
        if math.isfinite(norm):
            self.optimizer.step()
        return norm

    def _autocast(self) -> torch.autocast:
        device = self._team.device.type
        return torch.autocast(device, self._dtype, enabled=self._dtype is not None)


_PRIMES = (1, 1_000_000_007, 998_244_353)
