"""`elmo tokenize`: the tokens of `elmo embed --tokenize`, as text that is read as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import elmo, made

from elmo_cli.text.input import InputSettings, read_sentences

RAW = "He said hi. Do not go!\nIt can't be 3.5 m wide (or can it?).\n\nA new one \u2013 in Wien.\n"
TOKENS = (
    "He said hi .\nDo not go !\nIt ca n't be 3.5 m wide ( or can it ? ) .\n"
    "\nA new one \u2013 in Wien .\n"
)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "raw.txt"
    path.write_text(RAW, encoding="utf-8")
    return path


def test_a_sentence_a_line_and_blank_lines_between_documents(raw: Path) -> None:
    """Training that shuffles documents finds them by these lines."""
    done = made("tokenize", raw)
    assert done.out.decode() == TOKENS
    assert done.err == "standard output: 4 sentences, 29 tokens\n"
    assert made("tokenize", "-", "-q", stdin=RAW.encode()).out.decode() == TOKENS


def test_what_is_written_is_read_back(raw: Path, tmp_path: Path) -> None:
    """A token with a space in it would come back as two."""
    out = tmp_path / "tokens.txt"
    made("tokenize", raw, raw, "-o", out)
    split = [s.tokens for s in read_sentences([raw, raw], InputSettings(tokenize=True))]
    assert [s.tokens for s in read_sentences(out) if s.tokens] == split
    begins = [s.starts_document for s in read_sentences(out, InputSettings(blank="skip"))]
    assert begins == [True, False, False, True, True, False, False, True]


def test_vectors_are_those_of_embed_tokenize(raw: Path, tmp_path: Path) -> None:
    """Else text that was split once would have other vectors than text that is split each time."""
    tokens = tmp_path / "tokens.txt"
    made("tokenize", raw, "-o", tokens, "-q")
    to_stdout = ("-o", "-", "--output-format", "jsonl", "-q")
    one = made("embed", raw, "--tokenize", *to_stdout).out
    two = made("embed", tokens, "--blank-lines", "skip", *to_stdout).out
    layers = [[json.loads(line)["layers"] for line in out.splitlines()] for out in (one, two)]
    assert layers[0] == layers[1]
    assert len(layers[0]) == 4


def test_an_old_file_stays(raw: Path, tmp_path: Path) -> None:
    """Nothing is lost without being asked for."""
    out = tmp_path / "tokens.txt"
    out.write_text("old\n")
    done = elmo("tokenize", raw, "-o", out)
    assert done.code == 1
    assert done.err.splitlines()[0] == f"error: {out}: exists"
    assert out.read_text() == "old\n"
    assert elmo("tokenize", raw, "-o", raw, "-f").code == 2
    assert raw.read_text() == RAW
    made("tokenize", raw, "-o", out, "-f")
    assert out.read_text() == TOKENS


def test_what_is_split_already_is_refused(tmp_path: Path) -> None:
    """Columns and braces would become tokens."""
    path = tmp_path / "a.conllu.gz"
    path.touch()
    done = elmo("tokenize", path)
    assert done.code == 2
    assert done.err.splitlines()[0] == f"error: {path}: conllu by its name, which is no raw text"
    assert elmo("tokenize", "-", stdin=b"One.\n").out == b"One .\n"


def test_a_line_that_cannot_be_read(tmp_path: Path) -> None:
    """One bad byte in a year of news: where it is, or all lines but that one."""
    path, out = tmp_path / "bad.txt", tmp_path / "tokens.txt"
    path.write_bytes(b"Good one.\nBad \xff.\nLast one.\n")
    done = elmo("tokenize", path, "-o", out)
    assert done.code == 1
    assert f"error: {path}, line 2" in done.err
    assert not out.exists()
    done = elmo("tokenize", path, "-o", out, "--on-error", "skip")
    assert done.code == 3
    assert out.read_text() == "Good one .\nLast one .\n"


def test_a_file_that_appears_meanwhile_stays(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs into one file: without `-f` the later one would replace what the other has made."""
    out = tmp_path / "tokens.txt"
    monkeypatch.setattr("elmo_cli.files.check_output_path", lambda *a, **k: out.write_text("other"))
    done = elmo("tokenize", raw, "-o", out)
    assert done.code == 1
    assert done.err.startswith(f"error: {out}: was created by another process meanwhile\nhint: ")
    assert out.read_text() == "other"
