"""Products of rows with weights, in float32, bfloat16 or int8.

What goes in and comes out is float32 in each of them. A weight is (n_out, n_in), as the model has
it; a product has several of them, the gates of a layer say, and a result for each: an array of all
gates of a batch would be too large for the processor's cache, and for what the allocator keeps.

On a processor weights are packed once into the blocks in which oneDNN multiplies: torch's own
products copy them into such blocks each time, which takes longer than to multiply a few rows. For
each number of rows that it meets oneDNN writes a program of its own, which takes a millisecond and
a megabyte; so callers come with few of them, see `height`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from elmo_cli.errors import DeviceError, UsageError

PRECISIONS = ("float32", "bf16", "int8")
_TINY = torch.finfo(torch.float32).tiny  # a row of zeros is divided by it
_ROWS = 512  # that weights are packed for; other numbers of rows take hardly longer
# Rows have 7 bits, weights 8: processors without VNNI sum two products in 16 bits. Stored with
# `_ZERO` added, a value of a row is 1 … 127; one that is never negative is 0 … 127 as it is.
_LEVELS, _ZERO, _POSITIVE_LEVELS, _WEIGHT_LEVELS = 63, 64, 127, 127


def height(n_rows: int) -> int:
    """As many rows as products are asked for where `n_rows` are wanted: no fewer, hardly more."""
    if n_rows <= 16:
        return 1 << max(0, n_rows - 1).bit_length()
    step = max(8, (1 << n_rows.bit_length()) // 32)
    return -(-n_rows // step) * step


def heightened(x: Tensor) -> Tensor:
    """Rows, and rows of zeros below them: (row, n) -> (height, n)."""
    return torch.nn.functional.pad(x, (0, 0, 0, height(len(x)) - len(x)))


class Product(Protocol):
    """x @ weight.T for rows x, (row, n_in), and each of some weights, (n_out, n_in)."""

    def of(self, x: Tensor) -> list[Tensor]:
        """x @ weight.T + bias, (row, n_out) each, to be changed in place if need be."""

    def plus(self, x: Tensor, bases: Iterable[Tensor]) -> list[Tensor]:
        """base + x @ weight.T for a base of each weight; bases may be written over. They are taken
        one after the other, so that those which are made as they are taken are not all there."""

    def sigmoid(self, x: Tensor) -> list[Tensor]:
        """The sigmoid of what `of` makes."""


def product(
    weights: Sequence[Tensor],
    biases: Sequence[Tensor] | None,
    precision: str,
    *,
    is_positive: bool = False,
) -> Product:
    """The product with weights (n_out, n_in), and biases (n_out,).

    Args:
        is_positive: whether no value of a row is ever negative, so that int8 has twice the levels.
    """
    weights = [weight.detach() for weight in weights]
    biases = None if biases is None else [bias.detach() for bias in biases]
    if precision == "int8":
        return _Int8(weights, biases, is_positive=is_positive)
    if precision == "bf16":
        return _BFloat16(weights, biases)
    if packs(weights[0]):
        return _Packed(weights, biases)
    return _Float32(weights, biases)


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
        _Int8([torch.ones(16, 16)], None).of(torch.ones(1, 16))
    except (AttributeError, RuntimeError) as error:
        raise DeviceError(
            "--precision int8: this build of torch has no products of 8 bits", "leave it out"
        ) from error


class _Float32:
    """As torch's own product."""

    def __init__(self, weights: Sequence[Tensor], biases: Sequence[Tensor] | None) -> None:
        self._weights = [weight.T.contiguous() for weight in weights]  # (n_in, n_out)
        self._biases = biases

    def of(self, x: Tensor) -> list[Tensor]:
        """See `Product.of`."""
        if self._biases is None:
            return [torch.mm(x, weight) for weight in self._weights]
        return self.plus(x, self._biases)

    def plus(self, x: Tensor, bases: Iterable[Tensor]) -> list[Tensor]:
        """See `Product.plus`."""
        pairs = zip(bases, self._weights, strict=True)
        return [torch.addmm(base, x, weight) for base, weight in pairs]

    def sigmoid(self, x: Tensor) -> list[Tensor]:
        """See `Product.sigmoid`."""
        return [z.sigmoid_() for z in self.of(x)]


class _Packed:
    """By oneDNN, with bias and sigmoid while the product is in the cache."""

    def __init__(self, weights: Sequence[Tensor], biases: Sequence[Tensor] | None) -> None:
        self._weights = [packed(weight) for weight in weights]
        self._biases = _each(biases, len(weights))

    def of(self, x: Tensor) -> list[Tensor]:
        """See `Product.of`."""
        return self._then(x, "none")

    def plus(self, x: Tensor, bases: Iterable[Tensor]) -> list[Tensor]:
        """See `Product.plus`."""
        pairs = zip(bases, self._weights, strict=True)
        return [linear_plus(x, weight, base) for base, weight in pairs]

    def sigmoid(self, x: Tensor) -> list[Tensor]:
        """See `Product.sigmoid`."""
        return self._then(x, "sigmoid")

    def _then(self, x: Tensor, function: str) -> list[Tensor]:
        pairs = zip(self._weights, self._biases, strict=True)
        return [linear(x, weight, bias, function) for weight, bias in pairs]


class _BFloat16:
    """Rows and weight rounded to 8 bits of mantissa, and the product too; sums in float32."""

    def __init__(self, weights: Sequence[Tensor], biases: Sequence[Tensor] | None) -> None:
        rounded = [weight.bfloat16() for weight in weights]
        self._packs = packs(rounded[0])
        self._weights = [packed(w) if self._packs else w.T.contiguous() for w in rounded]
        self._biases = _each(biases, len(weights))

    def of(self, x: Tensor) -> list[Tensor]:
        """See `Product.of`."""
        products = zip(self._products(x), self._biases, strict=True)
        return [z.float() if bias is None else torch.add(z, bias) for z, bias in products]

    def plus(self, x: Tensor, bases: Iterable[Tensor]) -> list[Tensor]:
        """See `Product.plus`."""
        return [base.add_(z) for base, z in zip(bases, self._products(x), strict=True)]

    def sigmoid(self, x: Tensor) -> list[Tensor]:
        """See `Product.sigmoid`."""
        return [z.sigmoid_() for z in self.of(x)]

    def _products(self, x: Tensor) -> list[Tensor]:
        x = x.bfloat16()
        if self._packs:
            return [linear(x, weight) for weight in self._weights]
        return [torch.mm(x, weight) for weight in self._weights]


class _Int8:
    """Whole numbers: a scale a row of x, a scale a row of the weight.

    Sums of whole numbers are exact, so that a row's product does not depend on the other rows, the
    threads or the processor.
    """

    def __init__(
        self,
        weights: Sequence[Tensor],
        biases: Sequence[Tensor] | None,
        *,
        is_positive: bool = False,
    ) -> None:
        self._levels, self._zero = (_POSITIVE_LEVELS, 0) if is_positive else (_LEVELS, _ZERO)
        self._weights = [_WholeWeight(weight) for weight in weights]
        self._biases = _each(biases, len(weights))

    def of(self, x: Tensor) -> list[Tensor]:
        """See `Product.of`."""
        whole, scales = self._whole(x)
        made = []
        for weight, bias in zip(self._weights, self._biases, strict=True):
            z = weight.product(whole, self._zero).mul_(scales)
            made.append(z if bias is None else z.add_(bias))
        return made

    def plus(self, x: Tensor, bases: Iterable[Tensor]) -> list[Tensor]:
        """See `Product.plus`."""
        whole, scales = self._whole(x)
        pairs = zip(bases, self._weights, strict=True)
        return [base.addcmul_(w.product(whole, self._zero), scales) for base, w in pairs]

    def sigmoid(self, x: Tensor) -> list[Tensor]:
        """See `Product.sigmoid`."""
        return [z.sigmoid_() for z in self.of(x)]

    def _whole(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Rows as whole numbers, uint8, and what each was divided by, (row, 1)."""
        highest = torch.maximum(x.amax(1, keepdim=True), -x.amin(1, keepdim=True))
        scales = (highest / self._levels).clamp_min_(_TINY)
        # Up to 127 int8 has the bits of uint8, which torch makes in eight times the time.
        whole = (x / scales).round_().add_(self._zero).to(torch.int8)
        return whole.view(torch.uint8), scales


class _WholeWeight:
    """A weight as whole numbers, a scale for each of its rows: (n_out, n_in)."""

    def __init__(self, weight: Tensor) -> None:
        self._scales = (weight.abs().amax(1) / _WEIGHT_LEVELS).clamp_min(_TINY)  # (n_out,)
        whole = (weight / self._scales[:, None]).round_().to(torch.int8)
        self._weight = torch.ops.onednn.qlinear_prepack(whole, None)
        self._zeros = torch.zeros(len(weight), dtype=torch.int64)

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


def packs(weight: Tensor) -> bool:
    """Whether this processor and build of torch have products by oneDNN with weights like this."""
    if weight.device.type != "cpu" or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if weight.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype == torch.float32


def packed(weight: Tensor) -> Tensor:
    """A weight (n_out, n_in) as oneDNN wants it, for `linear`."""
    made: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _ROWS)
    return made


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, function: str = "none") -> Tensor:
    """x @ weight.T + bias of a packed weight, and "sigmoid" or "none" of it."""
    made: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, function, [], "")
    return made


def linear_plus(x: Tensor, weight: Tensor, base: Tensor) -> Tensor:
    """base + x @ weight.T of a packed weight."""
    made: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, base, weight, None, "add")
    return made


def _each(biases: Sequence[Tensor] | None, n: int) -> Sequence[Tensor | None]:
    """The bias of each weight."""
    return [None] * n if biases is None else [bias.contiguous() for bias in biases]
