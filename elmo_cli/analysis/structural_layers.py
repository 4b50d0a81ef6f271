"""Structural probe of each layer, its scores on test, and those of a baseline without vectors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from elmo_cli.analysis.linear import Advance
from elmo_cli.analysis.structural_data import StructuralData
from elmo_cli.analysis.structural_probe import (
    MAX_EPOCHS,
    StructuralProbe,
    StructuralTask,
    TreeVectors,
    fit_structural_probe,
)
from elmo_cli.analysis.structural_scores import StructuralScores
from elmo_cli.arrays import AnyArray, Float64Array
from elmo_cli.errors import TrainingError, UsageError
from elmo_cli.store.reader import open_embeddings

Layer = int | str


@dataclass(frozen=True)
class StructuralResult:
    """The result of a probe of one layer.

    Attributes:
        scores: on test.
        dev_loss: loss of the trained probe on dev.
        epochs: how many were trained.
        predicted: distances (word, word) or depths (word,) of each sentence of test.
    """

    scores: StructuralScores
    dev_loss: float
    epochs: int
    predicted: list[Float64Array]


def n_structural_epochs(data: StructuralData) -> int:
    """Return the most epochs that `structural_layers` trains."""
    return MAX_EPOCHS * len(data.probe_data.layers)


def rank_of_probe(data: StructuralData, rank: int | None) -> int:
    """Return the rank of the probes, by default the dimension of the vectors.

    Raises:
        UsageError: it exceeds the dimension.
    """
    path = data.splits["train"].labelled.vectors_file
    with open_embeddings(path) as embeddings:
        dim = embeddings.dim
    if rank is not None and rank > dim:
        problem = f"exceeds the dimension of the vectors, {dim:,}"
        raise UsageError(problem, "a projection has at most this rank", where=f"`rank={rank}`")
    return dim if rank is None else rank


def structural_layers(
    data: StructuralData,
    task: StructuralTask,
    *,
    rank: int,
    seed: int = 0,
    advance: Advance = lambda n: None,
) -> Iterator[tuple[Layer, StructuralResult]]:
    """Yield each layer with its result, holding one layer in memory at a time.

    Args:
        rank, seed, advance: those of `fit_structural_probe`.
    Raises:
        EmbeddingsFileError: a file cannot be read.
        TrainingError: the vectors are so large that their squared distances are not finite.
    """
    gold = {name: _gold(data, task, name) for name in data.splits}
    for layer in data.probe_data.layers:
        vectors = {}
        for name, split in data.splits.items():
            vectors[name] = TreeVectors(split.labelled.vectors(layer), gold[name])
        probe = fit_structural_probe(
            task, vectors["train"], vectors["dev"], rank=rank, seed=seed, advance=advance
        )
        predicted = probe.predict(vectors["test"])
        _check_finite(layer, probe, predicted)
        result = StructuralResult(
            scores=task.score(predicted, gold["test"], data.is_kept),
            dev_loss=probe.dev_loss,
            epochs=probe.epochs,
            predicted=predicted,
        )
        yield layer, result


def _check_finite(layer: Layer, probe: StructuralProbe, predicted: list[Float64Array]) -> None:
    """Refuse a probe that has learned nothing, because its loss is not finite."""
    is_finite = math.isfinite(probe.dev_loss)
    if is_finite and all(np.isfinite(values).all() for values in predicted):
        return
    problem = "its vectors are too large: squared distances between words are not finite"
    raise TrainingError(problem, "check the model and the file", where=f"layer {layer}")


def chain_scores(data: StructuralData, task: StructuralTask) -> StructuralScores:
    """Return the scores on test of the trees in which each word depends on the word before it."""
    gold = _gold(data, task, "test")
    chains = [task.chain(len(values)) for values in gold]
    return task.score(chains, gold, data.is_kept)


def _gold(data: StructuralData, task: StructuralTask, split: str) -> tuple[AnyArray, ...]:
    """Return the distances or depths of all trees of a split, int16 to save memory."""
    return tuple(task.gold(heads).astype(np.int16) for heads in data.splits[split].heads)
