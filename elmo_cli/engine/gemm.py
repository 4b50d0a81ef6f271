"""Matrix products with prepared weights, in float32, bfloat16 or int8, by oneDNN or by torch.

Inputs and results are float32 in each precision; only `input_part` has a dtype of its own. A weight
is (n_out, n_in), as in the model. A `Gemm` has several weights, such as the gates of a layer, and
one result for each: one array of all gates would exceed the CPU's cache. On a CPU weights are
packed once into the blocks in which oneDNN multiplies; torch's own products copy them each time,
which takes longer than multiplying a few rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, cast

import torch
from torch import Tensor

_PACKED_FOR_ROWS = 512  # other numbers of rows take hardly longer
_TINY = torch.finfo(torch.float32).tiny  # the scale of a row of zeros
_Biases = Sequence[Tensor | None]  # one for each weight


def padded_rows(n_rows: int) -> int:
    """The number of rows to compute for `n_rows`.

    oneDNN generates code, a millisecond and a megabyte, for each number of rows. So there are few:
    powers of two up to 16, then at most seven rows or a sixteenth more.
    """
    if n_rows <= 16:
        return 1 << max(0, n_rows - 1).bit_length()
    step = max(8, (1 << n_rows.bit_length()) // 32)
    return -(-n_rows // step) * step


def pad_rows(x: Tensor) -> Tensor:
    """Append rows of zeros: (row, n) -> (padded_rows(row), n)."""
    return torch.nn.functional.pad(x, (0, 0, 0, padded_rows(len(x)) - len(x)))


def can_pack(weight: Tensor) -> bool:
    """Whether this CPU and build of torch multiply with packed weights of this dtype."""
    if weight.device.type != "cpu" or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    mkldnn = torch.backends.mkldnn
    if not (mkldnn.is_available() and mkldnn.enabled):  # type: ignore[no-untyped-call]
        return False
    if weight.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype == torch.float32


class PackedWeight:
    """A weight (n_out, n_in) packed for oneDNN; `can_pack` says whether that works."""

    def __init__(self, weight: Tensor) -> None:
        dense = weight.detach().contiguous()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(dense, _PACKED_FOR_ROWS)

    def linear(self, x: Tensor, bias: Tensor | None = None, function: str = "none") -> Tensor:
        """x @ weight.T + bias, or the "sigmoid" of it: (row, n_in) -> (row, n_out)."""
        pointwise = torch.ops.mkldnn._linear_pointwise
        return cast(Tensor, pointwise(x, self._packed, bias, function, [], ""))

    def add_linear(self, x: Tensor, part: Tensor) -> Tensor:
        """part + x @ weight.T, (row, n_out)."""
        binary = torch.ops.mkldnn._linear_pointwise.binary
        return cast(Tensor, binary(x, part, self._packed, None, "add"))


class Gemm(Protocol):
    """x @ weight.T for rows x, (row, n_in), and each of several weights, (n_out, n_in).

    A result is a list of arrays: one for each weight, or one for all of them, (row, sum of n_out),
    where a few large operations are faster than many small ones. `split` takes it apart.
    """

    def split(self, result: list[Tensor]) -> list[Tensor]:
        """The array of each weight, (row, n_out), from a result."""
        return result

    def linear(self, x: Tensor) -> list[Tensor]:
        """x @ weight.T + bias; may be modified in place."""

    def linear_sigmoid(self, x: Tensor) -> list[Tensor]:
        """The sigmoid of `linear`."""
        return [z.sigmoid_() for z in self.linear(x)]

    def input_part(self, x: Tensor) -> list[Tensor]:
        """Like `linear`, but in the dtype that `add_linear` expects."""
        return self.linear(x)

    def add_linear(self, x: Tensor, parts: Iterable[Tensor]) -> list[Tensor]:
        """part + x @ weight.T for each array of `input_part`, which may be overwritten; of a
        generator only one is in memory at a time."""


def make_gemm(
    weights: Sequence[Tensor],
    biases: Sequence[Tensor] | None,
    precision: str,
    *,
    nonnegative_input: bool = False,
) -> Gemm:
    """The products with weights (n_out, n_in) and biases (n_out,), in a precision of `PRECISIONS`.

    If inputs are never negative, int8 has twice the levels.
    """
    weights = [weight.detach() for weight in weights]
    own_biases: _Biases = [None] * len(weights)
    if biases is not None:
        own_biases = [bias.detach().clone() for bias in biases]
    if precision == "int8":
        return _Int8Gemm(weights, own_biases, nonnegative_input)
    if precision == "bf16":
        return _BFloat16Gemm(weights, own_biases)
    return _float_gemm(weights, own_biases)


def _float_gemm(weights: Sequence[Tensor], biases: _Biases) -> Gemm:
    """In the dtype of the weights; oneDNN takes the biases of bfloat16 weights in float32."""
    kind = _PackedGemm if can_pack(weights[0]) else _TorchGemm
    return kind(weights, biases)


class _TorchGemm(Gemm):
    """One torch product with all weights concatenated."""

    def __init__(self, weights: Sequence[Tensor], biases: _Biases) -> None:
        self._sizes = [len(weight) for weight in weights]
        self._weight = torch.cat(tuple(weights)).T.contiguous()  # (n_in, sum of n_out)
        own_biases = [bias for bias in biases if bias is not None]
        self._bias = torch.cat(own_biases).to(self._weight) if own_biases else None

    def split(self, result: list[Tensor]) -> list[Tensor]:
        return list(torch.split(result[0], self._sizes, 1))

    def linear(self, x: Tensor) -> list[Tensor]:
        if self._bias is None:
            return [torch.mm(x, self._weight)]
        return [torch.addmm(self._bias, x, self._weight)]

    def add_linear(self, x: Tensor, parts: Iterable[Tensor]) -> list[Tensor]:
        return [torch.addmm(part, x, self._weight) for part in parts]


class _PackedGemm(Gemm):
    """oneDNN adds the bias and computes the sigmoid while the product is in the cache."""

    def __init__(self, weights: Sequence[Tensor], biases: _Biases) -> None:
        self._weights = [PackedWeight(weight) for weight in weights]
        self._biases = biases

    def linear(self, x: Tensor, function: str = "none") -> list[Tensor]:
        pairs = zip(self._weights, self._biases, strict=True)
        return [weight.linear(x, bias, function) for weight, bias in pairs]

    def linear_sigmoid(self, x: Tensor) -> list[Tensor]:
        return self.linear(x, "sigmoid")

    def add_linear(self, x: Tensor, parts: Iterable[Tensor]) -> list[Tensor]:
        pairs = zip(self._weights, parts, strict=True)
        return [weight.add_linear(x, part) for weight, part in pairs]


class _BFloat16Gemm(Gemm):
    """Inputs, weights and results are rounded to bfloat16; sums are not."""

    def __init__(self, weights: Sequence[Tensor], biases: _Biases) -> None:
        self._gemm = _float_gemm([weight.bfloat16() for weight in weights], biases)

    def split(self, result: list[Tensor]) -> list[Tensor]:
        return self._gemm.split(result)

    def linear(self, x: Tensor) -> list[Tensor]:
        return [z.float() for z in self.input_part(x)]

    def input_part(self, x: Tensor) -> list[Tensor]:
        return self._gemm.linear(x.bfloat16())

    def add_linear(self, x: Tensor, parts: Iterable[Tensor]) -> list[Tensor]:
        return [z.float() for z in self._gemm.add_linear(x.bfloat16(), parts)]


class _Int8Gemm(Gemm):
    """Integers with a scale for each row of the input and each row of the weight.

    Rows have 7 bits, weights 8: CPUs without VNNI add two products in 16 bits. Sums of integers
    are exact, so a row's result depends neither on the other rows, nor on threads or the CPU.
    """

    def __init__(self, weights: Sequence[Tensor], biases: _Biases, is_nonnegative: bool) -> None:
        # A value of a row is stored as 0 … 127, or as 1 … 127 where it may be negative.
        self._levels = 127 if is_nonnegative else 63
        self._zero_point = 0 if is_nonnegative else 64
        self._weights = [_Int8Weight(weight) for weight in weights]
        self._biases = biases

    def linear(self, x: Tensor) -> list[Tensor]:
        products, scales = self._products(x)
        results = []
        for z, bias in zip(products, self._biases, strict=True):
            if bias is None:
                results.append(z.mul_(scales))
            else:
                results.append(torch.addcmul(bias, z, scales, out=z))
        return results

    def add_linear(self, x: Tensor, parts: Iterable[Tensor]) -> list[Tensor]:
        products, scales = self._products(x)
        return [part.addcmul_(z, scales) for part, z in zip(parts, products, strict=True)]

    def _products(self, x: Tensor) -> tuple[Iterator[Tensor], Tensor]:
        """The product with each weight, as consumed, and the scale of each row, (row, 1)."""
        largest = torch.maximum(x.amax(1, keepdim=True), -x.amin(1, keepdim=True))
        scales = (largest / self._levels).clamp_min_(_TINY)
        # Up to 127 int8 and uint8 have the same bits; torch takes eight times as long for uint8.
        integers = (x / scales).round_().add_(self._zero_point).to(torch.int8).view(torch.uint8)
        products = (weight.linear(integers, self._zero_point) for weight in self._weights)
        return products, scales


class _Int8Weight:
    """A weight (n_out, n_in) as integers, with a scale for each row."""

    def __init__(self, weight: Tensor) -> None:
        self._scales = (weight.abs().amax(1) / 127).clamp_min(_TINY)  # (n_out,)
        integers = (weight / self._scales[:, None]).round_().to(torch.int8)
        self._weight = torch.ops.onednn.qlinear_prepack(integers.contiguous(), None)
        self._zeros = torch.zeros(len(weight), dtype=torch.int64)

    def linear(self, integers: Tensor, zero_point: int) -> Tensor:
        """The product, without the scales of its rows: uint8 (row, n_in) -> (row, n_out)."""
        return cast(Tensor, torch.ops.onednn.qlinear_pointwise(
            integers, 1.0, zero_point, self._weight, self._scales, self._zeros, None,
            1.0, 0, torch.float32, "none", [], "",
        ))  # fmt: skip
