"""Products of rows with a weight matrix, in float32, bfloat16 or int8.

What goes in and comes out is float32 in each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from elmo_cli.engine.memory import LARGEST_KEPT
from elmo_cli.errors import DeviceError, UsageError

PRECISIONS = ("float32", "bf16", "int8")
_TINY = torch.finfo(torch.float32).tiny  # a row of zeros is divided by it
_SPACE = 32  # values between rows
# Rows have 7 bits, weights 8: processors without VNNI sum two products in 16 bits. Stored with
# `_ZERO` added, a value of a row is 1 … 127; one that is never negative is 0 … 127 as it is.
_LEVELS, _ZERO, _POSITIVE_LEVELS, _WEIGHT_LEVELS = 63, 64, 127, 127
# Columns of a product that is not added where it belongs at once: what comes in between stays in
# the cache, and below the 32 MB that the allocator gives back to the system each time.
_AT_ONCE = 4096


class Product(Protocol):
    """x @ weight, for rows x; the weight is (n_in, n_out)."""

    def into(self, x: Tensor, out: Tensor) -> None:
        """Write x @ weight + bias.

        Args:
            x: (row, n_in).
            out: (row, n_out).
        """

    def added(self, x: Tensor, base: Tensor, out: Tensor) -> None:
        """Write base + x @ weight; `out` may be `base`, (row, n_out) both."""


def product(
    weight: Tensor, bias: Tensor | None, precision: str, *, is_positive: bool = False
) -> Product:
    """The product with a weight (n_in, n_out), and bias (n_out,).

    Args:
        is_positive: whether no value of a row is ever negative, so that int8 has twice the levels.
    """
    if precision == "int8":
        return _Int8(weight, bias, is_positive=is_positive)
    return _BFloat16(weight, bias) if precision == "bf16" else _Float32(weight, bias)


def check_precision(precision: str, device: torch.device, *, engine: str) -> None:
    """Refuse a precision that is not to be had.

    Raises:
        UsageError: no such precision, or none but float32 in this engine.
        DeviceError: the device, or torch's build for it, has no such products.
    """
    if precision not in PRECISIONS:
        raise UsageError(
            f"--precision {precision}: not {', '.join(PRECISIONS)}", "float32 is the default"
        )
    if precision != "float32" and engine == "plain":
        raise UsageError(
            f"--precision {precision}: the plain engine computes in float32", "`--engine fast`"
        )
    if precision != "int8":
        return
    if device.type != "cpu":
        raise DeviceError(
            f"--precision int8: for processors, not for {device.type}",
            "`--precision bf16`, or `--device cpu`",
        )
    try:
        one = torch.ones(1, 16)
        _Int8(torch.ones(16, 16), None).into(one, torch.empty(1, 16))
    except (AttributeError, RuntimeError) as error:
        raise DeviceError(
            "--precision int8: this build of torch has no products of 8 bits", "leave it out"
        ) from error


class _Float32:
    """As torch's own product; the weight's rows stand a little apart."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = spaced(weight), bias

    def into(self, x: Tensor, out: Tensor) -> None:
        """See `Product.into`."""
        if self._bias is None:
            torch.mm(x, self._weight, out=out)
        else:
            torch.addmm(self._bias, x, self._weight, out=out)

    def added(self, x: Tensor, base: Tensor, out: Tensor) -> None:
        """See `Product.added`."""
        torch.addmm(base, x, self._weight, out=out)


class _BFloat16:
    """Rows and weight rounded to 8 bits of mantissa, and the product too; sums in float32."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._parts = [part.contiguous() for part in torch.split(weight.bfloat16(), _AT_ONCE, 1)]
        self._biases = _bias_parts(bias, len(self._parts))

    def into(self, x: Tensor, out: Tensor) -> None:
        """See `Product.into`."""
        rounded, rooms = x.bfloat16(), torch.split(out, _AT_ONCE, 1)
        for part, bias, room in zip(self._parts, self._biases, rooms, strict=True):
            room.copy_(torch.mm(rounded, part))
            if bias is not None:
                room += bias

    def added(self, x: Tensor, base: Tensor, out: Tensor) -> None:
        """See `Product.added`."""
        rounded = x.bfloat16()
        bases, rooms = torch.split(base, _AT_ONCE, 1), torch.split(out, _AT_ONCE, 1)
        for part, begun, room in zip(self._parts, bases, rooms, strict=True):
            torch.add(begun, torch.mm(rounded, part), out=room)


class _Int8:
    """Whole numbers: a scale a row of x, a scale a column of the weight.

    Sums of whole numbers are exact, so that a row's product does not depend on the other rows, the
    threads or the processor.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, *, is_positive: bool = False) -> None:
        self._levels, self._zero = (_POSITIVE_LEVELS, 0) if is_positive else (_LEVELS, _ZERO)
        self._parts = [_WholeColumns(part) for part in torch.split(weight, _AT_ONCE, 1)]
        self._biases = _bias_parts(bias, len(self._parts))

    def into(self, x: Tensor, out: Tensor) -> None:
        """See `Product.into`."""
        whole, scales = self._whole(x)
        rooms = torch.split(out, _AT_ONCE, 1)
        for part, bias, room in zip(self._parts, self._biases, rooms, strict=True):
            product = part.product(whole, self._zero)
            if bias is None:
                torch.mul(product, scales, out=room)
            else:
                torch.addcmul(bias, product, scales, out=room)

    def added(self, x: Tensor, base: Tensor, out: Tensor) -> None:
        """See `Product.added`."""
        whole, scales = self._whole(x)
        bases, rooms = torch.split(base, _AT_ONCE, 1), torch.split(out, _AT_ONCE, 1)
        for part, begun, room in zip(self._parts, bases, rooms, strict=True):
            torch.addcmul(begun, part.product(whole, self._zero), scales, out=room)

    def _whole(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Rows as whole numbers, uint8, and what each was divided by, (row, 1)."""
        highest = torch.maximum(x.amax(1, keepdim=True), -x.amin(1, keepdim=True))
        scales = (highest / self._levels).clamp_min_(_TINY)
        # Up to 127 int8 has the bits of uint8, which torch makes in eight times the time.
        whole = (x / scales).round_().add_(self._zero).to(torch.int8)
        return whole.view(torch.uint8), scales


class _WholeColumns:
    """Columns of a weight as whole numbers, a scale for each: (n_in, n_out)."""

    def __init__(self, weight: Tensor) -> None:
        columns = weight.T.contiguous()  # (n_out, n_in)
        self._scales = (columns.abs().amax(1) / _WEIGHT_LEVELS).clamp_min(_TINY)  # (n_out,)
        whole = (columns / self._scales[:, None]).round_().to(torch.int8)
        self._weight = torch.ops.onednn.qlinear_prepack(whole, None)
        self._zeros = torch.zeros(len(columns), dtype=torch.int64)

    def product(self, whole: Tensor, zero: int) -> Tensor:
        """Of rows of whole numbers, not yet times their scales, (row, n_out) float32.

        Args:
            whole: (row, n_in) uint8.
            zero: what stands for 0 in them.
        """
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            whole, 1.0, zero, self._weight, self._scales, self._zeros, None,
            1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return product


def _bias_parts(bias: Tensor | None, n_parts: int) -> Sequence[Tensor | None]:
    """The bias of each part of the columns."""
    return [None] * n_parts if bias is None else torch.split(bias, _AT_ONCE)


def spaced(matrix: Tensor) -> Tensor:
    """A matrix whose rows stand a little apart: itself, or a copy."""
    if matrix.stride() == (matrix.shape[1] + _SPACE, 1):
        return matrix
    return spaced_room(matrix, *matrix.shape).copy_(matrix)


def spaced_room(like: Tensor, n_rows: int, n_columns: int) -> Tensor:
    """Room for a matrix with rows a little apart.

    Where a row is a power of two long, places below each other fall on the same few lines of the
    processor's cache and push each other out; a product is then slower by a sixth to a half.
    """
    return like.new_empty(n_rows, n_columns + _SPACE)[:, :n_columns]


class KeptRoom:
    """Room for one matrix at a time, kept for the next if it is large; see `memory`."""

    def __init__(self) -> None:
        self._held: Tensor | None = None

    def spaced(self, like: Tensor, n_rows: int, n_columns: int) -> Tensor:
        """As `spaced_room`; what was there before is lost."""
        size = n_rows * (n_columns + _SPACE)
        if like.device.type != "cpu" or size * like.element_size() <= LARGEST_KEPT:
            return spaced_room(like, n_rows, n_columns)
        if self._held is None or len(self._held) < size:
            self._held = None  # before there is another
            self._held = like.new_empty(size)
        return self._held[:size].view(n_rows, -1)[:, :n_columns]
