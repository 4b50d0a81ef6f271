"""TypeCache: a type has one vector, whenever and beside whatever it is met."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from make_weights import SHAPES
from oracle import Oracle
from torch import Tensor

from elmo_cli.engine import type_cache
from elmo_cli.engine.short_cnn import ShortCNN
from elmo_cli.engine.type_cache import HEIGHT, TypeCache
from elmo_cli.model.bilm import BiLM
from elmo_cli.text.characters import PADDING, CharacterIds

Paired = Callable[..., tuple[BiLM, Oracle]]
CPU = torch.device("cpu")


class Counted:
    """A character CNN that counts its products; `by_row` is the half of it, "maxima" or "vectors",
    in which a row's place changes its bits."""

    buckets = (50,)

    def __init__(self, bilm: BiLM, *, by_row: str = "") -> None:
        self.bilm, self.by_row, self.n_products = bilm, by_row, 0

    def bucket(self, n_characters: int) -> int:
        return 50

    def maxima(self, ids: Tensor, bucket: int) -> Tensor:
        assert ids.shape == (HEIGHT, 50)
        self.n_products += 1
        return self._placed("maxima", self.bilm.char_cnn(ids))

    def vectors(self, maxima: Tensor) -> Tensor:
        assert len(maxima) == HEIGHT
        return self._placed("vectors", maxima)

    def _placed(self, half: str, rows: Tensor) -> Tensor:
        return rows + 1e-6 * torch.arange(HEIGHT).unsqueeze(1) if self.by_row == half else rows


def cache_of(char_cnn: Counted | ShortCNN) -> TypeCache:
    return TypeCache(char_cnn, max_characters=50, projection=8, device=CPU)


def some_types(n_types: int, name: str = "type") -> list[str]:
    return [f"{name}{n}" for n in range(n_types)]


def test_same_bits_alone_and_in_a_crowd(tiny_bilm: BiLM) -> None:
    """Without it a sentence's vectors would depend on the sentences before it."""
    crowd = some_types(1000)
    among = cache_of(Counted(tiny_bilm)).vectors(crowd)
    for n in (0, HEIGHT - 1, HEIGHT, 511, 999):
        alone = cache_of(Counted(tiny_bilm)).vectors([crowd[n]])
        assert torch.equal(alone[0], among[n])


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_same_bits_in_any_number_of_groups(n_threads: int, tiny_bilm: BiLM) -> None:
    """Without it types that are met one by one, as in a resumed run, would be computed with other
    threads than types that are met all at once."""
    many = ["The", *(f"{'long' * (n % 9)}{n}" for n in range(400))]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(n_threads)
        alone, among = (cache_of(ShortCNN(tiny_bilm.char_cnn)) for _ in range(2))
        assert torch.equal(alone.vectors(["The"])[0], among.vectors(many)[0])
        assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)


def test_same_bits_after_eviction(tiny_bilm: BiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it memory would be bounded at the price of other vectors in a long run."""
    monkeypatch.setattr(type_cache, "_CAPACITY", 300)
    char_cnn = Counted(tiny_bilm)
    cache = cache_of(char_cnn)
    first = cache.vectors(some_types(HEIGHT))
    for k in range(5):
        cache.vectors(some_types(250, f"other{k}-"))
    before = char_cnn.n_products
    again = cache.vectors(some_types(HEIGHT))
    assert char_cnn.n_products == before + 1  # they had been thrown away
    assert torch.equal(again, first)


def test_what_is_asked_for_often_stays(tiny_bilm: BiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a long text would compute its most frequent types again and again."""
    monkeypatch.setattr(type_cache, "_CAPACITY", 300)
    char_cnn = Counted(tiny_bilm)
    cache = cache_of(char_cnn)
    frequent = some_types(50, "frequent")
    first = cache.vectors(frequent)
    for k in range(5):
        cache.vectors([*frequent, *some_types(70, f"rare{k}-")])
    before = char_cnn.n_products
    assert torch.equal(cache.vectors(frequent), first)
    assert char_cnn.n_products == before


def test_types_beyond_the_capacity_are_taken_all_the_same(
    tiny_bilm: BiLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it a block of many types would fail."""
    monkeypatch.setattr(type_cache, "_CAPACITY", 1)
    vectors = cache_of(Counted(tiny_bilm)).vectors(some_types(2 * HEIGHT + 1))
    assert vectors.shape == (2 * HEIGHT + 1, 8)
    assert len({tuple(row.tolist()) for row in vectors}) == 2 * HEIGHT + 1


def test_a_type_is_computed_once(tiny_bilm: BiLM) -> None:
    """Without it every token would cost a character CNN."""
    char_cnn = Counted(tiny_bilm)
    cache = cache_of(char_cnn)
    cache.vectors(some_types(HEIGHT))
    before = char_cnn.n_products
    cache.vectors(some_types(50))
    assert char_cnn.n_products == before
    cache.vectors([*some_types(50), "new"])
    assert char_cnn.n_products == before + 1


@pytest.mark.parametrize("half", ["maxima", "vectors"])
def test_where_a_rows_place_matters_nothing_is_kept(half: str, tiny_bilm: BiLM) -> None:
    """Without it, on such a machine, a resumed run would differ from an undisturbed one."""
    lone = cache_of(Counted(tiny_bilm, by_row=half)).vectors(["a", "b", "c"])
    char_cnn = Counted(tiny_bilm, by_row=half)
    cache = cache_of(char_cnn)
    cache.vectors(["c", "d", "a"])
    before = char_cnn.n_products
    assert torch.equal(cache.vectors(["a", "b", "c"]), lone)
    assert char_cnn.n_products == before + 1
    assert torch.equal(cache.vectors(["a", "b", "c"]), lone)


TYPES = st.lists(st.sampled_from(some_types(12)), max_size=20)


@given(st.lists(TYPES, max_size=6))
def test_any_history_gives_the_same_bits(history: Sequence[list[str]]) -> None:
    """Without it some order of calls, or a type named twice, could mix the vectors up."""
    cache = TypeCache(Spelling(), max_characters=50, projection=8, device=CPU)
    for types in history:
        vectors = cache.vectors(types)
        assert vectors.shape == (len(types), 8)
        for t, vector in zip(types, vectors, strict=True):
            assert bytes(vector.to(torch.uint8).tolist()).startswith(t.encode())


class Spelling:
    """A character CNN whose vectors say what they are of: bytes 1 to 8."""

    buckets = (6, 7, 50)

    def bucket(self, n_characters: int) -> int:
        return next(n for n in self.buckets if n_characters <= n)

    def maxima(self, ids: Tensor, bucket: int) -> Tensor:
        assert (ids[:, bucket:] == PADDING).all()
        return ids[:, 1:9].float()

    def vectors(self, maxima: Tensor) -> Tensor:
        return maxima


class OneBucketByRow(Spelling):
    """As above; in one of its buckets a row's place changes its bits."""

    def __init__(self) -> None:
        self.n_products = dict.fromkeys(self.buckets, 0)

    def maxima(self, ids: Tensor, bucket: int) -> Tensor:
        self.n_products[bucket] += 1
        vectors = super().maxima(ids, bucket)
        return vectors + torch.arange(HEIGHT).unsqueeze(1) if bucket == 7 else vectors


def test_only_lengths_whose_place_matters_are_computed_anew() -> None:
    """Without it one awkward length would cost all others their place in the cache, or a type of
    that length would have a vector that depends on the block in which it was met."""
    char_cnn = OneBucketByRow()
    cache = TypeCache(char_cnn, max_characters=50, projection=8, device=CPU)
    block = ["type1", "four", "type2", "longer word"]
    first = cache.vectors(block)
    cache.vectors(["type9", *block])
    before = dict(char_cnn.n_products)
    assert torch.equal(cache.vectors(block), first)
    assert char_cnn.n_products == {**before, 7: before[7] + 1}


def test_what_is_kept_does_not_move_what_is_computed_anew() -> None:
    """Without it the types of an awkward length would be cut into products after however many
    others are new, and stand in other rows in a resumed run."""
    short, awkward = [f"{n:04}" for n in range(40)], [f"{n:05}" for n in range(40)]
    alone, after = (
        TypeCache(OneBucketByRow(), max_characters=50, projection=8, device=CPU) for _ in range(2)
    )
    after.vectors(short)
    block = [*awkward, *short]
    assert torch.equal(alone.vectors(block), after.vectors(block))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("seed")
def test_the_short_cnn_is_the_character_cnn(shape: str, paired: Paired) -> None:
    """Without it a length at the edge of a bucket could lose a window, or win one."""
    bilm, _ = paired(SHAPES[shape])
    spelled = CharacterIds(50).tokens(["a" * n for n in range(60)] + ["<S>", "</S>", "é" * 9])
    short, ids = ShortCNN(bilm.char_cnn), torch.from_numpy(spelled)
    expected = bilm.char_cnn(ids)
    for row, n_characters in enumerate((spelled != PADDING).sum(1)):
        for bucket in (n for n in short.buckets if n_characters <= n):
            found = short.vectors(short.maxima(ids[row : row + 1], bucket))
            torch.testing.assert_close(found, expected[row : row + 1], rtol=0, atol=2e-6)


def test_what_comes_out_is_not_what_is_kept(tiny_bilm: BiLM) -> None:
    """Without it a caller that changes its vectors would change those of later sentences."""
    cache = cache_of(Counted(tiny_bilm))
    first = cache.vectors(["a", "b"])
    kept = first.clone()
    first.zero_()
    assert torch.equal(cache.vectors(["a", "b"]), kept)
