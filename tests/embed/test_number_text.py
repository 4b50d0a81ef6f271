"""Numbers as text, compared with `str` of each value and read back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from elmo_cli.arrays import FloatArray
from elmo_cli.embed.number_text import json_of, words_of

EVERY_FLOAT16 = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE_FLOAT16 = EVERY_FLOAT16[np.isfinite(EVERY_FLOAT16)]


def some_float32() -> FloatArray:
    """Values of any bits, of all sizes, and those that are spelled in a special way."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, 20_000, np.uint32)
    values = bits.view(np.float32)
    special = np.float32([0.0, -0.0, 1e-5, 1e-7, 1e16, 16777217, 3.4028235e38, 1e-45])
    return np.concatenate([values[np.isfinite(values)], special])


def same_bits(first: FloatArray, second: FloatArray) -> bool:
    return first.dtype == second.dtype and first.tobytes() == second.tobytes()


def test_every_float16_is_spelled_as_by_str() -> None:
    expected = [str(value) for value in FINITE_FLOAT16]
    assert words_of(FINITE_FLOAT16).decode().split(" ") == expected
    assert json_of(FINITE_FLOAT16).decode() == f"[{','.join(expected)}]"


def test_float32_is_read_back_from_as_few_digits_as_by_str() -> None:
    values = some_float32()
    words = words_of(values).decode().split(" ")
    assert same_bits(np.array(words, np.float32), values)
    assert same_bits(np.array(json.loads(json_of(values)), np.float32), values)
    for word, value in zip(words, values, strict=True):
        assert float(word) == float(str(value))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(4,), (2, 3), (3, 2, 4), (3, 0, 4), (0, 4), (0,)])
def test_lists_are_nested_like_the_array(shape: tuple[int, ...], dtype: str) -> None:
    values = np.random.default_rng(1).normal(size=shape).astype(dtype)
    for array in (values, values[..., ::-1], values.T):
        nested = np.array(json.loads(json_of(array)), dtype).reshape(array.shape)
        assert np.array_equal(nested, array)
        words = words_of(array).split()
        assert np.array_equal(np.array(words, dtype), array.ravel())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_without_a_number_in_json_is_refused(value: float, dtype: str) -> None:
    array = np.array([[1, value]], dtype)
    for text_of in (json_of, words_of):
        with pytest.raises(ValueError, match="not finite"):
            text_of(array)
