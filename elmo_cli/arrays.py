"""Names for the types of NumPy arrays; their shapes are in the docstrings."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
FloatArray = npt.NDArray[np.floating]
Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]
Int32Array = npt.NDArray[np.int32]
Int16Array = npt.NDArray[np.int16]
BoolArray = npt.NDArray[np.bool_]
