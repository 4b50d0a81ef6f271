"""Products of rows with a weight matrix, in float32, bfloat16 or int8.

What goes in and comes out is float32 in each of them.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from elmo_cli.errors import DeviceError, UsageError

PRECISIONS = ("float32", "bf16", "int8")
_TINY = torch.finfo(torch.float32).tiny  # a row of zeros is divided by it
_SPACE = 32  # values between rows
# Rows have 7 bits, weights 8: processors without VNNI sum two products in 16 bits. Stored with
# `_ZERO` added, a value of a row is 1 … 127.
_LEVELS, _ZERO, _WEIGHT_LEVELS = 63, 64, 127


class Product(Protocol):
    """x @ weight, for rows x; the weight is (n_in, n_out), the bias (n_out,)."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None: ...

    def into(self, x: Tensor, out: Tensor) -> None:
        """Write x @ weight + bias.

        Args:
            x: (row, n_in).
            out: (row, n_out).
        """

    def added(self, x: Tensor, base: Tensor, out: Tensor) -> None:
        """Write base + x @ weight; `out` may be `base`, (row, n_out) both."""


def product(weight: Tensor, bias: Tensor | None, precision: str) -> Product:
    """The product with a weight (n_in, n_out), and bias (n_out,)."""
    kinds: dict[str, type[Product]] = {"float32": _Float32, "bf16": _BFloat16, "int8": _Int8}
    return kinds[precision](weight, bias)


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
        self._weight, self._bias = weight.bfloat16().contiguous(), bias

    def into(self, x: Tensor, out: Tensor) -> None:
        """See `Product.into`."""
        product = torch.mm(x.bfloat16(), self._weight)
        if self._bias is None:
            out.copy_(product)
        else:
            torch.add(self._bias, product, out=out)

    def added(self, x: Tensor, base: Tensor, out: Tensor) -> None:
        """See `Product.added`."""
        torch.add(base, torch.mm(x.bfloat16(), self._weight), out=out)


class _Int8:
    """Whole numbers: a scale a row of x, a scale a column of the weight.

    Sums of whole numbers are exact, so that a row's product does not depend on the other rows, the
    threads or the processor.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        columns = weight.T.contiguous()  # (n_out, n_in)
        self._scales = (columns.abs().amax(1) / _WEIGHT_LEVELS).clamp_min(_TINY)  # (n_out,)
        whole = (columns / self._scales[:, None]).round_().to(torch.int8)
        self._weight = torch.ops.onednn.qlinear_prepack(whole, None)
        self._zeros = torch.zeros(len(columns), dtype=torch.int64)
        self._bias = bias

    def into(self, x: Tensor, out: Tensor) -> None:
        """See `Product.into`."""
        product, scales = self._product(x)
        if self._bias is None:
            torch.mul(product, scales, out=out)
        else:
            torch.addcmul(self._bias, product, scales, out=out)

    def added(self, x: Tensor, base: Tensor, out: Tensor) -> None:
        """See `Product.added`."""
        torch.addcmul(base, *self._product(x), out=out)

    def _product(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(row, n_out) of rows divided by their scales, and the scales, (row, 1)."""
        scales = (x.abs().amax(1, keepdim=True) / _LEVELS).clamp_min_(_TINY)  # (row, 1)
        whole = (x / scales).round_().add_(_ZERO).to(torch.uint8)  # (row, n_in)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            whole, 1.0, _ZERO, self._weight, self._scales, self._zeros, None,
            1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return product, scales


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
