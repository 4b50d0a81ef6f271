"""Code length: the bits of an online code of the labels, given the vectors of a layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from elmo_cli.analysis import linear
from elmo_cli.analysis.labelled_vectors import LabelledVectors
from elmo_cli.analysis.probe_data import Ids, ProbeData
from elmo_cli.analysis.vectors import Vectors

# Fractions of train that a probe is trained on before it encodes the labels up to the next one.
PREFIXES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class CodeLength:
    """The length of an online code of the labels of train.

    Attributes:
        code_length: in bits.
        uniform_code_length: number of labels times log2 of the number of different labels, in bits.
        compression: `uniform_code_length` / `code_length`.
    """

    code_length: float
    uniform_code_length: float
    compression: float


def n_code_epochs(data: ProbeData) -> float:
    """Return the amount of training of `code_length`, in epochs over all of train."""
    ends = _block_ends(len(data.targets["train"]))
    return len(linear.WEIGHT_DECAYS) * linear.EPOCHS * sum(ends[:-1]) / ends[-1]


def code_length(
    vectors: Mapping[str, Vectors],
    data: ProbeData,
    *,
    seed: int = 0,
    advance: linear.Advance = lambda n: None,
) -> CodeLength:
    """Encode the labels of train block by block, each with a probe trained on all blocks before it.

    The first block has a uniform code. For each other block, the weight decay is the one with the
    shortest code for dev, whose unknown labels are left out. Sentences are in random order, since
    the first ones of a corpus are often of one genre.

    Args:
        vectors: the vectors of each split, (vector, dim) float32, scaled by `linear.standardise`.
        seed: random seed for the order of sentences and of training examples.
        advance: called with the completed epochs over all of train.

    Source: Voita and Titov 2020, section 3.2, "online code".
    """
    order = torch.from_numpy(_shuffle_sentences(data.splits["train"], seed))
    tensors = {name: torch.from_numpy(vectors[name]) for name in ("train", "dev")}
    targets = {name: torch.from_numpy(data.targets[name]) for name in tensors}
    n_labels = len(data.labels)

    def fit(rows: Tensor) -> Tensor:
        """Return the weights of a probe that is trained on these rows of train."""
        prefix = (tensors["train"][rows], targets["train"][rows])
        on_epochs = lambda n: advance(n * len(rows) / len(order))  # noqa: E731
        fits = (
            linear.fit(*prefix, n_labels, decay, seed=seed, advance=on_epochs)
            for decay in linear.WEIGHT_DECAYS
        )
        return min(fits, key=lambda found: linear.code_bits(tensors["dev"], targets["dev"], found))

    ends = _block_ends(len(order))
    bits = ends[0] * math.log2(n_labels)
    for start, end in pairwise(ends):
        weights, rows = fit(order[:start]), order[start:end]
        bits += linear.code_bits(tensors["train"][rows], targets["train"][rows], weights)
    uniform_bits = len(order) * math.log2(n_labels)
    return CodeLength(bits, uniform_bits, uniform_bits / bits)


def _shuffle_sentences(train: LabelledVectors, seed: int) -> Ids:
    """Return the positions of all vectors of train, sentence by sentence in random order."""
    lengths = [len(sentence.labels) for sentence in train.sentences]
    positions = np.split(np.arange(sum(lengths)), np.cumsum(lengths)[:-1])
    shuffled = np.random.default_rng(seed).permutation(len(lengths))
    return np.concatenate([positions[k] for k in shuffled])


def _block_ends(n_labels: int) -> list[int]:
    """Return where blocks end; a small text has fewer of them, since none is empty."""
    return sorted({max(1, round(fraction * n_labels)) for fraction in PREFIXES})
