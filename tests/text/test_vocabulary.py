"""Vocabulary: bilm-tf's file format, written and read, and the types of a text."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.errors import InputError, UsageError
from elmo_cli.text.vocabulary import SPECIALS, TypeCounts, Vocabulary

HEAD = "<S>\n</S>\n<UNK>\n"


def types_of(tokens: list[str], **settings: int) -> tuple[str, ...]:
    return TypeCounts(Counter(tokens), 1).vocabulary(**settings).types[3:]


@pytest.mark.parametrize("specials", [["<S>", "</S>", "<UNK>"], ["</S>", "<S>", "<UNK>"]])
def test_ids_are_line_numbers_without_placeholders(specials: list[str], tmp_path: Path) -> None:
    """Published vocabularies begin with <S> or with </S>; bilm-tf counts no !!!MAXTERMID."""
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*specials, "!!!MAXTERMID", "the", "a", "!!!MAXTERMID"]) + "\n")
    read = Vocabulary.read(path)
    assert (read.begin, read.end, read.unknown) == tuple(map(specials.index, SPECIALS))
    assert [read.id(token) for token in ("the", "a", "dog")] == [3, 4, 2]
    assert len(read) == 5


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (HEAD + "the\na\nthe\n", ", line 6: 'the' is already on line 4"),
        ("</S>\n<UNK>\nthe\n", ": <S> is not among the types"),
        ("<S>\n<UNK>\n", ": </S> is not among the types"),
        ("<S>\n</S>\nthe\n", ": <UNK> is not among the types"),
        (HEAD + "the\t120\na\t99\n", r", line 4: a tab in 'the\t120'"),
        ("<S>\t9\n</S>\t9\n<UNK>\t3\n", r", line 1: a tab in '<S>\t9'"),
        (HEAD.encode() + b"caf\xe9\n", ": can't be read ('utf-8' codec can't decode byte 0xe9"),
        (b"PAR1\x15\x04\xff", ": can't be read (a Parquet file)"),
        (None, ": can't be read (No such file or directory)"),
    ],
)
def test_refused_files(content: str | bytes | None, problem: str, tmp_path: Path) -> None:
    """With a type twice only one of its ids is ever predicted; without a special ids shift."""
    for path in (tmp_path / "vocab.txt", tmp_path / "vocab.txt.gz"):
        if content is not None:
            raw = content.encode() if isinstance(content, str) else content
            path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
        with pytest.raises(InputError) as caught:
            Vocabulary.read(path)
        assert caught.value.message.startswith(f"{path}{problem}")


def test_a_file_of_little_more_than_nothing_is_not_decompressed(tmp_path: Path) -> None:
    """A megabyte of .gz can hold a gigabyte of line ends."""
    path = tmp_path / "vocab.txt.gz"
    path.write_bytes(gzip.compress(HEAD.encode() + b"\n" * (65 << 20), mtime=0))
    with pytest.raises(InputError, match=r"its content is larger than 64\.0 MiB"):
        Vocabulary.read(path)


def test_types_are_sorted_by_count_then_alphabet_and_rare_ones_left_out() -> None:
    """The sampled softmax takes ids for ranks; and the order of the text must not matter."""
    assert types_of(["b", "a", "d", "b", "c", "a", "<UNK>", "b"]) == ("b", "a", "c", "d")
    tokens = ["a", "a", "a", "b", "b", "c", "c", "d"]
    assert types_of(tokens, min_count=2) == ("a", "b", "c")
    assert types_of(tokens, max_types=5) == ("a", "b")


def test_a_byte_order_mark_is_no_part_of_the_first_type(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text(f"\ufeff{HEAD}the\n", encoding="utf-8")
    assert Vocabulary.read(path).types == (*SPECIALS, "the")


def test_a_text_without_frequent_types_is_refused() -> None:
    """Reserved names do not count, and the message says how frequent the others are."""
    with pytest.raises(UsageError) as caught:
        types_of(["a", "a", "b", *["<UNK>"] * 3, *["!!!MAXTERMID"] * 4], min_count=3)
    problem = "the most frequent type of the text occurs 2 times"
    assert caught.value.message == f"`min_count=3`: {problem}"
    counts = TypeCounts.of([["a"], [], ["a", "b"]])
    assert (counts.n_sentences, counts.n_tokens, counts.warning) == (2, 3, "")
    with pytest.raises(InputError, match=r"^my text: contains no sentences"):
        TypeCounts.of([[]], name="my text")


@given(st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1), max_size=20))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    written = TypeCounts(Counter([*words, "a"]), 1).vocabulary()
    path = tmp_path_factory.getbasetemp() / "vocab.txt"
    written.write(path)
    assert Vocabulary.read(path).types == written.types
