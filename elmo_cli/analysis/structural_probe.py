"""Structural probes: a linear map under which squared distances or norms are those of a tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmo_cli.analysis.linear import Advance
from elmo_cli.analysis.structural_scores import (
    StructuralScores,
    depth_scores,
    distance_scores,
)
from elmo_cli.analysis.trees import tree_depths, tree_distances
from elmo_cli.arrays import AnyArray, BoolArray, Float32Array, Float64Array, Int64Array

BATCH_SIZE = 20  # sentences per weight update
MAX_EPOCHS = 40
LEARNING_RATE = 1e-3
_LEARNING_RATE_FACTOR = 0.1  # after an epoch in which the loss on dev does not become lower
_PATIENCE = 5  # epochs without a lower loss on dev, after which training stops
_MIN_IMPROVEMENT = 1e-4  # of the loss on dev
_LARGEST_WEIGHT = 0.05  # at the start


@dataclass(frozen=True)
class StructuralTask:
    """What a structural probe predicts of a tree: how it is computed and scored.

    Attributes:
        gold: the distances (word, word) or depths (word,) of a tree, from its heads.
        predict: the same of a batch, from projected vectors (sentence, word, rank).
        score: predictions of sentences against `gold`, with the words that are not punctuation.
        chain: the same of a number of words, each of which depends on the word before it.
    """

    name: str
    gold: Callable[[Int64Array], Int64Array]
    predict: Callable[[Tensor], Tensor]
    score: Callable[[Sequence[AnyArray], Sequence[AnyArray], Sequence[BoolArray]], StructuralScores]
    chain: Callable[[int], Int64Array]


@dataclass(frozen=True)
class TreeVectors:
    """The vectors of some sentences, and the distances or depths of their trees.

    Attributes:
        vectors: of all words, (word, dim) float32.
        gold: of each sentence, (word, word) or (word,).
    """

    vectors: Float32Array
    gold: tuple[AnyArray, ...]

    @cached_property
    def starts(self) -> list[int]:
        """The index of the first word of each sentence, and after it the number of words."""
        lengths = [len(gold) for gold in self.gold]
        return [0, *np.cumsum(lengths).tolist()]

    def batch(self, numbers: Sequence[int]) -> TreeBatch:
        """Return the sentences of these numbers."""
        vectors = torch.from_numpy(self.vectors)
        rows = [vectors[self.starts[number] : self.starts[number + 1]] for number in numbers]
        lengths = [len(sentence) for sentence in rows]
        n_axes = self.gold[numbers[0]].ndim
        padded_shape = [max(lengths)] * n_axes
        gold = torch.zeros(len(numbers), *padded_shape)
        for row, number in enumerate(numbers):
            gold[row][_words(lengths[row], n_axes)] = torch.from_numpy(self.gold[number])
        return TreeBatch(rows=torch.cat(rows), lengths=torch.tensor(lengths), gold=gold)

    def batches(self) -> Iterator[TreeBatch]:
        """Yield all sentences in order."""
        for start in range(0, len(self.gold), BATCH_SIZE):
            yield self.batch(range(start, min(start + BATCH_SIZE, len(self.gold))))


def _words(n_words: int, n_axes: int) -> tuple[slice, ...]:
    """Return the index of the values of a sentence without its padding."""
    return (slice(n_words),) * n_axes


@dataclass(frozen=True)
class TreeBatch:
    """Some sentences: vectors without padding, `gold` with padding.

    Attributes:
        rows: (all words, dim), sentence by sentence.
        lengths: words of each sentence, (sentence,).
        gold: (sentence, word, word) or (sentence, word).
    """

    rows: Tensor
    lengths: Tensor
    gold: Tensor

    def project(self, projection: Tensor) -> Tensor:
        """Return the projected vectors, (sentence, word, rank), with zeros as padding."""
        projected = self.rows @ projection
        by_sentence = list(torch.split(projected, self.lengths.tolist()))
        return pad_sequence(by_sentence, batch_first=True)


@dataclass(frozen=True)
class StructuralProbe:
    """A trained probe.

    Attributes:
        projection: the matrix B of the paper, transposed, (dim, rank) float32.
        dev_loss: the loss of `projection` on dev, the lowest of all epochs.
        epochs: how many were trained, including those after `projection`.
    """

    task: StructuralTask
    projection: Tensor
    dev_loss: float
    epochs: int

    def predict(self, vectors: TreeVectors) -> list[Float64Array]:
        """Return the distances (word, word) or depths (word,) of each sentence, float64."""
        predictions = []
        for batch in vectors.batches():
            padded = self.task.predict(batch.project(self.projection).double())
            for values, length in zip(padded, batch.lengths.tolist(), strict=True):
                predictions.append(values[_words(length, values.ndim)].numpy())
        return predictions


def squared_distances(projected: Tensor) -> Tensor:
    """Return the squared distance between each two words, (sentence, word, word)."""
    norms = squared_norms(projected)
    products = projected @ projected.transpose(1, 2)
    return norms[:, :, None] + norms[:, None, :] - 2 * products


def squared_norms(projected: Tensor) -> Tensor:
    """Return the squared length of each vector, (sentence, word)."""
    return projected.square().sum(-1)


def structural_loss(predicted: Tensor, gold: Tensor, lengths: Tensor) -> Tensor:
    """Return the mean over sentences of the mean absolute error of their words or pairs of words.

    The errors of a sentence are divided by its length for depths, (sentence, word), and by the
    square of its length for distances, (sentence, word, word). Padding does not count.

    Source: Hewitt and Manning 2019, section 3.3, and for depths the authors' program, `loss.py`.
    """
    is_word = torch.arange(gold.shape[1]) < lengths[:, None]  # (sentence, word)
    if gold.ndim == 2:
        errors = ((predicted - gold).abs() * is_word).sum(1)
        return (errors / lengths).mean()
    is_pair = is_word[:, :, None] & is_word[:, None, :]
    errors = ((predicted - gold).abs() * is_pair).sum((1, 2))
    return (errors / lengths.square()).mean()


def fit_structural_probe(
    task: StructuralTask,
    train: TreeVectors,
    dev: TreeVectors,
    *,
    rank: int,
    seed: int = 0,
    advance: Advance = lambda n: None,
) -> StructuralProbe:
    """Train a probe with Adam, and return the one with the lowest loss on dev.

    The learning rate is divided by 10 after each epoch without a lower loss on dev. Training stops
    after five epochs in a row without one, and after `MAX_EPOCHS`.

    Args:
        rank: number of columns of the projection.
        seed: of the projection at the start and of the order of sentences.
        advance: called with 1 after each epoch, and at the end with the epochs that were saved.

    Source: Hewitt and Manning 2019, section 4.1; the authors' program, `regimen.py`, `probe.py`.
    """
    random = torch.Generator().manual_seed(seed)
    dim = train.vectors.shape[1]
    start = torch.rand(dim, rank, generator=random)  # from 0 to 1
    projection = ((2 * start - 1) * _LARGEST_WEIGHT).requires_grad_()
    optimizer = torch.optim.Adam([projection], lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=_LEARNING_RATE_FACTOR, patience=0
    )
    best_projection = projection.detach().clone()
    best_loss = math.inf
    best_epoch = 0
    epoch = 0
    while epoch < MAX_EPOCHS and epoch < best_epoch + _PATIENCE:
        epoch += 1
        order = torch.randperm(len(train.gold), generator=random)
        for numbers in torch.split(order, BATCH_SIZE):
            batch = train.batch(numbers.tolist())
            predicted = task.predict(batch.project(projection))
            loss = structural_loss(predicted, batch.gold, batch.lengths)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        dev_loss = mean_loss(task, projection.detach(), dev)
        schedule.step(dev_loss)
        if dev_loss < best_loss - _MIN_IMPROVEMENT:
            best_projection = projection.detach().clone()
            best_loss = dev_loss
            best_epoch = epoch
        advance(1)
    advance(MAX_EPOCHS - epoch)
    return StructuralProbe(
        task=task,
        projection=best_projection,
        dev_loss=best_loss,
        epochs=epoch,
    )


def mean_loss(task: StructuralTask, projection: Tensor, vectors: TreeVectors) -> float:
    """Return the mean of `structural_loss` over all sentences."""
    total = 0.0
    for batch in vectors.batches():
        predicted = task.predict(batch.project(projection))
        loss = structural_loss(predicted, batch.gold, batch.lengths)
        total += float(loss) * len(batch.lengths)
    return total / len(vectors.gold)


def _chain_distances(n_words: int) -> Int64Array:
    """Return the distances if each word depends on the word before it, (word, word)."""
    positions = np.arange(n_words)
    distances: Int64Array = np.abs(positions[:, None] - positions)
    return distances


def _chain_depths(n_words: int) -> Int64Array:
    """Return the depths if each word depends on the word before it, (word,)."""
    return np.arange(n_words)


TASKS = {
    "distance": StructuralTask(
        name="distance",
        gold=tree_distances,
        predict=squared_distances,
        score=distance_scores,
        chain=_chain_distances,
    ),
    "depth": StructuralTask(
        name="depth",
        gold=tree_depths,
        predict=squared_norms,
        score=depth_scores,
        chain=_chain_depths,
    ),
}
