"""Probe each layer, with control labels and the length of a code of the labels if requested."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from elmo_cli.analysis import linear
from elmo_cli.analysis.labelled_vectors import JoinedSentence, LabelledVectors
from elmo_cli.analysis.linear import Advance, ProbeResult, probe, standardise
from elmo_cli.analysis.probe_data import ProbeData
from elmo_cli.analysis.vectors import Vectors
from elmo_cli.arrays import Int64Array
from elmo_cli.errors import UsageError

# Fractions of train that a probe is trained on before it encodes the labels up to the next one.
PREFIXES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class CodeLength:
    """The length of an online code of the labels of train, in bits."""

    code_length: float
    uniform_code_length: float  # number of labels times log2 of the number of different labels
    compression: float  # uniform_code_length / code_length


@dataclass(frozen=True)
class LayerResult:
    """The results of one layer; None for those not asked for."""

    probe: ProbeResult
    control: ProbeResult | None = None  # of a probe that is trained and tested on control labels
    mdl: CodeLength | None = None

    @property
    def selectivity(self) -> float | None:
        """The accuracy on test minus the control accuracy, in percentage points."""
        return None if self.control is None else self.probe.test - self.control.test


def n_epochs(data: ProbeData, *, control: bool = False, mdl: bool = False) -> float:
    """Return how much `probe_layers` trains, in epochs of `probe` over all of train."""
    *prefixes, n_labels = _block_ends(len(data.targets["train"]))
    n_fits = 1 + control + mdl * sum(prefixes) / n_labels
    return len(data.layers) * len(linear.WEIGHT_DECAYS) * linear.EPOCHS * n_fits


def probe_layers(
    data: ProbeData,
    *,
    seed: int = 0,
    control: bool = False,
    mdl: bool = False,
    advance: Advance = lambda n: None,
) -> Iterator[tuple[int | str, LayerResult]]:
    """Yield each layer with its results, holding one layer in memory at a time.

    Args:
        seed: random seed of the training in `probe`, the control labels and the order of coding.
        control, mdl: also train a probe on control labels, and measure the code length.
        advance: called with completed epochs over all of train.
    Raises:
        EmbeddingsFileError: a file cannot be read.
        UsageError: `control` where the tokens are unknown.
    """
    control_data = with_control_labels(data, seed=seed) if control else None
    for layer in data.layers:
        vectors = data.vectors(layer)
        standardise(vectors)
        found = LayerResult(probe(vectors, data, seed=seed, advance=advance))
        if control_data is not None:
            of_control = probe(vectors, control_data, seed=seed, advance=advance)
            found = replace(found, control=of_control)
        if mdl:
            found = replace(found, mdl=code_length(vectors, data, seed=seed, advance=advance))
        yield layer, found


def with_control_labels(data: ProbeData, *, seed: int = 0) -> ProbeData:
    """Return the same vectors with a random label for each word form instead of their labels.

    The label of a word form is that of a token of train, drawn at random, so that control labels
    are distributed like the labels of train. A word form has one label in all splits, even if it is
    missing from train. The control labels of train do not depend on the other splits. Case matters.

    Raises:
        UsageError: sentences are labeled, or some tokens are unknown.

    Source: Hewitt and Liang 2019, section 2.
    """
    if data.words is None:
        unknown = "the tokens are unknown" if data.unit == "tokens" else "sentences have none"
        raise UsageError(
            f"`control=True`: control labels belong to word forms, and {unknown}",
            "embed the text in a layout that stores tokens, one vector per token",
        )
    labels = data.splits["train"].labels
    forms = list(dict.fromkeys(word for words in data.words.values() for word in words))
    drawn = np.random.default_rng(seed).integers(len(labels), size=len(forms))
    of_form = {form: labels[k] for form, k in zip(forms, drawn.tolist(), strict=True)}

    def relabel(one: JoinedSentence) -> JoinedSentence:
        return one._replace(labels=tuple(of_form[word] for word in one.words or ()))

    splits = {
        name: replace(split, sentences=tuple(map(relabel, split.sentences)))
        for name, split in data.splits.items()
    }
    return replace(data, splits=splits)


def code_length(
    vectors: Mapping[str, Vectors],
    data: ProbeData,
    *,
    seed: int = 0,
    advance: Advance = lambda n: None,
) -> CodeLength:
    """Encode the labels of train block by block, each with a probe trained on all blocks before it.

    The first block has a uniform code. For each later block, probes are trained to convergence with
    ever smaller weight decay, until the code for dev, without its unknown labels, becomes longer.
    Sentences are in random order, since the first ones of a corpus are often of one genre.

    Args:
        vectors: of each split, scaled by `standardise`.
        seed: random seed of the order of sentences.
        advance: called with the number of epochs that `probe` would train on as many examples.

    Source: Voita and Titov 2020, section 3.2, "online code".
    """
    order = torch.from_numpy(_shuffle_sentences(data.splits["train"], seed))
    tensors = {name: torch.from_numpy(vectors[name]) for name in ("train", "dev")}
    targets = {name: torch.from_numpy(data.targets[name]) for name in tensors}
    n_labels = len(data.labels)

    def fit(rows: Tensor) -> Tensor:
        """Return the weights of a probe that is trained on these rows of train."""
        path = linear.regularization_path(tensors["train"][rows], targets["train"][rows], n_labels)
        best, fewest = torch.empty(0), math.inf
        for weights in path:
            on_dev = linear.code_bits(tensors["dev"], targets["dev"], weights)
            if on_dev >= fewest:
                break
            best, fewest = weights, on_dev
        advance(linear.EPOCHS * len(linear.WEIGHT_DECAYS) * len(rows) / len(order))
        return best

    ends = _block_ends(len(order))
    bits = ends[0] * math.log2(n_labels)
    for start, end in pairwise(ends):
        weights, rows = fit(order[:start]), order[start:end]
        bits += linear.code_bits(tensors["train"][rows], targets["train"][rows], weights)
    uniform_bits = len(order) * math.log2(n_labels)
    return CodeLength(bits, uniform_bits, uniform_bits / bits)


def _shuffle_sentences(train: LabelledVectors, seed: int) -> Int64Array:
    """Return the positions of all vectors of train, sentence by sentence in random order."""
    lengths = [len(sentence.labels) for sentence in train.sentences]
    positions = np.split(np.arange(sum(lengths)), np.cumsum(lengths)[:-1])
    shuffled = np.random.default_rng(seed).permutation(len(lengths))
    return np.concatenate([positions[k] for k in shuffled])


def _block_ends(n_labels: int) -> list[int]:
    """Return where blocks end; a small text has fewer of them, since none is empty."""
    return sorted({max(1, round(fraction * n_labels)) for fraction in PREFIXES})
