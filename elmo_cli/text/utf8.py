"""encode_strings: the bytes of many strings in UTF-8, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elmo_cli.arrays import Int64Array

_SEPARATOR = "\0"


def encode_strings(strings: Sequence[str], errors: str = "strict") -> tuple[bytes, Int64Array]:
    """Encode strings in UTF-8, all at once unless one of them contains a NUL.

    Args:
        errors: what happens to half a surrogate pair, as in `str.encode`.
    Returns:
        Their bytes, one string after the other, and where each one ends, (string,).
    """
    separated = _SEPARATOR.join((*strings, "")).encode("utf-8", errors)
    positions = np.flatnonzero(np.frombuffer(separated, np.uint8) == 0)
    if len(positions) != len(strings):
        return _encode_each(strings, errors)
    n_separators_before = np.arange(len(strings))
    return separated.replace(b"\0", b""), positions - n_separators_before


def _encode_each(strings: Sequence[str], errors: str) -> tuple[bytes, Int64Array]:
    """Encode strings one by one, as `encode_strings` does."""
    encoded = [string.encode("utf-8", errors) for string in strings]
    return b"".join(encoded), np.cumsum([len(content) for content in encoded], dtype=np.int64)
