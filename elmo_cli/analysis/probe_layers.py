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
from elmo_cli.arrays import Float32Array, Int64Array
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
    n_fits = 1.0
    if control:
        n_fits += 1
    if mdl:
        n_fits += sum(prefixes) / n_labels
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
        result = LayerResult(probe=probe(vectors, data, seed=seed, advance=advance))
        if control_data is not None:
            control_result = probe(vectors, control_data, seed=seed, advance=advance)
            result = replace(result, control=control_result)
        if mdl:
            length = code_length(vectors, data, seed=seed, advance=advance)
            result = replace(result, mdl=length)
        yield layer, result


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
            f"control labels belong to word forms, and {unknown}",
            "embed the text in a layout that stores tokens, one vector per token",
            where="`control=True`",
        )
    labels = data.splits["train"].labels
    forms = list(dict.fromkeys(word for words in data.words.values() for word in words))
    drawn = np.random.default_rng(seed).integers(len(labels), size=len(forms))
    label_of_form = {form: labels[k] for form, k in zip(forms, drawn.tolist(), strict=True)}
    splits = {}
    for name, split in data.splits.items():
        sentences = tuple(_relabel(sentence, label_of_form) for sentence in split.sentences)
        splits[name] = replace(split, sentences=sentences)
    return replace(data, splits=splits)


def _relabel(sentence: JoinedSentence, label_of_form: Mapping[str, str]) -> JoinedSentence:
    """Return a sentence with the label of each of its word forms."""
    words = sentence.words or ()
    return sentence._replace(labels=tuple(label_of_form[word] for word in words))


def code_length(
    vectors: Mapping[str, Float32Array],
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
    order = torch.from_numpy(_shuffle_sentences(data.splits["train"], seed))  # (vector,)
    train = torch.from_numpy(vectors["train"])  # (vector, dim)
    train_targets = torch.from_numpy(data.targets["train"])  # (vector,)
    dev = torch.from_numpy(vectors["dev"])
    dev_targets = torch.from_numpy(data.targets["dev"])
    n_labels = len(data.labels)

    def fit(rows: Tensor) -> Tensor:
        """Return the weights of a probe that is trained on these rows of train."""
        path = linear.regularization_path(train[rows], train_targets[rows], n_labels)
        best = torch.empty(0)
        fewest_bits = math.inf
        for weights in path:
            bits_of_dev = linear.code_bits(dev, dev_targets, weights)
            if bits_of_dev >= fewest_bits:
                break
            best = weights
            fewest_bits = bits_of_dev
        advance(linear.EPOCHS * len(linear.WEIGHT_DECAYS) * len(rows) / len(order))
        return best

    ends = _block_ends(len(order))
    bits = ends[0] * math.log2(n_labels)
    for start, end in pairwise(ends):
        weights = fit(order[:start])
        rows = order[start:end]
        bits += linear.code_bits(train[rows], train_targets[rows], weights)
    uniform_bits = len(order) * math.log2(n_labels)
    return CodeLength(
        code_length=bits,
        uniform_code_length=uniform_bits,
        compression=uniform_bits / bits,
    )


def _shuffle_sentences(train: LabelledVectors, seed: int) -> Int64Array:
    """Return the positions of all vectors of train, sentence by sentence in random order."""
    lengths = train.counts_by_sentence
    starts = np.cumsum(lengths)[:-1]  # of all sentences but the first
    positions = np.split(np.arange(sum(lengths)), starts)  # of the vectors of each sentence
    shuffled = np.random.default_rng(seed).permutation(len(lengths))
    return np.concatenate([positions[k] for k in shuffled])


def _block_ends(n_labels: int) -> list[int]:
    """Return where blocks end; a small text has fewer of them, since none is empty."""
    ends = {max(1, round(fraction * n_labels)) for fraction in PREFIXES}
    return sorted(ends)
