"""State policies: what a sentence starts from, and what it does not depend on."""

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

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.output import Array
from elmo_cli.embed.state_policy import state_bytes, state_from_bytes
from elmo_cli.errors import ResumeError, UsageError
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import Options
from elmo_cli.model.state import State
from elmo_cli.pretrained.warm_state import TEXT, state_after_text, warm_state, warm_state_id
from elmo_cli.text.sentence import Sentence

Tokens = Sequence[Sequence[str]]


def embedder_of(bilm: BiLM, state: str, **settings: object) -> Embedder:
    return Embedder(bilm, state=state, device="cpu", **settings)


def documents(*lengths: int, vocabulary: Sequence[str]) -> list[Sentence]:
    """Documents of so many sentences; some of the sentences have no tokens."""
    numbers, made = random.Random(7), []
    for length in lengths:
        for place in range(length):
            tokens = tuple(numbers.choices(vocabulary, k=numbers.randint(0, 6)))
            made.append(Sentence(tokens, len(made), starts_document=place == 0))
    return made


def same_bits(found: Sequence[Array], expected: Sequence[Array]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def close(found: Sequence[Array], expected: Sequence[Array]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=ATOL_ORDER)


@pytest.mark.parametrize("state", ["zero", "warm"])
def test_a_sentence_is_itself_in_any_order(
    state: str, engine: str, odd_bilm: BiLM, lines: list[list[str]]
) -> None:
    """Without it the same sentence would have other vectors beside other sentences."""
    embedder = embedder_of(odd_bilm, state, engine=engine)
    lines = lines[:24]
    arrays, _ = embedder.embed_batch(lines)
    close([embedder.embed(tokens) for tokens in lines], arrays)
    turned, _ = embedder.embed_batch(lines[::-1])
    close(turned[::-1], arrays)
    twice, _ = embedder.embed_batch(lines + lines)
    close(twice, arrays + arrays)


@pytest.mark.parametrize("state", ["zero", "warm"])
def test_a_sentence_is_itself_at_any_batch_size(
    state: str, tiny_bilm: BiLM, lines: list[list[str]]
) -> None:
    """Without it vectors would depend on a setting that is there for speed."""
    arrays, _ = embedder_of(tiny_bilm, state).embed_batch(lines)
    for batch_size in (1, 2, 7, 512):
        found, _ = embedder_of(tiny_bilm, state, batch_size=batch_size).embed_batch(lines)
        close(found, arrays)


def test_documents_are_themselves_at_any_batch_size(engine: str, odd_bilm: BiLM) -> None:
    """Without it a block of many documents would be one batch, whatever size is asked for."""
    given = documents(1, 4, 1, 7, 2, vocabulary=["the", "cat", "sat", "on", "Zoë"])
    arrays, left = embedder_of(odd_bilm, "document", engine=engine).embed_block(given, None)
    for batch_size in (1, 2):
        embedder = embedder_of(odd_bilm, "document", engine=engine, batch_size=batch_size)
        with mock.patch.object(embedder.engine, "forward", wraps=embedder.engine.forward) as run:
            found, stopped = embedder.embed_block(given, None)
        close(found, arrays)
        assert max(len(call.args[0].rows) for call in run.call_args_list) == batch_size
        assert left is not None
        assert stopped is not None
        torch.testing.assert_close(stopped.h, left.h, rtol=0, atol=ATOL_ORDER)


@pytest.mark.parametrize("state", ["zero", "warm", "carry", "document"])
def test_the_same_block_has_the_same_bits(
    state: str, engine: str, odd_bilm: BiLM, lines: list[list[str]]
) -> None:
    """Without it a resumed run, a shard and an undisturbed run would differ."""
    block = [Sentence(tuple(tokens), key) for key, tokens in enumerate(lines[:16])]
    fresh, left = embedder_of(odd_bilm, state, engine=engine).embed_block(block, None)
    used = embedder_of(odd_bilm, state, engine=engine)
    used.embed_block(block[8:], None)  # has met half of the types, and has worked before
    used.embed(["other", "types"])
    again, left_again = used.embed_block(block, None)
    same_bits(again, fresh)
    assert (left is None) == (state in ("zero", "warm"))
    if left is not None and left_again is not None:
        assert torch.equal(left.h, left_again.h)
        assert torch.equal(left.c, left_again.c)


def test_one_thread_or_two(engine: str, odd_bilm: BiLM, lines: list[list[str]]) -> None:
    """Without it vectors would depend on the machine's cores."""
    embedder = embedder_of(odd_bilm, "zero", engine=engine)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected, _ = embedder.embed_batch(lines[:8])
        torch.set_num_threads(2)
        found, _ = embedder_of(odd_bilm, "zero", engine=engine).embed_batch(lines[:8])
    finally:
        torch.set_num_threads(before)
    close(found, expected)


def test_warm_is_carried_from_the_fixed_text(engine: str, tiny_bilm: BiLM) -> None:
    """Without it "warm" could be some other state than the one that its text leaves."""
    oracle = Oracle(MODELS["tiny"], weight_arrays(MODELS["tiny"], "tiny"))
    state = oracle.zeros()
    for line in TEXT:
        _, state = oracle.read(line.split(), state)
    found = warm_state(tiny_bilm)
    np.testing.assert_allclose(found.h[:, :, 0], state[0], atol=ATOL["plain", "float32"])
    np.testing.assert_allclose(found.c[:, :, 0], state[1], atol=ATOL["plain", "float32"])
    array = embedder_of(tiny_bilm, "warm", engine=engine).embed(["the", "cat"])
    expected, _ = oracle.read(["the", "cat"], state)
    np.testing.assert_allclose(array, expected, rtol=0, atol=ATOL[engine, "float32"])


def test_warm_is_the_same_each_time(tiny_bilm: BiLM) -> None:
    """Without it two runs of one model would start from two states."""
    one, other = warm_state(tiny_bilm), warm_state(tiny_bilm)
    assert torch.equal(one.h, other.h)
    assert torch.equal(one.c, other.c)
    assert one.h.abs().max() > 0.1


def test_the_state_that_a_model_stores_goes_first(tiny_bilm: BiLM, odd_bilm: BiLM) -> None:
    """Without it the state that was chosen for a model would be left unused."""
    stored = BiLM(tiny_bilm.options).requires_grad_(False)
    stored.load_state_dict(tiny_bilm.state_dict())
    stored.warm_state = state_after_text(tiny_bilm, [["some", "other", "text"]])
    assert warm_state(stored) is stored.warm_state
    found = embedder_of(stored, "warm").embed(["a"])
    carried, _ = embedder_of(tiny_bilm, "carry").embed_batch([["a"]], stored.warm_state)
    np.testing.assert_allclose(found, carried[0], rtol=0, atol=ATOL_ORDER)
    assert np.abs(found - embedder_of(tiny_bilm, "warm").embed(["a"])).max() > 1e-3


def test_a_computed_warm_state_is_known_by_what_it_is_computed_from(tiny_bilm: BiLM) -> None:
    """Without it shards of machines that round otherwise can't be merged, nor a run go on there."""
    state = warm_state(tiny_bilm)
    rounded = State(state.h * (1 + 2**-20), state.c)  # as another processor may compute it

    def name(sha256: str, state: State, stored: State | None = None) -> str:
        bilm = BiLM(tiny_bilm.options)
        bilm.sha256, bilm.warm_state = sha256, stored
        return warm_state_id(bilm, state)

    assert name("a", rounded) == name("a", state) != name("b", state)
    assert name("a", rounded, rounded) != name("a", state, state) != name("a", state)
    assert name("", rounded) != name("", state)  # of weights that nothing else names


def test_a_batch_of_one_sentence_without_tokens_leaves_the_state_alone(
    engine: str, tiny_bilm: BiLM
) -> None:
    """Without it an empty line would move the state where AllenNLP leaves it."""
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


def test_a_batch_without_sentences_leaves_the_state_alone(tiny_bilm: BiLM) -> None:
    """Without it a stream of batches would break at an empty one."""
    for state in ("zero", "warm", "document"):
        assert embedder_of(tiny_bilm, state).embed_batch([]) == ([], None)
    embedder = embedder_of(tiny_bilm, "carry")
    _, left = embedder.embed_batch([["a"]])
    assert embedder.embed_batch([], left) == ([], left)


def test_a_document_is_carried_one_sentence_at_a_time(engine: str, odd_bilm: BiLM) -> None:
    """Without it sentences of a document would start from another one's state, or from zeros."""
    given = documents(4, 1, 7, 2, vocabulary=["the", "cat", "sat", "on", "Zoë"])
    arrays, _ = embedder_of(odd_bilm, "document", engine=engine).embed_block(given, None)
    carry = embedder_of(odd_bilm, "carry", batch_size=1, engine=engine)
    expected, state = [], None
    for sentence in given:
        if sentence.starts_document:
            state = None
        found, state = carry.embed_batch([sentence.tokens], state)
        expected += found
    assert any(not sentence.tokens for sentence in given)
    close(arrays, expected)


def test_documents_know_nothing_of_their_neighbours(odd_bilm: BiLM) -> None:
    """Without it a document's vectors would depend on its place in the corpus."""
    given = documents(5, 3, 6, vocabulary=["the", "cat", "sat", "on", "Zoë"])
    embedder = embedder_of(odd_bilm, "document")
    arrays, _ = embedder.embed_block(given, None)
    alone, _ = embedder.embed_block(given[5:8], None)
    close(alone, arrays[5:8])
    other, _ = embedder.embed_block(given[8:] + given[:5], None)
    close(other, arrays[8:] + arrays[:5])


@pytest.mark.parametrize("border", [1, 4, 5, 6, 7, 13])
def test_a_document_goes_on_in_the_next_block(border: int, odd_bilm: BiLM) -> None:
    """Without it a long document would start from zeros in the middle."""
    given = documents(5, 9, vocabulary=["the", "cat", "sat", "on", "Zoë"])
    embedder = embedder_of(odd_bilm, "document")
    arrays, _ = embedder.embed_block(given, None)
    first, state = embedder.embed_block(given[:border], None)
    second, _ = embedder.embed_block(given[border:], state)
    close(first + second, arrays)


@pytest.mark.parametrize("size", [1, 2, 6])
def test_carry_goes_on_in_the_next_block(
    size: int, tiny_bilm: BiLM, lines: list[list[str]]
) -> None:
    """Without it the end of each block would be the end of the state."""
    block = [Sentence(tuple(tokens), key) for key, tokens in enumerate(lines[:18])]
    embedder = embedder_of(tiny_bilm, "carry", batch_size=size)
    arrays, _ = embedder.embed_block(block, None)
    first, state = embedder.embed_block(block[:6], None)
    assert state is not None
    # As the journal keeps it.
    state = state_from_bytes(state_bytes(state), tiny_bilm.options)
    second, _ = embedder.embed_block(block[6:], state)
    same_bits(first + second, arrays)


@pytest.mark.parametrize("n_rows", [1, 5])
def test_a_state_in_the_journal_is_the_state(n_rows: int, seed: int) -> None:
    """Without it a resumed run would go on from another state."""
    options = Options(filters=((1, 4),), projection_dim=3, lstm_dim=5, n_layers=3)
    zeros = State.zeros(options, n_rows)
    state = State(torch.randn_like(zeros.h), torch.randn_like(zeros.c))
    again = state_from_bytes(state_bytes(state), options)
    assert torch.equal(again.h, state.h)
    assert torch.equal(again.c, state.c)


def test_a_state_of_another_model_in_the_journal() -> None:
    """Without it the bytes of another model's state would be cut into this one's."""
    options = Options(filters=((1, 4),), projection_dim=3, lstm_dim=5, n_layers=3)
    with pytest.raises(ResumeError, match="has 100 bytes, not a multiple of 192"):
        state_from_bytes(bytes(100), options)


def test_no_such_state(tiny_bilm: BiLM) -> None:
    """Without it a wrong name would start every sentence from zeros."""
    with pytest.raises(UsageError, match="--state hot: not zero, warm, carry, document"):
        embedder_of(tiny_bilm, "hot")
