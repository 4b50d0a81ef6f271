"""Recompute vectors of an embeddings file with its model, and compare a sample of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmo_cli.arrays import FloatArray
from elmo_cli.embed.embedder import Embedder
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.model.bilm import BiLM
from elmo_cli.store.layouts import Key
from elmo_cli.store.sentence_sample import RecomputableSentence, SentenceSample

ATOL = 5e-5  # other batches, threads or machines sum in another order
_LOW_PRECISION = 0.02  # of the largest value of a vector, which may be rounded to the next step
# Half a unit of the last place of the largest value of a vector, whose scale in int8 is rounded up
# to 16 bits.
_HALF_UNIT = {"float16": 2.0**-11, "int8": 0.5 / 127 * (1 + 2.0**-15)}


@dataclass(frozen=True)
class RecomputedSentence:
    """One sentence of the sample.

    Attributes:
        key: in the file.
        tokens: their number.
        difference: largest absolute difference of a value; None if the shapes differ.
        problem: what does not agree; empty if all values are equal to rounding.
    """

    key: Key
    tokens: int
    difference: float | None
    problem: str = ""


def embedder_of_file(
    path: str, attributes: Mapping[str, Any], bilm: BiLM, *, device: str = "auto"
) -> Embedder:
    """Make an embedder that computes the vectors of an embeddings file with the model that made it.

    `attributes` are what the file records of its run; for others there are defaults. Raises an
    EmbeddingsFileError if another model made the file.
    """
    sha256_of_file = attributes.get("model_sha256")
    if sha256_of_file is not None and str(sha256_of_file) != bilm.sha256:
        raise EmbeddingsFileError(
            f"made with {attributes.get('model')} (sha256 {str(sha256_of_file)[:12]}…), "
            f"not with {bilm.name} (sha256 {bilm.sha256[:12]}…)",
            "choose the model of the file with `model`",
            where=path,
        )
    pool = str(attributes.get("pool", "none"))
    return Embedder(
        bilm,
        state=str(attributes.get("state", "zero")),
        layers=str(attributes.get("layers", "all")),
        pool=None if pool in ("None", "none") else pool,
        device=device,
        precision=str(attributes.get("precision", "float32")),
    )


def recompute_sample(
    sample: SentenceSample, bilm: BiLM, *, device: str = "auto"
) -> list[RecomputedSentence]:
    """Embed the sentences of a sample and compare them with the vectors of the file.

    Raises an EmbeddingsFileError if another model made the file.
    """
    embedder = embedder_of_file(sample.path, sample.attributes, bilm, device=device)
    results = []
    for sampled in sample.sentences:
        computed = embedder.embed(sampled.tokens)
        if computed.ndim == sampled.array.ndim + 1 and len(computed) == 1:
            computed = computed[0]  # layouts with one layer per file drop its axis
        tolerance = _tolerance(sample, embedder, computed)
        results.append(_compare(sampled, computed, tolerance))
    return results


def _tolerance(sample: SentenceSample, embedder: Embedder, computed: FloatArray) -> FloatArray:
    """By how much the values of a file may differ from computed ones, (…, 1) for (…, dim)."""
    layers = embedder.output.layers
    weights = np.abs(layers.weights or [1.0])
    sum_of_weights = float(weights.sum())
    earlier_dtypes = str(sample.attributes.get("rounded_from", "")).split(",")
    rounding = sum(_HALF_UNIT.get(dtype, 0.0) for dtype in earlier_dtypes)
    if layers.is_sum:  # layers were rounded, which may be larger than their sum
        rounding *= 2 * float(weights.sum() / weights.max())
    rounding += _HALF_UNIT.get(sample.dtype, 0.0)
    if embedder.precision != "float32":
        rounding += _LOW_PRECISION
    largest = np.abs(computed).astype(np.float64).max(-1, keepdims=True, initial=0)
    tolerance: FloatArray = ATOL * max(1.0, sum_of_weights) + rounding * largest
    return tolerance


def _compare(
    sampled: RecomputableSentence, computed: FloatArray, tolerance: FloatArray
) -> RecomputedSentence:
    stored = sampled.array
    difference = None
    problem = ""
    if stored.shape != computed.shape:
        problem = f"has the shape {stored.shape}, the model computes {computed.shape}"
    else:
        distance = np.abs(stored.astype(np.float64) - computed.astype(np.float64))
        difference = float(distance.max(initial=0))
        if not (distance <= tolerance).all():
            problem = f"differs from what the model computes, by up to {difference:.2g}"
    return RecomputedSentence(
        key=sampled.key,
        tokens=len(sampled.tokens),
        difference=difference,
        problem=problem,
    )
