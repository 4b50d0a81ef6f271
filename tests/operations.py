"""Count the floating-point operations of matrix products, those of oneDNN included."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode


def counter() -> FlopCounterMode:
    """A context that counts what the thread that enters it computes."""
    linear = getattr(torch.ops.mkldnn, "_linear_pointwise", None)  # not in every build of torch
    mapping = {linear: _linear_operations} if linear else {}
    return FlopCounterMode(display=False, custom_mapping=mapping)


def _linear_operations(x: torch.Size, *_: Any, out_shape: torch.Size, **__: Any) -> int:
    """2 * row * n_in * n_out."""
    return 2 * x[0] * x[1] * out_shape[1]
