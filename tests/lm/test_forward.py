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
from elmo_cli.model.bilm import BiLM, State

TOKENS = ["a", "cat", "naïve", "x" * 30, "y" * 46, "z" * 60, "我爱你", "<S>", "don't", "."]
PairedModels = Callable[..., tuple[BiLM, Any]]  # a model, and the oracle with its weights


def model(paired: PairedModels, shape: str) -> BiLM:
    return paired(SHAPES[shape])[0].double().requires_grad_()


def some_state(bilm: BiLM, n_rows: int) -> State:
    zeros = State.zeros(bilm.options, n_rows, dtype=torch.float64)
    return State(torch.randn_like(zeros.h) / 2, torch.randn_like(zeros.c) / 2)


def model_forward(bilm: BiLM, vectors: Tensor, state: State) -> tuple[Tensor, State]:
    """`forward` without dropout, through the classes of `model/`."""
    n_tokens, _, n_streams, _ = vectors.shape
    lengths = torch.full((n_streams,), n_tokens)
    tops = []
    hs = []
    cs = []
    for d, lm in enumerate((bilm.forward_lm, bilm.backward_lm)):
        outputs, h, c = lm(vectors[:, d].transpose(0, 1), lengths, state.h[:, d], state.c[:, d])
        tops.append(outputs[-1].transpose(0, 1))
        hs.append(h)
        cs.append(c)
    return torch.stack(tops, 1), State(torch.stack(hs, 1), torch.stack(cs, 1))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("seed")
def test_values_and_gradients_equal_the_model(shape: str, paired: PairedModels) -> None:
    """What is trained must be what is embedded with: clips, residual and state as in `model/`.

    The backward pass is written by hand; a wrong clip mask or gate would train badly, unseen.
    """
    bilm = model(paired, shape)
    size = (6, 2, 3, bilm.options.projection_dim)
    vectors = (torch.randn(size, dtype=torch.float64) * 2).requires_grad_()
    state = some_state(bilm, 3)
    weights = torch.randn(size, dtype=torch.float64)
    top, state_after = forward(bilm, vectors, state)
    expected_top, expected_state = model_forward(bilm, vectors, state)
    torch.testing.assert_close(top, expected_top, atol=1e-12, rtol=0)
    torch.testing.assert_close(state_after.h, expected_state.h, atol=1e-12, rtol=0)
    torch.testing.assert_close(state_after.c, expected_state.c, atol=1e-12, rtol=0)
    assert not state_after.h.requires_grad  # else memory would grow
    assert not state_after.c.requires_grad
    inputs = [vectors, *bilm.forward_lm.parameters(), *bilm.backward_lm.parameters()]
    gradients = torch.autograd.grad((top * weights).sum(), inputs)
    expected_gradients = torch.autograd.grad((expected_top * weights).sum(), inputs)
    torch.testing.assert_close(gradients, expected_gradients, atol=1e-10, rtol=1e-9)


def test_vectors_of_types_and_tokens(odd_bilm: BiLM) -> None:
    """Padding takes part in the maximum: cutting it off must not change a vector."""
    corpus = Corpus.read([TOKENS, TOKENS[::-1]])
    cnn = odd_bilm.char_cnn
    characters = corpus.characters
    numbers = corpus.tokens[:20].reshape(5, 2, 2)
    with torch.no_grad():
        expected = cnn(torch.from_numpy(characters.astype(np.int64)))
        together = type_vectors(cnn, characters)
        alone = [type_vectors(cnn, characters[k : k + 1]) for k in range(len(corpus.types))]
        of_tokens = token_vectors(cnn, characters, numbers)
    torch.testing.assert_close(together, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.cat(alone), expected, atol=1e-5, rtol=0)
    expected_of_tokens = expected[torch.from_numpy(numbers.astype(np.int64))]
    torch.testing.assert_close(of_tokens, expected_of_tokens, atol=1e-5, rtol=0)


class _Doubling(Dropout):
    """Doubles instead of dropping, so that each use shows in the result."""

    def __call__(self, x: Tensor) -> Tensor:
        return x * 2


def test_dropout_is_applied_to_each_layers_input_and_the_top_output(tiny_bilm: BiLM) -> None:
    """As in the originals; the residual connection adds the input after dropout."""
    bilm = tiny_bilm.double()
    vectors = torch.randn(4, 2, 3, bilm.options.projection_dim, dtype=torch.float64)
    state = State.zeros(bilm.options, 3, dtype=torch.float64)
    top, _ = forward(bilm, vectors, state, _Doubling(0.5, torch.Generator()))
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


def test_filters_of_many_types_are_computed_in_groups(tiny_bilm: BiLM) -> None:
    """Filter outputs are several times as wide as vectors: those of a whole text would not fit."""
    cnn = tiny_bilm.char_cnn
    characters = Corpus.read([[f"word{n}" for n in range(600)]]).characters
    expected = type_vectors(cnn, characters)
    group_sizes: list[int] = []

    def note_size(_: torch.nn.Module, inputs: object, outputs: Tensor) -> None:
        group_sizes.append(len(outputs))

    hook = cnn.highways[0].register_forward_hook(note_size)
    with torch.inference_mode():
        vectors = type_vectors(cnn, characters)
    hook.remove()
    assert max(group_sizes) <= 384
    assert sum(group_sizes) == len(characters) == len(vectors)
    torch.testing.assert_close(vectors, expected, rtol=0, atol=1e-6)
