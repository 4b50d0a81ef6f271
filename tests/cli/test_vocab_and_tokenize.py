"""`elmo vocab` and `elmo tokenize`: text to types, and raw English to text."""

from __future__ import annotations

import json
import lzma
import os
from pathlib import Path

import pytest
from command_line import elmo, made

from elmo_cli.errors import InputError, UsageError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.text.input import InputSettings, read_sentences
from elmo_cli.text.vocabulary import TypeCounts, Vocabulary

TEXT = "b a c a\n\nd b a <UNK> <S>\nC zebra b\n"
TYPES = ["<S>", "</S>", "<UNK>", "a", "b", "C", "c", "d", "zebra"]
RAW = "He said hi. Do not go!\nIt can't be 3.5 m wide (or can it?).\n\nA new one \u2013 in Wien.\n"
TOKENS = (
    "He said hi .\nDo not go !\nIt ca n't be 3.5 m wide ( or can it ? ) .\n"
    "\nA new one \u2013 in Wien .\n"
)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "raw.txt"
    path.write_text(RAW, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("more", "n_entries"),
    [("", 9), ("--min-count 2", 5), ("--vocabulary-size 6", 6)],
)
def test_specials_then_types_by_count(more: str, n_entries: int, text: Path) -> None:
    """The sampled softmax takes the number of a type for its rank; ties are in one order."""
    out = text.with_name("vocab.txt")
    done = made("vocab", text, "-o", out, "--json", *more.split())
    found, kept = json.loads(done.out), TYPES[:n_entries]
    assert Vocabulary.read(out).types == tuple(kept)
    assert (found["vocabulary"], found["size"]) == (str(out), n_entries)
    assert (found["types"], found["tokens"], found["sentences"]) == (8, 12, 3)
    tokens = TEXT.replace("<S>", "-").split()
    assert found["coverage"] == pytest.approx(sum(t in kept for t in tokens) / 12)
    assert "boundary or padding tokens (<S>" in done.err
    assert f"{out}: {n_entries} entries for the 8 types of the text" in done.err
    to_stdout = made("vocab", "-", "-o", "-", "-q", *more.split(), stdin=TEXT.encode())
    assert (to_stdout.out, to_stdout.err) == (out.read_bytes(), "")


def test_vocabulary_is_that_of_training(tmp_path: Path, golden: Path) -> None:
    path, out = golden / "lm" / "sentences.txt", tmp_path / "vocab.txt"
    corpus = Corpus.read(line.split() for line in path.read_text().splitlines())
    made("vocab", path, "-o", out, "--min-count", "2", "--vocabulary-size", "40")
    assert Vocabulary.read(out).types == corpus.vocabulary(min_count=2, max_types=40).types


def test_vocabulary_of_several_raw_files(text: Path) -> None:
    packed = text.with_name("text.txt.xz")
    packed.write_bytes(lzma.compress(b"a I don't. b\n"))
    found = made("vocab", text, packed, "--tokenize", "-o", "-").out.decode().split()
    assert {"a", "n't", "do", ".", "zebra"} <= set(found)


def test_types_that_do_not_fit_a_line_are_left_out(tmp_path: Path) -> None:
    """They would move the numbers of all following types when the file is read again."""
    text, out = tmp_path / "text.jsonl", tmp_path / "vocab.txt"
    tokens = ["New York", "a\nb", " c", "d\u2028", "!!!MAXTERMID", "e\rf"]
    text.write_text(json.dumps({"tokens": tokens}) + "\n")
    assert "4 types are left out" in made("vocab", text, "-o", out).err
    assert Vocabulary.read(out).types == ("<S>", "</S>", "<UNK>", "New York", "e\rf")


def test_counting_keeps_no_text() -> None:
    counts = TypeCounts.of(["a", "b"] for _ in range(1000))
    assert (counts.n_tokens, counts.n_sentences, len(counts.counts)) == (2000, 1000, 2)
    assert counts.coverage(Vocabulary(["<S>", "</S>", "<UNK>", "b"])) == 0.5
    with pytest.raises(InputError):
        TypeCounts.of([[], []])
    with pytest.raises(UsageError):
        counts.vocabulary(min_count=1001)


def test_one_sentence_per_line_and_blank_lines_between_documents(raw: Path) -> None:
    """Training with `--shuffle documents` finds the documents by these lines."""
    done = made("tokenize", raw)
    assert done.out.decode() == TOKENS
    assert done.err == "standard output: 4 sentences, 29 tokens\n"
    assert made("tokenize", "-", "-q", stdin=RAW.encode()).out.decode() == TOKENS
    # Standard input has no suffix, so that text with any name can be read as raw text.
    assert made("tokenize", "-", stdin=b"One.\n").out == b"One .\n"


def test_tokenized_text_is_read_back(raw: Path) -> None:
    """A token with a space in it would come back as two."""
    out = raw.with_name("tokens.txt")
    made("tokenize", raw, raw, "-o", out)
    split = [s.tokens for s in read_sentences([raw, raw], InputSettings(tokenize=True))]
    assert [s.tokens for s in read_sentences(out)] == [*split[:5], (), *split[5:]]
    begins = [s.starts_document for s in read_sentences(out, InputSettings(blank="skip"))]
    assert begins == [True, False, False, True, True, False, False, True]


@pytest.mark.parametrize("content", [RAW, f"\n{RAW}\n \n\n{RAW}\n", "One. Two."])
def test_tokenized_text_has_the_keys_of_raw_text(content: str, tmp_path: Path) -> None:
    """Otherwise sentence k of the one file is another sentence in the other."""
    raw, out = tmp_path / "raw.txt", tmp_path / "tokens.txt"
    raw.write_text(content, encoding="utf-8")
    made("tokenize", raw, "-o", out, "-q")
    texts = [
        [(s.key, s.tokens, s.text, s.starts_document) for s in read_sentences(*arguments)]
        for arguments in ((out,), (raw, InputSettings(tokenize=True)))
    ]
    assert texts[0] == texts[1]


COMMANDS = pytest.mark.parametrize(
    ("command", "content", "result"),
    [("vocab", TEXT, "".join(f"{t}\n" for t in TYPES)), ("tokenize", RAW, TOKENS)],
    ids=["vocab", "tokenize"],
)


@COMMANDS
def test_existing_output_stays(command: str, content: str, result: str, tmp_path: Path) -> None:
    path, out, link = (tmp_path / name for name in ("in.part", "in", "link"))
    path.write_text(content)
    out.write_text("mine")
    link.symlink_to(out)
    assert elmo(command, path, "-o", out).code == 1
    assert elmo(command, path, "-o", path, "-f").code == 2
    assert (out.read_text(), path.read_text()) == ("mine", content)
    made(command, path, "-o", link, "-f")
    assert (link.is_symlink(), out.read_text(), path.read_text()) == (True, result, content)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in", "in.part", "link"]


@COMMANDS
def test_output_that_appears_meanwhile_stays(
    command: str, content: str, result: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = tmp_path / "in", tmp_path / "out"
    path.write_text(content)
    monkeypatch.setattr("elmo_cli.files.check_output_path", lambda *a, **k: out.write_text("other"))
    assert elmo(command, path, "-o", out).code == 1
    assert out.read_text() == "other"


@COMMANDS
def test_a_fifo_stays_a_fifo(command: str, content: str, result: str, tmp_path: Path) -> None:
    path, pipe = tmp_path / "in", tmp_path / "pipe"
    path.write_text(content)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        made(command, path, "-o", pipe)
        assert os.read(reader, 1000).decode() == result
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@COMMANDS
def test_skipped_lines_end_in_exit_code_3(
    command: str, content: str, result: str, tmp_path: Path
) -> None:
    path, out = tmp_path / "in", tmp_path / "out"
    path.write_bytes(content.encode() + b"\xff\n")
    assert elmo(command, path, "-o", out).code == 1
    assert not out.exists()
    assert elmo(command, path, "-o", out, "--on-error", "skip").code == 3
    assert out.read_text() == result
