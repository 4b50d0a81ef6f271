"""Linear probes: softmax regression from the vectors of a layer to labels, with baselines."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.optim.adam import adam

from elmo_cli.analysis.probe_data import UNKNOWN_LABEL, ProbeData
from elmo_cli.arrays import BoolArray, Float32Array, Int64Array

# Factors of the sum of squared weights in the loss, from the largest down.
WEIGHT_DECAYS = (1e-2, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6, 1e-7)
_MAX_WORSE = 2  # weight decays in a row that are worse on dev than the best before them
EPOCHS = 10
BATCH_SIZE = 512  # training examples per weight update
LEARNING_RATE = 1e-2  # at the start; it decays linearly to 0
# Weight decays of `regularization_path`: factors of the squared distance from the prior.
PATH_DECAYS = (1.0, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
TOLERANCE = 1e-4  # largest absolute value in the gradient at convergence
_MAX_ITERATIONS = 1000
_DIMS_AT_ONCE = 64  # dimensions standardized at once
_MAX_SCORES = 1 << 24  # scores kept in memory

Advance = Callable[[float], object]  # called with completed epochs


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
    weight_decay_edge: str | None  # "largest" or "smallest" if it is that of `WEIGHT_DECAYS`


def n_steps(n_labels: int) -> int:
    """Return the number of weight updates of `fit` for a number of training examples."""
    return EPOCHS * math.ceil(n_labels / BATCH_SIZE)


def probe(
    vectors: Mapping[str, Float32Array],
    data: ProbeData,
    *,
    seed: int = 0,
    advance: Advance = lambda n: None,
) -> ProbeResult:
    """Train probes with ever smaller weight decay and return the result of the best one on dev.

    The smaller weight decays are left out after two in a row that are worse on dev.

    Args:
        vectors: of each split, scaled by `standardise`.
        seed: of the order of training examples.
        advance: called with completed epochs, `EPOCHS` for each weight decay; those that are left
            out count as completed.

    Source: Peters et al. 2018, 5.3 and table 6; optimizer, decays and epochs are not in the paper.
    """
    train = torch.from_numpy(vectors["train"])  # (vector, dim)
    dev = torch.from_numpy(vectors["dev"])
    test = torch.from_numpy(vectors["test"])
    targets = torch.from_numpy(data.targets["train"])  # (vector,)
    best: ProbeResult | None = None
    n_worse = 0
    n_tried = 0
    for decay in WEIGHT_DECAYS:
        weights = fit(train, targets, len(data.labels), decay, seed=seed, advance=advance)
        n_tried += 1
        dev_ids = predict(dev, weights).numpy()
        test_ids = predict(test, weights).numpy()
        measured = accuracy(data, dev_ids, test_ids)
        if best is not None and measured.dev < best.dev:
            n_worse += 1
            if n_worse == _MAX_WORSE:
                break
            continue
        n_worse = 0
        if best is None or measured.dev > best.dev:
            best = ProbeResult(
                dev=measured.dev,
                test=measured.test,
                unseen_words=measured.unseen_words,
                weight_decay=decay,
                weight_decay_edge=_edge(decay),
            )
    advance(EPOCHS * (len(WEIGHT_DECAYS) - n_tried))
    assert best is not None
    return best


def _edge(decay: float) -> str | None:
    """Return which end of `WEIGHT_DECAYS` a weight decay is, if it is one."""
    if decay == WEIGHT_DECAYS[0]:
        return "largest"
    if decay == WEIGHT_DECAYS[-1]:
        return "smallest"
    return None


def standardise(vectors: Mapping[str, Float32Array]) -> None:
    """Scale each dimension to mean 0 and standard deviation 1 in train, in place.

    A dimension that is constant in train is only shifted.
    """
    train = vectors["train"]
    for start in range(0, train.shape[1], _DIMS_AT_ONCE):  # NumPy would copy all of train
        dims = slice(start, start + _DIMS_AT_ONCE)
        part = train[:, dims]  # (vector, dim), a view
        mean = part.mean(0)
        deviation = part.std(0)
        # Equal values may deviate from their mean, because the mean is rounded.
        has_values = part.max(0) > part.min(0)
        varies = has_values & (deviation > 0)
        scale = 1 / np.where(varies, deviation, 1)
        for array in vectors.values():
            array[:, dims] -= mean
            array[:, dims] *= scale


def predict(vectors: Tensor, weights: Tensor) -> Tensor:
    """Return the ids of the most probable labels, (vector,) int64."""
    ids = [_scores(rows, weights).argmax(1) for rows in _batches(vectors, weights)]
    return torch.cat(ids)


def code_bits(vectors: Tensor, targets: Tensor, weights: Tensor) -> float:
    """Return the bits of an optimal code of labels by the probabilities of a probe.

    `UNKNOWN_LABEL` is left out of the targets, (vector,).
    """
    nats = 0.0
    batches = zip(_batches(vectors, weights), _batches(targets, weights), strict=True)
    for rows, labels in batches:
        scores = _scores(rows, weights)  # (vector, label)
        losses = functional.cross_entropy(
            scores, labels, ignore_index=UNKNOWN_LABEL, reduction="none"
        )
        nats += float(losses.double().sum())
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
    """Fit a softmax regression with Adam; returns (dim + 1, label), the last row being the bias.

    During training, the weights are (label, dim), whose gradient is computed faster.
    """
    weights = torch.zeros(n_labels, vectors.shape[1], requires_grad=True)  # (label, dim)
    bias = torch.zeros(n_labels, requires_grad=True)
    optimizer = _Adam([weights, bias])
    total = n_steps(len(targets))
    step = 0
    random = torch.Generator().manual_seed(seed)
    for _ in range(EPOCHS):
        order = torch.randperm(len(targets), generator=random)
        for batch in torch.split(order, BATCH_SIZE):
            rows = vectors.index_select(0, batch)  # several times as fast as `vectors[batch]`
            scores = functional.linear(rows, weights, bias)  # (example, label)
            loss = functional.cross_entropy(scores, targets[batch])
            weight_gradient, bias_gradient = torch.autograd.grad(loss, [weights, bias])
            weight_gradient.add_(weights.detach(), alpha=2 * decay)  # of their squares
            learning_rate = LEARNING_RATE * (1 - step / total)
            optimizer.step([weight_gradient, bias_gradient], learning_rate)
            step += 1
        advance(1)
    return torch.cat([weights.T, bias[None]]).detach()


class _Adam:
    """Adam, computed by the function that `torch.optim.Adam` calls.

    That class is not used: the first object of a class of `torch.optim` imports the compiler of
    torch, which takes seconds.
    """

    def __init__(self, parameters: list[Tensor]) -> None:
        self._parameters = parameters
        self._means = [torch.zeros_like(parameter) for parameter in parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in parameters]
        self._steps = [torch.zeros(()) for _ in parameters]

    @torch.no_grad()
    def step(self, gradients: list[Tensor], learning_rate: float) -> None:
        """Update the parameters in place."""
        adam(
            self._parameters,
            gradients,
            self._means,
            self._squares,
            max_exp_avg_sqs=[],
            state_steps=self._steps,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=learning_rate,
            weight_decay=0,
            eps=1e-8,
            maximize=False,
        )


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
    """Return the score of each label for each vector, (vector, label)."""
    return torch.addmm(weights[-1], vectors, weights[:-1])


def _batches(rows: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    """Divide rows into batches whose scores fit into memory."""
    return torch.split(rows, max(1, _MAX_SCORES // weights.shape[1]))


def accuracy(data: ProbeData, dev: Int64Array, test: Int64Array) -> Accuracy:
    """Return the accuracy of predicted label ids, each (vector,)."""
    is_right_in_dev = dev == data.targets["dev"]
    is_right_in_test = test == data.targets["test"]
    on_unseen_words = None
    if data.is_unseen is not None and data.is_unseen.any():
        on_unseen_words = _percentage(is_right_in_test[data.is_unseen])
    return Accuracy(
        dev=_percentage(is_right_in_dev),
        test=_percentage(is_right_in_test),
        unseen_words=on_unseen_words,
    )


def _percentage(is_right: BoolArray) -> float:
    return 100 * float(is_right.mean())


def majority_labels(data: ProbeData) -> tuple[Accuracy, Accuracy | None]:
    """Return the accuracy of the most frequent label of train, and of that of each word form.

    Unseen words get the most frequent label overall; on a tie, the first label is taken. Case
    matters. The second accuracy is None if tokens are unknown.
    """
    targets = data.targets["train"]
    majority = int(np.bincount(targets).argmax())
    dev = np.full_like(data.targets["dev"], majority)
    test = np.full_like(data.targets["test"], majority)
    overall = accuracy(data, dev, test)
    if data.words is None:
        return overall, None
    of_word = _majority_of_words(data.words["train"], targets)
    dev = np.array([of_word.get(word, majority) for word in data.words["dev"]])
    test = np.array([of_word.get(word, majority) for word in data.words["test"]])
    return overall, accuracy(data, dev, test)


def _majority_of_words(words: Sequence[str], targets: Int64Array) -> dict[str, int]:
    """Return the most frequent label id of each word form; on a tie, the first label."""
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for word, target in zip(words, targets.tolist(), strict=True):
        counts[word][target] += 1
    majority = {}
    for word, count_of_label in counts.items():
        most = max(count_of_label.values())
        majority[word] = min(label for label, count in count_of_label.items() if count == most)
    return majority
