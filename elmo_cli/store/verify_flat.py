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
    offsets = sentences.rows("offsets")
    all_offsets = offsets.read(0, offsets.shape[0])
    if len(all_offsets):
        n_tokens = int(all_offsets[-1])
        yield from _not_rising("offsets", all_offsets, starts_at=0)
    if not n_tokens and not len(sentences):
        return n_tokens
    yield from _vector_problems(sentences, all_offsets, pooled)
    ends = sentences.rows("token_ends")
    if ends.shape[0] != n_tokens:
        yield f"token_ends has {ends.shape[0]} rows, offsets end with {n_tokens}"
    all_ends = ends.read(0, ends.shape[0])
    yield from _not_rising("token_ends", all_ends)
    n_bytes = sentences.rows("token_bytes").shape[0]
    if len(all_ends) and all_ends[-1] != n_bytes:
        yield f"token_bytes has {n_bytes} bytes, token_ends ends with {all_ends[-1]}"
    return n_tokens


def _not_rising(
    name: str, values: NDArray[np.int64], starts_at: int | None = None
) -> Iterator[str]:
    if starts_at is not None and values[0] != starts_at:
        yield f"{name} begins with {values[0]}, not {starts_at}"
    falls = np.flatnonzero(np.diff(values) < 0)
    if len(falls):
        at = int(falls[0])
        yield f"{name} goes down at {at + 1}, from {values[at]} to {values[at + 1]}"


def _vector_problems(
    sentences: FlatSentences, offsets: NDArray[np.int64], pooled: bool
) -> Iterator[str]:
    vectors = sentences.rows("vectors")
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
