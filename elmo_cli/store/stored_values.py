"""to_dtype: the values of a sentence in the dtype of the file."""

from __future__ import annotations

from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import OutputError
from elmo_cli.store.half_precision import as_contiguous
from elmo_cli.store.quantization import INT8, quantize
from elmo_cli.store.spec import DTYPES
from elmo_cli.text.sentence import Sentence


def to_dtype(
    sentence: Sentence, array: AnyArray, dtype: np.dtype[Any]
) -> tuple[AnyArray, AnyArray | None]:
    """C-contiguous values of the dtype, with scales for int8.

    Raises:
        OutputError: a value is beyond the range of the dtype.
    """
    if array.dtype == dtype and dtype != INT8:  # nothing is converted
        return np.ascontiguousarray(array), None
    is_int8 = dtype == INT8
    try:
        with np.errstate(over="raise"):
            values = as_contiguous(array, DTYPES["float32"] if is_int8 else dtype)
    except FloatingPointError:
        raise _beyond_range(sentence, dtype) from None
    if not is_int8:
        return values, None
    if not np.isfinite(values).all():
        raise _beyond_range(sentence, dtype)
    return quantize(values)


def _beyond_range(sentence: Sentence, dtype: np.dtype[Any]) -> OutputError:
    is_float32 = dtype.itemsize == 4
    return OutputError(
        f"a value is beyond the range of {dtype.name}",
        "check the model" if is_float32 else "`dtype=float32` has a larger range",
        where=sentence.where,
    )
