"""Lines of columns that are no tokens: where they are among the tokens, and what they divide."""

from __future__ import annotations

from pathlib import Path

import pytest
from text_files import read, tokens, write

ROW = "\t_" * 8
WORDS = [f"{number}\t{word}{ROW}" for number, word in ((1, "Va"), (2, "à"), (3, "le"))]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (WORDS, []),
        (["# a", "# b", *WORDS], [(0, "# a"), (0, "# b")]),
        (["# a", WORDS[0], f"2-3\tau{ROW}", *WORDS[1:]], [(0, "# a"), (1, f"2-3\tau{ROW}")]),
        ([*WORDS, f"3.1\tpetit{ROW}"], [(3, f"3.1\tpetit{ROW}")]),
        ([WORDS[0], "# a", *WORDS[1:]], [(1, "# a")]),
    ],
)
def test_their_positions_are_the_tokens_before_them(
    lines: list[str], expected: list[tuple[int, str]], tmp_path: Path
) -> None:
    """Otherwise predictions are written beside other rows."""
    path = write(tmp_path / "a.conllu", "\n".join(lines) + "\n\n")
    (sentence,) = read(path)
    assert sentence.tokens == ("Va", "à", "le")
    assert [(line.position, line.text) for line in sentence.other_lines] == expected


@pytest.mark.parametrize("boundary", ["-DOCSTART- O", "#begin document (a)", "", " \t", "\x0c"])
def test_boundaries_divide_sentences_without_a_blank_line(boundary: str, tmp_path: Path) -> None:
    """A row that begins with a sign of a boundary is a row."""
    rows = ["It O", "is O", boundary, "-Yes O", "- O", "#ok O"]
    path = write(tmp_path / "a.conll", "\n".join(rows) + "\n")
    assert tokens(path, column=1) == ["It is", "-Yes - #ok"]
