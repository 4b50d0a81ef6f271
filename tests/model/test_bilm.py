"""BiLM against the oracle, for every shape that an options.json may name; and its softmax."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from make_weights import SHAPES
from model_pairs import MakePair
from tolerance import ATOL
from torch import Tensor

from elmo_cli.model.bilm import BiLM, NextTokenSoftmax, State
from elmo_cli.text.characters import CharacterIds

# Tokens that are spelled as sentence boundaries, that are truncated, within a character too, and
# that UTF-8 cannot represent.
SPELLINGS = ["<S>", "</S>", "<UNK>", "", "a" * 48, "a" * 49, "ü" * 24 + "x", "x" + "ü" * 24]
SENTENCES = [
    ["the", "cat", "sat", "on", "the", "mat", "."],
    [],
    ["Zoë"],
    [*SPELLINGS, "\U0001f600", "lone\ud800surrogate", "\u200b"],
]


def ids_of(sentences: list[list[str]]) -> tuple[Tensor, Tensor]:
    """Character ids (batch, token, char) with boundaries, padded with some token, and lengths."""
    rows = [["<S>", *sentence, "</S>"] for sentence in sentences]
    longest = max(map(len, rows))
    padded = [row + ["padding"] * (longest - len(row)) for row in rows]
    ids = np.stack([CharacterIds().tokens(row) for row in padded])
    return torch.from_numpy(ids), torch.tensor([len(row) for row in rows])


def close(found: Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=ATOL["plain", "float64"])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("seed")
def test_layers_and_state_equal_the_oracle(shape: str, paired: MakePair) -> None:
    """Gates, clips, projections, highways, residual and padding, from a state that is not zero."""
    bilm, oracle = paired(SHAPES[shape])
    zeros = State.zeros(bilm.options, len(SENTENCES), dtype=torch.float64)
    state = State(torch.randn_like(zeros.h), torch.randn_like(zeros.c))
    ids, lengths = ids_of(SENTENCES)
    layers, final = bilm.double()(ids, lengths, state)
    for r, sentence in enumerate(SENTENCES):
        start = (state.h[:, :, r].numpy(), state.c[:, :, r].numpy())
        expected, (h, c) = oracle.read(sentence, start)
        close(layers[:, r, 1 : len(sentence) + 1], expected)
        close(final.h[:, :, r], h)
        close(final.c[:, :, r], c)
    if shape == "tight clips":  # otherwise they might not be reached
        assert final.c.abs().max() == pytest.approx(0.3)
        assert final.h.abs().max() == pytest.approx(0.2)
    if shape == "no W_P_0":  # nor would its clip of a projection that it lacks
        assert final.h.abs().max() > 0.3


def test_without_a_state_it_starts_from_zeros(tiny_bilm: BiLM) -> None:
    ids, lengths = ids_of(SENTENCES)
    layers, final = tiny_bilm(ids, lengths)
    expected, expected_final = tiny_bilm(ids, lengths, State.zeros(tiny_bilm.options, 4))
    assert torch.equal(layers, expected)
    assert torch.equal(final.h, expected_final.h)
    assert torch.equal(final.c, expected_final.c)


@pytest.mark.usefixtures("seed")
def test_log_likelihoods_are_those_of_the_formula() -> None:
    """Otherwise perplexities could be in another base, or over another axis."""
    softmax = NextTokenSoftmax(7, 3)
    torch.nn.init.normal_(softmax.bias)
    h = torch.randn(5, 3)
    targets = torch.tensor([0, 6, 3, 3, 1])
    scores = h.numpy() @ softmax.weight.detach().numpy().T + softmax.bias.detach().numpy()
    expected = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    probabilities = softmax(h, targets).detach().numpy()
    np.testing.assert_allclose(probabilities, expected[np.arange(5), targets], rtol=0, atol=1e-5)
