"""`elmo vocab`: the types of a text, in the order that a sampled softmax relies on."""

from __future__ import annotations

import io
import json
import lzma
import os
from pathlib import Path

import pytest
from training_commands import Command, refused

from elmo_cli.errors import InputError, UsageError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.text.vocabulary import TypeCounts, Vocabulary

TEXT = "b a c a\n\nd b a <UNK> <S>\nC zebra b\n"
TYPES = ["<S>", "</S>", "<UNK>", "a", "b", "C", "c", "d", "zebra"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys, "vocab")


def test_specials_then_the_commonest(run: Command, text: Path, tmp_path: Path) -> None:
    """Sampled softmax takes the id for the rank; ties in any other order differ from run to run."""
    out = tmp_path / "vocab.txt"
    code, said, err = run(text, "-o", out)
    assert (code, said) == (0, "")
    assert out.read_text() == "".join(f"{token}\n" for token in TYPES)
    said = f"{out}: 9 entries for the 8 types of the text; they have 91.67% of its 12 tokens"
    assert err.splitlines()[-1] == said
    assert "boundary or padding tokens (<S>" in err
    assert Vocabulary.read(out).types == tuple(TYPES)
    assert run(text, "-o", "-", "-q") == (0, out.read_text(), "")


def test_rare_types_are_left_out(run: Command, text: Path, tmp_path: Path) -> None:
    """Both bounds, and the coverage that tells what they cost."""
    out = tmp_path / "vocab.txt"
    code, said, _ = run(text, "-o", out, "--min-count", "2", "--json")
    assert code == 0
    found = json.loads(said)
    assert out.read_text().split() == TYPES[:5]
    assert found["vocabulary"] == str(out)
    assert (found["size"], found["types"], found["tokens"], found["sentences"]) == (5, 8, 12, 3)
    assert found["coverage"] == pytest.approx(7 / 12)
    run(text, "-o", out, "--vocabulary-size", "6", "-f")
    assert out.read_text().split() == TYPES[:6]


def test_it_is_the_vocabulary_that_training_counts(
    tmp_path: Path, golden: Path, run: Command
) -> None:
    """Or `elmo pretrain --vocabulary` would differ from `elmo pretrain`."""
    path = golden / "lm" / "sentences.txt"
    corpus = Corpus.read(line.split() for line in path.read_text().splitlines())
    run(path, "-o", tmp_path / "vocab.txt", "--min-count", "2", "--vocabulary-size", "40")
    wanted = corpus.vocabulary(min_count=2, max_types=40)
    assert Vocabulary.read(tmp_path / "vocab.txt").types == wanted.types


def test_all_kinds_of_input(
    run: Command, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several files, compressed ones, a pipe, raw text."""
    packed = tmp_path / "text.txt.xz"
    packed.write_bytes(lzma.compress(b"a I don't. b\n"))
    _, out, _ = run(text, packed, "--tokenize", "-o", "-")
    assert {"a", "n't", "do", ".", "zebra"} <= set(out.split())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert run("-", "-o", "-")[1].split() == TYPES


def test_nothing_is_overwritten_unasked(run: Command, text: Path, tmp_path: Path) -> None:
    """A vocabulary that changes under a softmax makes it worthless."""
    out = tmp_path / "vocab.txt"
    out.write_text("mine")
    refused(run(text, "-o", out), "vocab.txt: exists", "`--overwrite`")
    assert out.read_text() == "mine"
    refused(run(text, "-o", text, "-f"), "is also one of the inputs", "output path", code=2)
    assert text.read_text() == TEXT
    link = tmp_path / "link.txt"
    link.symlink_to(out)
    assert run(text, "-o", link, "-f")[0] == 0
    assert link.is_symlink()
    assert out.read_text().split() == TYPES
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.txt", "text.txt", "vocab.txt"]
    beside = text.rename(f"{tmp_path}/new.part")  # no name that a vocabulary is written under
    assert run(beside, "-o", tmp_path / "new")[0] == 0
    assert beside.read_text() == TEXT


def test_bad_input_is_told_in_two_lines(run: Command, text: Path, tmp_path: Path) -> None:
    """And leaves nothing behind."""
    out = tmp_path / "vocab.txt"
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n")
    refused(run(empty, "-o", out), f"{empty}: no sentence in it", "tokens")
    many = [empty] * 4
    refused(run(*many, "-o", out), f"{empty} and 3 more: no sentence in it", "tokens")
    refused(run(tmp_path / "gone.txt", "-o", out), "no such file", "")
    refused(run(text, "-o", tmp_path), "is a folder", "")
    refused(run(text, "-o", tmp_path / "no" / "v.txt"), "there is no folder", "")
    refused(run(text, "-o", "-", "--json"), "--json: standard output", "-o FILE", code=2)
    too_often = run(text, "-o", out, "--min-count", "4")
    refused(too_often, "`--min-count 4`: the most frequent type of the text occurs 3", "", code=2)
    refused(run(text, "-o", out, "--vocabulary-size", "3"), "3", "--help", code=2)
    borders = tmp_path / "borders.txt"
    borders.write_text("<S> </S>\n" * 5 + "a\n")
    too_often = run(borders, "-o", out, "--min-count", "4")
    refused(too_often, "`--min-count 4`: the most frequent type of the text occurs 1", "", code=2)
    borders.write_text("<S> </S>\n")
    refused(run(borders, "-o", out), "occurs 0 times", "more text", code=2)
    assert not out.exists()


def test_a_device_stays_a_device(text: Path, run: Command, tmp_path: Path) -> None:
    """Renaming onto /dev/stdout or a FIFO would put a file in its place."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run(text, "-o", pipe)[0] == 0
        assert os.read(reader, 1000).decode().split() == TYPES
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_types_that_fit_no_line_are_told(run: Command, tmp_path: Path) -> None:
    """Such a type would move the ids of all that follow when the file is read again."""
    text = tmp_path / "text.jsonl"
    tokens = ["New York", "a\nb", " c", "d\u2028", "!!!MAXTERMID", "e\rf"]
    text.write_text(json.dumps({"tokens": tokens}) + "\n")
    out = tmp_path / "vocab.txt"
    code, _, err = run(text, "-o", out)
    assert code == 0
    assert "4 types are left out, with a line end" in err
    assert Vocabulary.read(out).types == ("<S>", "</S>", "<UNK>", "New York", "e\rf")


def test_lines_left_out_end_in_exit_code_3(run: Command, text: Path, tmp_path: Path) -> None:
    """The vocabulary is of the rest, and a script must be able to see that."""
    text.write_bytes(text.read_bytes() + b"\xff\n")
    out = tmp_path / "vocab.txt"
    refused(run(text, "-o", out), "is not UTF-8", "encoding")
    assert not out.exists()
    code, _, err = run(text, "-o", out, "--on-error", "skip")
    assert code == 3
    assert "1 line was left out" in err
    assert out.read_text().split() == TYPES


def test_counting_keeps_no_text() -> None:
    """Sentences are counted as they come, from any iterator, and none is kept."""
    counts = TypeCounts.of(["a", "b"] for _ in range(1000))
    assert (counts.n_tokens, counts.n_sentences, len(counts.counts)) == (2000, 1000, 2)
    assert counts.coverage(Vocabulary(["<S>", "</S>", "<UNK>", "b"])) == 0.5
    with pytest.raises(InputError, match="no sentence"):
        TypeCounts.of([[], []])
    with pytest.raises(UsageError, match="occurs 1000 times"):
        counts.vocabulary(min_count=1001)
