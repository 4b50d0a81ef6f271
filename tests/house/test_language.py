"""Words that are wrong in every use, in the documentation, the help and the code."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from command_line import commands
from test_docs import PAGES, ROOT

PROSE = re.compile(
    r"(?:\b(?:looks? (?:at|of|in which)|told|tells|untold|goes on|go on with|begun|begin anew|anew"
    r"|stands? (?:beside|in)|lies (?:beside|in)|Of all random|so many|parted by|places? of"
    r"|stranger\w*|mended|sooner|what vectors know|behind the)\b|--look-\w+|\bShare\.)"
)
CODE = re.compile(
    r"(?:\b(?:told\w*|untold|anew|mend(?:ed|s)?|rehears\w+|suspicio\w+|begun|stranger\w*|sooner"
    r"|goes on|go on with|stands? (?:beside|for itself)|lies beside|what is there|is not there"
    r"|side_by_side|heightened|looked_at|known_by|taken up|take_up)\b|_looks?\b)"
)


def prose_of(page: Path) -> str:
    """The page without the examples of text in the tables of the model card."""
    return "\n".join(line for line in page.read_text("utf-8").splitlines() if "**" not in line)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page: Path) -> None:
    assert PROSE.findall(prose_of(page)) == []


def test_help_of_every_command() -> None:
    for words, command in commands().items():
        text = " ".join(command.get_help(click.Context(command, info_name="elmo")).split())
        assert PROSE.findall(text) == [], words


def test_code() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / "elmo_cli").rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for _ in CODE.findall(line)
    ]
    assert found == [], "\n".join(found)
