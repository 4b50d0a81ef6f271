"""Raw text whose lines are wrapped is warned of, and the command of the warning joins them."""

from __future__ import annotations

import re
import shlex
import subprocess
import textwrap
from pathlib import Path

import pytest
from text_files import read, tokens, write

from elmo_cli.text.input import InputReport

SENTENCE = "The old man, who had lived on the hill for years, said that he would not leave it."
PARAGRAPHS = [
    " ".join([SENTENCE, "Nobody asked him why."] * n_sentences) for n_sentences in (2, 3, 4, 3, 2)
]
ONE_PER_LINE = "".join(f"{paragraph}\n" for paragraph in PARAGRAPHS)
VERSE = "Of Man's first disobedience, and the fruit,\nAnd so forth to the end of the long line\n"


def wrapped(width: int, line_end: str = "\n") -> str:
    """The paragraphs in lines of at most `width` characters, with blank lines between them."""
    filled = (textwrap.fill(paragraph, width) for paragraph in PARAGRAPHS)
    return "\n\n".join(filled).replace("\n", line_end) + line_end


def warnings_of(
    path: Path, content: str, *, tokenize: bool = True, **settings: object
) -> list[str]:
    report = InputReport()
    read(write(path, content), report, tokenize=tokenize, **settings)
    return report.warnings


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return tmp_path / "raw.txt"


@pytest.mark.parametrize("width", [45, 60, 72, 80])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_wrapped_text_causes_one_warning(width: int, line_end: str, text: Path) -> None:
    (warning,) = warnings_of(text, wrapped(width, line_end))
    assert warning.startswith(f"{text}, line 1: the sentence seems to continue on the next line")


def test_the_first_wrapped_line_is_named(text: Path) -> None:
    front = "THE HILL\n\nby A. Writer\n\n" + "CHAPTER I. THE MAN\n" * 20 + "\n"
    (warning,) = warnings_of(text, front + wrapped(60) * 2)
    assert warning.startswith(f"{text}, line 26: ")


@pytest.mark.parametrize("line_end", ["\n", "\r\n", " \n"])
def test_the_command_of_the_warning_joins_the_lines(line_end: str, text: Path) -> None:
    (warning,) = warnings_of(text, wrapped(60, line_end))
    command = re.findall("`([^`]*)`", warning)[0]
    line = command.replace("FILE", shlex.quote(str(text)))
    joined = subprocess.run(line, shell=True, capture_output=True, check=True).stdout
    assert joined.decode() == ONE_PER_LINE
    assert tokens(write(text, joined), tokenize=True).count("Nobody asked him why .") == 14


def test_the_guide_has_the_command_of_the_warning(text: Path) -> None:
    (warning,) = warnings_of(text, wrapped(60))
    command = re.findall("`[^`]*`", warning)[0]
    guide = Path(__file__).resolve().parents[2] / "docs" / "guides" / "inputs.md"
    assert command in guide.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "harmless",
    [
        "",
        "\n" * 30,
        ONE_PER_LINE * 10,
        f"{SENTENCE}\n" * 30,
        f"{SENTENCE.lower()}\n" * 30,
        VERSE * 15,
        "the cat sat down\nand then it ate\n" * 15,  # short lines: a list, or verse in lower case
        "- a thing that one has to buy in the shop before it closes\n" * 30,
        "lol\nso this is what the whole fuss was about then i guess it is fine\nok\nyes\n" * 8,
        wrapped(60).replace("\n", "\n\n"),  # no paragraphs that could be joined
        "\n".join(wrapped(60).split("\n")[:19]),
        f"{SENTENCE}\n" * 40 + wrapped(60),  # most lines are not wrapped
        f"{SENTENCE}\n" * 500 + wrapped(75) * 50,  # only the first lines are checked
        "b" * 5_000_000 + "\n",
    ],
)
def test_other_text_causes_no_warning(harmless: str, text: Path) -> None:
    warnings = warnings_of(text, harmless)
    assert [warning for warning in warnings if "continue" in warning] == []


def test_lines_after_the_checked_ones_are_read(text: Path) -> None:
    assert len(read(write(text, "It rains.\n" * 600), tokenize=True)) == 600


def test_a_full_stop_may_be_within_quotes(text: Path) -> None:
    speech = 'he said to her: "The old man has lived on that hill for years."\n'
    assert warnings_of(text, speech * 30) == []
    (warning,) = warnings_of(text, speech.replace('."', ' and"') * 30)
    assert "line 1: " in warning


def test_tokenized_text_causes_no_warning(text: Path) -> None:
    """Without `tokenize` each line is a sentence, whatever it looks like."""
    tokenized = wrapped(60).lower().replace(",", " ,").replace(".", " .")
    assert warnings_of(text, tokenized, tokenize=False) == []
    assert len(warnings_of(text, tokenized)) == 1


def test_the_lines_before_and_after_a_refused_one_are_no_pair(text: Path) -> None:
    lines = ["The old man, who had lived on the hill for years, said", "he would not leave it."]
    assert len(warnings_of(text, "\n".join(lines * 15))) == 1
    assert warnings_of(text, "\n\0\n".join(lines * 15), on_error="skip") == []
