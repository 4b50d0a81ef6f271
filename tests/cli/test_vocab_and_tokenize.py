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
    ("options", "min_count", "max_types", "n_entries"),
    [("", 1, None, 9), ("--min-count 2", 2, None, 5), ("--vocabulary-size 6", 1, 6, 6)],
)
def test_specials_then_types_by_count(
    options: str, min_count: int, max_types: int | None, n_entries: int
) -> None:
    """The sampled softmax takes the number of a type for its rank; ties are in one order."""
    kept = TYPES[:n_entries]
    done = made("vocab", "text.txt", "-o", "out", "--json", *options.split())
    assert Vocabulary.read(Path("out")).types == tuple(kept)
    tokens = TEXT.replace("<S>", "-").split()
    n_known = sum(token in kept for token in tokens)
    facts = json.loads(done.out)
    (warning, other) = facts.pop("warnings")
    assert "placeholders of words, such as `<unk>`" in other
    assert facts == {
        "vocabulary": "out",
        "size": n_entries,
        "types": 8,
        "tokens": 12,
        "sentences": 3,
        "coverage": pytest.approx(n_known / 12),
        "skipped": [],
    }
    assert "boundary or padding tokens (<S>" in warning
    assert f"warning: {warning}\n" in done.err
    covered = f"they cover {n_known / 12:.2%} of its 12 tokens"
    assert f"out: {n_entries} entries for the 8 types of the text; {covered}\n" in done.err
    to_stdout = made("vocab", "-", "-o", "-", "-q", *options.split(), stdin=TEXT.encode())
    assert to_stdout.out == Path("out").read_bytes()
    assert to_stdout.err == ""
    counted_in_training = Corpus.read(line.split() for line in TEXT.splitlines())
    vocabulary = counted_in_training.vocabulary(min_count=min_count, max_types=max_types)
    assert vocabulary.types == tuple(kept)


def test_vocabulary_of_several_raw_files() -> None:
    Path("text.xz").write_bytes(lzma.compress(b"a I don't. b\n"))
    types = made("vocab", "text.txt", "text.xz", "--tokenize", "-o", "-").out.decode().split()
    assert {"a", "n't", "do", ".", "zebra"} <= set(types)


# Options, name and content of a file, and its types
INPUTS = [
    ("--encoding latin-1", "a.txt", b"caf\xe9\n", "caf\u00e9"),
    ("--input-format conll", "a.txt", b"a X\nb Y\n", "a b"),
    ("--input-format conll --column 2", "a.txt", b"a X\nb Y\n", "X Y"),
    ("--input-format jsonl", "a.txt", b'{"tokens": ["a"]}\n', "a"),
    ("--fasta-raw", "a.fasta", b">p\nM-\n", "- M"),
    ("--tokenize", "a.txt", b"don't\n", "do n't"),
]


@pytest.mark.parametrize(("options", "name", "content", "types"), INPUTS)
def test_options_of_the_input(options: str, name: str, content: bytes, types: str) -> None:
    Path(name).write_bytes(content)
    lines = made("vocab", name, "-o", "-", *options.split()).out.decode().splitlines()
    assert lines[3:] == types.split()


@pytest.mark.parametrize(
    ("words", "code"),
    [("--vocabulary-size 3", 2), ("--vocabulary-size 4", 0), ("--min-count 0", 2)],
)
def test_limits_of_a_vocabulary(words: str, code: int) -> None:
    """The three reserved names alone are no vocabulary."""
    assert elmo("vocab", "text.txt", "-o", "out", *words.split()).code == code


def test_skipped_lines_and_warnings_are_in_the_json() -> None:
    Path("bad.txt").write_bytes(b"a\n\xff\nb\n")
    done = elmo("vocab", "bad.txt", "-o", "out", "--on-error", "skip", "--json")
    assert done.code == 3
    facts = json.loads(done.out)
    assert facts["skipped"] == [["bad.txt", 2, "0xFF at byte 1 is not UTF-8"]]
    Path("empty.txt").write_text("")
    for command in ("vocab", "tokenize"):
        err = made(
            command,
            "text.txt" if command == "vocab" else "raw.txt",
            "empty.txt",
            "-o",
            f"{command}.out",
        ).err
        assert "warning: empty.txt: empty, without any line\n" in err
    assert err.endswith("tokenize.out: written\n")


def test_types_that_do_not_fit_a_line_are_left_out() -> None:
    """They would move the numbers of all following types when the file is read again."""
    tokens = ["New York", "a\nb", " c", "d\u2028", "!!!MAXTERMID", "e\rf", "g\th"]
    Path("text.jsonl").write_text(json.dumps({"tokens": tokens}) + "\n")
    done = made("vocab", "text.jsonl", "-o", "out", "--json")
    (warning,) = json.loads(done.out)["warnings"]
    assert warning.startswith("left out 5 types with a tab, a line end or ")
    assert warning.endswith(r"; the first is 'a\nb'")
    assert f"warning: {warning}\n" in done.err
    assert Vocabulary.read(Path("out")).types == ("<S>", "</S>", "<UNK>", "New York", "e\rf")


def test_one_sentence_per_line_and_blank_lines_between_documents() -> None:
    """Training with `--shuffle documents` finds the documents by these lines."""
    done = made("tokenize", "raw.txt")
    assert done.out.decode() == TOKENS
    assert done.err == ""
    assert made("tokenize", "-", "-q", stdin=RAW.encode()).out.decode() == TOKENS
    # Standard input has no suffix, so that text with any name can be read as raw text.
    assert made("tokenize", "-", stdin=b"One.\n").out == b"One .\n"


def test_the_raw_text_may_have_another_encoding() -> None:
    Path("latin.txt").write_bytes("Ein Café.\n".encode("latin-1"))
    done = made("tokenize", "latin.txt", "--encoding", "latin-1")
    assert done.out.decode() == "Ein Café .\n"


def test_each_raw_text_is_checked_by_its_name() -> None:
    Path("b.jsonl").write_text("{}\n")
    done = elmo("tokenize", "raw.txt", "b.jsonl")
    refused(done, 2, "b.jsonl: jsonl according to its suffix", "`elmo tokenize - < FILE`")


def test_tokenized_text_is_read_back() -> None:
    """A token with a space in it would come back as two."""
    made("tokenize", "raw.txt", "raw.txt", "-o", "out")
    raw = read_sentences(["raw.txt", "raw.txt"], InputSettings(tokenize=True))
    expected = [sentence.tokens for sentence in raw]
    expected.insert(5, ())  # the blank line between the two
    assert [sentence.tokens for sentence in read_sentences("out")] == expected
    sentences = read_sentences("out", InputSettings(blank="skip"))
    starts = [sentence.starts_document for sentence in sentences]
    assert starts == [True, False, False, True, True, False, False, True]


@pytest.mark.parametrize("content", [RAW, f"\n{RAW}\n \n\n{RAW}\n", "One. Two."])
def test_tokenized_text_has_the_keys_of_raw_text(content: str) -> None:
    """Otherwise sentence k of the one file is another sentence in the other."""
    Path("raw.txt").write_text(content, encoding="utf-8")
    made("tokenize", "raw.txt", "-o", "out", "-q")
    tokenized = read_sentences("out")
    raw = read_sentences("raw.txt", InputSettings(tokenize=True))
    for sentence, expected in zip(tokenized, raw, strict=True):
        assert sentence.key == expected.key
        assert sentence.tokens == expected.tokens
        assert sentence.text == expected.text
        assert sentence.starts_document == expected.starts_document


OUTPUTS = [
    pytest.param("vocab", "text.txt", "".join(f"{token}\n" for token in TYPES), id="vocab"),
    pytest.param("tokenize", "raw.txt", TOKENS, id="tokenize"),
]


@pytest.mark.parametrize(("command", "name", "result"), OUTPUTS)
def test_an_existing_file_is_replaced_only_on_request(command: str, name: str, result: str) -> None:
    content = Path(name).read_bytes()
    Path("out").write_text("mine")
    refused(elmo(command, name, "-o", "out"), 1, "out: exists", "--overwrite")
    refused(elmo(command, name, "-o", name, "-f"), 2, f"{name}: is also", "")
    assert Path("out").read_text() == "mine"
    assert Path(name).read_bytes() == content
    made(command, name, "-o", "out", "-f")
    assert Path("out").read_text() == result


@pytest.mark.parametrize(("command", "name", "result"), OUTPUTS)
def test_an_unreadable_line_is_an_error_unless_it_is_skipped(
    command: str, name: str, result: str
) -> None:
    with open(name, "ab") as file:
        file.write(b"\xff\n")
    assert elmo(command, name, "-o", "new").code == 1
    assert not Path("new").exists()
    assert elmo(command, name, "-o", "new", "--on-error", "skip").code == 3
    assert Path("new").read_text() == result
