"""Recompute a sample of an embeddings file and compare: does it hold what its model computes?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.output_reduction import Array
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.model.bilm import BiLM
from elmo_cli.store.int8 import INT8
from elmo_cli.store.layouts import Key
from elmo_cli.store.sample import Sample

# Other batches, threads or machines sum in another order; the published sizes differ by 5e-5 at
# most. A value in float16 is off by half a unit in its 11th bit, one in int8 by half a step, which
# is a 127th of the greatest value of its vector, and rounded up to 16 bits.
ATOL = 5e-5
RTOL_FLOAT16 = 2.0**-11
HALF_STEP = 0.5 / 127 * (1 + 2.0**-15)
# With products of few bits such a sum may fall on the other side of a step.
ATOL_LESS_PRECISE = 0.02  # of the greatest value of a vector


@dataclass(frozen=True)
class Recomputed:
    """One sentence of the sample.

    Attributes:
        key: in the file.
        tokens: its number of tokens.
        difference: largest absolute difference of a value; None where there is no such number.
        problem: what does not agree, as words that follow its name; empty if every value is as near
            as rounding allows.
    """

    key: Key
    tokens: int
    difference: float | None
    problem: str = ""


def recompute(
    sample: Sample, bilm: BiLM, *, device: str = "auto", engine: str = "fast"
) -> list[Recomputed]:
    """Embed the sentences of a sample anew, and compare them with what its file holds.

    Args:
        bilm: the model it is said to be made with.
    Raises:
        EmbeddingsFileError: another model's file, or of sizes that the model can't give.
    """
    embedder = _embedder(sample, bilm, device, engine)
    rounding = _Rounding.of(sample, embedder)
    found = []
    for key, tokens, held in sample.sentences:
        computed = embedder.embed(tokens)
        if computed.ndim == held.ndim + 1 and len(computed) == 1:
            computed = computed[0]  # a single layer, of which the layout drops the axis
        room = rounding.room(tokens, computed)
        found.append(_compare(key, len(tokens), held, computed, room))
    return found


def _embedder(sample: Sample, bilm: BiLM, device: str, engine: str) -> Embedder:
    facts = sample.attributes
    made_with = facts.get("model_sha256")
    if made_with is not None and made_with != bilm.sha256:
        raise EmbeddingsFileError(
            f"{sample.path}: made with {facts.get('model')} (sha256 {str(made_with)[:12]}…), "
            f"not with {bilm.name} (sha256 {bilm.sha256[:12]}…)",
            "`model` names the model that it was made with",
        )
    pool = facts.get("pool")
    return Embedder(
        bilm,
        state=str(facts.get("state", "zero")),
        layers=str(facts.get("layers", "all")),
        pool=None if pool in (None, "none") else str(pool),
        device=device,
        engine=engine,
        precision=str(facts.get("precision", "float32")),
    )


@dataclass(frozen=True)
class _Rounding:
    """By how much the values of a file may be off.

    Attributes:
        stored: type of the values.
        before: the types that they were rounded to before, each time the file was converted.
        layers: computes the layers of a sum, which may have had one before it; None for none.
        weights: of these layers in the sum; none for their average.
        is_exact: whether they were computed in float32.
    """

    stored: str | None
    before: tuple[str, ...]
    layers: Embedder | None
    weights: tuple[float, ...]
    is_exact: bool

    @classmethod
    def of(cls, sample: Sample, embedder: Embedder) -> _Rounding:
        rounded_from = sample.attributes.get("rounded_from")
        before = () if rounded_from is None else tuple(str(rounded_from).split(","))
        layers = None
        weights = embedder.output.layers.weights
        if before and embedder.output.layers.is_sum:
            layers = Embedder(
                embedder.bilm,
                state=embedder.state,
                pool=embedder.output.pool,
                device=str(embedder.device),
                precision=embedder.precision,
            )
        is_exact = embedder.precision == "float32"
        return cls(sample.dtype, before, layers, weights, is_exact)

    def room(self, tokens: Sequence[str], computed: Array) -> Array:
        """For each value of what was computed."""
        sizes = np.abs(computed).astype(np.float64)
        room = np.full(sizes.shape, ATOL * max(1, np.abs(self.weights).sum()))
        if not self.is_exact:
            room += ATOL_LESS_PRECISE * _greatest(sizes)
        room += _half_unit(self.stored, sizes)
        if self.layers is None:
            return sum((_half_unit(dtype, sizes) for dtype in self.before), room)
        # Which types they had, and which their sum, is not told: theirs give more room.
        layers = np.abs(self.layers.embed(tokens)).astype(np.float64)  # (layer, …)
        weights = np.abs(self.weights or [1 / len(layers)] * len(layers))
        for dtype in self.before:
            room += np.tensordot(weights, _half_unit(dtype, layers), 1)
        return room


def _half_unit(dtype: str | None, sizes: Array) -> Array:
    """By how much rounding may change values of these sizes."""
    if dtype == "float16":
        return RTOL_FLOAT16 * sizes
    half: Array = HALF_STEP * _greatest(sizes) if dtype == INT8.name else np.zeros_like(sizes)
    return half


def _greatest(sizes: Array) -> Array:
    """Of its vector, for each value."""
    return np.broadcast_to(sizes.max(-1, keepdims=True, initial=0), sizes.shape)


def _compare(key: Key, n_tokens: int, held: Array, computed: Array, room: Array) -> Recomputed:
    if held.shape != computed.shape:
        what = f"has the shape {held.shape}, the model computes {computed.shape}"
        return Recomputed(key, n_tokens, None, what)
    if not held.size:
        return Recomputed(key, 0, 0.0)
    distance = np.abs(held.astype(np.float64) - computed.astype(np.float64))
    greatest = float(distance.max())
    if not math.isfinite(greatest):  # which JSON can't hold
        return Recomputed(key, n_tokens, None, "holds values that are not finite")
    agrees = bool((distance <= room).all())
    what = f"differs from what the model computes, by up to {greatest:.2g}"
    return Recomputed(key, n_tokens, greatest, "" if agrees else what)
