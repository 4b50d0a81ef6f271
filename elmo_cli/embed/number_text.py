"""Numbers as text: the fewest digits that give each value of an array back in its dtype."""

from __future__ import annotations

from functools import cache

import numpy as np
import orjson

from elmo_cli.arrays import AnyArray, FloatArray
from elmo_cli.store.half_precision import all_finite

_PADDING = b"\0"  # of NumPy, after strings that are shorter than others of their array


def json_of(array: FloatArray) -> bytes:
    """An array of any shape as nested lists of JSON, without spaces.

    Args:
        array: float32 or float16; all values are finite, because JSON has no others.
    Raises:
        ValueError: a value is not finite.
    """
    if not all_finite(array):
        raise ValueError("a value is not finite")
    if array.dtype == np.float16:
        return _json_of_float16(array)
    # orjson refuses a view of which the values are not next to each other.
    return orjson.dumps(np.ascontiguousarray(array), option=orjson.OPT_SERIALIZE_NUMPY)


def words_of(array: FloatArray) -> bytes:
    """The values of an array, row after row, with spaces between them.

    Args:
        array: float32 or float16, all values finite.
    Raises:
        ValueError: a value is not finite.
    """
    return json_of(array.ravel()).removeprefix(b"[").removesuffix(b"]").replace(b",", b" ")


def _json_of_float16(array: FloatArray) -> bytes:
    """What `json_of` returns; orjson would print the digits of float32, which are more."""
    if array.ndim == 1:
        bits = array.view(np.uint16)
        padded_items = _all_float16_items()[bits].tobytes()
        items = padded_items.translate(None, delete=_PADDING).removesuffix(b",")
    else:
        items = b",".join(map(_json_of_float16, array))
    return b"[%s]" % items


@cache
def _all_float16_items() -> AnyArray:
    """The text of every float16 and a comma, by its 16 bits; shorter ones are padded."""
    every_value = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    return np.array([str(value) + "," for value in every_value], np.bytes_)
