"""BiLM against the oracle, for every shape that an options.json may name."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from make_weights import SHAPES
from oracle import Oracle
from tolerance import ATOL
from torch import Tensor

from elmo_cli.model.bilm import BiLM, reverse_rows
from elmo_cli.model.state import State
from elmo_cli.text.characters import CharacterIds

Paired = Callable[..., tuple[BiLM, Oracle]]

SENTENCES = ["the cat sat on the mat .", "", "Zoë", "a b c"]


def ids_of(sentences: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Character ids (batch, token, char) with the borders, padded with some token, and lengths."""
    rows = [["<S>", *sentence.split(), "</S>"] for sentence in sentences]
    longest = max(map(len, rows))
    padded = [row + ["padding"] * (longest - len(row)) for row in rows]
    ids = np.stack([CharacterIds().tokens(row) for row in padded])
    return torch.from_numpy(ids), torch.tensor([len(row) for row in rows])


def random_state(bilm: BiLM, batch: int) -> State:
    zeros = State.zeros(bilm.options, batch, dtype=torch.float64)
    return State(torch.randn_like(zeros.h), torch.randn_like(zeros.c))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("seed")
def test_layers_and_state_are_those_of_the_oracle(shape: str, paired: Paired) -> None:
    """Without it some shape (no projection, no highway, one layer, …) would compute otherwise."""
    bilm, oracle = paired(SHAPES[shape])
    bilm.double()
    ids, lengths = ids_of(SENTENCES)
    state = random_state(bilm, len(SENTENCES))
    layers, left = bilm(ids, lengths, state)
    assert layers.shape == (1 + bilm.options.n_layers, 4, 9, bilm.options.dim)
    for r, sentence in enumerate(SENTENCES):
        start = (state.h[:, :, r].numpy(), state.c[:, :, r].numpy())
        expected, (h, c) = oracle.read(sentence.split(), start)
        close(layers[:, r, 1 : int(lengths[r]) - 1], expected)
        close(left.h[:, :, r], h)
        close(left.c[:, :, r], c)


def test_without_a_state_it_starts_from_zeros(tiny_bilm: BiLM) -> None:
    """Without it the first sentence of a run would start from something else."""
    ids, lengths = ids_of(SENTENCES)
    layers, left = tiny_bilm(ids, lengths)
    expected, expected_left = tiny_bilm(ids, lengths, State.zeros(tiny_bilm.options, 4))
    assert torch.equal(layers, expected)
    assert torch.equal(left.h, expected_left.h)
    assert torch.equal(left.c, expected_left.c)


def test_layer_0_is_the_token_vector_twice(odd_bilm: BiLM) -> None:
    """Without it layer 0 could not be stored beside the others."""
    ids, lengths = ids_of(SENTENCES)
    layers, _ = odd_bilm(ids, lengths)
    vectors = odd_bilm.token_vectors(ids)
    assert torch.equal(layers[0], torch.cat([vectors, vectors], 2))


@pytest.mark.usefixtures("seed")
def test_residual_is_added_from_the_second_layer_on(paired: Paired) -> None:
    """Without it the token vectors would be added to the first layer, or the state take it up."""
    with_link, _ = paired(SHAPES["tiny"])
    without = copy.deepcopy(SHAPES["tiny"])
    without["lstm"]["use_skip_connections"] = False
    bare, _ = paired(without)
    ids, lengths = ids_of(SENTENCES[:1])
    linked_layers, linked_left = with_link.double()(ids, lengths)
    layers, left = bare.double()(ids, lengths)
    assert torch.equal(linked_layers[:2], layers[:2])
    close(linked_layers[2] - layers[2], layers[1].numpy())
    assert torch.equal(linked_left.h, left.h)
    assert torch.equal(linked_left.c, left.c)


def test_directions_never_mix(tiny_bilm: BiLM) -> None:
    """Without it the forward half could see tokens that come later."""
    ids, lengths = ids_of(["the cat sat on mats", "the cat sat in mats"])
    layers, _ = tiny_bilm(ids, lengths)
    a, b = layers[:, 0], layers[:, 1]
    ahead, back = slice(0, 8), slice(8, 16)
    differs = (a - b)[1:].abs() > 1e-5  # (layer, token, dim); "on" and "in" are token 4
    assert not differs[:, :4, ahead].any()
    assert differs[:, 4, ahead].any()
    assert not differs[:, 5:, back].any()
    assert differs[:, 4, back].any()


def test_reverse_rows_turns_each_row_within_its_length() -> None:
    """Without it the backward direction would begin in the padding."""
    x = torch.arange(12).reshape(3, 4, 1)
    turned = reverse_rows(x, torch.tensor([4, 2, 0])).squeeze(2)
    assert turned.tolist() == [[3, 2, 1, 0], [5, 4, 6, 7], [8, 9, 10, 11]]


def test_training_reaches_every_parameter(paired: Paired) -> None:
    """Without it a part of the model would stay as it was while the rest learns."""
    bilm, _ = paired(SHAPES["no highway"])
    bilm.requires_grad_(True)
    ids, lengths = ids_of(SENTENCES)
    layers, _ = bilm(ids, lengths)
    layers[-1].square().sum().backward()
    assert [name for name, p in bilm.named_parameters() if p.grad is None] == []


def close(found: Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=ATOL["plain", "float64"])
