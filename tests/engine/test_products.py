"""Products in few bits: what they round, and that nothing else decides about a row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from make_weights import SHAPES
from test_engines import CPU, SENTENCES, Paired, random_state, run

from elmo_cli.engine import products
from elmo_cli.engine.choose import choose_engine
from elmo_cli.engine.products import PRECISIONS, product
from elmo_cli.errors import DeviceError, UsageError

# Of the norm of a vector, on these small models with random states: about twice what was found.
MOST = {"bf16": 0.02, "int8": 0.08}


def matrices(n_rows: int = 37, n_in: int = 24, n_out: int = 40) -> tuple[torch.Tensor, ...]:
    random = torch.Generator().manual_seed(3)
    shapes = ((n_rows, n_in), (n_in, n_out), (n_out,), (n_rows, n_out))
    return tuple(torch.randn(shape, generator=random) for shape in shapes)


def test_int8_is_a_sum_of_whole_numbers() -> None:
    """Without it the rounding would be something else than the page says: 7 and 8 bits."""
    x, weight, bias, base = (matrix.numpy().astype(np.float64) for matrix in matrices())
    of_row = np.abs(x).max(1, keepdims=True) / 63
    of_column = np.abs(weight).max(0) / 127
    whole = np.rint(x / of_row) @ np.rint(weight / of_column) * of_row * of_column
    tensors = matrices()
    chosen, out = product(tensors[1], tensors[2], "int8"), torch.empty(37, 40)
    chosen.into(tensors[0], out)
    np.testing.assert_allclose(out, whole + bias, rtol=0, atol=2e-5)
    chosen.added(tensors[0], tensors[3], out)
    np.testing.assert_allclose(out, whole + base, rtol=0, atol=2e-5)


def test_int8_has_twice_the_levels_where_nothing_is_negative() -> None:
    """Without it the highways' rows would be rounded to 6 bits, for half of the levels is never
    met behind a relu."""
    x, weight, bias, base = matrices()
    x = x.abs()
    of_row, of_column = x.amax(1, keepdim=True) / 127, weight.abs().amax(0) / 127
    whole = (x / of_row).round() @ (weight / of_column).round() * of_row * of_column
    chosen, out = product(weight, bias, "int8", is_positive=True), torch.empty(37, 40)
    chosen.into(x, out)
    torch.testing.assert_close(out, whole + bias, rtol=0, atol=2e-5)
    chosen.added(x, base, out)
    torch.testing.assert_close(out, whole + base, rtol=0, atol=2e-5)


def test_bf16_rounds_rows_weight_and_product() -> None:
    """Without it a sum would be rounded where only its terms are to be."""
    x, weight, bias, base = matrices()
    rounded = (x.bfloat16().double() @ weight.bfloat16().double()).numpy()
    chosen, out = product(weight, bias, "bf16"), torch.empty(37, 40)
    chosen.into(x, out)
    np.testing.assert_allclose(out - bias, rounded, rtol=2**-8, atol=1e-4)
    chosen.added(x, base, out)
    np.testing.assert_allclose(out - base, rounded, rtol=2**-8, atol=1e-4)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e4])
def test_a_product_may_be_of_any_size(precision: str, scale: float) -> None:
    """Without it a row of zeros would be divided by its greatest value."""
    x, weight, _, _ = matrices()
    x[3] *= scale
    out = torch.empty(37, 40)
    product(weight, None, precision).into(x, out)
    expected = (x[3].double() @ weight.double()).numpy()
    np.testing.assert_allclose(out[3], expected, rtol=0, atol=0.06 * 24**0.5 * scale)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.usefixtures("seed")
def test_vectors_stay_near_those_of_float32(precision: str, shape: str, paired: Paired) -> None:
    """Without it some shape of model, or a state, would go through other weights."""
    bilm, _ = paired(SHAPES[shape])
    state = random_state(bilm, len(SENTENCES))
    layers, left = run(choose_engine("fast", bilm, CPU, precision), SENTENCES, state)
    expected, expected_left = run(choose_engine("plain", bilm, CPU), SENTENCES, state)
    for found, plain in zip(layers, expected, strict=True):
        np.testing.assert_array_less(
            np.linalg.norm(found - plain, axis=-1),
            MOST[precision] * np.linalg.norm(plain, axis=-1) + 1e-4,
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


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_wide_products_go_through_in_parts(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a part of the columns could be left out, or meet the bias of another."""
    x, weight, bias, base = matrices()
    whole, parts = torch.empty(37, 40), torch.empty(37, 40)
    for begun in (None, base):
        for out, at_once in ((whole, 4096), (parts, 16)):  # 16, 16 and 8 columns
            monkeypatch.setattr(products, "_AT_ONCE", at_once)
            chosen = product(weight, bias, precision)
            if begun is None:
                chosen.into(x, out)
            else:
                chosen.added(x, begun, out)
        torch.testing.assert_close(parts, whole, rtol=2**-8, atol=1e-4)


def test_in_int8_other_rows_decide_nothing() -> None:
    """Whole numbers have no order of summing: a row alone is that of any batch, bit for bit."""
    x, weight, bias, _ = matrices()
    chosen, together, alone = product(weight, bias, "int8"), torch.empty(37, 40), torch.empty(1, 40)
    chosen.into(x, together)
    for row in (0, 17, 36):
        chosen.into(x[row : row + 1], alone)
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
