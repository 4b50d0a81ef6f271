"""ColumnFormat: how the rows of a file of columns are divided, detected from its first rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.messages import shortened
from elmo_cli.text.column_signs import (
    MOST,
    header_sign,
    quoted_quote_warning,
    quotes_sign,
    separator_sign,
)
from elmo_cli.text.lines import LineReader
from elmo_cli.text.white_space import BLANK, is_blank

DOCSTART = "-DOCSTART-"  # the token of the row that starts a document of CoNLL-2003
_BOUNDARIES = (DOCSTART, "#begin document", "#end document")
_NUMBER = re.compile(r"[0-9]{1,9}(?:[-.][0-9]+)?")  # also a range or an empty node of CoNLL-U
_SPACES = re.compile(r"[ \t]+")
_SPAN_LABEL = re.compile(r"O|[BIESLU]-\S+")

NumberedLines = list[tuple[int, str]]


class SentenceLines(NamedTuple):
    """The lines of a sentence, which follow one another in the file.

    Attributes:
        first: the number of the first line, from 1.
        texts: None for a line that was refused.
    """

    first: int
    texts: list[str | None]

    def readable(self) -> NumberedLines:
        """The lines that were not refused, with their numbers."""
        numbered = enumerate(self.texts, self.first)
        return [(number, text) for number, text in numbered if text is not None]


class Column(NamedTuple):
    """A column of a file.

    Attributes:
        number: from 1, or from the end with -1 the last; None to detect it.
        parameter: what messages call the number.
        is_default: whether the user did not choose the number.
    """

    number: int | None
    parameter: str
    is_default: bool = False


class Columns(NamedTuple):
    """The columns to read.

    Attributes:
        has_format_setting: whether messages may name the setting `format`.
    """

    tokens: Column
    labels: Column | None = None
    has_format_setting: bool = True


class ColumnFormat(NamedTuple):
    """How the rows of a file are divided into columns."""

    has_tabs: bool  # whether tabs separate them, so that a token may contain spaces
    width: int  # the number of columns that most rows have; 1 if there is no row

    def split(self, line: str) -> list[str]:
        """The cells of a row."""
        return line.split("\t") if self.has_tabs else _SPACES.split(line.strip(BLANK))


def is_boundary(line: str) -> bool:
    """Whether a line separates sentences and holds no token, such as a blank line."""
    return is_blank(line) or line.startswith(_BOUNDARIES)


def is_row(line: str | None) -> bool:
    """Whether a line is certainly a row; one that begins with `#` may be a comment."""
    return line is not None and not is_boundary(line) and not line.startswith("#")


def detect_format(reader: LineReader, head: Sequence[SentenceLines]) -> ColumnFormat:
    """Detect how the rows of a file are divided, from its first sentences.

    Tabs separate columns if the first row or most rows have one, otherwise spaces.

    Raises:
        InputError: something else separates them, they are in quotes, or the first row names them.
    """
    lines = [line for group in head for line in group.readable()]
    rows = [(number, line) for number, line in lines if is_row(line)]
    column_format = ColumnFormat(has_tabs=_has_tabs(rows), width=1)
    sentences = _cells_by_sentence(column_format, head)  # does not depend on the width
    column_format = column_format._replace(width=_most_frequent_width(sentences))
    sign = separator_sign([line for _, line in rows])
    if sign is None:
        sign = quotes_sign([cells for sentence in sentences for cells in sentence])
    if sign is not None:
        first_row_number, _ = rows[0]
        raise InputError(sign.problem, sign.hint, where=reader.where(first_row_number))
    _warn_of_quoted_quotes(reader, column_format, rows)
    _check_header(reader, column_format, lines)
    return column_format


def _warn_of_quoted_quotes(
    reader: LineReader, column_format: ColumnFormat, rows: NumberedLines
) -> None:
    """Warn of the first row with a cell that is a quote within quotes."""
    for number, line in rows:
        warning = quoted_quote_warning(column_format.split(line))
        if warning:
            reader.report.warn("quotes", f"{reader.where(number)}: {warning}")
            return


def _check_header(reader: LineReader, column_format: ColumnFormat, lines: NumberedLines) -> None:
    """Raise an InputError if the first row names the columns.

    A first row that begins with `#` may name columns too, unless its width makes it a comment.
    """
    candidates = [(number, line) for number, line in lines if not is_boundary(line)]
    if candidates:
        _, first_line = candidates[0]
        has_other_width = len(column_format.split(first_line)) != column_format.width
        if first_line.startswith("#") and has_other_width:
            candidates = [(number, line) for number, line in lines if is_row(line)]
    if not candidates:
        return
    first_number, _ = candidates[0]
    sign = header_sign([column_format.split(line) for _, line in candidates], first_number)
    if sign is not None:
        raise InputError(sign.problem, sign.hint, where=reader.where(first_number))


def detect_token_column(
    reader: LineReader,
    head: Sequence[SentenceLines],
    column_format: ColumnFormat,
    columns: Columns,
) -> int:
    """Detect the column of the tokens, from 1, from the first sentences of a file.

    It is column 4 below `#begin document` if column 3 numbers the tokens, as in CoNLL-2012,
    otherwise column 1 (CoNLL-2000, 2002, 2003, WNUT).

    Raises:
        InputError: column 1 holds only numbers, labels of spans, or the same in all rows of a
            sentence.
    """
    if column_format.width == 1:
        return 1
    lines = [line for group in head for line in group.readable()]
    sentences = _cells_by_sentence(column_format, head)
    has_document_line = any(line.startswith("#begin document") for _, line in lines)
    if has_document_line and _is_numbered_by_column_3(sentences):
        return 4
    first_column = [[cells[0] for cells in sentence] for sentence in sentences]
    has_labels = _are_span_labels(first_column)
    if not has_labels and _may_be_tokens(first_column):
        return 1
    cell = shortened(first_column[0][0])
    name = columns.tokens.parameter
    problem = f"column 1 ({cell!r}) holds labels of spans, not tokens"
    if not has_labels:
        problem = (
            f"column 1 ({cell!r}) is always a number or the same in all rows of a sentence, so it "
            "may not hold tokens"
        )
    hint = (
        f"`{name}=2` reads the second column, as in CoNLL-X, `{name}=4` that of CoNLL-2012, "
        f"`{name}=1` this one"
    )
    parameters: tuple[str, ...] = (name,)
    if columns.has_format_setting:
        hint = f"{hint}; or `format='conllu'`"
        parameters = (name, "format")
    first_row = next(number for number, line in lines if is_row(line))
    raise InputError(problem, hint, where=reader.where(first_row), parameters=parameters)


def warn_of_other_labels(
    reader: LineReader,
    head: Sequence[SentenceLines],
    column_format: ColumnFormat,
    columns: Columns,
) -> None:
    """Warn if the last column is read by default, but another one has the labels of spans."""
    labels = columns.labels
    if labels is None or not labels.is_default:
        return
    rows = []
    for sentence in _cells_by_sentence(column_format, head):
        rows += [cells for cells in sentence if len(cells) == column_format.width]
    if not rows:
        return
    *other_columns, last_column = zip(*rows, strict=True)
    if _are_span_labels([last_column]):
        return
    for number, cells in enumerate(other_columns, 1):
        if number != columns.tokens.number and _are_span_labels([cells]):
            example = shortened(next(cell for cell in cells if cell != "O"))
            problem = f"column {number} has labels of spans such as {example!r}, the last has not"
            hint = f"`{labels.parameter}={number}` reads them"
            reader.report.warn("other labels", f"{reader.path}: {problem}; {hint}")
            return


def _has_tabs(rows: NumberedLines) -> bool:
    """Whether the first row or most rows contain a tab."""
    n_with_tab = sum("\t" in line for _, line in rows)
    if n_with_tab == 0:
        return False
    _, first_row = rows[0]
    return "\t" in first_row or 2 * n_with_tab > len(rows)


def _cells_by_sentence(
    column_format: ColumnFormat, head: Sequence[SentenceLines]
) -> list[list[list[str]]]:
    """The cells of each row of each sentence that has a row."""
    sentences = []
    for group in head:
        cells_of_rows = []
        for line in group.texts:
            if line and is_row(line):
                cells_of_rows.append(column_format.split(line))
        if cells_of_rows:
            sentences.append(cells_of_rows)
    return sentences


def _most_frequent_width(sentences: list[list[list[str]]]) -> int:
    """The number of cells that most rows have; 1 if there is no row."""
    n_rows_by_width = Counter(len(cells) for sentence in sentences for cells in sentence)
    return max(n_rows_by_width, key=n_rows_by_width.__getitem__, default=1)


def _is_numbered_by_column_3(sentences: list[list[list[str]]]) -> bool:
    """Whether column 3 of nearly all rows is a number, and there is a column 4."""
    n_rows = 0
    n_numbered = 0
    for sentence in sentences:
        for cells in sentence:
            n_rows += 1
            if len(cells) > 3 and _NUMBER.fullmatch(cells[2]):
                n_numbered += 1
    return n_numbered > MOST * n_rows


def _are_span_labels(sentences: Sequence[Sequence[str]]) -> bool:
    """Whether all cells of a column are labels such as O and B-PER, and not all are O."""
    cells = {cell for sentence in sentences for cell in sentence}
    return bool(cells - {"O"}) and all(map(_SPAN_LABEL.fullmatch, cells))


def _may_be_tokens(sentences: list[list[str]]) -> bool:
    """Whether the cells of a column, by sentence, vary and are not nearly all numbers."""
    all_cells = [cell for sentence in sentences for cell in sentence]
    n_numbers = sum(_NUMBER.fullmatch(cell) is not None for cell in all_cells)
    if n_numbers > MOST * len(all_cells):
        return False
    if len(all_cells) < 2 or any(len(set(sentence)) > 1 for sentence in sentences):
        return True
    has_single_words_only = all(len(sentence) == 1 for sentence in sentences)
    return has_single_words_only and len(set(all_cells)) > 1
