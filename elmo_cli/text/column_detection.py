"""Which column of a file holds the tokens, and what separates the columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise

from elmo_cli.errors import InputError
from elmo_cli.text.lines import LineReader
from elmo_cli.text.sentence import shortened

# White space between columns or alone on a line; U+00A0 may be a token.
BLANK = " \t\x0b\x0c\x1c\x1d\x1e\x1f"
_BOUNDARIES = ("-DOCSTART-", "#begin document", "#end document")
_NUMBER = re.compile(r"([0-9]{1,9})(?:[-.][0-9]+)?")  # also a range or an empty node of CoNLL-U
_SPACES = re.compile(r"[ \t]+")
_TABLE_ROW = re.compile(r"\S+(?:\t\S+)+")

COLUMNS_HINT = (
    "`format='conll'` reads one token per line, `format='plain'` one sentence per line with all "
    "columns as its tokens; `cut -f` takes one column out"
)
_N_ROWS = 200  # that columns are detected from
_MAX_CHARACTERS = 1 << 20  # that are held for that
_MAX_BEFORE = 3  # columns before the number of a token, such as document and part
_MOST = 0.9  # of the rows; a few may be corrupt

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
        return _cells(line, tabs=self.tabs)


def is_boundary(line: str) -> bool:
    """Whether a line separates sentences and holds no token, such as a blank line."""
    return not line.strip(BLANK) or line.startswith(_BOUNDARIES)


def first_rows(lines: Iterator[str | None]) -> list[str | None]:
    """The lines up to enough rows to detect the columns from, taken from `lines`."""
    head: list[str | None] = []
    n_rows = n_characters = 0
    for line in lines:
        head.append(line)
        n_characters += 1 + len(line or "")
        n_rows += _is_row(line)
        if n_rows == _N_ROWS or n_characters > _MAX_CHARACTERS:
            break
    return head


def detect_columns(reader: LineReader, head: Sequence[str | None]) -> Columns:
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
    rows = [line for line in head if line is not None and _is_row(line)]
    n_tabs = sum("\t" in row for row in rows)
    tabs = n_tabs > 0 and ("\t" in rows[0] or 2 * n_tabs > len(rows))
    sentences: Sentences = [[]]
    for line in head:
        if line is not None and is_boundary(line):
            sentences.append([])
        elif line is not None and _is_row(line):
            sentences[-1].append(_cells(line, tabs=tabs))
    sentences = list(filter(None, sentences))
    cells = list(chain.from_iterable(sentences))
    width = Counter(map(len, cells)).most_common(1)[0][0] if cells else 1
    column = reader.settings.column
    if column is None:
        column = _token_column(reader, head, sentences) if width > 1 else 1
    return Columns(column, tabs, width, frozenset(row[-1] for row in cells))


def refuse_columns(reader: LineReader, lines: Iterator[str | None]) -> Iterator[str | None]:
    """The same lines; raises an InputError after the first of them if nearly all have the same
    number of cells without spaces, separated by tabs: they hold one token each, with labels."""
    widths: Counter[int] = Counter()
    n_rows = first = 0
    for number, line in enumerate(islice(lines, _N_ROWS), 1):
        yield line
        n_rows += _is_row(line)
        if line is not None and _is_row(line) and _TABLE_ROW.fullmatch(line.rstrip()):
            first = first or number
            widths[line.count("\t")] += 1
    if 1 < max(widths.values(), default=0) >= _MOST * n_rows:
        what = "columns separated by tabs, such as a token and its label; so are nearly all lines"
        raise InputError(f"{reader.name}, line {first}: {what}", COLUMNS_HINT)
    yield from lines


def _token_column(reader: LineReader, head: Sequence[str | None], sentences: Sentences) -> int:
    has_documents = any(line.startswith("#begin document") for line in head if line)
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
    line = next(i for i, line in enumerate(head, 1) if _is_row(line))
    what = "is always a number or the same in all rows of a sentence, perhaps no tokens"
    raise InputError(
        f"{reader.name}, line {line}: column 1 ({shortened(firsts[0][0])!r}) {what}",
        "`column=2` reads the second column, `column=1` this one",
    )


def _numbering_column(sentences: Sentences) -> int | None:
    """The column, from 0, that numbers the tokens of each sentence; None if there is none."""
    for column in range(1 + _MAX_BEFORE):
        if _numbers_tokens([[_number(row, column) for row in rows] for rows in sentences]):
            return column
        if any(len({row[column] for row in rows if len(row) > column}) > 1 for rows in sentences):
            return None
    return None


def _numbers_tokens(numbers: list[list[int | None]]) -> bool:
    found = [n for rows in numbers for n in rows if n is not None]
    pairs = [pair for rows in numbers for pair in pairwise(rows)]
    n_steps = sum(a is not None and b is not None and b == a + 1 for a, b in pairs)
    is_numbered = len(found) > _MOST * sum(map(len, numbers)) and found[0] in (0, 1)
    return is_numbered and 0 < n_steps >= len(pairs) / 2


def _number(row: list[str], column: int) -> int | None:
    """The number in a column that has a column after it."""
    found = _NUMBER.fullmatch(row[column]) if len(row) > column + 1 else None
    return int(found[1]) if found else None


def _are_tokens(firsts: list[list[str]]) -> bool:
    """Whether column 1, of each sentence, may be the tokens: it varies, and not all are numbers."""
    cells = list(chain.from_iterable(firsts))
    if sum(_NUMBER.fullmatch(cell) is not None for cell in cells) > _MOST * len(cells):
        return False
    varies = len(cells) < 3 or any(len(set(rows)) > 1 for rows in firsts)
    return varies or (len(set(cells)) > 1 and all(len(rows) == 1 for rows in firsts))


def _cells(line: str, *, tabs: bool) -> list[str]:
    return line.split("\t") if tabs else _SPACES.split(line.strip(BLANK))


def _is_row(line: str | None) -> bool:
    """Whether a line surely is a row; one that begins with `#` may be a comment."""
    return line is not None and not is_boundary(line) and not line.startswith("#")
