"""Weights in the blocks in which oneDNN multiplies on a processor.

torch's own products copy a weight into such blocks each time, which takes longer than to multiply
with a few rows. For each number of rows that it meets oneDNN writes a program of its own, which
takes a millisecond and a megabyte; so callers come with few of them, see `height`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_ROWS = 512  # that weights are packed for; other numbers of rows take hardly longer


def height(n_rows: int) -> int:
    """As many rows as are computed where `n_rows` are wanted: powers of two up to 16; from there
    at most seven too many, or a sixteenth."""
    if n_rows <= 16:
        return 1 << max(0, n_rows - 1).bit_length()
    step = max(8, (1 << n_rows.bit_length()) // 32)
    return -(-n_rows // step) * step


def heightened(x: Tensor) -> Tensor:
    """Rows, and rows of zeros below them: (row, n) -> (height(row), n)."""
    return torch.nn.functional.pad(x, (0, 0, 0, height(len(x)) - len(x)))


def packs(weight: Tensor) -> bool:
    """Whether this processor and build of torch have products by oneDNN with weights like this."""
    if weight.device.type != "cpu" or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    mkldnn = torch.backends.mkldnn
    if not (mkldnn.is_available() and mkldnn.enabled):  # type: ignore[no-untyped-call]
        return False
    if weight.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype == torch.float32


class PackedWeight:
    """A weight (n_out, n_in), packed.

    Args:
        weight: one that `packs`.
    """

    def __init__(self, weight: Tensor) -> None:
        dense = weight.detach().contiguous()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(dense, _ROWS)

    def of(self, x: Tensor, bias: Tensor | None = None, function: str = "none") -> Tensor:
        """x @ weight.T + bias, or the "sigmoid" of it: (row, n_in) -> (row, n_out)."""
        made: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, bias, function, [], "")
        return made

    def plus(self, x: Tensor, base: Tensor) -> Tensor:
        """base + x @ weight.T, (row, n_out)."""
        binary = torch.ops.mkldnn._linear_pointwise.binary
        made: Tensor = binary(x, base, self._packed, None, "add")
        return made

    def __reduce__(self) -> tuple[Callable[[Tensor], PackedWeight], tuple[Tensor]]:
        return PackedWeight, (self._packed.to_dense(),)  # blocks are of this process alone
