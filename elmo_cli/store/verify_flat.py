"""What can be wrong inside a `flat` file: its arrays have to fit each other."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_cli.store.flat_sentences import FlatSentences
from elmo_cli.store.int8 import INT8

_PIECE_BYTES = 1 << 24


def flat_problems(sentences: FlatSentences, pooled: bool) -> Generator[str, None, int]:
    """Yield problems of a `flat` file; return its tokens."""
    n_tokens = 0
    all_offsets = sentences.integers("offsets")
    if len(all_offsets):
        n_tokens = int(all_offsets[-1])
        yield from _not_rising("offsets", all_offsets, starts_at=0)
    if not n_tokens and not len(sentences):
        return n_tokens
    yield from _vector_problems(sentences, all_offsets, pooled)
    yield from _string_problems(sentences, "token", n_tokens, f"offsets end with {n_tokens}")
    yield from _number_problems(sentences)
    for name, string in (("documents", "document"), ("texts", "text")):
        if sentences.has(name):
            rows = sentences.integers(name)
            yield from _position_problems(sentences, name, rows[:, 0] if rows.ndim > 1 else rows)
            yield from _string_problems(sentences, string, len(rows), f"{name} has {len(rows)}")
    return n_tokens


def _string_problems(
    sentences: FlatSentences, name: str, n_strings: int, told: str
) -> Iterator[str]:
    """Of the pair NAME_bytes, NAME_ends; `told` says of how many strings it has to be."""
    ends = sentences.integers(f"{name}_ends")
    if len(ends) != n_strings:
        yield f"{name}_ends has {len(ends)} rows, {told}"
    yield from _not_rising(f"{name}_ends", ends)
    n_bytes = sentences.rows(f"{name}_bytes").shape[0]
    if len(ends) and ends[-1] != n_bytes:
        yield f"{name}_bytes has {n_bytes} bytes, {name}_ends ends with {ends[-1]}"


def _number_problems(sentences: FlatSentences) -> Iterator[str]:
    """Runs of keys, which are found by their order; files of other programs may have none."""
    if not sentences.has("numbers"):
        return
    positions, keys = sentences.integers("numbers").T
    if not len(positions):
        yield f"numbers has no rows for {len(sentences)} sentences"
        return
    yield from _position_problems(sentences, "numbers", positions, starts_at=0)
    # A run of n sentences takes n keys, so that what is left of its first key never goes down.
    yield from _not_rising("numbers: key less position", keys - positions)


def _position_problems(
    sentences: FlatSentences,
    name: str,
    positions: NDArray[np.int64],
    starts_at: int | None = None,
) -> Iterator[str]:
    """Of positions of sentences, of which none comes twice."""
    yield from _not_rising(name, positions, starts_at, by=1)
    if len(positions) and positions[-1] >= len(sentences):
        yield f"{name} ends with position {positions[-1]}, there are {len(sentences)} sentences"


def _not_rising(
    name: str, values: NDArray[np.int64], starts_at: int | None = None, *, by: int = 0
) -> Iterator[str]:
    """Problems of values, none below 0, each of which is to be greater `by` so much at least."""
    first = int(values[0]) if len(values) else 0
    if starts_at is not None and first != starts_at:
        yield f"{name} begins with {first}, not {starts_at}"
    elif first < 0:
        yield f"{name} begins with {first}"
    falls = np.flatnonzero(np.diff(values) < by)
    if len(falls):
        at = int(falls[0])
        how = "goes down" if values[at + 1] < values[at] else "does not rise"
        yield f"{name} {how} at {at + 1}, from {values[at]} to {values[at + 1]}"


def _vector_problems(
    sentences: FlatSentences, offsets: NDArray[np.int64], pooled: bool
) -> Iterator[str]:
    vectors = sentences.rows("vectors")
    vectors.check()
    n_rows = vectors.shape[0]
    expected = len(sentences) if pooled else int(offsets[-1])
    if n_rows != expected:
        yield f"vectors has {n_rows} rows, offsets say {expected}"
    if sentences.stored_dtype == INT8:
        yield from _scale_problems(sentences, n_rows)
    row_bytes = max(1, int(np.prod(vectors.shape[1:])) * vectors.dtype.itemsize)
    step = max(1, _PIECE_BYTES // row_bytes)
    for begin in range(0, n_rows, step):
        rows = vectors.read(begin, min(begin + step, n_rows))
        wrong = np.flatnonzero(~np.isfinite(rows).reshape(len(rows), -1).all(1)) + begin
        positions = wrong if pooled else np.searchsorted(offsets, wrong, "right") - 1
        for position, n in zip(*np.unique(positions, return_counts=True), strict=True):
            yield f"sentence at position {position}: {n} rows with values that are not finite"


def _scale_problems(sentences: FlatSentences, n_rows: int) -> Iterator[str]:
    scales = sentences.rows("scales")
    if scales.shape[0] != n_rows:
        yield f"scales has {scales.shape[0]} rows, vectors has {n_rows}"
    values = scales.read(0, scales.shape[0])
    wrong = np.flatnonzero(~((values >= 0) & np.isfinite(values)).reshape(len(values), -1).all(1))
    if len(wrong):
        yield f"scales: {len(wrong)} rows with values that are no scale, the first {wrong[0]}"


def not_finite(where: str, values: NDArray[Any]) -> Iterator[str]:
    """A problem if some values are NaN or infinite."""
    wrong = int(values.size - np.isfinite(values).sum())
    if wrong:
        yield f"{where}: {wrong} of {values.size} values are not finite"
