"""Engines with a token encoder of Unicode characters: they compute what the model computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_calls import CPU, close
from unicode_models import UNICODE_SHAPES, unicode_bilm

from elmo_cli.embed.embedder import Embedder
from elmo_cli.engine.char_cnn import FastCharCNN, TypeCache
from elmo_cli.model.bilm import BiLM
from elmo_cli.text.unicode_characters import UnicodeCharacterIds

SENTENCES = [
    ["the", "cat", "和", ".", "Việt Nam"],
    [],
    ["<bos>", "<eos>", "<pad>", "\u3000", "ж" * 60],
    ["a" * n for n in range(1, 52)],
    ["the", "cat", "和"],
]


@pytest.fixture(params=UNICODE_SHAPES)
def bilm(request: pytest.FixtureRequest, seed: int) -> BiLM:
    return unicode_bilm(str(request.param))


def layers_of_the_model(bilm: BiLM, tokens: list[str]) -> np.ndarray:
    """All layers (layer, token, dim) in float64, without an engine."""
    ids = bilm.token_ids.tokens([bilm.token_ids.begin, *tokens, bilm.token_ids.end])
    layers, _ = bilm.double()(torch.from_numpy(ids)[None], torch.tensor([len(ids)]))
    bilm.float()
    return np.asarray(layers[:, 0, 1:-1])


def test_an_engine_computes_what_the_model_computes(bilm: BiLM, engine: str) -> None:
    expected = [layers_of_the_model(bilm, tokens) for tokens in SENTENCES]
    arrays, _ = Embedder(bilm, engine=engine, device="cpu").embed_batch(SENTENCES)
    for array, wanted in zip(arrays, expected, strict=True):
        close(array, wanted)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_low_precision_stays_near_float32(bilm: BiLM, precision: str) -> None:
    expected, _ = Embedder(bilm, device="cpu").embed_batch(SENTENCES)
    arrays, _ = Embedder(bilm, precision=precision, device="cpu").embed_batch(SENTENCES)
    for array, wanted in zip(arrays, expected, strict=True):
        error = np.linalg.norm(array - wanted, axis=-1)
        np.testing.assert_array_less(error, 0.1 * np.linalg.norm(wanted, axis=-1) + 1e-3)
        # Layer 0 has no low-precision product without highways.
        assert wanted.size == 0 or (array[1:] != wanted[1:]).any()


def test_same_bits_alone_and_among_others(bilm: BiLM) -> None:
    """As for bytes, in each bucket of lengths."""
    types = [f"{'cat' * (n % 20)}{'和' * (n % 3)}{n}" for n in range(150)]
    among = TypeCache(FastCharCNN(bilm.char_cnn), bilm.token_ids, CPU).vectors(types)
    for n in (0, 1, 5, 18, 19, 63, 64, 149):
        alone = TypeCache(FastCharCNN(bilm.char_cnn), bilm.token_ids, CPU)
        assert torch.equal(alone.vectors([types[n]])[0], among[n])


def test_a_character_may_have_the_id_of_padding(bilm: BiLM) -> None:
    """Then a token contains it before its end, where it is no padding."""
    characters = dict.fromkeys(bilm.token_ids.known_characters or (), 0)
    characters = {entry: number for number, entry in enumerate(characters)}
    characters["a"] = characters["<pad>"]
    words = None
    if bilm.options.word_dim:
        words = {entry: n for n, entry in enumerate(bilm.token_ids.known_words or ())}
    token_ids = UnicodeCharacterIds(characters, words, bilm.options.max_characters)
    types = ["a" * n + "b" * (n % 2) for n in range(30)]
    fast = TypeCache(FastCharCNN(bilm.char_cnn), token_ids, CPU).vectors(types)
    expected = bilm.char_cnn(torch.from_numpy(token_ids.tokens(types)))
    close(fast, expected, 1e-5)
