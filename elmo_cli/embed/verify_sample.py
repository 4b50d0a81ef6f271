"""Recompute a sample of an embeddings file with its model, and compare."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.embedder_of_file import embedder_of_file
from elmo_cli.model.bilm import BiLM
from elmo_cli.store.layouts import Key
from elmo_cli.store.sample import Sample

Array = npt.NDArray[np.floating]

# Other batches, threads or machines sum in another order; the published sizes differ by 5e-5 at
# most. With low-precision products a value may be rounded to the next step.
ATOL = 5e-5
_LOW_PRECISION = 0.02  # of the largest value of a vector
# Half a unit of the last place: of the value, and of the largest value of its vector (whose scale
# in int8 is rounded up to 16 bits).
_HALF_UNIT = {"float16": (2.0**-11, 0.0), "int8": (0.0, 0.5 / 127 * (1 + 2.0**-15))}


@dataclass(frozen=True)
class RecomputedSentence:
    """One sentence of the sample.

    Attributes:
        key: in the file.
        tokens: their number.
        difference: largest absolute difference of a value; None if there is no such number.
        problem: what does not agree; empty if all values are equal to rounding.
    """

    key: Key
    tokens: int
    difference: float | None
    problem: str = ""


def recompute_sample(
    sample: Sample, bilm: BiLM, *, device: str = "auto"
) -> list[RecomputedSentence]:
    """Embed the sentences of a sample and compare them with the vectors of the file.

    Args:
        bilm: the model that made the file.
    Raises:
        EmbeddingsFileError: another model made the file.
    """
    embedder = embedder_of_file(sample.path, sample.attributes, bilm, device=device)
    found = []
    for key, tokens, stored in sample.sentences:
        computed = embedder.embed(tokens)
        if computed.ndim == stored.ndim + 1 and len(computed) == 1:
            computed = computed[0]  # layouts with one layer per file drop its axis
        found.append(
            _compare(key, len(tokens), stored, computed, tolerance(sample, embedder, computed))
        )
    return found


def tolerance(sample: Sample, embedder: Embedder, computed: Array) -> Array:
    """By how much each value of a file may differ from the computed one."""
    layers, rounded_from = embedder.output.layers, sample.attributes.get("rounded_from")
    sizes = np.abs(computed).astype(np.float64)
    largest = np.broadcast_to(sizes.max(-1, keepdims=True, initial=0), sizes.shape)
    weight = max(1.0, float(np.abs(layers.weights).sum()))
    absolute = np.abs(layers.weights or [1.0])
    spread = float(absolute.sum() / absolute.max())
    room = np.full(sizes.shape, ATOL * weight)
    if embedder.precision != "float32":
        room += _LOW_PRECISION * largest
    before = () if rounded_from is None else str(rounded_from).split(",")
    for dtype, is_before in ((sample.dtype, False), *((one, True) for one in before)):
        of_value, of_largest = _HALF_UNIT.get(dtype, (0.0, 0.0))
        if is_before and layers.is_sum:  # layers were rounded, which may be larger than their sum
            room += 2 * spread * (of_value + of_largest) * largest
        else:
            room += of_value * sizes + of_largest * largest
    return room


def _compare(
    key: Key, n_tokens: int, stored: Array, computed: Array, room: Array
) -> RecomputedSentence:
    if stored.shape != computed.shape:
        what = f"has the shape {stored.shape}, the model computes {computed.shape}"
        return RecomputedSentence(key, n_tokens, None, what)
    if not np.isfinite(stored).all():
        return RecomputedSentence(key, n_tokens, None, "holds values that are not finite")
    distance = np.abs(stored.astype(np.float64) - computed.astype(np.float64))
    largest = float(distance.max(initial=0))
    what = f"differs from what the model computes, by up to {largest:.2g}"
    return RecomputedSentence(key, n_tokens, largest, "" if (distance <= room).all() else what)
