"""Checkpoint: everything that an interrupted run needs to go on."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo_cli.errors import ResumeError
from elmo_cli.lm import torch_file
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.settings import FREE, TrainSettings
from elmo_cli.model.options import Options
from elmo_cli.model.state import State
from elmo_cli.text.vocabulary import Vocabulary

FILE_NAME = "checkpoint.pt"
_VERSION = 4  # of the file; raised when an older program's checkpoints can't be read any more


@dataclass
class Progress:
    """How far a run is.

    Attributes:
        state: that the last window left.
        step: steps done.
        seconds: spent on them, over all parts of the run.
        tokens: trained on in each direction.
        epoch, place: of the window that comes next.
        n_places: windows in that epoch; 0 before the first one.
        losses: of the steps since the last line of the log.
        best_loss: the lowest loss of a line of the log.
        log_size: bytes of the log when the checkpoint was made.
        evaluated_at: step of the last look; -1 for none.
        heldout: what the held-out text of the looks is known by; "" where there is none.
        best: the best held-out perplexity of all looks.
        best_step: when that was; -1 for never.
        looks_since_best: looks that were no better.
    """

    state: State
    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    epoch: int = 0
    place: int = 0
    n_places: int = 0
    losses: list[float] = field(default_factory=list)
    best_loss: float = math.inf
    log_size: int = 0
    evaluated_at: int = -1
    heldout: str = ""
    best: float = math.inf
    best_step: int = -1
    looks_since_best: int = 0

    def forget_looks(self) -> None:
        """As if no look had been taken yet."""
        self.best, self.best_step, self.looks_since_best, self.evaluated_at = math.inf, -1, 0, -1

    def as_logged(self) -> dict[str, Any]:
        """What each line of the log begins with."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 1),
        }

    @property
    def epochs(self) -> float:
        """How often the text was read, in parts too."""
        return self.epoch + (self.place / self.n_places if self.n_places else 0.0)


@dataclass(frozen=True)
class Parts:
    """What changes while training and is therefore saved whole.

    Attributes:
        model: biLM and softmax in one module.
        optimizer: with its accumulators.
        negatives: random numbers of the sampled softmax.
    """

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    negatives: torch.Generator


def facts_of_run(
    settings: TrainSettings, *, n_rows: int, options: Options, vocabulary: Vocabulary, text: Corpus
) -> dict[str, Any]:
    """What must be the same in all parts of a run, as plain values.

    Args:
        n_rows: of all processes and windows of a step; how they are dealt does not matter.
    """
    same = {name: value for name, value in asdict(settings).items() if name not in FREE}
    del same["gradient_accumulation_steps"]
    return {
        **same,
        "batch_size": n_rows,
        "options": json.dumps(options.to_dict()),
        "vocabulary": vocabulary.fingerprint,
        "text": text.known_by,
        # Where documents begin decides nothing while sentences are shuffled.
        "documents": text.documents_known_by if settings.shuffle == "documents" else "",
    }


def save(
    path: Path, parts: Parts, progress: Progress, dropped: list[Tensor], run: dict[str, Any]
) -> None:
    """Write a checkpoint; `path` is replaced when the new one is whole.

    Args:
        progress: with the state of all rows of all processes.
        dropped: where the random numbers of dropout stand in each process.
        run: of `facts_of_run`.
    Raises:
        OutputError: the file can't be written.
    """
    content = {
        "version": _VERSION,
        "run": run,
        "model": parts.model.state_dict(),
        "optimizer": parts.optimizer.state_dict(),
        "sampler_rng": parts.negatives.get_state(),
        "dropout_rng": dropped,
        "device": _device(parts.model),
        "progress": {**vars(progress), "state": (progress.state.h, progress.state.c)},
    }
    torch_file.write(path, content)


def load(path: Path, parts: Parts, run: dict[str, Any]) -> tuple[Progress, list[Tensor]]:
    """Put everything back as it was saved; progress and dropout's random numbers are returned, none
    of them where another kind of device made them.

    Raises:
        ResumeError: no checkpoint, a damaged one, or one of another run.
    """
    content = torch_file.read(path)
    if content.get("version") != _VERSION:
        raise ResumeError(
            f"{path}: a checkpoint of version {content.get('version', 'unknown')}, not {_VERSION}",
            "go on with the version of elmo that made it, or start anew with `--overwrite`",
        )
    with torch_file.told(path):
        for name, now in run.items():
            if content["run"].get(name) != now:
                raise ResumeError(
                    f"{path}: made with {name} {content['run'].get(name)}, now {now}",
                    "give the settings and the text of the first run, or start anew with "
                    "`--overwrite`",
                )
        progress = _progress(content["progress"], run)
        # Random numbers of one kind of device mean nothing to another.
        is_same = content["device"] == _device(parts.model)
        dropped = list(content["dropout_rng"]) if is_same else []
        parts.model.load_state_dict(content["model"])
        parts.optimizer.load_state_dict(content["optimizer"])
    take_up(path, parts.negatives, content.get("sampler_rng"))
    return progress, dropped


def _device(model: torch.nn.Module) -> str:
    return next(model.parameters()).device.type


def take_up(path: Path, numbers: torch.Generator, state: Any) -> None:
    """Let random numbers go on where they stood when a checkpoint was made.

    Raises:
        ResumeError: `state` is of no such generator.
    """
    with torch_file.told(path):
        numbers.set_state(state)


def _progress(facts: dict[str, Any], run: dict[str, Any]) -> Progress:
    """What a checkpoint says of how far its run is; a ValueError where it can't be so."""
    progress = Progress(**{**facts, "state": State(*facts["state"])})
    sizes = json.loads(run["options"])["lstm"]
    for values, size in ((progress.state.h, "projection_dim"), (progress.state.c, "dim")):
        if values.shape != (sizes["n_layers"], 2, run["batch_size"], sizes[size]):
            raise ValueError(f"states of the shape {tuple(values.shape)}")
        if values.dtype != torch.float32:
            raise ValueError(f"states of {values.dtype}")
    for name, first in vars(Progress(progress.state)).items():
        value = getattr(progress, name)
        if type(value) is not type(first) or (type(value) is int and value < min(first, 0)):
            raise ValueError(f"{name} {value!r}")
        if type(value) is float and math.isnan(value):
            raise ValueError(f"{name} {value!r}")
    for number in (progress.seconds, *progress.losses):
        if type(number) is not float or not math.isfinite(number):
            raise ValueError(f"{number!r} among its seconds and losses")
    if progress.place > progress.n_places:
        raise ValueError(f"place {progress.place} of {progress.n_places}")
    return progress


def options_of(path: Path, options: Options) -> Options:
    """The options of the biLM in a checkpoint; `options` are those of its options.json.

    That file does not tell a projection from none where both have the same size, and bilm-tf takes
    it for none. A run that began with the weights of AllenNLP may have one.

    Raises:
        ResumeError: no checkpoint, or a damaged one.
    """
    if options.has_cnn_projection and options.has_lstm_projection:
        return options
    with torch_file.told(path):
        names = set(torch_file.read(path)["model"])
    return replace(
        options,
        has_cnn_projection="bilm.char_cnn.projection.weight" in names,
        has_lstm_projection="bilm.forward_lm.layers.0.projection.weight" in names,
    )
