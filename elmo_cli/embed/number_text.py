"""Numbers as text: the fewest digits that give each value of an array back in its dtype."""

from __future__ import annotations

from functools import cache

import numpy as np
import orjson

from elmo_cli.arrays import FloatArray


def json_of(array: FloatArray) -> bytes:
    """An array of any shape as nested lists of JSON, without spaces.

    Args:
        array: float32 or float16; all values are finite, because JSON has no others.
    Raises:
        ValueError: a value is not finite.
    """
    _check_finite(array)
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
    _check_finite(array)
    values = array.ravel()
    if values.dtype == np.float16:
        return b" ".join(_strings_of_float16(values))
    content = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
    return content.removeprefix(b"[").removesuffix(b"]").replace(b",", b" ")


def _check_finite(array: FloatArray) -> None:
    if not np.isfinite(array).all():
        raise ValueError("a value is not finite")


def _json_of_float16(array: FloatArray) -> bytes:
    if array.ndim == 1:
        items = _strings_of_float16(array)
    else:
        items = [_json_of_float16(row) for row in array]
    return b"[%s]" % b",".join(items)


def _strings_of_float16(values: FloatArray) -> list[bytes]:
    """The text of each value; orjson would print the digits of float32, which are more."""
    strings = _all_float16_strings()
    return [strings[bits] for bits in values.view(np.uint16).tolist()]


@cache
def _all_float16_strings() -> list[bytes]:
    """The text of every float16, by its 16 bits."""
    every_value = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    return [str(value).encode() for value in every_value]
