"""A linear probe: a softmax regression from a vector to its label, on each layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.analysis.baseline import Accuracy, accuracy
from elmo_cli.analysis.examples import Examples
from elmo_cli.analysis.part import Vectors

# Of the sum of squared weights, in the mean loss of a label.
DECAYS = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6, 1e-7)
EPOCHS = 10
BATCH = 512
RATE = 1e-2  # at first; it falls to 0 in a straight line
SEED = 1
_COLUMNS = 64  # dimensions that are standardised at a time
_SCORES = 1 << 26  # that are in memory at a time

Advance = Callable[[int], object]


@dataclass(frozen=True)
class Probed(Accuracy):
    """What a probe on some vectors has shown, in percent.

    Attributes:
        weight_decay: the one that was best on dev; the greatest of equally good ones.
    """

    weight_decay: float


def n_steps(examples: Examples) -> int:
    """The steps in which a probe learns; a small train set has few."""
    return EPOCHS * math.ceil(len(examples.targets["train"]) / BATCH)


def n_epochs(examples: Examples) -> int:
    """The epochs that `probe_layers` takes in all."""
    return len(examples.layers) * len(DECAYS) * EPOCHS


def probe_layers(
    examples: Examples, *, seed: int = SEED, advance: Advance = lambda n: None
) -> Iterator[tuple[str, Probed]]:
    """Probe the layers of some examples one after the other, which is how they lie in memory.

    Yields:
        the name of a layer, and what its probe has shown.
    Raises:
        EmbeddingsFileError: a file can't be read.
    """
    for layer in examples.layers:
        # Without a name here they are gone when the next layer is read.
        found = probe(examples.vectors(layer), examples, seed=seed, advance=advance)
        yield layer, found


def probe(
    vectors: Mapping[str, Vectors],
    examples: Examples,
    *,
    seed: int = SEED,
    advance: Advance = lambda n: None,
) -> Probed:
    """Fit a regression on train for each decay, and tell of the one that is best on dev.

    Args:
        vectors: of the parts, (vector, dim) float32; they are standardised in place.
        examples: whose labels are learned.
        seed: of the order in which batches are taken.
        advance: called with 1 after each epoch.
    Source: Peters et al. 2018, 5.3 and table 6; Adam, decays and epochs are not the paper's, which
        does not tell them.
    """
    standardise(vectors)
    scaled = {part: torch.from_numpy(array) for part, array in vectors.items()}
    targets = torch.from_numpy(examples.targets["train"])
    results = []
    for decay in DECAYS:
        weights = fitted(
            scaled["train"], targets, len(examples.labels), decay, seed=seed, advance=advance
        )
        told = {part: predicted(scaled[part], weights).numpy() for part in ("dev", "test")}
        results.append(Probed(**vars(accuracy(examples, **told)), weight_decay=decay))
    return max(results, key=lambda result: result.dev)


def standardise(vectors: Mapping[str, Vectors]) -> None:
    """Give each dimension mean 0 and deviation 1 in train, in place, so that one decay fits all.

    Args:
        vectors: of the parts, "train" among them, (vector, dim) float32. A dimension that has one
            value in train is not divided.
    """
    train = vectors["train"]
    for begin in range(0, train.shape[1], _COLUMNS):  # or numpy would copy all of train
        columns = slice(begin, begin + _COLUMNS)
        mean, deviation = train[:, columns].mean(0), train[:, columns].std(0)
        # A mean is rounded, so equal values may seem to deviate from it.
        varies = train[:, columns].max(0) > train[:, columns].min(0)
        scale = 1 / np.where(varies & (deviation > 0), deviation, 1)
        for array in vectors.values():
            array[:, columns] -= mean
            array[:, columns] *= scale


def scores(vectors: Tensor, weights: Tensor) -> Tensor:
    """(vector, label); the last row of `weights` is the bias."""
    return torch.addmm(weights[-1], vectors, weights[:-1])


def predicted(vectors: Tensor, weights: Tensor) -> Tensor:
    """The ids of the likeliest labels, (vector,) int64."""
    n_rows = max(1, _SCORES // weights.shape[1])
    return torch.cat([scores(rows, weights).argmax(1) for rows in torch.split(vectors, n_rows)])


def fitted(
    vectors: Tensor,
    targets: Tensor,
    n_labels: int,
    decay: float,
    *,
    seed: int = SEED,
    advance: Advance = lambda n: None,
) -> Tensor:
    """Weights of the regression, (dim + 1, label), by Adam.

    Args:
        vectors: (vector, dim) float32.
        targets: (vector,) int64, from 0 to `n_labels` - 1.
    """
    weights = torch.zeros(vectors.shape[1] + 1, n_labels, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=RATE)
    n_steps = EPOCHS * math.ceil(len(targets) / BATCH)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / n_steps)
    random = torch.Generator().manual_seed(seed)
    for _ in range(EPOCHS):
        for batch in torch.split(torch.randperm(len(targets), generator=random), BATCH):
            loss = functional.cross_entropy(scores(vectors[batch], weights), targets[batch])
            loss = loss + decay * weights[:-1].square().sum()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            falling.step()
        advance(1)
    return weights.detach()
