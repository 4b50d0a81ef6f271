"""CharCNN and Highway against the oracle, in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from make_weights import SHAPES
from oracle import Oracle, spelled
from tolerance import ATOL

from elmo_cli.model.bilm import BiLM
from elmo_cli.text.characters import CharacterIds

Paired = Callable[..., tuple[BiLM, Oracle]]

TOKENS = [
    "the",
    "<S>",
    "</S>",
    "<UNK>",
    "",
    "a" * 48,
    "a" * 49,
    "ü" * 24 + "x",
    "x" + "ü" * 24,  # cut in the middle of a character
    "\U0001f600",
    "lone\ud800surrogate",
    "\u200b",
]


@pytest.mark.parametrize("token", TOKENS)
def test_character_ids_are_those_of_the_oracle(token: str) -> None:
    """Without it a token would be spelled otherwise than when the model was trained."""
    assert CharacterIds().tokens([token]).tolist() == [spelled(token)]


@pytest.mark.parametrize("shape", SHAPES)
def test_vectors_are_those_of_the_oracle(shape: str, paired: Paired) -> None:
    """Without it relu, tanh, highways or the projection could be left out or swapped unseen."""
    bilm, oracle = paired(SHAPES[shape])
    ids = torch.from_numpy(CharacterIds().tokens(TOKENS))
    vectors = bilm.double().char_cnn(ids).numpy()
    expected = np.stack([oracle.vector(token) for token in TOKENS])
    assert vectors.shape == (len(TOKENS), SHAPES[shape]["lstm"]["projection_dim"])
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=ATOL["plain", "float64"])


def test_bytes_after_the_48th_count_for_nothing(tiny_bilm: BiLM) -> None:
    """Without it two long tokens would differ here that are one token to the originals."""
    ids = torch.from_numpy(CharacterIds().tokens(["b" * 48, "b" * 48 + "c", "b" * 47 + "c"]))
    whole, longer, other = tiny_bilm.char_cnn(ids)
    assert torch.equal(whole, longer)
    assert not torch.equal(whole, other)


def test_padding_takes_part_in_the_maximum(paired: Paired) -> None:
    """Without it places past the end of a word would be masked, which the originals do not do."""
    bilm, _ = paired(SHAPES["tiny"])
    ids = torch.from_numpy(CharacterIds().tokens(["a"]))
    before = bilm.char_cnn(ids)
    bilm.char_cnn.embedding.weight[260] += 5.0
    assert (bilm.char_cnn(ids) - before).abs().max() > 0.1
