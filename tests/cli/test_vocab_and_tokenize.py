"""`elmo vocab` and `elmo tokenize`: text to types, and raw English to text."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest
from command_line import elmo, made, refused

from elmo_cli.lm.corpus import Corpus
from elmo_cli.text.input import InputSettings, read_sentences
from elmo_cli.text.vocabulary import Vocabulary

TEXT = "b a c a\n\nd b a <UNK> <S>\nC zebra b\n"
TYPES = ["<S>", "</S>", "<UNK>", "a", "b", "C", "c", "d", "zebra"]
RAW = "He said hi. Do not go!\nIt can't be 3.5 m wide (or can it?).\n\nA new one \u2013 in Wien.\n"
TOKENS = (
    "He said hi .\nDo not go !\nIt ca n't be 3.5 m wide ( or can it ? ) .\n"
    "\nA new one \u2013 in Wien .\n"
)


@pytest.fixture(autouse=True)
def here(folder: Path) -> None:
    """A working folder with a tokenized text and a raw text."""
    Path("text.txt").write_text(TEXT)
    Path("raw.txt").write_text(RAW, encoding="utf-8")


@pytest.mark.parametrize(
    ("more", "n_entries"),
    [("", 9), ("--min-count 2", 5), ("--vocabulary-size 6", 6)],
)
def test_specials_then_types_by_count(more: str, n_entries: int) -> None:
    """The sampled softmax takes the number of a type for its rank; ties are in one order."""
    done = made("vocab", "text.txt", "-o", "out", "--json", *more.split())
    found, kept = json.loads(done.out), TYPES[:n_entries]
    assert Vocabulary.read(Path("out")).types == tuple(kept)
    assert (found["vocabulary"], found["size"]) == ("out", n_entries)
    assert (found["types"], found["tokens"], found["sentences"]) == (8, 12, 3)
    tokens = TEXT.replace("<S>", "-").split()
    assert found["coverage"] == pytest.approx(sum(t in kept for t in tokens) / 12)
    assert "boundary or padding tokens (<S>" in done.err
    assert f"out: {n_entries} entries for the 8 types of the text" in done.err
    to_stdout = made("vocab", "-", "-o", "-", "-q", *more.split(), stdin=TEXT.encode())
    assert (to_stdout.out, to_stdout.err) == (Path("out").read_bytes(), "")
    counted = Corpus.read(line.split() for line in TEXT.splitlines())
    options = {"max_types": 6} if "size" in more else {"min_count": int(more[-1:] or 1)}
    assert counted.vocabulary(**options).types == tuple(kept)  # that of training


def test_vocabulary_of_several_raw_files() -> None:
    Path("text.xz").write_bytes(lzma.compress(b"a I don't. b\n"))
    found = made("vocab", "text.txt", "text.xz", "--tokenize", "-o", "-").out.decode().split()
    assert {"a", "n't", "do", ".", "zebra"} <= set(found)


def test_types_that_do_not_fit_a_line_are_left_out() -> None:
    """They would move the numbers of all following types when the file is read again."""
    tokens = ["New York", "a\nb", " c", "d\u2028", "!!!MAXTERMID", "e\rf"]
    Path("text.jsonl").write_text(json.dumps({"tokens": tokens}) + "\n")
    assert "left out 4 types" in made("vocab", "text.jsonl", "-o", "out").err
    assert Vocabulary.read(Path("out")).types == ("<S>", "</S>", "<UNK>", "New York", "e\rf")


def test_one_sentence_per_line_and_blank_lines_between_documents() -> None:
    """Training with `--shuffle documents` finds the documents by these lines."""
    done = made("tokenize", "raw.txt")
    assert done.out.decode() == TOKENS
    assert done.err == "standard output: written\n"
    assert made("tokenize", "-", "-q", stdin=RAW.encode()).out.decode() == TOKENS
    # Standard input has no suffix, so that text with any name can be read as raw text.
    assert made("tokenize", "-", stdin=b"One.\n").out == b"One .\n"


def test_tokenized_text_is_read_back() -> None:
    """A token with a space in it would come back as two."""
    made("tokenize", "raw.txt", "raw.txt", "-o", "out")
    split = [s.tokens for s in read_sentences(["raw.txt"] * 2, InputSettings(tokenize=True))]
    assert [s.tokens for s in read_sentences("out")] == [*split[:5], (), *split[5:]]
    begins = [s.starts_document for s in read_sentences("out", InputSettings(blank="skip"))]
    assert begins == [True, False, False, True, True, False, False, True]


@pytest.mark.parametrize("content", [RAW, f"\n{RAW}\n \n\n{RAW}\n", "One. Two."])
def test_tokenized_text_has_the_keys_of_raw_text(content: str) -> None:
    """Otherwise sentence k of the one file is another sentence in the other."""
    Path("raw.txt").write_text(content, encoding="utf-8")
    made("tokenize", "raw.txt", "-o", "out", "-q")
    texts = [
        [(s.key, s.tokens, s.text, s.starts_document) for s in read_sentences(*arguments)]
        for arguments in (("out",), ("raw.txt", InputSettings(tokenize=True)))
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("command", "name", "result"),
    [("vocab", "text.txt", "".join(f"{t}\n" for t in TYPES)), ("tokenize", "raw.txt", TOKENS)],
    ids=["vocab", "tokenize"],
)
def test_outputs(command: str, name: str, result: str) -> None:
    """An existing file is kept; skipped lines give exit code 3."""
    content = Path(name).read_bytes()
    Path("out").write_text("mine")
    refused(elmo(command, name, "-o", "out"), 1, "out: exists", "--overwrite")
    refused(elmo(command, name, "-o", name, "-f"), 2, f"{name}: is also", "")
    assert (Path("out").read_text(), Path(name).read_bytes()) == ("mine", content)
    made(command, name, "-o", "out", "-f")
    assert Path("out").read_text() == result
    Path(name).write_bytes(content + b"\xff\n")
    assert elmo(command, name, "-o", "new").code == 1
    assert not Path("new").exists()
    assert elmo(command, name, "-o", "new", "--on-error", "skip").code == 3
    assert Path("new").read_text() == result
