"""How an array of a weight file becomes a parameter, and the way back.

A file holds matrices for products from the right (rows are inputs); torch keeps (output, input).
Each transform has its inverse beside it: `to_file(to_parameter(a))` is `a`, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Transform:
    """A rearrangement of an array and its inverse; no number changes."""

    to_parameter: Callable[[Array], Array]
    to_file: Callable[[Array], Array]


SAME = Transform(lambda a: a, lambda a: a)

TRANSPOSED = Transform(lambda a: a.T, lambda a: a.T)

# File: (1, width, char_dim, count). torch's Conv1d: (count, char_dim, width).
FILTER = Transform(lambda a: a[0].transpose(2, 1, 0), lambda a: a.transpose(2, 1, 0)[None])
