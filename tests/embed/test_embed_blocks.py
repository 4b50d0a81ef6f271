"""Blocks: where they end depends on the sentences before, and on nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.embed import blocks
from elmo_cli.embed.blocks import Block, split_into_blocks
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.text.sentence import Sentence

SENTENCES = 4
TOKENS = 20
OPEN = 3  # blocks in which a document is not cut


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Blocks of at most 4 sentences, full at 20 tokens."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "SENTENCES", SENTENCES)
        patch.setattr(blocks, "TOKENS", TOKENS)
        patch.setattr(blocks, "_OPEN_DOCUMENT", OPEN)
        yield


def sentence(key: int, n_tokens: int, starts_document: bool = False) -> Sentence:
    tokens = tuple(f"{key}.{place}" for place in range(n_tokens))
    return Sentence(tokens, key, starts_document=starts_document or key == 0)


@st.composite
def inputs(draw: st.DrawFn) -> list[Sentence]:
    shapes = draw(st.lists(st.tuples(st.integers(0, 24), st.booleans()), max_size=30))
    return [sentence(key, n_tokens, starts) for key, (n_tokens, starts) in enumerate(shapes)]


STATES = st.sampled_from(["zero", "warm", "carry", "document"])
BATCH_SIZES = st.integers(1, 6)


def is_full(block: Block) -> bool:
    return len(block.sentences) >= SENTENCES or block.info.n_tokens >= TOKENS


@given(inputs(), STATES, BATCH_SIZES)
def test_every_sentence_once_and_in_order(
    sentences: list[Sentence], state: str, batch_size: int
) -> None:
    """Without it a sentence at a border could be lost or computed twice."""
    made = list(split_into_blocks(sentences, EmbedderSettings(state, batch_size=batch_size)))
    assert [s for block in made for s in block.sentences] == sentences
    assert [block.number for block in made] == list(range(len(made)))
    assert all(block.sentences for block in made)
    for block in made:
        assert block.info.starts_document == block.sentences[0].starts_document
        assert block.info.n_tokens == sum(len(s.tokens) for s in block.sentences)


@given(inputs(), STATES, BATCH_SIZES, st.data())
def test_blocks_depend_on_what_came_before_only(
    sentences: list[Sentence], state: str, batch_size: int, drawn: st.DataObject
) -> None:
    """Without it a shard or a resumed run would do other arithmetic than an undisturbed one."""
    stop = drawn.draw(st.integers(0, len(sentences)))
    settings = EmbedderSettings(state, batch_size=batch_size)
    whole = list(split_into_blocks(sentences, settings))
    begun = list(split_into_blocks(sentences[:stop], settings))
    if stop == 0:
        assert begun == []
        return
    *complete, last = begun
    assert complete == whole[: len(complete)]
    assert last.sentences == whole[len(complete)].sentences[: len(last.sentences)]


@given(inputs(), st.sampled_from(["zero", "warm"]), BATCH_SIZES)
def test_limits(sentences: list[Sentence], state: str, batch_size: int) -> None:
    """Without it memory would grow with the input, or a block end before it is full."""
    made = list(split_into_blocks(sentences, EmbedderSettings(state, batch_size=batch_size)))
    for block in made:
        assert len(block.sentences) <= SENTENCES
        assert sum(len(s.tokens) for s in block.sentences[:-1]) < TOKENS
        assert all(len(s.tokens) < TOKENS for s in block.sentences[1:])
    for block, following in pairwise(made):
        assert is_full(block) or len(following.sentences[0].tokens) >= TOKENS


@given(inputs(), BATCH_SIZES)
def test_carry_is_cut_between_its_batches(sentences: list[Sentence], batch_size: int) -> None:
    """Without it row r of a batch would go on from another row than in the originals."""
    made = list(split_into_blocks(sentences, EmbedderSettings("carry", batch_size=batch_size)))
    for block in made[:-1]:
        assert len(block.sentences) % batch_size == 0
        assert is_full(block)
        shorter = block.sentences[:-batch_size]
        assert len(shorter) < SENTENCES
        assert sum(len(s.tokens) for s in shorter) < TOKENS


def test_carry_is_cut_between_batches_of_its_default_size() -> None:
    sentences = [sentence(key, 1) for key in range(2 * blocks.CARRY_BATCH_SIZE + 1)]
    made = list(split_into_blocks(sentences, EmbedderSettings("carry")))
    assert [len(block.sentences) for block in made] == [64, 64, 1]


@given(inputs(), BATCH_SIZES)
def test_document_is_cut_between_documents(sentences: list[Sentence], batch_size: int) -> None:
    """Without it documents would be cut where they need not be, or never."""
    made = list(split_into_blocks(sentences, EmbedderSettings("document", batch_size=batch_size)))
    for block, following in pairwise(made):
        assert is_full(block)
        very_long = len(block.sentences) >= OPEN * SENTENCES or block.info.n_tokens >= OPEN * TOKENS
        assert following.info.starts_document or very_long
        assert len(block.sentences) <= OPEN * SENTENCES


def digests(sentences: list[Sentence]) -> list[str]:
    return [
        block.info.text_sha256
        for block in split_into_blocks(sentences, EmbedderSettings("zero", batch_size=1))
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": ("x",)},
        {"tokens": ("2.0", "2.1", "2.2")},
        {"tokens": ("2.0 2.1",)},
        {"tokens": ()},
        {"key": 7},
        {"document": "d"},
        {"starts_document": True},
        {"text": "6.0  6.1"},
        {"place": 2},
        {"offset": 3},
    ],
)
def test_hash_runs_over_all_text_so_far(change: dict[str, object]) -> None:
    """Without it `--resume` would go on with another text."""
    sentences = [sentence(key, 2) for key in range(10)]
    other = [*sentences[:6], dataclasses.replace(sentences[6], **change), *sentences[7:]]
    before = digests(sentences)
    after = digests(other)
    assert before[0] == after[0]  # sentences 0 to 3
    assert before[1] != after[1]
    assert before[2] != after[2]


def test_hash_does_not_depend_on_where_the_text_stands() -> None:
    """Without it a file could not be moved, or read from standard input, between two runs."""
    sentences = [sentence(key, 2) for key in range(10)]
    moved = [dataclasses.replace(s, source="-", line=s.key + 5) for s in sentences]
    assert digests(sentences) == digests(moved)


def test_lone_surrogates_have_a_hash() -> None:
    """Without it a text read with escapes for its broken bytes would be a UnicodeEncodeError."""
    assert digests([Sentence(("\udcff",), 0)]) != digests([Sentence(("\udcfe",), 0)])
