"""Quantization to int8 with one scale per vector."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

INT8 = np.dtype("i1")
_MOST = 127
_SCALE_BITS = 16
# The greatest scale of 16 bits of which 127 times as much is still float32, and the least.
_SCALES = np.float32(float.fromhex("0x1.0204p121")), np.finfo(np.float32).tiny


def quantize(vectors: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantize vectors to 255 levels, with one scale per vector.

    A scale has 16 significant bits, rounded up, so that its products with integers up to 127 are
    float32 without rounding: what `dequantize` gives is quantized to the same bytes again.

    Args:
        vectors: (…, dim) float32, finite.
    Returns:
        (…, dim) int8 from -127 to 127, and (…,) float32. No value is off by more than half a scale.
        Vectors without a value beyond 1.5e-36 become zeros.
    """
    greatest = np.abs(vectors).max(axis=-1, initial=0)
    mantissa, exponent = np.frexp(greatest / np.float32(_MOST))
    steps = np.ceil(np.ldexp(mantissa, _SCALE_BITS))
    scales = np.ldexp(steps, exponent - _SCALE_BITS).astype(np.float32)
    scales = np.where(scales < _SCALES[1], np.float32(0), np.minimum(scales, _SCALES[0]))
    divisors = np.where(scales == 0, np.float32(np.inf), scales)
    values = np.rint(vectors / divisors[..., np.newaxis]).clip(-_MOST, _MOST)
    return values.astype(np.int8), scales


def dequantize(values: NDArray[np.int8], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """Reverse `quantize`: (…, dim) int8 and scales (…,) to (…, dim) float32."""
    with np.errstate(over="ignore", invalid="ignore"):  # in a corrupt file
        vectors: NDArray[np.float32] = values * scales[..., np.newaxis]
    return vectors
