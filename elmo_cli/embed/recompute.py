"""Recompute a sample of an embeddings file and compare: does it hold what its model computes?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.output import Array
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.model.bilm import BiLM
from elmo_cli.store.int8 import INT8
from elmo_cli.store.lookup import key_of
from elmo_cli.store.naming import Key
from elmo_cli.store.reader import Embeddings, open_embeddings
from elmo_cli.text.sentence import Sentence

# Other batches, threads or machines sum in another order; the published sizes differ by 5e-5 at
# most. A value in float16 is off by half a unit in its 11th bit, one in int8 by half a step, which
# is a 127th of the greatest value of its vector, and rounded up to 16 bits.
ATOL = 5e-5
RTOL_FLOAT16 = 2.0**-11
HALF_STEP = 0.5 / 127 * (1 + 2.0**-15)
# With products of few bits such a sum may fall on the other side of a step.
ATOL_LESS_PRECISE = 0.02  # of the greatest value of a vector
_LOOK_AHEAD = 10_000  # sentences; so many in a row whose tokens are not told, and none will be


@dataclass(frozen=True)
class Recomputed:
    """One sentence of the sample.

    Attributes:
        key: in the file.
        tokens: its number of tokens.
        difference: largest absolute difference of a value.
        agrees: whether every value is as near as rounding allows.
    """

    key: Key
    tokens: int
    difference: float
    agrees: bool


def recompute(
    path: str | os.PathLike[str],
    bilm: BiLM,
    *,
    n: int,
    text: Sequence[Sentence] | None = None,
    device: str = "auto",
    engine: str = "fast",
) -> list[Recomputed]:
    """Embed `n` sentences of a file anew, evenly spread, and compare them with what it holds.

    Args:
        path: an embeddings file whose sentences start from the zero or the warm state.
        bilm: the model it is said to be made with.
        text: every sentence in order, for layouts that do not hold the tokens.
    Raises:
        EmbeddingsFileError: another model's file, another text's, or of sizes that the model
            can't give.
        UsageError: the tokens are not known, or each vector depends on the text before it.
    """
    with open_embeddings(path) as embeddings:
        embedder = _embedder(embeddings, bilm, device, engine)
        rounding = _Rounding.of(embeddings, embedder)
        keys = list(embeddings)
        # Of equal sentences manylangs has only the first.
        n_read = len(keys) + int(embeddings.attributes.get("duplicates", 0))
        if text is not None and len(text) != n_read:
            raise EmbeddingsFileError(
                f"{path}: has {n_read} sentences, the text {len(text)}",
                "`--text` names the text that it was made from, read with the same options",
            )
        n_places = len(keys) if text is None else len(text)
        picked = np.unique(np.linspace(0, n_places - 1, min(n, n_places)).round().astype(int))
        found: dict[Key, Recomputed] = {}
        for place in picked.tolist() if keys else []:
            if text is None:
                key, tokens = _told(embeddings, keys, place)
            else:
                key, tokens = key_of(embeddings, text[place]), text[place].tokens
            if key not in found:
                held, computed = _held(embeddings, key), embedder.embed(tokens)
                if computed.ndim == held.ndim + 1 and len(computed) == 1:
                    computed = computed[0]  # a single layer, of which the layout drops the axis
                room = rounding.room(tokens, computed)
                found[key] = _compare(key, len(tokens), held, computed, room)
        return list(found.values())


def _told(embeddings: Embeddings, keys: Sequence[Key], place: int) -> tuple[Key, Sequence[str]]:
    """The first sentence from a place on whose tokens the file tells: of equal lines only one."""
    for key in islice(chain(keys[place:], keys[:place]), _LOOK_AHEAD):
        tokens = embeddings.tokens(key)
        if tokens is not None:
            return key, tokens
    raise UsageError(
        f"{embeddings.path}: the layout {embeddings.layout} does not hold the sentences",
        "`--text FILE` gives the text that it was made from",
    )


def _held(embeddings: Embeddings, key: Key) -> Array:
    try:
        return embeddings.sentences.array(key)
    except KeyError:
        raise EmbeddingsFileError(
            f"{embeddings.path}: has no sentence {key!r}, the text has it",
            "`--text` names the text that it was made from, read with the same options",
        ) from None


def _embedder(embeddings: Embeddings, bilm: BiLM, device: str, engine: str) -> Embedder:
    facts: dict[str, Any] = embeddings.attributes
    state = str(facts.get("state", "zero"))
    if state not in ("zero", "warm"):
        raise UsageError(
            f"{embeddings.path}: made with --state {state}, where a vector depends on the text "
            "before it",
            "embed the text anew with the same settings and compare the two files",
        )
    if embeddings.layout == "bilm-types":
        raise UsageError(
            f"{embeddings.path}: holds types, not sentences",
            "embed the vocabulary anew and compare",
        )
    made_with = facts.get("model_sha256")
    if made_with is not None and made_with != bilm.sha256:
        raise EmbeddingsFileError(
            f"{embeddings.path}: made with {facts.get('model')} (sha256 {str(made_with)[:12]}…), "
            f"not with {bilm.name} (sha256 {bilm.sha256[:12]}…)",
            "give the model that it was made with: `--model`",
        )
    pool = facts.get("pool")
    return Embedder(
        bilm,
        state=state,
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
        layers: computes the layers that were averaged after they had one; None for none.
        is_exact: whether they were computed in float32.
    """

    stored: str | None
    before: tuple[str, ...]
    layers: Embedder | None
    is_exact: bool

    @classmethod
    def of(cls, embeddings: Embeddings, embedder: Embedder) -> _Rounding:
        stored, rounded_to = embeddings.stored_dtype, embeddings.attributes.get("rounded_to")
        before = () if rounded_to is None else tuple(str(rounded_to).split(","))
        layers = None
        if before and embedder.output.name == "average":
            layers = Embedder(
                embedder.bilm,
                state=embedder.state,
                pool=embedder.output.pool,
                device=str(embedder.device),
                precision=embedder.precision,
            )
        is_exact = embedder.precision == "float32"
        return cls(None if stored is None else stored.name, before, layers, is_exact)

    def room(self, tokens: Sequence[str], computed: Array) -> Array:
        """For each value of what was computed."""
        sizes = np.abs(computed).astype(np.float64)
        room = np.full(sizes.shape, ATOL)
        if not self.is_exact:
            room += ATOL_LESS_PRECISE * _greatest(sizes)
        room += _half_unit(self.stored, sizes)
        layers = sizes[np.newaxis]
        if self.layers is not None:
            # Which types they had, and which their average, is not told: theirs give more room.
            layers = np.abs(self.layers.embed(tokens)).astype(np.float64)  # (layer, …)
        for dtype in self.before:
            room += _half_unit(dtype, layers).mean(0)
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
        return Recomputed(key, n_tokens, float("inf"), False)
    if not held.size:
        return Recomputed(key, 0, 0.0, True)
    distance = np.abs(held.astype(np.float64) - computed.astype(np.float64))
    return Recomputed(key, n_tokens, float(distance.max()), bool((distance <= room).all()))
