"""What an interrupted run needs to continue: its checkpoint and its text as numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import ResumeError
from elmo_cli.fields import check_fields
from elmo_cli.files import new_file
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.step import TrainStep
from elmo_cli.model.bilm import BiLM, State
from elmo_cli.model.options import Options
from elmo_cli.text.characters import CharacterIds
from elmo_cli.training.reporter import Estimate
from elmo_cli.training.tensors import as_resume_error, read_tensors, write_tensors
from elmo_cli.zip_files import read_npz

_VERSION = 6  # incremented when older checkpoints can no longer be read
_OTHER_RUN_HINT = (
    "use the settings and the text of the first run, or start over with `overwrite=True`"
)


@dataclass(frozen=True)
class _Limit:
    """A limit of a run: what is done of it, and where it ends, in steps, epochs or seconds."""

    name: str  # of the setting
    done: float
    end: float


@dataclass
class TrainingProgress:
    """The progress of a run.

    Attributes:
        state: LSTM state of the streams of this process after the last batch.
        step, tokens: number of weight updates, and of tokens trained on in each direction.
        seconds: training time of all parts of the run.
        epoch, index: position of the next batch.
        n_batches: batches of that epoch; 0 before the first batch.
        losses: losses of the steps since the last loss in the log.
        loss, best_loss: the last loss in the log, NaN for none, and the lowest.
        log_size: size of the log in bytes when the checkpoint was saved.
        evaluated_at, evaluation_seconds: step of the last evaluation, -1 for none, and its
            duration with checkpoint and export.
        best, best_step: the best held-out perplexity and its step; -1 for none.
        evaluations_since_best: number of evaluations since then, none of them better.
        exported: the log line of the evaluation of the exported weights; empty without one.
    """

    state: State
    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    epoch: int = 0
    index: int = 0
    n_batches: int = 0
    losses: list[float] = field(default_factory=list)
    loss: float = math.nan
    best_loss: float = math.inf
    log_size: int = 0
    evaluated_at: int = -1
    evaluation_seconds: float = 0.0
    best: float = math.inf
    best_step: int = -1
    evaluations_since_best: int = 0
    exported: dict[str, Any] = field(default_factory=dict)

    @property
    def epochs(self) -> float:
        """Number of passes over the text, possibly fractional."""
        if self.n_batches == 0:
            return float(self.epoch)
        return self.epoch + self.index / self.n_batches

    def _limits(self, settings: TrainSettings, seconds: float) -> list[_Limit]:
        """Return the limits that are set, with what is done of each after some seconds.

        Training stops before `max_seconds` to leave time for an evaluation, at most half of it.
        """
        limits = []
        if settings.max_steps is not None:
            limits.append(_Limit("max_steps", done=self.step, end=settings.max_steps))
        if settings.max_epochs is not None:
            limits.append(_Limit("max_epochs", done=self.epochs, end=settings.max_epochs))
        if settings.max_seconds is not None:
            most = settings.max_seconds
            end_s = max(most - self.evaluation_seconds, most / 2)
            limits.append(_Limit("max_seconds", done=seconds, end=end_s))
        return limits

    def limits_used(self, settings: TrainSettings, seconds: float) -> dict[str, float]:
        """Return the used fraction of each limit after some seconds; a run ends when one is 1."""
        used = {limit.name: limit.done / limit.end for limit in self._limits(settings, seconds)}
        patience = math.inf if settings.patience is None else settings.patience
        used["patience"] = float(self.evaluations_since_best >= patience)
        return used

    def estimate(self, settings: TrainSettings, *, step: int, epoch: int, rate: float) -> Estimate:
        """Return how long a run will take.

        Args:
            step, epoch: tokens of a step and of an epoch.
            rate: tokens per second.
        """
        tokens_per_unit = {"max_steps": step, "max_epochs": epoch, "max_seconds": rate}
        n_tokens = math.inf
        first_limit = ""
        for limit in self._limits(settings, self.seconds):
            units_left = max(0.0, limit.end - limit.done)
            tokens_left = units_left * tokens_per_unit[limit.name]
            if tokens_left < n_tokens:
                n_tokens = tokens_left
                first_limit = limit.name
        return Estimate(
            seconds=n_tokens / rate,
            tokens=round(n_tokens),
            epochs=n_tokens / epoch,
            rate=rate,
            limit=first_limit,
        )


def _fixed_settings(step: TrainStep) -> dict[str, Any]:
    """Return the settings that must be the same in all parts of a run, as plain values."""
    return {
        **step.settings.fixed(),
        "batch_size": step.group.size * step.settings.n_streams,  # however the streams are divided
        "options": asdict(step.model.bilm.options),
        "vocabulary": step.model.vocabulary.fingerprint,
        "text": step.corpus.fingerprint,
    }


def save_checkpoint(
    path: Path, step: TrainStep, state: dict[str, Any], progress: TrainingProgress
) -> None:
    """Replace the checkpoint atomically; raises OutputError.

    Args:
        state: `step.state_dict()`.
        progress: with the LSTM state of the streams of all processes.
    """
    fields = {**vars(progress), "state": (progress.state.h, progress.state.c)}
    content = {"version": _VERSION, "run": _fixed_settings(step), "progress": fields, **state}
    write_tensors(path, content)


def load_checkpoint(path: Path, step: TrainStep) -> TrainingProgress:
    """Restore a run; the returned LSTM state has the streams of all processes.

    Raises:
        ResumeError: the file is missing or corrupt, or its settings or text differ.
    """
    content = read_checkpoint(path)
    with as_resume_error(path):
        recorded = dict(content["run"])
    for name, now in _fixed_settings(step).items():
        before = recorded.get(name)
        if before != now:
            problem = f"made with {name} {before}, now {now}"
            raise ResumeError(problem, _OTHER_RUN_HINT, where=path)
    with as_resume_error(path):
        fields = dict(content["progress"])
        h, c = fields.pop("state")
        progress = TrainingProgress(state=State(h, c), **fields)
        check_fields(progress)
        _check_state(progress.state, step)
        step.load_state_dict(content, progress.step)
    return progress


def _check_state(state: State, step: TrainStep) -> None:
    """Raise a ValueError unless a state is that of the streams of all processes."""
    expected = step.new_state(step.group.size * step.settings.n_streams)
    for tensor, of_run in zip((state.h, state.c), (expected.h, expected.c), strict=True):
        if tensor.shape != of_run.shape:
            raise ValueError(f"a state of shape {tuple(tensor.shape)}")


def saved_options(path: Path) -> Options:
    """Return the sizes of the biLM in a checkpoint, which are those of its weights.

    options.json cannot express a projection as wide as the cells, as AllenNLP's models have.

    Raises:
        ResumeError: the file is missing or corrupt.
    """
    content = read_checkpoint(path)
    with as_resume_error(path):
        options = Options(**content["run"]["options"])
        Options.from_dict(options.to_dict())  # has the bounds
        with torch.device("meta"):  # without memory, of which the sizes may need any amount
            outline = BiLM(options)
        for name, expected in outline.state_dict().items():
            if content["model"][f"bilm.{name}"].shape != expected.shape:
                raise ValueError(f"{name} is not of the shape that the options state")
    return options


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Load a checkpoint on the CPU without running code in it; raises ResumeError."""
    with as_resume_error(path):
        content: dict[str, Any] = read_tensors(path)
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']} instead of {_VERSION}")
        return content


def save_corpora(path: Path, train: Corpus, heldout: Corpus | None) -> None:
    """Write both texts of a run as numbers, 1.4 to 1.7 bytes per token; raises OutputError."""
    arrays = _corpus_arrays("train", train)
    if heldout is not None:
        arrays |= _corpus_arrays("heldout", heldout)
    with new_file(path, durable=True) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def load_corpora(path: Path, *, max_characters: int) -> tuple[Corpus, Corpus | None]:
    """Read what `save_corpora` has written, for a model that reads `max_characters` of a token.

    Raises:
        ResumeError: the file is missing or corrupt.
    """
    with as_resume_error(path):
        arrays = read_npz(path)
        train = _corpus_of_arrays("train", arrays, max_characters)
        heldout = None
        if "heldout-types" in arrays:
            heldout = _corpus_of_arrays("heldout", arrays, max_characters)
    return train, heldout


def _corpus_arrays(name: str, corpus: Corpus) -> dict[str, AnyArray]:
    """Return arrays that compress well: the first bytes of all token numbers, the second bytes…"""
    token_bytes = corpus.tokens.astype("<i4").view(np.uint8).reshape(-1, 4)  # (token, byte)
    types_json = json.dumps(corpus.types).encode("ascii")
    return {
        f"{name}-tokens": np.ascontiguousarray(token_bytes.T),  # (byte, token)
        f"{name}-lengths": np.diff(corpus.starts).astype("<i4"),
        f"{name}-types": np.frombuffer(types_json, np.uint8),
        f"{name}-documents": corpus.documents.astype("<i8"),
    }


def _corpus_of_arrays(name: str, arrays: Mapping[str, AnyArray], max_characters: int) -> Corpus:
    """Return the corpus whose arrays `_corpus_arrays` has made; a ValueError for other values."""
    types = tuple(json.loads(arrays[f"{name}-types"].tobytes()))
    token_bytes = np.ascontiguousarray(arrays[f"{name}-tokens"].T)  # (token, byte)
    tokens = token_bytes.view("<i4").ravel().astype(np.int32)
    lengths = arrays[f"{name}-lengths"]
    documents = arrays[f"{name}-documents"].astype(np.int64)
    _check_numbers(tokens, 0, len(types) - 1)
    _check_numbers(lengths, 2, len(tokens))  # of a sentence, with `<S>` and `</S>`
    _check_numbers(np.diff(documents), 1, len(lengths))
    if lengths.sum(dtype=np.int64) != len(tokens) or documents[0] != 0:
        raise ValueError("the sentences are not those of the tokens")
    if documents[-1] != len(lengths) or not all(isinstance(token, str) for token in types):
        raise ValueError("the documents are not those of the sentences")
    return Corpus(
        tokens=tokens,
        starts=np.append(0, np.cumsum(lengths, dtype=np.int64)),
        types=types,
        characters=CharacterIds(max_characters).tokens(types).astype(np.int16),
        documents=documents,
    )


def _check_numbers(numbers: AnyArray, least: int, most: int) -> None:
    """Raise a ValueError unless there are numbers, all of which are within a range."""
    if numbers.ndim != 1 or len(numbers) == 0 or numbers.min() < least or numbers.max() > most:
        raise ValueError(f"numbers that are not from {least} to {most}")
