"""The forward pass of training: values and gradients equal those of `model/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from make_weights import SHAPES
from torch import Tensor

from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.forward import Dropout, forward, token_vectors, type_vectors
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.state import State

TOKENS = ["a", "cat", "naïve", "x" * 30, "y" * 46, "z" * 60, "我爱你", "<S>", "don't", "."]
Paired = Callable[..., tuple[BiLM, Any]]


def model(paired: Paired, shape: str) -> BiLM:
    return paired(SHAPES[shape])[0].double().requires_grad_()


def some_state(bilm: BiLM, n_rows: int) -> State:
    zeros = State.zeros(bilm.options, n_rows, dtype=torch.float64)
    return State(torch.randn_like(zeros.h) / 2, torch.randn_like(zeros.c) / 2)


def model_forward(bilm: BiLM, vectors: Tensor, state: State) -> tuple[Tensor, State]:
    """`forward` without dropout, through the classes of `model/`."""
    lengths = torch.full((vectors.shape[2],), vectors.shape[0])
    tops, hs, cs = [], [], []
    for d, lm in enumerate((bilm.forward_lm, bilm.backward_lm)):
        outputs, h, c = lm(vectors[:, d].transpose(0, 1), lengths, state.h[:, d], state.c[:, d])
        tops.append(outputs[-1].transpose(0, 1))
        hs.append(h)
        cs.append(c)
    return torch.stack(tops, 1), State(torch.stack(hs, 1), torch.stack(cs, 1))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("seed")
def test_outputs_and_state_equal_the_model(shape: str, paired: Paired) -> None:
    """What is trained must be what is embedded with: clips, residual and state as in `model/`."""
    bilm = model(paired, shape)
    vectors = torch.randn(6, 2, 3, bilm.options.projection_dim, dtype=torch.float64) * 2
    state = some_state(bilm, 3)
    top, left = forward(bilm, vectors, state)
    expected, expected_left = model_forward(bilm, vectors, state)
    torch.testing.assert_close(top, expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(left.h, expected_left.h, atol=1e-12, rtol=0)
    torch.testing.assert_close(left.c, expected_left.c, atol=1e-12, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("seed")
def test_gradients_equal_the_model(shape: str, paired: Paired) -> None:
    """The backward pass is written by hand; a wrong clip mask or gate would train badly, unseen."""
    bilm = model(paired, shape)
    vectors = torch.randn(6, 2, 3, bilm.options.projection_dim, dtype=torch.float64)
    vectors = (vectors * 2).requires_grad_()
    state = some_state(bilm, 3)
    weights = torch.randn(6, 2, 3, bilm.options.projection_dim, dtype=torch.float64)
    layers = [*bilm.forward_lm.parameters(), *bilm.backward_lm.parameters()]
    found = torch.autograd.grad(
        (forward(bilm, vectors, state)[0] * weights).sum(), [vectors, *layers]
    )
    expected = torch.autograd.grad(
        (model_forward(bilm, vectors, state)[0] * weights).sum(), [vectors, *layers]
    )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-9)


def test_no_gradient_flows_into_the_next_batch(tiny_bilm: BiLM) -> None:
    """Otherwise memory would grow with each batch."""
    vectors = torch.randn(3, 2, 2, tiny_bilm.options.projection_dim)
    _, left = forward(tiny_bilm, vectors, State.zeros(tiny_bilm.options, 2))
    assert not left.h.requires_grad
    assert not left.c.requires_grad


def test_vectors_of_types_do_not_depend_on_other_types(odd_bilm: BiLM) -> None:
    """Padding takes part in the maximum: cutting it off must not change a vector."""
    corpus = Corpus.read([TOKENS])
    with torch.no_grad():
        whole = odd_bilm.char_cnn(torch.from_numpy(corpus.characters.astype(np.int64)))
        cut = type_vectors(odd_bilm.char_cnn, corpus.characters)
        alone = [
            type_vectors(odd_bilm.char_cnn, corpus.characters[k : k + 1])
            for k in range(len(corpus.types))
        ]
    torch.testing.assert_close(cut, whole, atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.cat(alone), whole, atol=1e-5, rtol=0)


def test_tokens_have_the_vectors_of_their_types(tiny_bilm: BiLM) -> None:
    """Types are computed once; a wrong index would give a token another vector."""
    corpus = Corpus.read([TOKENS, TOKENS[::-1]])
    numbers = corpus.tokens[:20].reshape(5, 2, 2)
    with torch.no_grad():
        vectors = token_vectors(tiny_bilm.char_cnn, corpus.characters, numbers)
        table = type_vectors(tiny_bilm.char_cnn, corpus.characters)
    expected = table[torch.from_numpy(numbers.astype(np.int64))]
    torch.testing.assert_close(vectors, expected, atol=1e-6, rtol=0)


class _Doubling(Dropout):
    """Doubles instead of dropping, so that each use shows in the result."""

    def __init__(self) -> None:
        super().__init__(0.5, torch.Generator())
        self.shapes: list[torch.Size] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.shapes.append(x.shape)
        return x * 2


def test_dropout_is_applied_to_each_layers_input_and_the_top_output(tiny_bilm: BiLM) -> None:
    """As in the originals; the residual connection adds the input after dropout."""
    bilm = tiny_bilm.double()
    vectors = torch.randn(4, 2, 3, bilm.options.projection_dim, dtype=torch.float64)
    state = State.zeros(bilm.options, 3, dtype=torch.float64)
    doubling = _Doubling()
    top, _ = forward(bilm, vectors, state, doubling)
    assert len(doubling.shapes) == bilm.options.n_layers + 1
    lengths = torch.full((3,), 4)
    for d, lm in enumerate((bilm.forward_lm, bilm.backward_lm)):
        x = vectors[:, d].transpose(0, 1)
        for k, layer in enumerate(lm.layers):
            y, _, _ = layer(2 * x, lengths, state.h[k, d], state.c[k, d])
            x = y + 2 * x if k else y
        torch.testing.assert_close(top[:, d].transpose(0, 1), 2 * x, atol=1e-12, rtol=0)
    bilm.float()


def test_dropout_keeps_the_mean() -> None:
    """Without the scale, values would be smaller in training than in use."""
    x = torch.ones(200, 200)
    dropped = Dropout(0.1, torch.Generator().manual_seed(0))(x)
    assert abs((dropped == 0).float().mean().item() - 0.1) < 0.01
    assert abs(dropped.mean().item() - 1) < 0.01


@pytest.mark.usefixtures("seed")
def test_filters_of_many_types_are_computed_in_groups(
    paired: Paired, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filter outputs are several times as wide as vectors: those of a whole text would not fit."""
    bilm = model(paired, next(iter(SHAPES)))
    characters = Corpus.read([[f"word{n}" for n in range(600)]]).characters
    expected = type_vectors(bilm.char_cnn, characters)
    rows: list[int] = []
    from_filters = type(bilm.char_cnn).from_filters

    def counted(self: Any, maxima: Tensor) -> Tensor:
        rows.append(len(maxima))
        return from_filters(self, maxima)

    monkeypatch.setattr(type(bilm.char_cnn), "from_filters", counted)
    with torch.inference_mode():
        found = type_vectors(bilm.char_cnn, characters)
    assert max(rows) <= 384
    assert sum(rows) == len(characters) == len(found)
    torch.testing.assert_close(found, expected.detach(), rtol=0, atol=1e-12)
