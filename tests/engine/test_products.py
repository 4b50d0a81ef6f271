"""Products in few bits: what they round, and that nothing else decides about a row."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from make_weights import SHAPES
from test_engines import CPU, SENTENCES, Paired, random_state, run

from elmo_cli.engine import products
from elmo_cli.engine.choose import choose_engine
from elmo_cli.engine.packed import height, heightened
from elmo_cli.engine.products import PRECISIONS, Product, product
from elmo_cli.errors import DeviceError, UsageError

# Of the norm of a vector, on these small models with random states: about twice what was found.
MOST = {"bf16": 0.02, "int8": 0.08}


def matrices(n_rows: int = 37, n_in: int = 24, n_out: int = 40) -> tuple[torch.Tensor, ...]:
    """Rows, a weight, its bias, and what a product may be added to."""
    random = torch.Generator().manual_seed(3)
    shapes = ((n_rows, n_in), (n_out, n_in), (n_out,), (n_rows, n_out))
    return tuple(torch.randn(shape, generator=random) for shape in shapes)


@pytest.fixture(params=["packed", "torch's own"])
def packing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products by oneDNN, and where it is not to be had."""
    if request.param != "packed":
        monkeypatch.setattr(products, "packs", lambda weight: False)


def all_ways(chosen: Product, x: torch.Tensor, base: torch.Tensor) -> list[torch.Tensor]:
    """What a product of one weight makes: of rows, added to a base, and its sigmoid."""
    return [*chosen.of(x), *chosen.plus(x, [taken(chosen, base)]), *chosen.sigmoid(x)]


def taken(chosen: Product, base: torch.Tensor) -> torch.Tensor:
    """A copy of a base in the type in which a product makes and takes bases."""
    (like, *_) = chosen.bases(torch.ones(1, 24))
    return base.clone().to(like.dtype)


@pytest.mark.parametrize("n_rows", [1, 37, 600])
@pytest.mark.usefixtures("packing")
def test_float32_is_the_product(n_rows: int) -> None:
    """Without it one of the ways to compute it could go through another weight, bias or base."""
    x, weight, bias, base = matrices(n_rows)
    exact = x.double() @ weight.double().T
    expected = (exact + bias, exact + base, (exact + bias).sigmoid())
    found = all_ways(product([weight], [bias], "float32"), x, base)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other.float(), rtol=1e-5, atol=2e-5)
    (bare,) = product([weight], None, "float32").of(x)
    torch.testing.assert_close(bare, exact.float(), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.usefixtures("packing")
def test_several_weights_are_as_each_alone(precision: str) -> None:
    """Without it a gate could meet the bias of another, or the base."""
    x, *_ = matrices()
    weights, biases, bases = zip(
        *(tuple(m * (k + 1) for m in matrices()[1:]) for k in range(3)), strict=True
    )
    together = product(weights, biases, precision)
    made = (
        together.of(x),
        together.plus(x, [taken(together, b) for b in bases]),
        together.sigmoid(x),
    )
    for k, (weight, bias, base) in enumerate(zip(weights, biases, bases, strict=True)):
        alone = all_ways(product([weight], [bias], precision), x, base)
        for one, other in zip((results[k] for results in made), alone, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-5)


def test_heights_are_few_and_hardly_higher() -> None:
    """Without it each number of rows would leave a program of a megabyte, or rows be wasted."""
    heights = [height(n) for n in range(1, 4097)]
    for n, found in enumerate(heights, 1):
        assert n <= found == height(found)
        assert found <= n + max(7, n // 16)
    assert heights[0] == 1
    assert len(set(heights[:512])) < 55
    assert heightened(torch.ones(17, 3)).sum(1).tolist() == [3.0] * 17 + [0.0] * 7


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.usefixtures("packing")
def test_a_product_can_go_to_another_process(precision: str) -> None:
    """Without it an embedder could not be handed to a worker, or copied."""
    x, weight, bias, base = matrices()
    chosen = product([weight], [bias], precision)
    for other in (pickle.loads(pickle.dumps(chosen)), copy.deepcopy(chosen)):
        for one, two in zip(all_ways(chosen, x, base), all_ways(other, x, base), strict=True):
            assert torch.equal(one, two)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.usefixtures("packing")
def test_weights_and_biases_stay_as_they_are(precision: str) -> None:
    """Without it what is computed in place could be the model's own."""
    x, weight, bias, base = matrices()
    chosen = product([weight, weight], [bias, bias], precision)
    for _ in range(2):
        for made in (*chosen.of(x), *chosen.plus(x, [taken(chosen, base), taken(chosen, base)])):
            made.fill_(9)
        chosen.sigmoid(x)
    for one, other in zip((x, weight, bias, base), matrices(), strict=True):
        assert torch.equal(one, other)
    (first, second), (again, _) = (
        chosen.of(x),
        product([weight, weight], [bias] * 2, precision).of(x),
    )
    assert torch.equal(first, second)
    assert torch.equal(first, again)


def test_int8_is_a_sum_of_whole_numbers() -> None:
    """Without it the rounding would be something else than the page says: 7 and 8 bits."""
    x, weight, bias, base = (matrix.numpy().astype(np.float64) for matrix in matrices())
    of_row = np.abs(x).max(1, keepdims=True) / 63
    of_weight = np.abs(weight).max(1) / 127
    whole = np.rint(x / of_row) @ np.rint(weight.T / of_weight) * of_row * of_weight
    tensors = matrices()
    found = all_ways(product([tensors[1]], [tensors[2]], "int8"), tensors[0], tensors[3])
    expected = (whole + bias, whole + base, 1 / (1 + np.exp(-whole - bias)))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-5)


def test_int8_has_twice_the_levels_where_nothing_is_negative() -> None:
    """Without it the highways' rows would be rounded to 6 bits, for half of the levels is never
    met behind a relu."""
    x, weight, bias, base = matrices()
    x = x.abs()
    of_row, of_weight = x.amax(1, keepdim=True) / 127, weight.abs().amax(1) / 127
    whole = (x / of_row).round() @ (weight.T / of_weight).round() * of_row * of_weight
    found = all_ways(product([weight], [bias], "int8", is_positive=True), x, base)
    expected = (whole + bias, whole + base, (whole + bias).sigmoid())
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-5)


@pytest.mark.usefixtures("packing")
def test_bf16_rounds_rows_weight_and_product() -> None:
    """Without it terms of the sum would be rounded, or its sigmoid."""
    x, weight, bias, base = matrices()
    bias, base = bias.bfloat16().float(), base.bfloat16().float()
    exact = x.bfloat16().double() @ weight.T.bfloat16().double()
    chosen = product([weight], [bias], "bf16")
    of, plus, sigmoid = all_ways(chosen, x, base)
    np.testing.assert_allclose(of, exact + bias, rtol=2**-8, atol=1e-4)
    np.testing.assert_allclose(plus, exact + base, rtol=2**-8, atol=1e-4)
    assert torch.equal(of, chosen.bases(x)[0].float())
    torch.testing.assert_close(sigmoid, of.sigmoid())


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e4])
@pytest.mark.usefixtures("packing")
def test_a_product_may_be_of_any_size(precision: str, scale: float) -> None:
    """Without it a row of zeros would be divided by its greatest value."""
    x, weight, _, _ = matrices()
    x[3] *= scale
    (found,) = product([weight], None, precision).of(x)
    expected = (x[3].double() @ weight.double().T).numpy()
    np.testing.assert_allclose(found[3], expected, rtol=0, atol=0.06 * 24**0.5 * scale)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.usefixtures("seed")
def test_vectors_stay_near_those_of_float32(precision: str, shape: str, paired: Paired) -> None:
    """Without it some shape of model, or a state, would go through other weights."""
    bilm, _ = paired(SHAPES[shape])
    state = random_state(bilm, len(SENTENCES))
    layers, left = run(choose_engine("fast", bilm, CPU, precision), SENTENCES, state)
    expected, expected_left = run(choose_engine("plain", bilm, CPU), SENTENCES, state)
    # Without bfloat16 instructions oneDNN rounds in other places; short vectors show it most.
    has_instructions = precision == "int8" or torch.cpu._is_avx512_bf16_supported()
    slack = 1e-4 if has_instructions else 1e-3
    for found, plain in zip(layers, expected, strict=True):
        np.testing.assert_array_less(
            np.linalg.norm(found - plain, axis=-1),
            MOST[precision] * np.linalg.norm(plain, axis=-1) + slack,
        )
    assert float((left.c - expected_left.c).norm() / expected_left.c.norm()) < MOST[precision]
    assert any((a != b).any() for a, b in zip(layers, expected, strict=True))


@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.usefixtures("seed")
def test_layer_0_is_that_of_the_types(precision: str, paired: Paired) -> None:
    """Without it a token's own vector would depend on its sentence."""
    bilm, _ = paired(SHAPES["odd"])
    engine = choose_engine("fast", bilm, CPU, precision)
    layers, _ = run(engine, SENTENCES)
    for sentence, found in zip(SENTENCES, layers, strict=True):
        half = engine.token_vectors(sentence.split()).numpy()
        np.testing.assert_allclose(found[0], np.concatenate([half, half], 1), rtol=0, atol=1e-6)


def test_in_int8_other_rows_decide_nothing() -> None:
    """Whole numbers have no order of summing: a row alone is that of any batch, bit for bit."""
    x, weight, bias, _ = matrices()
    chosen = product([weight], [bias], "int8")
    (together,) = chosen.of(x)
    for row in (0, 17, 36):
        (alone,) = chosen.of(x[row : row + 1])
        assert torch.equal(alone[0], together[row])


def test_what_is_not_to_be_had_is_told(paired: Paired) -> None:
    """Without it `--precision` would be passed over in silence."""
    bilm, _ = paired(SHAPES["tiny"])
    with pytest.raises(UsageError, match="--precision int4: not float32, bf16, int8"):
        choose_engine("fast", bilm, CPU, "int4")
    with pytest.raises(UsageError, match="--precision bf16: the plain engine computes in float32"):
        choose_engine("plain", bilm, CPU, "bf16")
    with pytest.raises(DeviceError, match="--precision int8: for processors, not for cuda"):
        choose_engine("fast", bilm, torch.device("cuda"), "int8")
