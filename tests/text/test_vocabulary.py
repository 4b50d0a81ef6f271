"""Vocabulary: bilm-tf's file form, read and written."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.errors import InputError, OutputError
from elmo_cli.text import vocabulary
from elmo_cli.text.vocabulary import SPECIALS, Vocabulary


def test_unknown_types_have_the_id_of_unk() -> None:
    """Without it a rare word would be an error, or would train another type."""
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the", "cat"])
    assert [vocabulary.id(token) for token in ("the", "cat", "dog")] == [3, 4, 2]


@pytest.mark.parametrize("specials", [["<S>", "</S>", "<UNK>"], ["</S>", "<S>", "<UNK>"]])
def test_specials_stand_in_either_order(specials: list[str], tmp_path: Path) -> None:
    """Published vocabularies begin with <S> or with </S>; mixing them up swaps the borders."""
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*specials, "the"]) + "\n")
    vocabulary = Vocabulary.read(path)
    ids = vocabulary.begin, vocabulary.end, vocabulary.unknown
    assert ids == tuple(specials.index(name) for name in SPECIALS)


def test_filler_lines_have_no_id(tmp_path: Path) -> None:
    """Without it every id after a filler line would be off by one against bilm-tf's softmax."""
    path = tmp_path / "vocab.txt"
    path.write_text("<S>\n</S>\n<UNK>\n!!!MAXTERMID\nthe\na\n!!!MAXTERMID\n")
    vocabulary = Vocabulary.read(path)
    assert (vocabulary.id("the"), vocabulary.id("a"), len(vocabulary)) == (3, 4, 5)


def test_a_type_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    """Of its two ids only one is ever predicted."""
    path = tmp_path / "vocab.txt"
    path.write_text("<S>\n</S>\n<UNK>\nthe\na\nthe\n")
    with pytest.raises(InputError, match="line 6: 'the' is already on line 4"):
        Vocabulary.read(path)


@pytest.mark.parametrize("missing", SPECIALS)
def test_a_missing_special_is_named(missing: str, tmp_path: Path) -> None:
    """bilm-tf silently gives the last word the characters of a border then."""
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*(s for s in SPECIALS if s != missing), "the"]) + "\n")
    with pytest.raises(InputError) as caught:
        Vocabulary.read(path)
    assert caught.value.message == f"{path}, lines 1 to 3: {missing} is not among the types"


def test_bytes_that_are_not_utf8_are_told_by_line(tmp_path: Path) -> None:
    """Without it the user gets a traceback that names no line."""
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"<S>\n</S>\n<UNK>\ncaf\xe9\n")
    with pytest.raises(InputError, match=r"vocab\.txt, line 4: 0xE9 is not UTF-8"):
        Vocabulary.read(path)


def test_a_packed_one_that_grows_without_measure_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may lie beside weights from anywhere, and is read without being named."""
    packed = tmp_path / "vocab.txt.gz"
    content = "\n".join(SPECIALS).encode()
    packed.write_bytes(gzip.compress(content))
    assert Vocabulary.read(packed).types == SPECIALS
    monkeypatch.setattr(vocabulary, "_MAX_UNPACKED_BYTES", len(content) - 1)
    with pytest.raises(InputError, match=r"vocab\.txt\.gz: more than 0 MiB when decompressed"):
        Vocabulary.read(packed)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    """Without it the user gets a traceback."""
    with pytest.raises(InputError, match="no such vocabulary"):
        Vocabulary.read(tmp_path / "none.txt")


def test_a_place_that_cant_be_written_to_is_told(tmp_path: Path) -> None:
    """Without it the user gets a traceback."""
    with pytest.raises(OutputError, match="can't be written"):
        Vocabulary(SPECIALS).write(tmp_path / "no" / "vocab.txt")


def test_types_stand_by_count_then_by_alphabet() -> None:
    """The sampled softmax takes ids for ranks; and the order of the text must not matter."""
    vocabulary = Vocabulary.count(["b", "a", "d", "b", "c", "a", "<UNK>", "b"], min_count=1)
    assert vocabulary.types == (*SPECIALS, "b", "a", "c", "d")


def test_counts_may_be_given_in_place_of_tokens() -> None:
    """Training counts numbers, not strings; both ways must make one vocabulary."""
    tokens = ["b", "a", "c", "b"]
    assert Vocabulary.count({"a": 1, "b": 2, "c": 1}).types == Vocabulary.count(tokens).types


def test_rare_types_and_those_over_the_cap_are_left_out() -> None:
    """Without it the softmax would grow with every misprint of the text."""
    tokens = ["a", "a", "a", "b", "b", "c", "c", "d"]
    assert Vocabulary.count(tokens, min_count=2).types[3:] == ("a", "b", "c")
    assert Vocabulary.count(tokens, max_types=5).types[3:] == ("a", "b")


@given(st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1), max_size=20))
def test_what_is_written_is_read(tokens: list[str]) -> None:
    """Without it a vocabulary with unusual characters would come back with other ids."""
    import tempfile

    vocabulary = Vocabulary.count(tokens)
    with tempfile.TemporaryDirectory() as folder:
        vocabulary.write(Path(folder) / "vocab.txt")
        assert Vocabulary.read(Path(folder) / "vocab.txt").types == vocabulary.types
