"""What readers notice: truncated tokens, and signs that a text is not what it is read as."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo_cli.text.formats import Notes, read_sentences
from elmo_cli.text.settings import InputSettings


def notes_on(path: Path, text: str, **settings: object) -> Notes:
    path.write_text(text, "utf-8")
    notes = Notes()
    for _ in read_sentences(path, InputSettings(**settings), notes):  # type: ignore[arg-type]
        pass
    return notes


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return tmp_path / "corpus.txt"


def test_truncated_tokens_are_counted_in_bytes_of_utf8(text: Path) -> None:
    """48 bytes fit, 49 do not; characters of other scripts have two to four bytes each."""
    fits = ["a" * 48, "é" * 24, "水" * 16, "🐈" * 12]
    over = ["a" * 49, "é" * 24 + "a", "水" * 17, "🐈" * 13]
    notes = notes_on(text, " ".join(fits) + "\n\nx " + " ".join(over) + "\n")
    assert notes.truncated_tokens == 4
    assert notes.first_truncated == ("a" * 49, str(text), 3)
    assert notes_on(text, "abcdef\n", max_characters=7).truncated_tokens == 1


def test_a_huge_truncated_token_is_shown_shortened(text: Path) -> None:
    shown = notes_on(text, "b" * 100_000).first_truncated
    assert shown == ("b" * 60 + "…", str(text), 1)


TOKENISED = "The cat , which sat on the mat , slept .\n" * 10

SUSPICIOUS = {
    "untokenised": "The cat, which sat on the mat, slept.\n" * 10,
    "stops alone": "The cat sat on the mat.\n" * 10,
    "escapes": TOKENISED + "Smith &amp; Sons\n",
    "borders": TOKENISED + "<S> The cat </S>\n",
    "without white space": "猫坐在垫子上" * 10 + "\n",
    "tabs": "1\tThe\tthe\tDET\n2\tcat\tcat\tNOUN\n3\tsat\tsit\tVERB\n\n" * 3,
    "labels": "EU NNP B-NP B-ORG\nrejects VBZ B-VP O\ncall NN I-NP O\n\n" * 3,
    "mark": "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\n",
    "comments": "# sent_id = 1\n# text = The cat\n1\tThe\n",
}
ADVICE = {
    "untokenised": "line 1: looks untokenised, with commas and stops on the words; `--tokenize`",
    "stops alone": "line 1: looks untokenised",
    "escapes": "line 11: escapes as in HTML",
    "borders": "line 11: borders or padding (<S>, </S>, <PAD>) given as tokens",
    "without white space": "line 1: a line of over 100 bytes without white space",
    "tabs": "line 1: looks like columns, a token a line, but each line is a sentence; `--input-",
    "labels": "line 1: looks like columns",
    "mark": "line 1: looks like columns",
    "comments": "line 1: looks like columns",
}


def test_a_vocabulary_begins_with_borders(text: Path) -> None:
    """They have to stand there, and `--layout bilm-types` reads such a file."""
    assert notes_on(text, "<S>\n</S>\n<UNK>\nthe\ncat\n").warnings == []


@pytest.mark.parametrize("kind", SUSPICIOUS)
def test_a_suspicious_text_is_warned_about_once(text: Path, kind: str) -> None:
    """Each is a mistake that users made and found out about after training on the vectors."""
    notes = notes_on(text, SUSPICIOUS[kind])
    assert len(notes.warnings) == 1
    assert notes.warnings[0].startswith(f"{text}, {ADVICE[kind]}")


@pytest.mark.parametrize(
    "harmless",
    [
        TOKENISED,
        "He works in the U.S.\n" + TOKENISED,
        TOKENISED + "http://example.org/" + "a" * 100 + "\n",
        "id 1\tlabel\n" + TOKENISED,
        "I O\n" + TOKENISED,
        "M K L\nV V A\n" * 20,
        "AT & T <s3>\n" * 10,
    ],
)
def test_a_proper_text_is_not_warned_about(text: Path, harmless: str) -> None:
    assert notes_on(text, harmless).warnings == []


def test_a_huge_token_is_judged_in_no_time(text: Path) -> None:
    """A search that begins anew at each letter takes hours for a line of megabytes."""
    assert len(notes_on(text, "b" * 5_000_000).warnings) == 1


def test_only_the_first_sentences_are_judged(text: Path) -> None:
    notes = notes_on(text, TOKENISED * 20 + "a &amp; b\n" * 400)
    assert notes.warnings == []


def test_an_empty_file_is_mentioned(text: Path) -> None:
    assert notes_on(text, "").warnings == [f"{text}: empty, without any line"]
    assert notes_on(text, "\n").warnings == []
