"""quantize: int8 with a scale per vector, and back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from elmo_cli.store.quantization import dequantize, quantize

FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
VECTORS = hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=3), elements=FLOATS)


@given(VECTORS)
def test_no_value_is_off_by_more_than_half_a_step(vectors: np.ndarray) -> None:
    """A scale that is too small would cut the greatest value of a vector."""
    values, scales = quantize(vectors)
    assert (values.dtype, scales.dtype) == (np.int8, np.float32)
    assert scales.shape == vectors.shape[:-1]
    greatest = np.abs(vectors).max(-1)
    assert (scales <= greatest / 127 * (1 + 2.0**-14)).all()
    off = np.abs(dequantize(values, scales).astype(np.float64) - vectors)
    assert (off <= np.maximum(scales[..., None] * 0.5000001, 1.6e-36)).all()


@given(VECTORS)
def test_what_was_stored_is_stored_again_in_the_same_bytes(vectors: np.ndarray) -> None:
    """Otherwise merged shards would not be the file of one run."""
    values, scales = quantize(vectors)
    again = quantize(dequantize(values, scales))
    assert again[0].tobytes() == values.tobytes()
    assert again[1].tobytes() == scales.tobytes()
