"""int8 with one scale per vector."""

from __future__ import annotations

import numpy as np

from elmo_cli.arrays import AnyArray

INT8 = np.dtype("i1")
_MAX_INT8 = 127
_SCALE_BITS = 16
# The largest scale of 16 bits that, times 127, is still a finite float32.
_LARGEST_SCALE = np.float32(float.fromhex("0x1.0204p121"))
_SMALLEST_SCALE = np.finfo(np.float32).tiny


def quantize(vectors: AnyArray) -> tuple[AnyArray, AnyArray]:
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
    mantissa, exponent = np.frexp(greatest / np.float32(_MAX_INT8))
    steps = np.ceil(np.ldexp(mantissa, _SCALE_BITS))
    scales = np.ldexp(steps, exponent - _SCALE_BITS).astype(np.float32)
    scales = np.minimum(scales, _LARGEST_SCALE)
    scales = np.where(scales < _SMALLEST_SCALE, np.float32(0), scales)
    divisors = np.where(scales == 0, np.float32(np.inf), scales)
    values = np.rint(vectors / divisors[..., np.newaxis]).clip(-_MAX_INT8, _MAX_INT8)
    return values.astype(np.int8), scales


def dequantize(values: AnyArray, scales: AnyArray) -> AnyArray:
    """Reverse `quantize`: (…, dim) int8 and scales (…,) to (…, dim) float32."""
    with np.errstate(over="ignore", invalid="ignore"):  # in a corrupt file
        return np.asarray(values * scales[..., np.newaxis])
