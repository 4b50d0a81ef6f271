"""Gemm: what each precision rounds, and that nothing but its row decides about a result."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch
from engine_calls import CPU, SENTENCES, forward, random_state
from make_weights import SHAPES
from model_pairs import MakePair
from torch import Tensor

from elmo_cli.engine import gemm
from elmo_cli.engine.engines import make_engine
from elmo_cli.engine.gemm import Gemm, make_gemm, pad_rows, padded_rows
from elmo_cli.engine.names import PRECISIONS
from elmo_cli.engine.runtime import has_fast_bf16

# Relative to a vector's norm, on these small models with random states: about twice the measured.
MAX_ERROR = {"bf16": 0.02, "int8": 0.08}


def matrices(n_rows: int = 37, n_in: int = 24, n_out: int = 40) -> tuple[Tensor, ...]:
    """Rows, a weight, its bias, and a part to add a product to."""
    random = torch.Generator().manual_seed(3)
    shapes = ((n_rows, n_in), (n_out, n_in), (n_out,), (n_rows, n_out))
    return tuple(torch.randn(shape, generator=random) for shape in shapes)


@pytest.fixture(params=["oneDNN", "torch"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which library multiplies."""
    if request.param == "torch":
        monkeypatch.setattr(gemm, "can_pack", lambda weight: False)
    return str(request.param)


def all_methods(chosen: Gemm, x: Tensor, *parts: Tensor) -> list[list[Tensor]]:
    """The results of `linear`, of `add_linear` to each part, and of `linear_sigmoid`, split."""
    example = chosen.input_part(x[:1])
    joined = parts if len(example) == len(parts) else (torch.cat(parts, 1),)
    added = chosen.add_linear(x, (part.clone().to(example[0].dtype) for part in joined))
    return [chosen.split(result) for result in (chosen.linear(x), added, chosen.linear_sigmoid(x))]


def expected_product(x: Tensor, weight: Tensor, levels: int) -> Tensor:
    """In int8 with these levels of a row, 8 bits for a weight and an exact sum; 0 for float32."""
    x = x.double()
    weight = weight.double()
    if not levels:
        return x @ weight.T
    row_scales = x.abs().amax(1, keepdim=True) / levels
    weight_scales = weight.abs().amax(1) / 127
    integers = (x / row_scales).round() @ (weight.T / weight_scales).round()
    return integers * row_scales * weight_scales


@pytest.mark.parametrize("n_rows", [1, 37, 600])
@pytest.mark.parametrize("levels", [0, 63, 127])
@pytest.mark.usefixtures("library")
def test_products_equal_the_formula(levels: int, n_rows: int) -> None:
    x, weight, bias, part = matrices(n_rows)
    precision = "int8" if levels else "float32"
    is_nonnegative = levels == 127
    if is_nonnegative:
        x = x.abs()
    product = expected_product(x, weight, levels)
    chosen = make_gemm([weight], [bias], precision, nonnegative_input=is_nonnegative)
    expected = (product + bias, product + part, (product + bias).sigmoid())
    for (array,), exact in zip(all_methods(chosen, x, part), expected, strict=True):
        torch.testing.assert_close(array, exact.float(), rtol=1e-5, atol=3e-5)
    without_bias = make_gemm([weight], None, precision, nonnegative_input=is_nonnegative)
    (array,) = without_bias.linear(x)
    torch.testing.assert_close(array, product.float(), rtol=1e-5, atol=3e-5)


@pytest.mark.usefixtures("library")
def test_bf16_rounds_rows_weight_and_product_but_no_sum() -> None:
    x, weight, bias, part = matrices()
    bias = bias.bfloat16().float()
    part = part.bfloat16().float()
    exact = x.bfloat16().double() @ weight.T.bfloat16().double()
    chosen = make_gemm([weight], [bias], "bf16")
    (linear,), (added,), (sigmoid,) = all_methods(chosen, x, part)
    np.testing.assert_allclose(linear, exact + bias, rtol=2**-8, atol=1e-4)
    np.testing.assert_allclose(added, exact + part, rtol=2**-8, atol=1e-4)
    assert torch.equal(linear, chosen.input_part(x)[0].float())
    torch.testing.assert_close(sigmoid, linear.sigmoid())


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.usefixtures("library")
def test_results_may_be_overwritten_and_arguments_are_not(precision: str) -> None:
    x, weight, bias, part = matrices()
    chosen = make_gemm([weight, 2 * weight], [bias, 2 * bias], precision)
    first, second = chosen.split(chosen.linear(x))
    torch.testing.assert_close(2 * first, second)
    for result in chain(*all_methods(chosen, x, part, part)):
        result.fill_(99)
    for argument, original in zip((x, weight, bias, part), matrices(), strict=True):
        assert torch.equal(argument, original)
    assert torch.equal(first, chosen.split(chosen.linear(x))[0])


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e4])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.usefixtures("library")
def test_rows_of_any_size(precision: str, scale: float) -> None:
    """A row of zeros must not be divided by its largest value."""
    x, weight, _, _ = matrices()
    x[3] *= scale
    chosen = make_gemm([weight], None, precision)
    (product,) = chosen.linear(x)
    expected = expected_product(x, weight, 0)[3]
    np.testing.assert_allclose(product[3], expected, rtol=0, atol=0.06 * 24**0.5 * scale)
    if precision == "int8":  # no other row matters
        for row in (0, 3, 17, 36):
            (alone,) = chosen.linear(x[row : row + 1])
            assert torch.equal(alone[0], product[row])


def test_padded_rows_are_few_numbers_and_little_padding() -> None:
    padded = [padded_rows(n) for n in range(1, 4097)]
    for n, n_padded in enumerate(padded, 1):
        assert n <= n_padded == padded_rows(n_padded)
        assert n_padded <= n + max(7, n // 16)
    assert padded[0] == 1
    assert len(set(padded[:512])) < 55
    assert pad_rows(torch.ones(17, 3)).sum(1).tolist() == [3.0] * 17 + [0.0] * 7


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.usefixtures("seed")
def test_vectors_stay_near_those_of_float32(precision: str, shape: str, paired: MakePair) -> None:
    bilm, _ = paired(SHAPES[shape])
    state = random_state(bilm, len(SENTENCES))
    layers, final = forward(make_engine("fast", bilm, CPU, precision), SENTENCES, state)
    expected, expected_final = forward(make_engine("plain", bilm, CPU), SENTENCES, state)
    assert final is not None
    assert expected_final is not None
    # Without bfloat16 instructions oneDNN rounds in other places; short vectors show it most.
    has_instructions = precision == "int8" or has_fast_bf16(CPU)
    slack = 1e-4 if has_instructions else 1e-3
    for array, plain in zip(layers, expected, strict=True):
        bound = MAX_ERROR[precision] * np.linalg.norm(plain, axis=-1) + slack
        np.testing.assert_array_less(np.linalg.norm(array - plain, axis=-1), bound)
    error = (final.c - expected_final.c).norm() / expected_final.c.norm()
    assert float(error) < MAX_ERROR[precision]
    assert any((a != b).any() for a, b in zip(layers, expected, strict=True))
