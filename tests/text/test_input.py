"""From names to sentences: formats, settings, keys; and plain text, where line i is key i."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from text_files import read, refused, tokens, write

from elmo_cli.errors import InputError, UsageError
from elmo_cli.text.input import (
    InputReport,
    InputSettings,
    check_inputs,
    format_of,
    is_stream,
    read_sentences,
    require_files,
    stem,
)
from elmo_cli.text.input_settings import MAX_TOKENS
from elmo_cli.text.lines import LineReader


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return tmp_path / "corpus.txt"


def test_line_i_is_key_i_and_a_document_starts_after_a_blank_line(text: Path) -> None:
    """Otherwise a task's sentence k finds the vectors of another sentence."""
    sentences = read(write(text, "The cat sat .\n\n  \t\nIt  slept\t. \n a\n"))
    assert [(s.key, s.line, s.tokens, s.text, s.starts_document) for s in sentences] == [
        (0, 1, ("The", "cat", "sat", "."), "The cat sat .", True),
        (1, 2, (), "", False),
        (2, 3, (), "", True),
        (3, 4, ("It", "slept", "."), "It  slept\t.", True),
        (4, 5, ("a",), "a", False),
    ]
    assert {s.source for s in sentences} == {str(text)}
    assert [s.key for s in read(text, blank="skip") if s.starts_document] == [0, 3]


@pytest.mark.parametrize(
    ("content", "settings", "keys"),
    [
        (b"a\n\nb\n", {"blank": "keep"}, [0, 1, 2]),
        (b"a\n\nb\n", {"blank": "skip"}, [0, 2]),
        (b"a\nb", {}, [0, 1]),
        (b"a b c\nd\n", {"max_tokens": 2, "on_error": "skip"}, [1]),
        (b"a\n\xe9\nb\0\nc c c\na\rb\nd\n", {"max_tokens": 2, "on_error": "skip"}, [0, 5]),
        (b"a\n\nb\n", {"blank": "error", "on_error": "skip"}, [0, 2]),
        (b"A cat.\n\xe9\nA dog.\n", {"tokenize": True, "on_error": "skip"}, [0, 2]),
        (b"A cat. So.\n\nA dog.\n", {"tokenize": True, "blank": "skip"}, [0, 1, 3]),
    ],
)
def test_a_line_that_is_left_out_leaves_a_gap_in_the_keys(
    text: Path, content: bytes, settings: dict[str, Any], keys: list[int]
) -> None:
    """Otherwise all later keys are shifted, as older tools did; and what is skipped is reported."""
    report = InputReport()
    sentences = read(write(text, content), report, **settings)
    assert [s.key for s in sentences] == keys
    assert sentences[0].starts_document
    assert report.blank_lines == content.count(b"\n\n")
    if settings.get("on_error"):
        lines = range(1, content.count(b"\n") + 1)
        assert [line for _, line, _ in report.skipped] == [n for n in lines if n - 1 not in keys]
        assert all(reason for _, _, reason in report.skipped)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("".join(f"a{c}b " for c in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"),
         ("a", *["b", "a"] * 7, "b")),
        ("a\u00a0b\u3000c\u200bd e\u0301 x \ufb01",
         ("a", "b", "c\u200bd", "e\u0301", "x", "\ufb01")),
        ("id 1\ta b\tX", ("id", "1", "a", "b", "X")),
    ],
)  # fmt: skip
def test_tokens_are_those_of_str_split(text: Path, line: str, expected: tuple[str, ...]) -> None:
    """As in bilm-tf and AllenNLP; lines end nowhere else than at a line feed."""
    first, second = read(write(text, f"{line}\nc\n"))
    assert (first.tokens, second.key) == (expected, 1)


def test_keys_continue_over_files_and_the_report_names_the_first(tmp_path: Path) -> None:
    long = write(tmp_path / "long", "a\nb\n\n")
    short = write(tmp_path / "short", "c\n")
    report = InputReport()
    sentences = list(read_sentences([long, short, long], report=report))
    assert [s.key for s in sentences] == list(range(7))
    assert [s.key for s in sentences if s.starts_document] == [0, 3, 4]
    assert report.sources == [(str(long), 0), (str(short), 3), (str(long), 4)]
    assert (report.n_keys, report.bytes_read) == (7, 12)


def test_raw_text_becomes_sentences_with_consecutive_keys(text: Path) -> None:
    write(text, "The cat sat. It didn't sleep.\n \nThe dog “barked”.\n")
    report = InputReport()
    sentences = read(text, report, tokenize=True)
    assert [(s.key, s.line, s.text, s.starts_document) for s in sentences] == [
        (0, 1, "The cat sat .", True),
        (1, 1, "It did n't sleep .", False),
        (2, 2, "", False),
        (3, 3, "The dog “ barked ” .", True),
    ]
    assert (report.n_keys, report.blank_lines) == (4, 1)
    for settings in ({"tokenize": True}, {}):
        error = refused(text, blank="error", **settings)
        assert error.message == f"{text}, line 2: blank, a sentence without tokens"
        assert error.parameters == ("blank",)
    assert refused(text, max_tokens=5).message == f"{text}, line 1: more than 5 tokens"


def test_a_corpus_on_one_line_is_read(text: Path) -> None:
    """Only `elmo embed` has an option that raises a limit; elsewhere no hint may name one."""
    (sentence,) = read(write(text, "the cat sat on a mat " * 20_000 + "\n"))
    assert len(sentence.tokens) == 120_000
    for max_tokens, is_named in ((MAX_TOKENS, False), (9, True)):
        reader = LineReader(str(text), InputSettings(max_tokens=max_tokens), InputReport())
        with pytest.raises(InputError, match="line 3: more than") as caught:
            reader.admit(max_tokens + 1, 3)
        assert ("`max_tokens`" in caught.value.hint) == is_named
        assert "split the sentence" in caught.value.hint


SUFFIXES = {
    "a.conllu": ("conllu", "a"), "A.CONLLU.XZ": ("conllu", "A"), "a.conll.gz": ("conll", "a"),
    "cctv_0000.v4_gold_conll": ("conll", "cctv_0000.v4_gold_conll"), "-": ("plain", "-"),
    "a.jsonl": ("jsonl", "a"), "a.json.gz": ("jsonl", "a"), "a.b.jsonlines": ("jsonl", "a.b"),
    "a.txt": ("plain", "a"), "a.md": ("plain", "a.md"), "conllu": ("plain", "conllu"),
}  # fmt: skip


@pytest.mark.parametrize("name", SUFFIXES)
def test_the_suffix_determines_the_format(name: str) -> None:
    """Otherwise a CoNLL-U file is embedded as if its rows were sentences."""
    assert (format_of(name, InputSettings()), stem(name)) == SUFFIXES[name]
    assert format_of(name, InputSettings(format="plain")) == "plain"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "xml"}, "`format`: unknown value 'xml'"),
        ({"format": None}, "`format`: None is not a string"),
        ({"blank": "drop"}, "`blank`: unknown value 'drop'"),
        ({"on_error": "ask"}, "`on_error`: unknown value 'ask'"),
        ({"max_tokens": 0}, "`max_tokens=0`: out of range"),
        ({"max_tokens": 1 << 25}, "`max_tokens=33554432`: out of range"),
        ({"max_characters": 2}, "`max_characters=2`: out of range"),
        ({"column": 0}, "`column=0`: columns are counted from 1"),
        ({"column": 2, "format": "plain"}, "`column=2`: plain has no columns"),
        ({"tokenize": True, "format": "conll"}, "`tokenize=True`: conll files state their tokens"),
        ({"encoding": "utf-9"}, "`encoding='utf-9'`: not a text encoding"),
        ({"encoding": "hex"}, "`encoding='hex'`: not a text encoding"),
        ({"encoding": "idna"}, "`encoding='idna'`: not a text encoding"),
        ({"encoding": "a\0b"}, "`encoding='a\\x00b'`: not a text encoding"),
    ],
)
def test_settings_without_meaning_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        InputSettings(**settings)
    assert caught.value.message == message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("fitting", "name", "settings", "message"),
    [
        (
            "b.txt",
            "a.conllu",
            {"tokenize": True},
            "`tokenize=True`: conllu files state their tokens",
        ),
        ("b.conll", "a.json", {"column": 1}, "`column=1`: jsonl has no columns"),
    ],
)
def test_settings_without_meaning_for_a_file_are_refused(
    tmp_path: Path, fitting: str, name: str, settings: dict[str, Any], message: str
) -> None:
    """They are allowed until a file of such a format is named, after others or before them."""
    allowed = InputSettings(**settings)
    paths = [write(tmp_path / fitting, ""), write(tmp_path / name, "")]
    read_sentences(paths[:1], allowed)
    with pytest.raises(UsageError) as caught:
        read_sentences(paths, allowed)
    assert caught.value.message == message
    assert caught.value.hint


def test_integers_of_numpy_are_converted() -> None:
    """Notebooks compute with them; JSON and the attributes of a file take Python's."""
    settings = InputSettings(format="conll", column=np.int64(2), max_tokens=np.int32(9))  # type: ignore[arg-type]
    assert (settings.column, settings.max_tokens) == (2, 9)
    assert type(settings.column) is int


def test_names_are_checked_before_any_file_is_read(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a mistyped name stops a run only after hours."""
    write(text, "a\n")
    for name, problem in (
        (tmp_path / "corpsu.txt", "no such file"),
        (tmp_path, "a folder, not a file"),
        (text / "x", "can't be read (Not a directory)"),
        ("a\0b", "can't be read (a null byte in its name)"),
    ):
        with pytest.raises(InputError) as caught:
            check_inputs([text, name])
        assert caught.value.message == f"{name}: {problem}"
    with pytest.raises(UsageError, match="no input"):
        check_inputs([])
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match=r"corpus\.txt: no permission to read it"):
        read_sentences(text)


def test_streams_are_refused_where_a_text_is_read_twice(text: Path, tmp_path: Path) -> None:
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    write(text, "a\n")
    streams = [is_stream(name) for name in (str(text), str(tmp_path), "none", fifo, "-")]
    assert streams == [False, False, False, True, True]
    require_files("`shard`", [str(text)])
    for name in (fifo, "-"):
        with pytest.raises(UsageError, match=r"`shard`: .* can be read only once"):
            require_files("`shard`", [str(text), name])


TABLE = "EU\tB-ORG\nrejects\tO\n\nPeter\tB-PER\nran\tO\n"


@pytest.mark.parametrize("name", ["a.tsv", "a.TSV.gz"])
def test_a_tsv_is_refused_before_it_is_read(tmp_path: Path, name: str) -> None:
    """Its labels would become tokens."""
    with pytest.raises(UsageError, match=f"{name}: the suffix") as caught:
        read_sentences(write(tmp_path / name, TABLE))
    assert "`format='conll'`" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (TABLE, 1),
        ("EU\tB-ORG\nrejects\tO\n", 1),  # two rows are enough
        ("-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\n", 1),
        ("# a comment\n" + TABLE * 5 + "broken\n", 2),
        ("1\tThe\tthe\tDET\n2\tcat\tcat\tNOUN\n\n" * 100, 1),
        ("a title\n" + TABLE * 3, 1),  # nearly all
        ("The cat sat .\tpos\nIt slept .\tneg\n", 1),
        ("EU NNP B-NP B-ORG\nrejects VBZ B-VP O\ncall NN I-NP O\n\n", 1),
        ("a B-X\nb I-X\nc E-X\nd S-X\ne L-X\nf U-X\ng O\n", 1),
        ("#begin document (x); part 000\nbc 0 0 In IN *\nbc 0 1 it PRP *\n", 1),
    ],
)
def test_a_table_is_refused_unless_the_format_is_given(
    tmp_path: Path, content: str, line: int
) -> None:
    """Its labels would become tokens, and each token a sentence."""
    path = write(tmp_path / "words", content)
    for settings in ({}, {"tokenize": True}, {"on_error": "skip"}):
        error = refused(path, **settings)
        assert error.message.startswith(f"{path}, line {line}: looks like columns")
        assert "`format='conll'`" in error.hint
    assert len(tokens(path, format="plain")) == len(content.splitlines())


@pytest.mark.parametrize(
    "content",
    [
        "I O\n" + "He is here .\n" * 9,
        "I O\nwith B-12\n",  # two rows with labels may be words
        "a\tb\nc d\ne\tf\ng h\n",
        "a\tb\nc\td\te\nf\tg\th\ti\n",  # other numbers of cells
        "word\n" * 20 + "word\tO\n" * 20,
    ],
)
def test_a_text_with_tabs_is_read(tmp_path: Path, content: str) -> None:
    assert len(tokens(write(tmp_path / "a.txt", content))) == content.count("\n")
