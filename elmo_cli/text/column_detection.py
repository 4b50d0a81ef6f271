"""Which column of a file holds the tokens, and what separates the columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from elmo_cli.errors import InputError
from elmo_cli.text.lines import LineReader
from elmo_cli.text.sentence import shortened

# White space between columns or alone on a line; U+00A0 may be a token.
BLANK = " \t\x0b\x0c\x1c\x1d\x1e\x1f"
DOCUMENT_START = re.compile(
    r"#begin document \((?P<id>.*)\);(?: part (?P<part>[0-9]{1,9}))?",
)
_BOUNDARIES = ("-DOCSTART-", "#begin document", "#end document")
_NUMBER = re.compile(r"([0-9]{1,9})(?:[-.][0-9]+)?")  # also a range or an empty node of CoNLL-U
_SPACES = re.compile(r"[ \t]+")

_N_ROWS = 200  # that columns are detected from
_MAX_CHARACTERS = 1 << 20  # that are held for that
_MAX_BEFORE = 3  # columns before the number of a token, such as document and part
_MOST = 0.9  # of the rows; a few may be damaged

Head = Sequence[str | None]
Sentences = list[list[list[str]]]  # the cells of each row of each sentence


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
        return line.split("\t") if self.tabs else split_at_spaces(line)


def split_at_spaces(line: str) -> list[str]:
    """The cells of a row whose columns are separated by spaces or tabs."""
    return _SPACES.split(line.strip(BLANK))


def is_boundary(line: str) -> bool:
    """Whether a line separates sentences and holds no token, such as a blank line."""
    return not line.strip(BLANK) or line.startswith(_BOUNDARIES)


def peek_first_rows(lines: Iterator[str | None]) -> tuple[list[str | None], Iterator[str | None]]:
    """The lines up to enough rows to detect the columns from, and the lines after them."""
    head: list[str | None] = []
    n_rows = n_characters = 0
    for line in lines:
        head.append(line)
        n_characters += 1 + len(line or "")
        n_rows += line is not None and _is_row(line)
        if n_rows == _N_ROWS or n_characters > _MAX_CHARACTERS:
            break
    return head, lines


def detect_columns(reader: LineReader, head: Head) -> Columns:
    """Detect the columns of a file from its first rows.

    Tabs separate them if the first row or most rows have one, otherwise spaces. Unless
    `reader.settings.column` is given the tokens are in

    - column 4 below `#begin document`, as in CoNLL-2012;
    - the column after the one that numbers the tokens of each sentence, from 0 or 1 (CoNLL-X, 2009
      and 2012, SemEval-2010), if the columns before it are the same in all rows of a sentence;
    - otherwise column 1 (CoNLL-2000, 2002, 2003, WNUT).

    Raises:
        InputError: column 1 holds only numbers, or the same in all rows of a sentence.
    """
    has_tab = ["\t" in line for line in head if line is not None and _is_row(line)]
    tabs = bool(has_tab) and (has_tab[0] or 2 * sum(has_tab) > len(has_tab))
    split = Columns(1, tabs, 1, frozenset()).split
    sentences = [[split(row) for row in sentence] for sentence in _sentences(head)]
    cells = [row for sentence in sentences for row in sentence]
    width = Counter(map(len, cells)).most_common(1)[0][0] if cells else 1
    column = reader.settings.column
    if column is None:
        column = _token_column(reader, head, sentences) if width > 1 else 1
    return Columns(column, tabs, width, frozenset(row[-1] for row in cells))


def _token_column(reader: LineReader, head: Head, sentences: Sentences) -> int:
    has_documents = any(line.startswith("#begin document") for line in head if line)
    number = _numbering_column(sentences)
    if number is not None and not (has_documents and number == 2):
        more = ", and `format='conllu'` leaves out ranges and empty nodes" if number == 0 else ""
        reader.report.warn(
            "column",
            f"{reader.name}: column {number + 1} numbers the tokens, so column {number + 2} is "
            f"read; `column` chooses another{more}",
        )
    if number is not None:
        return number + 2
    if has_documents:
        return 4
    if what := _not_tokens([[row[0] for row in rows] for rows in sentences]):
        line = next(i for i, line in enumerate(head, 1) if line is not None and _is_row(line))
        value = shortened(sentences[0][0][0])
        raise InputError(
            f"{reader.name}, line {line}: column 1 ({value!r}) is {what}, perhaps no tokens",
            "`column=2` reads the second column, or another number the column of the tokens; "
            "`column=1` reads this one",
        )
    return 1


def _numbering_column(sentences: Sentences) -> int | None:
    """The column, from 0, that numbers the tokens of each sentence; None if there is none."""
    for column in range(1 + _MAX_BEFORE):
        if _numbers_tokens(sentences, column):
            return column
        varying = (len({row[column] for row in rows if len(row) > column}) > 1
                   for rows in sentences)  # fmt: skip
        if any(varying):
            return None
    return None


def _numbers_tokens(sentences: Sentences, column: int) -> bool:
    numbers = [[_number(row, column) for row in rows] for rows in sentences]
    given = [n for rows in numbers for n in rows if n is not None]
    n_rows = sum(map(len, numbers))
    pairs = [pair for rows in numbers for pair in pairwise(rows)]
    n_steps = sum(a is not None and b is not None and b == a + 1 for a, b in pairs)
    is_numbered = len(given) > _MOST * n_rows and given[0] in (0, 1)
    return is_numbered and 0 < n_steps >= len(pairs) / 2


def _number(row: list[str], column: int) -> int | None:
    """The number in a column that has a column after it."""
    found = _NUMBER.fullmatch(row[column]) if len(row) > column + 1 else None
    return int(found[1]) if found else None


def _not_tokens(firsts: list[list[str]]) -> str:
    """What column 1 holds if it may not be tokens; empty if it looks like tokens."""
    cells = [cell for rows in firsts for cell in rows]
    if sum(_NUMBER.fullmatch(cell) is not None for cell in cells) > _MOST * len(cells):
        return "always a number"
    if len(cells) < 3 or any(len(set(rows)) > 1 for rows in firsts):
        return ""
    is_same = len(set(cells)) == 1 or any(len(rows) > 1 for rows in firsts)
    return "the same in all rows of a sentence" if is_same else ""


def _is_row(line: str) -> bool:
    """Whether a line surely is a row; one that begins with `#` may be a comment."""
    return not is_boundary(line) and not line.startswith("#")


def _sentences(head: Iterable[str | None]) -> list[list[str]]:
    """The rows of each sentence, without lines that begin with `#`."""
    sentences: list[list[str]] = [[]]
    for line in head:
        if line is not None and is_boundary(line):
            sentences.append([])
        elif line is not None and _is_row(line):
            sentences[-1].append(line)
    return [rows for rows in sentences if rows]
