"""States: the state from which a sentence starts, and what its vectors do not depend on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from unittest import mock

import numpy as np
import pytest
import torch
from make_weights import MODELS, weight_arrays
from oracle import Oracle
from tolerance import ATOL, ATOL_ORDER

from elmo_cli.arrays import FloatArray
from elmo_cli.embed.embedder import Embedder
from elmo_cli.model.bilm import BiLM, State
from elmo_cli.pretrained.warm_state import TEXT, state_after_text, warm_state, warm_state_id
from elmo_cli.text.sentence import Sentence

WORDS = ("the", "cat", "sat", "on", "Zoë")


def embedder_of(bilm: BiLM, state: str, **settings: object) -> Embedder:
    return Embedder(bilm, state=state, device="cpu", **settings)


def documents(*lengths: int) -> list[Sentence]:
    """Documents with these numbers of sentences; some of the sentences have no tokens."""
    numbers = random.Random(7)
    sentences: list[Sentence] = []
    for length in lengths:
        for place in range(length):
            tokens = tuple(numbers.choices(WORDS, k=numbers.randint(0, 6)))
            sentences.append(Sentence(tokens, len(sentences), starts_document=place == 0))
    return sentences


def same_bits(arrays: Sequence[FloatArray], expected: Sequence[FloatArray]) -> None:
    for array, expected_array in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(array, expected_array)


def close(arrays: Sequence[FloatArray], expected: Sequence[FloatArray]) -> None:
    for array, expected_array in zip(arrays, expected, strict=True):
        assert array.shape == expected_array.shape
        np.testing.assert_allclose(array, expected_array, rtol=0, atol=ATOL_ORDER)


@pytest.mark.parametrize("state", ["zero", "warm"])
def test_a_sentence_does_not_depend_on_the_others(
    state: str, engine: str, odd_bilm: BiLM, lines: list[list[str]]
) -> None:
    """Not on their order, their number or the batch size."""
    embedder = embedder_of(odd_bilm, state, engine=engine)
    batch = [tokens[: 2 + number % 8] for number, tokens in enumerate(lines[:16])]
    arrays, _ = embedder.embed_batch(batch)
    alone = [embedder.embed(tokens) for tokens in batch[:8]]
    close(alone, arrays[:8])
    backwards, _ = embedder.embed_batch(batch[::-1])
    close(backwards[::-1], arrays)
    twice, _ = embedder.embed_batch(batch + batch)
    close(twice, arrays + arrays)
    for batch_size in (1, 7):
        resized = embedder_of(odd_bilm, state, engine=engine, batch_size=batch_size)
        again, _ = resized.embed_batch(batch)
        close(again, arrays)


def test_documents_do_not_depend_on_the_batch_size(engine: str, odd_bilm: BiLM) -> None:
    sentences = documents(1, 4, 1, 7, 2)
    arrays, left = embedder_of(odd_bilm, "document", engine=engine).embed_block(sentences, None)
    for batch_size in (1, 2):
        embedder = embedder_of(odd_bilm, "document", engine=engine, batch_size=batch_size)
        with mock.patch.object(embedder.engine, "forward", wraps=embedder.engine.forward) as run:
            again, stopped = embedder.embed_block(sentences, None)
        close(again, arrays)
        assert max(len(call.args[0].rows) for call in run.call_args_list) == batch_size
        assert left is not None
        assert stopped is not None
        torch.testing.assert_close(stopped.h, left.h, rtol=0, atol=ATOL_ORDER)


@pytest.mark.parametrize("state", ["zero", "warm", "carry", "document"])
def test_a_block_has_the_same_bits_whatever_came_before(
    state: str, engine: str, odd_bilm: BiLM, lines: list[list[str]]
) -> None:
    block = [Sentence(tuple(tokens[:9]), key) for key, tokens in enumerate(lines[:16])]
    fresh, left = embedder_of(odd_bilm, state, engine=engine).embed_block(block, None)
    used = embedder_of(odd_bilm, state, engine=engine)
    used.embed_block(block[8:], None)
    used.embed(["other", "types"])
    again, left_again = used.embed_block(block, None)
    same_bits(again, fresh)
    assert (left is None) == (state in ("zero", "warm"))
    if left is not None and left_again is not None:
        assert torch.equal(left.h, left_again.h)
        assert torch.equal(left.c, left_again.c)


def test_warm_is_the_state_after_the_fixed_text(engine: str, tiny_bilm: BiLM) -> None:
    oracle = Oracle(MODELS["tiny"], weight_arrays(MODELS["tiny"], "tiny"))
    state = oracle.zeros()
    for line in TEXT:
        _, state = oracle.read(line.split(), state)
    warm = warm_state(tiny_bilm)
    np.testing.assert_allclose(warm.h[:, :, 0], state[0], atol=ATOL["plain", "float32"])
    np.testing.assert_allclose(warm.c[:, :, 0], state[1], atol=ATOL["plain", "float32"])
    array = embedder_of(tiny_bilm, "warm", engine=engine).embed(["the", "cat"])
    expected, _ = oracle.read(["the", "cat"], state)
    np.testing.assert_allclose(array, expected, rtol=0, atol=ATOL[engine, "float32"])


def test_a_stored_warm_state_is_used(tiny_bilm: BiLM, odd_bilm: BiLM) -> None:
    stored = BiLM(tiny_bilm.options).requires_grad_(False)
    stored.load_state_dict(tiny_bilm.state_dict())
    stored.warm_state = state_after_text(tiny_bilm, [["some", "other", "text"]])
    assert warm_state(stored) is stored.warm_state
    array = embedder_of(stored, "warm").embed(["a"])
    carried, _ = embedder_of(tiny_bilm, "carry").embed_batch([["a"]], stored.warm_state)
    np.testing.assert_allclose(array, carried[0], rtol=0, atol=ATOL_ORDER)
    with_computed_state = embedder_of(tiny_bilm, "warm").embed(["a"])
    assert np.abs(array - with_computed_state).max() > 1e-3


def test_the_id_of_a_computed_warm_state_does_not_depend_on_rounding(tiny_bilm: BiLM) -> None:
    state = warm_state(tiny_bilm)
    rounded = State(state.h * (1 + 2**-20), state.c)  # as another processor may compute it

    def name(sha256: str, state: State, stored: State | None = None) -> str:
        bilm = BiLM(tiny_bilm.options)
        bilm.sha256 = sha256
        bilm.warm_state = stored
        return warm_state_id(bilm, state)

    assert name("a", rounded) == name("a", state) != name("b", state)
    assert name("a", rounded, rounded) != name("a", state, state) != name("a", state)
    assert name("", rounded) != name("", state)  # of weights that nothing else names


def test_a_batch_of_one_empty_sentence_keeps_the_state(engine: str, tiny_bilm: BiLM) -> None:
    embedder = embedder_of(tiny_bilm, "carry", engine=engine)
    _, state = embedder.embed_batch([["the", "cat"], ["sat"]])
    assert state is not None
    arrays, after = embedder.embed_batch([[]], state)
    assert after is not None
    assert arrays[0].shape == (3, 0, 16)
    assert torch.equal(after.h, state.h)
    assert torch.equal(after.c, state.c)
    _, beside = embedder.embed_batch([[], ["on"]], state)
    assert beside is not None
    assert not torch.equal(beside.h[:, :, 0], state.h[:, :, 0])


def test_a_batch_without_sentences_keeps_the_state(tiny_bilm: BiLM) -> None:
    for state in ("zero", "warm", "document"):
        assert embedder_of(tiny_bilm, state).embed_batch([]) == ([], None)
    embedder = embedder_of(tiny_bilm, "carry")
    _, left = embedder.embed_batch([["a"]])
    assert embedder.embed_batch([], left) == ([], left)


def test_a_document_is_carried_one_sentence_at_a_time(engine: str, odd_bilm: BiLM) -> None:
    sentences = documents(4, 1, 7, 2)
    arrays, _ = embedder_of(odd_bilm, "document", engine=engine).embed_block(sentences, None)
    carry = embedder_of(odd_bilm, "carry", batch_size=1, engine=engine)
    expected: list[FloatArray] = []
    state = None
    for sentence in sentences:
        if sentence.starts_document:
            state = None
        [array], state = carry.embed_batch([sentence.tokens], state)
        expected.append(array)
    assert any(not sentence.tokens for sentence in sentences)
    close(arrays, expected)


def test_documents_are_independent(odd_bilm: BiLM) -> None:
    sentences = documents(5, 3, 6)
    embedder = embedder_of(odd_bilm, "document")
    arrays, _ = embedder.embed_block(sentences, None)
    alone, _ = embedder.embed_block(sentences[5:8], None)
    close(alone, arrays[5:8])
    other, _ = embedder.embed_block(sentences[8:] + sentences[:5], None)
    close(other, arrays[8:] + arrays[:5])


@pytest.mark.parametrize("border", [1, 4, 5, 6, 7, 13])
def test_a_document_continues_in_the_next_block(border: int, odd_bilm: BiLM) -> None:
    sentences = documents(5, 9)
    embedder = embedder_of(odd_bilm, "document")
    arrays, _ = embedder.embed_block(sentences, None)
    first, state = embedder.embed_block(sentences[:border], None)
    second, _ = embedder.embed_block(sentences[border:], state)
    close(first + second, arrays)


@pytest.mark.parametrize("size", [1, 2, 6])
def test_carry_continues_in_the_next_block(
    size: int, tiny_bilm: BiLM, lines: list[list[str]]
) -> None:
    block = [Sentence(tuple(tokens), key) for key, tokens in enumerate(lines[:18])]
    embedder = embedder_of(tiny_bilm, "carry", batch_size=size)
    arrays, _ = embedder.embed_block(block, None)
    first, state = embedder.embed_block(block[:6], None)
    assert state is not None
    state = State.from_bytes(state.to_bytes(), tiny_bilm.options)
    second, _ = embedder.embed_block(block[6:], state)
    same_bits(first + second, arrays)
