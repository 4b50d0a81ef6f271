"""Plain text: line i is key i, tokens as the originals split them, raw text with the tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo_cli.errors import InputError, UsageError
from elmo_cli.text.formats import Notes, format_of, measure, read_sentences
from elmo_cli.text.sentence import Sentence
from elmo_cli.text.settings import InputSettings


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return tmp_path / "corpus.txt"


def read(path: Path, notes: Notes | None = None, **settings: object) -> list[Sentence]:
    return list(read_sentences(path, InputSettings(**settings), notes))  # type: ignore[arg-type]


def test_line_i_is_key_i(text: Path) -> None:
    """Without this, a task's sentence k finds the vectors of another sentence."""
    text.write_bytes(b"The cat sat .\n\n  \t\nIt  slept\t. \n")
    sentences = read(text)
    assert [s.key for s in sentences] == [0, 1, 2, 3]
    assert [s.line for s in sentences] == [1, 2, 3, 4]
    assert [s.tokens for s in sentences] == [
        ("The", "cat", "sat", "."),
        (),
        (),
        ("It", "slept", "."),
    ]
    assert sentences[3].text == "It  slept\t."
    assert {s.source for s in sentences} == {str(text)}


def test_skipped_blank_lines_leave_gaps_in_the_keys(text: Path) -> None:
    """Without this, `--blank-lines skip` shifts all later keys, as older tools did."""
    text.write_bytes(b"a\n\nb\n")
    notes = Notes()
    assert [s.key for s in read(text, notes, blank="skip")] == [0, 2]
    assert notes.blank_lines == 1


def test_blank_error_names_the_line(text: Path) -> None:
    text.write_bytes(b"a\n\nb\n")
    with pytest.raises(InputError, match=r"corpus\.txt, line 2: blank") as caught:
        read(text, blank="error")
    assert "--blank-lines keep" in caught.value.hint


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_end_at_any_of_the_three_ends(text: Path, end: bytes) -> None:
    """Without this, files from other systems are one line, or have a return in each last token."""
    text.write_bytes(end.join([b"a b", b"", b"c"]) + end)
    assert [s.tokens for s in read(text)] == [("a", "b"), (), ("c",)]


def test_lines_end_nowhere_else(text: Path) -> None:
    """Without this, a form feed or U+2028 inside a line shifts all later keys."""
    inside = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
    text.write_bytes(("".join(f"a{c}b " for c in inside) + "\nc\n").encode())
    first, second = read(text)
    assert first.tokens == ("a", *["b", "a"] * 7, "b")
    assert second.key == 1


def test_tokens_part_at_every_white_space_and_nothing_is_normalised(text: Path) -> None:
    """The originals use str.split(); other tokens would mean other vectors."""
    line = "a\u00a0b\u3000c\u200bd e\u0301 \ufeffx \ufb01"
    text.write_bytes(line.encode())
    assert read(text)[0].tokens == ("a", "b", "c\u200bd", "e\u0301", "\ufeffx", "\ufb01")


def test_a_last_line_needs_no_line_end_and_a_line_end_makes_no_line(text: Path) -> None:
    text.write_bytes(b"a\nb")
    assert len(read(text)) == 2
    text.write_bytes(b"a\nb\n")
    assert len(read(text)) == 2


def test_keys_run_on_over_files_and_notes_say_where_each_begins(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a\nb\n\n")
    two.write_bytes(b"c\n")
    notes = Notes()
    sentences = list(read_sentences([one, two, one], notes=notes))
    assert [s.key for s in sentences] == list(range(7))
    assert notes.sources == [(str(one), 0), (str(two), 3), (str(one), 4)]
    assert notes.bytes_read == 12


def test_documents_begin_with_a_file_and_after_a_blank_line(text: Path) -> None:
    """Without this, `--state document` carries the state over documents."""
    text.write_bytes(b"a\nb\n\nc\nd\n")
    begins = [(s.text, s.starts_document) for s in read(text)]
    assert begins == [("a", True), ("b", False), ("", False), ("c", True), ("d", False)]
    assert [s.text for s in read(text, blank="skip") if s.starts_document] == ["a", "c"]


def test_a_refused_first_sentence_leaves_the_beginning_to_the_next(text: Path) -> None:
    text.write_bytes(b"a b c\nd\n")
    sentences = read(text, max_tokens=2, on_error="skip")
    assert [(s.key, s.starts_document) for s in sentences] == [(1, True)]


def test_a_sentence_over_max_tokens_is_refused_by_line(text: Path) -> None:
    text.write_bytes(b"a\nb c d e\n")
    with pytest.raises(
        InputError, match=r"(?m)line 2: 4 tokens, more than the limit of 3$"
    ) as caught:
        read(text, max_tokens=3)
    assert "--max-sentence-length 4" in caught.value.hint
    assert len(read(text, max_tokens=4)) == 2


def test_skipped_lines_are_noted_and_take_their_key(text: Path) -> None:
    """Without this, `--on-error skip` shifts the keys, or hides what it left out."""
    text.write_bytes(b"a\n\xe9\nb\0\nc c c\nd\n")
    notes = Notes()
    assert [s.key for s in read(text, notes, max_tokens=2, on_error="skip")] == [0, 4]
    assert [(source, line) for source, line, _ in notes.skipped] == [
        (str(text), n) for n in (2, 3, 4)
    ]
    assert "0xE9 is not UTF-8" in notes.skipped[0][2]


def test_raw_text_is_split_into_sentences_whose_keys_run_on(text: Path) -> None:
    text.write_bytes("The cat sat. It didn't sleep.\n\nThe dog “barked”.\n".encode())
    sentences = read(text, tokenize=True)
    assert [s.key for s in sentences] == [0, 1, 2]
    assert [s.line for s in sentences] == [1, 1, 3]
    assert [s.starts_document for s in sentences] == [True, False, True]
    assert sentences[1].tokens == ("It", "did", "n't", "sleep", ".")
    assert sentences[1].text == "It did n't sleep ."


def test_refused_raw_lines_take_one_key(text: Path) -> None:
    text.write_bytes(b"A cat.\n\xe9\nA dog.\n")
    assert [s.key for s in read(text, tokenize=True, on_error="skip")] == [0, 2]


@pytest.mark.parametrize("settings", [{}, {"blank": "skip"}, {"max_tokens": 2, "on_error": "skip"}])
@pytest.mark.parametrize("tokenize", [False, True])
def test_measure_counts_what_is_read(
    text: Path, settings: dict[str, object], tokenize: bool
) -> None:
    """Without this, the size estimate is of another file than the one that is written."""
    text.write_bytes("a b\n\nc\u3000d e\nf\n\xa0\n".encode())
    sentences = read(text, tokenize=tokenize, **settings)
    settings_ = InputSettings(tokenize=tokenize, **settings)  # type: ignore[arg-type]
    assert measure(text, settings_) == (len(sentences), sum(len(s.tokens) for s in sentences))


@pytest.mark.parametrize(
    ("name", "text_format"),
    [
        ("a.conllu", "conllu"),
        ("a.conllu.gz", "conllu"),
        ("A.CONLLU.XZ", "conllu"),
        ("a.conll", "conll"),
        ("cctv_0000.v4_gold_conll", "conll"),
        ("a.jsonl", "jsonl"),
        ("train.english.jsonlines", "jsonl"),
        ("a.txt", "plain"),
        ("conllu", "plain"),
        ("-", "plain"),
    ],
)
def test_the_suffix_names_the_format(name: str, text_format: str) -> None:
    """Without this, a CoNLL-U file is embedded as if it were sentences."""
    assert format_of(name, InputSettings()) == text_format
    assert format_of(name, InputSettings(format="plain")) == "plain"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "xml"}, "--input-format: no 'xml'"),
        ({"blank": "drop"}, "--blank-lines: no 'drop'"),
        ({"on_error": "ignore"}, "--on-error: no 'ignore'"),
        ({"max_tokens": 0}, "--max-sentence-length: 0, less than 1"),
        ({"max_characters": 2}, "max_characters: 2, less than 3"),
        ({"column": 0}, "--column: 0"),
        ({"column": 2, "format": "plain"}, "--column 2: plain has no columns"),
        ({"column": 2, "format": "jsonl"}, "--column 2: jsonl has no columns"),
        ({"tokenize": True, "format": "conll"}, "--tokenize: the tokens of conll are given"),
        ({"encoding": "utf-9"}, "--encoding: 'utf-9' is not a text encoding"),
        ({"encoding": "hex"}, "--encoding: 'hex'"),
        ({"encoding": "unicode_escape"}, "--encoding: 'unicode_escape'"),
        ({"encoding": "a\0b"}, "--encoding: "),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        InputSettings(**settings)  # type: ignore[arg-type]
    assert caught.value.message.startswith(message)
    assert caught.value.hint


def test_settings_are_checked_against_the_suffix_before_any_reading(tmp_path: Path) -> None:
    table = tmp_path / "a.conllu"
    table.touch()
    with pytest.raises(
        UsageError, match="--blank-lines error: with `--tokenize` a blank line separates"
    ):
        InputSettings(tokenize=True, blank="error").check_fits("plain")
    with pytest.raises(UsageError, match="--tokenize: the tokens of conllu are given"):
        read_sentences(table, InputSettings(tokenize=True))
    with pytest.raises(UsageError, match="--column 1: plain has no columns"):
        read_sentences(["-"], InputSettings(column=1))


def test_a_sentence_that_has_no_line_is_called_by_its_number() -> None:
    """Tokens that Python hands over would be those of `-, line 0`."""
    assert Sentence(("The",), 7, source="a.txt", line=3).where == "a.txt, line 3"
    assert Sentence(("The",), 7, source="a.hdf5").where == "a.hdf5: sentence 7"
