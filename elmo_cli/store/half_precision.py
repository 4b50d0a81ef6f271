"""Convert half-precision floats to float32 and check that they are finite, faster than NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray, Float32Array

_HALF = np.dtype("<f2")
_CHUNK_VALUES = 1 << 17  # checked at a time; intermediate results fit into a processor's cache
_ABSOLUTE = 0x7FFF  # the bits of a half besides its sign
_FIRST_NOT_FINITE = 0x7C00  # all bits of the exponent
# The bits of a half after it is shifted left by 13, the difference between the two fractions; the
# mask clears the copies of its sign.
_SHIFTED_BITS = np.int32(0x0FFFE000 - (1 << 31))
_BIAS = np.float32(2.0**112)  # the difference between the biases of the two exponents


def to_float32(values: AnyArray) -> Float32Array:
    """The same numbers in float32; finite ones beyond its range become infinite.

    Args:
        values: floats of any shape and precision.
    Returns:
        a new array, or `values` if they are in float32 already.
    """
    if values.dtype == _HALF and not all_finite(values):
        return values.astype(np.float32)
    return finite_to_float32(values)


def finite_to_float32(values: AnyArray, buffer: Float32Array | None = None) -> Float32Array:
    """Convert finite floats to float32; halves that are not finite become numbers from 65,536.

    Args:
        values: floats of any shape and precision.
        buffer: memory for the result, of at least its size; only halves are written to it.
    Returns:
        a new array, a view of `buffer`, or `values` if they are in float32 already.
    """
    if values.dtype != _HALF:
        with np.errstate(over="ignore"):
            as_float32: Float32Array = values.astype(np.float32, copy=False)
        return as_float32
    # The bits of the exponent and the fraction, moved to their place in a float32, give the number
    # without the difference of the biases; that holds for subnormal numbers too.
    bits = np.empty(values.shape, np.int32)
    if buffer is not None:
        bits = buffer.view(np.int32).reshape(-1)[: values.size].reshape(values.shape)
    bits[...] = values.view("<i2")
    np.left_shift(bits, 13, out=bits)
    np.bitwise_and(bits, _SHIFTED_BITS, out=bits)
    floats: Float32Array = bits.view(np.float32)
    np.multiply(floats, _BIAS, out=floats)
    return floats


def as_contiguous(values: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    """The values in a dtype and C-contiguous, as `np.ascontiguousarray` returns them."""
    if values.dtype == _HALF and dtype == np.float32:
        values = to_float32(values)
    return np.ascontiguousarray(values, dtype)


def all_finite(values: AnyArray) -> bool:
    """Whether all values are finite, neither infinite nor NaN."""
    if values.dtype != _HALF:
        return bool(np.isfinite(values).all())
    bits = values.view("<u2")
    if not values.flags.c_contiguous:
        return _are_bits_finite(bits)
    flat = bits.reshape(-1)
    chunks = range(0, flat.size, _CHUNK_VALUES)
    return all(_are_bits_finite(flat[begin : begin + _CHUNK_VALUES]) for begin in chunks)


def _are_bits_finite(bits: AnyArray) -> bool:
    """Whether halves are finite, given their bits as integers."""
    if not bits.size:
        return True
    return int((bits & _ABSOLUTE).max()) < _FIRST_NOT_FINITE
