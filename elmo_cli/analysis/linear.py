"""Linear probes: softmax regression from the vectors of a layer to labels, with baselines."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.analysis.probe_data import UNKNOWN_LABEL, ProbeData
from elmo_cli.analysis.vectors import Vectors
from elmo_cli.arrays import BoolArray, Int64Array

# Factors of the sum of squared weights in the loss.
WEIGHT_DECAYS = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6, 1e-7)
EPOCHS = 10
BATCH_SIZE = 512
LEARNING_RATE = 1e-2  # at the start; it decays linearly to 0
# Weight decays of `regularization_path`: factors of the squared distance from the prior.
PATH_DECAYS = (1.0, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
TOLERANCE = 1e-4  # largest absolute value in the gradient at convergence
_MAX_ITERATIONS = 1000
_DIMS_AT_ONCE = 64  # dimensions standardized at once
_MAX_SCORES = 1 << 24  # scores kept in memory

Advance = Callable[[float], object]


@dataclass(frozen=True)
class Accuracy:
    """The percentage of correct labels."""

    dev: float
    test: float
    unseen_words: float | None  # tokens of test whose form is not in train; None: none, or unknown


@dataclass(frozen=True)
class ProbeResult(Accuracy):
    """The accuracy of a probe."""

    weight_decay: float  # the value with the best accuracy on dev; the largest of them on a tie


def n_steps(n_labels: int) -> int:
    """Return the number of weight updates of `fit` for a number of training examples."""
    return EPOCHS * math.ceil(n_labels / BATCH_SIZE)


def probe(
    vectors: Mapping[str, Vectors],
    data: ProbeData,
    *,
    seed: int = 0,
    advance: Advance = lambda n: None,
) -> ProbeResult:
    """Train a probe for each weight decay and return the result of the best one on dev.

    Args:
        vectors: of each split, scaled by `standardise`.
        seed: of the order of training examples.
        advance: called with 1 after each epoch.

    Source: Peters et al. 2018, 5.3 and table 6; optimizer, decays and epochs are not in the paper.
    """
    scaled = {split: torch.from_numpy(array) for split, array in vectors.items()}
    train = scaled["train"], torch.from_numpy(data.targets["train"])
    results = []
    for decay in WEIGHT_DECAYS:
        weights = fit(*train, len(data.labels), decay, seed=seed, advance=advance)
        dev, test = (predict(scaled[split], weights).numpy() for split in ("dev", "test"))
        results.append(ProbeResult(**vars(accuracy(data, dev, test)), weight_decay=decay))
    return max(results, key=lambda result: result.dev)


def standardise(vectors: Mapping[str, Vectors]) -> None:
    """Scale each dimension to mean 0 and standard deviation 1 in train, in place.

    A dimension that is constant in train is only shifted.
    """
    train = vectors["train"]
    for start in range(0, train.shape[1], _DIMS_AT_ONCE):  # NumPy would copy all of train
        dims = slice(start, start + _DIMS_AT_ONCE)
        mean, deviation = train[:, dims].mean(0), train[:, dims].std(0)
        # Equal values may deviate from their mean, because the mean is rounded.
        varies = (train[:, dims].max(0) > train[:, dims].min(0)) & (deviation > 0)
        scale = 1 / np.where(varies, deviation, 1)
        for array in vectors.values():
            array[:, dims] -= mean
            array[:, dims] *= scale


def predict(vectors: Tensor, weights: Tensor) -> Tensor:
    """Return the ids of the most probable labels, (vector,) int64."""
    return torch.cat([_scores(rows, weights).argmax(1) for rows in _batches(vectors, weights)])


def code_bits(vectors: Tensor, targets: Tensor, weights: Tensor) -> float:
    """Return the bits of an optimal code of labels by the probabilities of a probe.

    `UNKNOWN_LABEL` is left out of the targets, (vector,).
    """
    nats = 0.0
    batches = zip(_batches(vectors, weights), _batches(targets, weights), strict=True)
    for rows, labels in batches:
        one = functional.cross_entropy(
            _scores(rows, weights), labels, ignore_index=UNKNOWN_LABEL, reduction="none"
        )
        nats += float(one.double().sum())
    return nats / math.log(2)


def fit(
    vectors: Tensor,
    targets: Tensor,
    n_labels: int,
    decay: float,
    *,
    seed: int = 0,
    advance: Advance = lambda n: None,
) -> Tensor:
    """Fit a softmax regression with Adam; returns (dim + 1, label), the last row being the bias."""
    weights = torch.zeros(vectors.shape[1] + 1, n_labels, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=LEARNING_RATE)
    total = n_steps(len(targets))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / total)
    random = torch.Generator().manual_seed(seed)
    for _ in range(EPOCHS):
        for batch in torch.split(torch.randperm(len(targets), generator=random), BATCH_SIZE):
            loss = functional.cross_entropy(_scores(vectors[batch], weights), targets[batch])
            loss = loss + decay * weights[:-1].square().sum()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
        advance(1)
    return weights.detach()


def regularization_path(vectors: Tensor, targets: Tensor, n_labels: int) -> Iterator[Tensor]:
    """Yield the weights of a converged softmax regression for each of `PATH_DECAYS`.

    Weight decay pulls them towards a regression that ignores the vectors and predicts each label in
    proportion to its count + 1, so labels missing from the targets have a probability above 0.
    """
    counts = torch.bincount(targets, minlength=n_labels) + 1
    prior = vectors.new_zeros(vectors.shape[1] + 1, n_labels)
    prior[-1] = torch.log(counts / counts.sum())
    weights = prior.clone()
    for decay in PATH_DECAYS:
        _minimize(weights, vectors, targets, decay, prior)
        yield weights.clone()


def _minimize(
    weights: Tensor, vectors: Tensor, targets: Tensor, decay: float, prior: Tensor
) -> None:
    """Update weights in place with L-BFGS until they converge."""
    weights.requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weights],
        max_iter=_MAX_ITERATIONS,
        history_size=10,
        tolerance_grad=TOLERANCE,
        tolerance_change=TOLERANCE * 1e-5,  # of the loss and of the weights
        line_search_fn="strong_wolfe",
    )

    def loss() -> float:
        optimizer.zero_grad()
        total = _backward(decay * (weights - prior).square().sum())
        batches = zip(_batches(vectors, weights), _batches(targets, weights), strict=True)
        for rows, labels in batches:
            nats = functional.cross_entropy(_scores(rows, weights), labels, reduction="sum")
            total += _backward(nats / len(targets))
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    weights.requires_grad_(False)


def _backward(loss: Tensor) -> float:
    """Backpropagate one term of a loss and return its value."""
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item()


def _scores(vectors: Tensor, weights: Tensor) -> Tensor:
    """(vector, label)"""
    return torch.addmm(weights[-1], vectors, weights[:-1])


def _batches(rows: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    """Divide rows such that the scores of a part fit into memory."""
    return torch.split(rows, max(1, _MAX_SCORES // weights.shape[1]))


def accuracy(data: ProbeData, dev: Int64Array, test: Int64Array) -> Accuracy:
    """Return the accuracy of predicted label ids, each (vector,)."""
    is_right = test == data.targets["test"]
    unseen = data.is_unseen
    on_unseen = None if unseen is None or not unseen.any() else _percent(is_right[unseen])
    return Accuracy(_percent(dev == data.targets["dev"]), _percent(is_right), on_unseen)


def _percent(is_right: BoolArray) -> float:
    return 100 * float(is_right.mean())


def majority_labels(data: ProbeData) -> tuple[Accuracy, Accuracy | None]:
    """Return the accuracy of the most frequent label of train, and of that of each word form.

    Unseen words get the most frequent label overall; on a tie, the first label is taken. Case
    matters. The second accuracy is None if tokens are unknown.
    """
    targets = data.targets["train"]
    majority = int(np.bincount(targets).argmax())
    dev, test = (np.full_like(data.targets[name], majority) for name in ("dev", "test"))
    overall = accuracy(data, dev, test)
    if data.words is None:
        return overall, None
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for word, target in zip(data.words["train"], targets.tolist(), strict=True):
        counts[word][target] += 1
    best = {word: min(ids, key=lambda k: (-ids[k], k)) for word, ids in counts.items()}
    words = (data.words[name] for name in ("dev", "test"))
    dev, test = (np.array([best.get(word, majority) for word in of_split]) for of_split in words)
    return overall, accuracy(data, dev, test)
