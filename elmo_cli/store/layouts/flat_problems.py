"""What can be wrong with the structure of a `flat` file: its arrays have to fit each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from elmo_cli.store.int8 import INT8
from elmo_cli.store.layouts.rows import Rows

Integers = NDArray[np.int64]


class FlatFile(Protocol):
    """The data sets of a `flat` file."""

    pooled: bool

    def __len__(self) -> int: ...
    def has(self, name: str) -> bool: ...
    def rows(self, name: str) -> Rows: ...
    def integers(self, name: str) -> Integers: ...


def structural_problems(file: FlatFile) -> Iterator[str]:
    """Yield what does not fit, values of vectors aside."""
    offsets = file.integers("offsets")
    yield from _decreasing("offsets", offsets, starts_at=0)
    n_tokens = int(offsets[-1]) if len(offsets) else 0
    if not n_tokens and not len(file):
        return
    yield from _vector_problems(file, n_tokens)
    yield from _string_problems(file, "token", n_tokens, f"offsets ends with {n_tokens}")
    yield from _number_problems(file)
    for name, string in (("documents", "document"), ("texts", "text")):
        if file.has(name):
            rows = file.integers(name)
            yield from _position_problems(file, name, rows[:, 0] if rows.ndim > 1 else rows)
            yield from _string_problems(file, string, len(rows), f"{name} has {len(rows)}")


def _vector_problems(file: FlatFile, n_tokens: int) -> Iterator[str]:
    vectors = file.rows("vectors")
    expected = len(file) if file.pooled else n_tokens
    if len(vectors) != expected:
        yield f"vectors has {len(vectors)} rows, offsets has {expected}"
    if vectors.dtype != INT8:
        return
    scales = file.rows("scales")
    if len(scales) != len(vectors):
        yield f"scales has {len(scales)} rows, vectors has {len(vectors)}"
    values = scales.read(0, len(scales))
    valid = ((values >= 0) & np.isfinite(values)).reshape(len(values), -1).all(1)
    if not valid.all():
        first = valid.argmin()
        yield f"scales: {np.sum(~valid)} rows are negative or not finite, the first {first}"


def _string_problems(file: FlatFile, name: str, n_strings: int, reason: str) -> Iterator[str]:
    """Of the pair NAME_bytes, NAME_ends, which has to have `n_strings` strings."""
    ends = file.integers(f"{name}_ends")
    if len(ends) != n_strings:
        yield f"{name}_ends has {len(ends)} rows, {reason}"
    yield from _decreasing(f"{name}_ends", ends)
    n_bytes = len(file.rows(f"{name}_bytes"))
    if n_bytes != (int(ends[-1]) if len(ends) else 0):
        yield f"{name}_bytes has {n_bytes} bytes, {name}_ends ends with {ends[-1:].tolist()}"


def _number_problems(file: FlatFile) -> Iterator[str]:
    """Runs of keys, which are found by their order."""
    if not file.has("numbers"):
        return
    positions, keys = file.integers("numbers").T
    if not len(positions):
        yield f"numbers has no rows for {len(file)} sentences"
        return
    yield from _position_problems(file, "numbers", positions, starts_at=0)
    # A run of n sentences takes n keys, so the key minus the position never decreases.
    yield from _decreasing("numbers: key minus position", keys - positions)


def _position_problems(
    file: FlatFile, name: str, positions: Integers, starts_at: int | None = None
) -> Iterator[str]:
    """Of positions of sentences, none of which comes twice."""
    yield from _decreasing(name, positions, starts_at, by=1)
    if len(positions) and positions[-1] >= len(file):
        yield f"{name} ends with position {positions[-1]}, there are {len(file)} sentences"


def _decreasing(
    name: str, values: Integers, starts_at: int | None = None, *, by: int = 0
) -> Iterator[str]:
    """Problems of values, none below 0, each of which must be at least `by` above the last."""
    first = int(values[0]) if len(values) else 0
    if starts_at is not None and first != starts_at:
        yield f"{name} begins with {first}, not {starts_at}"
    elif first < 0:
        yield f"{name} begins with {first}"
    falls = np.flatnonzero(np.diff(values) < by)
    if len(falls):
        at = int(falls[0])
        how = "decreases" if values[at + 1] < values[at] else "does not increase"
        yield f"{name} {how} at {at + 1}, from {values[at]} to {values[at + 1]}"
