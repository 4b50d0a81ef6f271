"""Control characters, byte order marks, other encodings, and whitespace within tokens."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from text_files import read, refused, tokens, write

from elmo_cli.errors import InputError
from elmo_cli.text.input import InputReport
from elmo_cli.text.sentence import sentence_of

CONTROLS = [*range(1, 9), *range(0x0E, 0x1C), *range(0x7F, 0x85), *range(0x86, 0xA0)]
WHITE_SPACE = "\t\x0b\x0c\x1c\x1d\x1e\x1f\x85\u00a0\u2028\u3000"
FORMATS = {
    "a.txt": "one two\nx a{}b\n",
    "a.conll": "one X\na{}b X\n",
    "a.conllu": "1\tone\t_\n2\ta{}b\t_\n",
    "a.jsonl": '{{"tokens": ["one"]}}\n{{"tokens": ["a{}b"]}}\n',
}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return tmp_path / "corpus.txt"


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("character", ["\x01", "\x1b", "\x7f", "\x93", "\ufeff"])
def test_every_format_refuses_them(tmp_path: Path, name: str, character: str) -> None:
    """They are part of no word; a terminal obeys them, and a mark within a line joins two files."""
    path = write(tmp_path / name, FORMATS[name].format(character))
    error = refused(path)
    position = path.read_text().splitlines()[1].index(character) + 1
    kind = "a byte order mark" if character == "\ufeff" else "a control character"
    assert f", line 2: {kind} (" in error.message
    assert error.message.endswith(f"(U+{ord(character):04X}) at character {position}")
    report = InputReport()
    read(path, report, on_error="skip")
    assert [line for _, line, _ in report.skipped] == [2]


@pytest.mark.parametrize("code", CONTROLS)
def test_all_control_characters_are_refused(text: Path, code: int) -> None:
    shown = f"a control character (U+{code:04X})"
    error = refused(write(text, f"a{chr(code)}\n"))
    assert error.message == f"{text}, line 1: {shown} at character 2"


def test_white_space_is_no_control_character(text: Path) -> None:
    for character in WHITE_SPACE:
        assert tokens(write(text, f"a{character}b\n")) == ["a b"]


def test_escapes_of_json_write_any_character_but_nul(tmp_path: Path) -> None:
    """Who writes an escape knows the character, which is a sign of nothing then."""
    path = tmp_path / "a.jsonl"
    for character in ("\x07", "\x9b", "\ufeff", "\x1b"):
        members = {"tokens": ["a", f"b{character}"]}
        assert tokens(write(path, json.dumps(members))) == [f"a b{character}"]
    assert ", line 1: " in refused(write(path, json.dumps({"tokens": ["a\0"]}))).message
    assert tokens(write(path, '{"text": "\\ufeffa b"}')) == ["a b"]  # as at the start of a line


def test_a_program_may_embed_tokens_with_control_characters() -> None:
    assert sentence_of(["a", "b\x07\ufeff"], 0).tokens == ("a", "b\x07\ufeff")
    with pytest.raises(InputError, match=r"token 1 holds a NUL"):
        sentence_of(["a", "b\0"], 0)


@pytest.mark.parametrize(
    ("content", "encoding", "hint"),
    [
        (b"\x93no\x94\n", "utf-8", "`encoding='cp1252'` (Windows) or"),
        (b"caf\xe9 \x85\n", "utf-8", "`encoding='cp1252'` (Windows) or"),
        (b"5 \x80\n", "utf-8", "`encoding='cp1252'` (Windows) or"),
        (b"\x9f\n", "utf-8", "`encoding='cp1252'` (Windows) or"),
        (b"\xa0\n", "utf-8", "`encoding='latin-1'` or"),
        (b"caf\xe9\n", "utf-8", "`encoding='latin-1'` or"),
        (b"\x93no\x94\n", "latin-1", "`encoding='cp1252'` (Windows) or"),
        (b"wait\x85what\n", "latin-1", "`encoding='cp1252'` (Windows) or"),
        (b"wait\x85what\n", "iso8859-15", "`encoding='cp1252'` (Windows) or"),
        ("l’été\n".encode(), "latin-1", "`encoding='utf-8'` reads it"),
        ("Á\n".encode(), "cp1252", "`encoding='utf-8'` reads it"),
        (b"\x81\n", "cp1252", "`encoding='latin-1'` or"),
        ("a\x93b\n".encode(), "utf-8", "cp1252"),
        ("5 \x80\n".encode(), "utf-8", "cp1252"),
        ("a\x9fb\n".encode(), "utf-8", "cp1252"),
        (b"a\x7fb\n", "utf-8", "`tr -d"),
        (b"a\x1b[31m\n", "utf-8", "`tr -d"),
        (b"a\rb\n", "utf-8", "in old Mac files it ends lines: `tr '\\r'"),
        (b"a\0b\n", "utf-8", "`encoding='latin-1'` or `encoding='utf-16'`"),
        ("ab\ufeffc\n".encode(), "utf-8", "`sed 's/\\xEF\\xBB\\xBF//g'"),
    ],
)
def test_the_hint_names_the_likely_encoding(
    text: Path, content: bytes, encoding: str, hint: str
) -> None:
    """A hint that is followed must not lead to other silent damage."""
    error = refused(write(text, content), encoding=encoding)
    assert hint in error.hint
    assert error.parameters == (("encoding",) if "`encoding=" in error.hint else ())


def test_next_line_is_white_space_in_unicode_only(text: Path) -> None:
    """In one byte it is an ellipsis of Windows; in UTF-8 it was written as what it is."""
    assert tokens(write(text, "wait\x85what\n".encode())) == ["wait what"]
    assert tokens(write(text, b"wait\x85what\n"), encoding="cp1252") == ["wait…what"]
    assert "(U+0085) at character 5" in refused(text, encoding="latin-1").message


@pytest.mark.parametrize(
    ("content", "encoding", "line"),
    [
        ("a\nvoilà\n".encode(), "latin-1", 2),
        ("zloțina\n".encode(), "cp1250", 1),
        ("à\n".encode() * 3 + b"\xe0\n", "latin-1", 1),
        (b"\xe0 la\n" + "déjà vu\n".encode(), "latin-1", 2),  # two texts in one file
        (gzip.compress("ça va\n".encode(), mtime=0), "cp1252", 1),
    ],
)
def test_utf8_that_is_read_as_another_encoding_is_warned_of(
    text: Path, content: bytes, encoding: str, line: int
) -> None:
    """`à` became `Ã` and a space, which splits the word."""
    report = InputReport()
    read(write(text, content), report, encoding=encoding)
    warnings = [warning for warning in report.warnings if "valid UTF-8" in warning]
    assert [warning.startswith(f"{text}, line {line}: read as") for warning in warnings] == [True]
    assert "`encoding='utf-8'`" in warnings[0]


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"caf\xe9\nCAF\xc9\xbb\n", "latin-1"),  # is valid UTF-8 by chance
        (b"caf\xe9\n", "cp1252"),
        (b"plain\n", "latin-1"),
        ("voilà\n".encode(), "utf-8"),
        ("日本\n".encode("gbk"), "gbk"),
    ],
)
def test_a_text_in_its_encoding_causes_no_warning(
    text: Path, content: bytes, encoding: str
) -> None:
    report = InputReport()
    read(write(text, content), report, encoding=encoding)
    assert [warning for warning in report.warnings if "UTF-8" in warning] == []


@pytest.mark.parametrize(
    ("line", "position", "shown"),
    [
        ("Price : 10\u00a0000 euros", 11, "U+00A0"),
        ("東京\u3000駅 に", 3, "U+3000"),
        ("bell\x1cfs sep", 5, "U+001C"),
        ("a\x85b", 2, "U+0085"),
        ("10\u202f000", 3, "U+202F"),
        ("a\u2003b", 2, "U+2003"),
        ("a\u2028b", 2, "U+2028"),
        ("a \u00a0 b", 3, "U+00A0"),  # a token for `split(" ")`
        ("a\u00a0 b\u00a0c", 5, "U+00A0"),
    ],
)
def test_white_space_within_a_token_is_warned_of(
    text: Path, line: str, position: int, shown: str
) -> None:
    """People count labels with `split(" ")`; the tokens stay those of AllenNLP."""
    for name, content in (
        ("a.txt", f"x y\n{line}\n"),
        ("a.jsonl", f"\n{json.dumps({'text': line})}\n"),
    ):
        report = InputReport()
        sentences = read(write(text.parent / name, content), report)
        assert sentences[-1].tokens == tuple(line.split())
        (warning,) = [warning for warning in report.warnings if "separates" in warning]
        where = f"{text.parent / name}, line 2: {shown} at character {position} separates tokens"
        assert warning.startswith(where)
        assert "`tokens`" in warning


@pytest.mark.parametrize("line", ["\u00a0", "a b\u00a0", "\x0ca b", "a\tb", "a \u00a0b", "a \x0cb"])
def test_white_space_that_changes_no_number_is_not_warned_of(text: Path, line: str) -> None:
    report = InputReport()
    read(write(text, f"a b\n{line}\n"), report)
    assert [warning for warning in report.warnings if "separates" in warning] == []


def test_raw_text_and_given_tokens_may_have_any_white_space(tmp_path: Path) -> None:
    report = InputReport()
    read(write(tmp_path / "a.txt", "10\u00a0000 cats.\n"), report, tokenize=True)
    read(write(tmp_path / "a.jsonl", '{"tokens": ["10\u00a0000", "cats"]}\n'), report)
    read(write(tmp_path / "a.conllu", "1\t10\u00a0000\t_\n"), report)
    assert report.warnings == []
