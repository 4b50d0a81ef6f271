"""Products of rows with weights, in float32, bfloat16 or int8.

What goes in and comes out is float32 in each of them; only `bases` are of a type of their own. A
weight is (n_out, n_in), as the model has it; a product has several of them, the gates of a layer
say, and a result for each: an array of all gates of a batch would be too large for the processor's
cache, and for what the allocator keeps. Weights on a processor are packed, see `packed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from elmo_cli.engine.packed import PackedWeight, packs
from elmo_cli.errors import DeviceError, UsageError

PRECISIONS = ("float32", "bf16", "int8")
_TINY = torch.finfo(torch.float32).tiny  # a row of zeros is divided by it
# Rows have 7 bits, weights 8: processors without VNNI sum two products in 16 bits. Stored with
# `_ZERO` added, a value of a row is 1 … 127; one that is never negative is 0 … 127 as it is.
_LEVELS, _ZERO, _POSITIVE_LEVELS, _WEIGHT_LEVELS = 63, 64, 127, 127


class Product(Protocol):
    """x @ weight.T for rows x, (row, n_in), and each of some weights, (n_out, n_in)."""

    def of(self, x: Tensor) -> list[Tensor]:
        """x @ weight.T + bias, (row, n_out) each, to be changed in place if need be."""

    def bases(self, x: Tensor) -> list[Tensor]:
        """What `of` makes, in the type in which `plus` of the same precision takes it."""
        return self.of(x)

    def plus(self, x: Tensor, bases: Iterable[Tensor]) -> list[Tensor]:
        """base + x @ weight.T for a base of each weight, see `bases`; they may be written over.
        They are taken one after the other, so that those which are made as they are taken are not
        all there."""

    def sigmoid(self, x: Tensor) -> list[Tensor]:
        """The sigmoid of what `of` makes."""
        return [z.sigmoid_() for z in self.of(x)]


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
    biases = None if biases is None else [bias.detach().clone() for bias in biases]
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


class _Float32(Product):
    """As torch's own product, of all weights in one."""

    def __init__(self, weights: Sequence[Tensor], biases: Sequence[Tensor] | None) -> None:
        self._sizes = [len(weight) for weight in weights]
        self._weight = torch.cat(tuple(weights)).T.contiguous()  # (n_in, sum of n_out)
        self._bias = None if biases is None else torch.cat(tuple(biases))

    def of(self, x: Tensor) -> list[Tensor]:
        """See `Product.of`."""
        return self._each(self._all(x))

    def plus(self, x: Tensor, bases: Iterable[Tensor]) -> list[Tensor]:
        """See `Product.plus`."""
        return self._each(torch.addmm(torch.cat(tuple(bases), 1), x, self._weight))

    def sigmoid(self, x: Tensor) -> list[Tensor]:
        """See `Product.sigmoid`."""
        return self._each(self._all(x).sigmoid_())

    def _all(self, x: Tensor) -> Tensor:
        if self._bias is None:
            return torch.mm(x, self._weight)
        return torch.addmm(self._bias, x, self._weight)

    def _each(self, z: Tensor) -> list[Tensor]:
        return list(torch.split(z, self._sizes, 1))


class _Packed(Product):
    """By oneDNN, with bias and sigmoid while the product is in the cache."""

    def __init__(self, weights: Sequence[Tensor], biases: Sequence[Tensor] | None) -> None:
        self._weights = [PackedWeight(weight) for weight in weights]
        self._biases = _each(biases, len(weights))

    def of(self, x: Tensor) -> list[Tensor]:
        """See `Product.of`."""
        return [weight.of(x, bias) for weight, bias in self._pairs()]

    def plus(self, x: Tensor, bases: Iterable[Tensor]) -> list[Tensor]:
        """See `Product.plus`."""
        return [weight.plus(x, base) for weight, base in zip(self._weights, bases, strict=True)]

    def sigmoid(self, x: Tensor) -> list[Tensor]:
        """See `Product.sigmoid`."""
        return [weight.of(x, bias, "sigmoid") for weight, bias in self._pairs()]

    def _pairs(self) -> Iterable[tuple[PackedWeight, Tensor | None]]:
        return zip(self._weights, self._biases, strict=True)


class _BFloat16(Product):
    """Rows and weight rounded to 8 bits of mantissa, and so is what comes of them, not the sums."""

    def __init__(self, weights: Sequence[Tensor], biases: Sequence[Tensor] | None) -> None:
        rounded = [weight.bfloat16() for weight in weights]
        if packs(rounded[0]):
            self._product: Product = _Packed(rounded, biases)
        else:
            biases = None if biases is None else [bias.bfloat16() for bias in biases]
            self._product = _Float32(rounded, biases)

    def of(self, x: Tensor) -> list[Tensor]:
        """See `Product.of`."""
        return [z.float() for z in self.bases(x)]

    def bases(self, x: Tensor) -> list[Tensor]:
        """See `Product.bases`; these are bfloat16."""
        return self._product.of(x.bfloat16())

    def plus(self, x: Tensor, bases: Iterable[Tensor]) -> list[Tensor]:
        """See `Product.plus`."""
        return [z.float() for z in self._product.plus(x.bfloat16(), bases)]


class _Int8(Product):
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
            z = weight.product(whole, self._zero)
            made.append(z.mul_(scales) if bias is None else torch.addcmul(bias, z, scales, out=z))
        return made

    def plus(self, x: Tensor, bases: Iterable[Tensor]) -> list[Tensor]:
        """See `Product.plus`."""
        whole, scales = self._whole(x)
        pairs = zip(bases, self._weights, strict=True)
        return [base.addcmul_(w.product(whole, self._zero), scales) for base, w in pairs]

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
        scales = (weight.abs().amax(1) / _WEIGHT_LEVELS).clamp_min(_TINY)  # (n_out,)
        self.__setstate__((scales, (weight / scales[:, None]).round_().to(torch.int8)))

    def __getstate__(self) -> tuple[Tensor, Tensor]:
        return self._scales, self._weight.to_dense().T  # oneDNN's blocks are of this process alone

    def __setstate__(self, state: tuple[Tensor, Tensor]) -> None:
        self._scales, whole = state
        self._weight = torch.ops.onednn.qlinear_prepack(whole.contiguous(), None)
        self._zeros = torch.zeros(len(whole), dtype=torch.int64)

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


def _each(biases: Sequence[Tensor] | None, n: int) -> Sequence[Tensor | None]:
    """The bias of each weight."""
    return [None] * n if biases is None else list(biases)
