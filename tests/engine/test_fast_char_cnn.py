"""FastCharCNN and TypeCache: a type has one vector, whenever and with whatever it is seen."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from make_weights import SHAPES
from model_pairs import MakePair
from torch import Tensor

from elmo_cli.engine import char_cnn as module
from elmo_cli.engine.char_cnn import FastCharCNN, TypeCache
from elmo_cli.engine.runtime import DeviceTuning
from elmo_cli.model.bilm import BiLM
from elmo_cli.text.characters import PADDING, CharacterIds

CPU = torch.device("cpu")
N_ROWS = DeviceTuning.of(CPU).types_per_product


class Spelling:
    """A character CNN whose vectors are the spelling of the type: bytes 1 to 8.

    `by_row` is the half of it, "features" or "vectors", in which a row's position changes its bits;
    with "blocks" it does so for most types, in every other block of eight rows.
    """

    max_characters = 50
    projection_dim = 8
    buckets = (8, 9, 50)

    def __init__(self, by_row: str = "") -> None:
        self.by_row = by_row
        self.n_types = 0

    def features(self, ids: Tensor, bucket: int) -> Tensor:
        assert len(ids) == N_ROWS
        filled = ids[ids.any(1)]
        assert (filled[:, bucket:] == PADDING).all()
        return self._by_row("features", ids[:, 1:9].float())

    def from_features(self, features: Tensor) -> Tensor:
        assert len(features) == N_ROWS
        self.n_types += int(features.any(1).sum())
        return self._by_row("vectors", features)

    def _by_row(self, half: str, rows: Tensor) -> Tensor:
        numbers = torch.arange(len(rows))
        if self.by_row == "blocks":
            digit = torch.where(rows[:, 1] == ord("t"), rows[:, 0], rows[:, 1])  # of 3ftion
            return rows + 1e-3 * (numbers // 8 % 2 * (digit % 8 > 0))[:, None]
        if self.by_row == half:
            return rows + 1e-3 * numbers[:, None]
        return rows


def some_types(n_types: int, name: str = "type") -> list[str]:
    return [f"{name}{n}" for n in range(n_types)]


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_same_bits_alone_and_among_others(n_threads: int, tiny_bilm: BiLM) -> None:
    """Also for types that are seen one by one, as in a resumed run."""
    many = ["The", *(f"{'long' * (n % 9)}{n}" for n in range(400))]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(n_threads)
        among = TypeCache(FastCharCNN(tiny_bilm.char_cnn), CharacterIds(), CPU).vectors(many)
        for n in (0, 1, 2, 7, 30, 31, 32, 62, N_ROWS - 1, N_ROWS, 100, 333, 400):
            alone = TypeCache(FastCharCNN(tiny_bilm.char_cnn), CharacterIds(), CPU)
            assert torch.equal(alone.vectors([many[n]])[0], among[n])
        assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)


TYPES = st.lists(st.sampled_from(some_types(12)), max_size=20)


@given(st.lists(TYPES, max_size=6), st.sampled_from([8, 1000]))
def test_any_history_gives_the_vectors_of_the_types(
    history: Sequence[list[str]], capacity: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CAPACITY", capacity)
        cache = TypeCache(Spelling(), CharacterIds(), CPU)
        for types in history:
            vectors = cache.vectors(types)
            assert vectors.shape == (len(types), 8)
            for t, vector in zip(types, vectors, strict=True):
                assert bytes(vector.to(torch.uint8).tolist()).startswith(t.encode())


@pytest.mark.parametrize("by_row", ["", "features", "vectors", "blocks"])
def test_types_are_cached_where_a_row_s_position_does_not_matter(by_row: str) -> None:
    """Elsewhere each block computes its types again, and a resumed run equals a complete one."""
    alone = TypeCache(Spelling(by_row), CharacterIds(), CPU).vectors(["a", "b", "c"])
    char_cnn = Spelling(by_row)
    cache = TypeCache(char_cnn, CharacterIds(), CPU)
    cache.vectors(["c", "d", "a"])
    before = char_cnn.n_types
    for _ in range(2):
        vectors = cache.vectors(["a", "b", "c"])
        assert torch.equal(vectors, alone)
        vectors.zero_()  # they are a copy
    assert char_cnn.n_types == before + (6 if by_row else 1)  # only b, or all of them twice


@pytest.mark.parametrize(("others", "n_recomputed"), [(70, 0), (250, 50)])
def test_eviction(others: int, n_recomputed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types in every block stay in the cache; what is evicted comes back with the same bits."""
    monkeypatch.setattr(module, "_CAPACITY", 300)
    char_cnn = Spelling()
    cache = TypeCache(char_cnn, CharacterIds(), CPU)
    types = some_types(50)
    first = cache.vectors(types)
    before = char_cnn.n_types
    for k in range(5):
        in_every_block = types if n_recomputed == 0 else []
        cache.vectors([*in_every_block, *some_types(others, f"other{k}-")])
    assert torch.equal(cache.vectors(types), first)
    assert char_cnn.n_types == before + 5 * others + n_recomputed
    assert len(cache.vectors(some_types(400))) == 400  # more than the capacity


def test_the_cache_has_no_more_rows_than_its_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each block has new types, as numbers do; doubling would allocate twice as many."""
    monkeypatch.setattr(module, "_CAPACITY", 300)
    cache = TypeCache(Spelling(), CharacterIds(), CPU)
    n_rows = []
    for block in range(20):
        cache.vectors(some_types(45, f"block{block}-"))
        n_rows.append(len(cache._vectors))
    assert 200 < max(n_rows) <= 300


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("seed")
def test_each_bucket_equals_the_character_cnn(shape: str, paired: MakePair) -> None:
    bilm, _ = paired(SHAPES[shape])
    tokens = ["a" * n for n in range(60)] + ["<S>", "</S>", "é" * 9]
    spelled = CharacterIds(50).tokens(tokens)
    fast = FastCharCNN(bilm.char_cnn)
    ids = torch.from_numpy(spelled)
    expected = bilm.char_cnn(ids)
    for bucket in fast.buckets:
        fitting = torch.from_numpy((spelled != PADDING).sum(1) <= bucket)
        vectors = fast.from_features(fast.features(ids[fitting], bucket))
        torch.testing.assert_close(vectors, expected[fitting], rtol=0, atol=2e-6)
