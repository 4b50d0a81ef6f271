"""Which column of a file holds the tokens, and what separates the columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from elmo_cli.errors import InputError
from elmo_cli.text.lines import LineReader
from elmo_cli.text.sentence import shortened

# White space between columns or alone on a line; U+00A0 may be a token.
BLANK = " \t\x0b\x0c\x1c\x1d\x1e\x1f"
_BOUNDARIES = ("-DOCSTART-", "#begin document", "#end document")
_NUMBER = re.compile(r"([0-9]{1,9})(?:[-.][0-9]+)?")  # also a range or an empty node of CoNLL-U
_SPACES = re.compile(r"[ \t]+")
_MAX_BEFORE = 3  # columns before the number of a token, such as document and part
MOST = 0.9  # of the rows; a few may be corrupt

Group = list[tuple[int, str | None]]  # the lines of a sentence; None for one that was refused


@dataclass(frozen=True)
class Columns:
    """The columns of a file.

    Attributes:
        column: that of the tokens, from 1, or from the end if negative.
        tabs: whether tabs separate them, so that a token may contain spaces.
        width: how many there are in most of the first rows; 1 if there is no row.
        labels: what the last column of the first rows contains.
    """

    column: int
    tabs: bool
    width: int
    labels: frozenset[str]

    def split(self, line: str) -> list[str]:
        """The cells of a row."""
        return _split(line, tabs=self.tabs)


def is_boundary(line: str) -> bool:
    """Whether a line separates sentences and holds no token, such as a blank line."""
    return not line.strip(BLANK) or line.startswith(_BOUNDARIES)


def is_row(line: str | None) -> bool:
    """Whether a line surely is a row; one that begins with `#` may be a comment."""
    return line is not None and not is_boundary(line) and not line.startswith("#")


def detect_columns(reader: LineReader, head: Sequence[Group]) -> Columns:
    """Detect the columns of a file from its first sentences.

    Tabs separate them if the first row or most rows have one, otherwise spaces. Unless
    `reader.settings.column` is given the tokens are in

    - column 4 below `#begin document`, as in CoNLL-2012;
    - the column after the one that numbers the tokens of each sentence, from 0 or 1 (CoNLL-X, 2009
      and 2012, SemEval-2010), if the columns before it are the same in all rows of a sentence;
    - otherwise column 1 (CoNLL-2000, 2002, 2003, WNUT).

    Raises:
        InputError: column 1 holds only numbers, or the same in all rows of a sentence.
    """
    column = reader.settings.column
    lines = [(number, line) for group in head for number, line in group if line is not None]
    rows = [line for _, line in lines if is_row(line)]
    n_tabs = sum("\t" in row for row in rows)
    tabs = n_tabs > 0 and ("\t" in rows[0] or 2 * n_tabs > len(rows))
    sentences = [[_split(line, tabs=tabs) for _, line in group if line and is_row(line)]
                 for group in head]  # fmt: skip
    widths = Counter(map(len, chain.from_iterable(sentences)))
    width = widths.most_common(1)[0][0] if rows else 1
    labels = frozenset(row[-1] for row in chain.from_iterable(sentences))
    if column is None and width > 1:
        first = next(number for number, line in lines if is_row(line))
        has_documents = any(line.startswith("#begin document") for _, line in lines)
        column = _token_column(reader, first, list(filter(None, sentences)), has_documents)
    return Columns(column or 1, tabs, width, labels)


def _token_column(
    reader: LineReader, first: int, sentences: list[list[list[str]]], has_documents: bool
) -> int:
    number = _numbering_column(sentences)
    if number is None and has_documents:
        return 4
    if number is not None:
        if not (has_documents and number == 2):
            what = f"column {number + 1} numbers the tokens, so column {number + 2} is read"
            hint = "`column` chooses another, and `format='conllu'` reads CoNLL-U"
            reader.report.warn("column", f"{reader.name}: {what}; {hint}")
        return number + 2
    firsts = [[row[0] for row in rows] for rows in sentences]
    if _are_tokens(firsts):
        return 1
    what = "is always a number or the same in all rows of a sentence, perhaps no tokens"
    raise InputError(
        f"{reader.name}, line {first}: column 1 ({shortened(firsts[0][0])!r}) {what}",
        "`column=2` reads the second column, `column=1` this one",
    )


def _numbering_column(sentences: list[list[list[str]]]) -> int | None:
    """The column, from 0, that numbers the tokens of each sentence; None if there is none."""
    for column in range(1 + _MAX_BEFORE):
        if _numbers_tokens([[_number(row, column) for row in rows] for rows in sentences]):
            return column
        if any(len({row[column] for row in rows if len(row) > column}) > 1 for rows in sentences):
            break
    return None


def _numbers_tokens(numbers: list[list[int | None]]) -> bool:
    found = [n for rows in numbers for n in rows if n is not None]
    pairs = [pair for rows in numbers for pair in pairwise(rows)]
    n_steps = sum(a is not None and b is not None and b == a + 1 for a, b in pairs)
    is_numbered = len(found) > MOST * sum(map(len, numbers)) and found[0] in (0, 1)
    return is_numbered and 0 < n_steps >= len(pairs) / 2


def _number(row: list[str], column: int) -> int | None:
    """The number in a column that has a column after it."""
    found = _NUMBER.fullmatch(row[column]) if len(row) > column + 1 else None
    return int(found[1]) if found else None


def _are_tokens(firsts: Iterable[list[str]]) -> bool:
    """Whether column 1, of each sentence, may be the tokens: it varies, and not all are numbers."""
    cells = list(chain.from_iterable(firsts))
    if sum(_NUMBER.fullmatch(cell) is not None for cell in cells) > MOST * len(cells):
        return False
    varies = len(cells) < 3 or any(len(set(rows)) > 1 for rows in firsts)
    return varies or (len(set(cells)) > 1 and all(len(rows) == 1 for rows in firsts))


def _split(line: str, *, tabs: bool) -> list[str]:
    return line.split("\t") if tabs else _SPACES.split(line.strip(BLANK))
