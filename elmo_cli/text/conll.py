"""One token per line, in columns: CoNLL-U, and the older CoNLL formats."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import partial

from elmo_cli.errors import UsageError
from elmo_cli.messages import plural
from elmo_cli.text.column_format import (
    DOCSTART,
    Column,
    Columns,
    SentenceLines,
    detect_format,
    detect_token_column,
    warn_of_other_labels,
)
from elmo_cli.text.conllu_rows import max_splits, read_conllu_rows
from elmo_cli.text.lines import LineError, LineReader
from elmo_cli.text.row_groups import (
    DocumentStart,
    RowGroup,
    SentenceRows,
    key_or_none,
    read_conll_groups,
    read_groups,
    split_head,
    split_into_sentences,
    too_long,
)
from elmo_cli.text.sentence import DocumentCounter, OtherLine, Sentence
from elmo_cli.text.white_space import BLANK, is_blank

CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
DEFAULT_LABEL_COLUMNS = {"conllu": "xpos", "conll": "-1"}  # by format
_CONLLU_DOCUMENT = re.compile(r"#\s*newdoc\b(?:\s+id\s*=(?P<id>.*))?")


def read_conllu(
    reader: LineReader, key: int, columns: Columns | None = None
) -> Generator[Sentence, None, int]:
    """Yield the sentences of a CoNLL-U file: its syntactic words, column 2 (FORM) by default.

    Comments are left out; `reader.settings.rows` decides about ranges of words (`1-2`) and empty
    nodes (`8.1`). A document starts at `# newdoc`; with an `id` it has a key, and its sentences
    have positions. `Sentence.text` is the tokens joined by one space, not `# text`, because
    sentences are looked up by their tokens. A refused sentence takes its key with it.

    Args:
        columns: those to read, by default the tokens in column `reader.settings.column`.
    Returns:
        The key after the last sentence, at the end of the generator.
    Raises:
        InputError: the second column of CoNLL-U Plus is not FORM, and no column is given.

    Source: https://universaldependencies.org/format.html
    """
    if columns is None:
        columns = _columns_of_settings(reader)
    line_groups = split_into_sentences(reader, is_blank)
    read_rows = partial(read_conllu_rows, reader, columns, max_splits(columns))
    groups = read_groups(reader, line_groups, read_rows, _conllu_document_start)
    return _read_sentences(reader, key, groups, _with_token_column(columns, 2))


def read_conll(
    reader: LineReader, key: int, columns: Columns | None = None
) -> Generator[Sentence, None, int]:
    """Yield the sentences of a file of columns with one token per line and blank lines between.

    `detect_format` finds the separator and `detect_token_column` the tokens. `-DOCSTART-` and
    `#begin document` start a document and are no sentence; below `#begin document (id); part n` its
    key is `id_n` as in e2e-coref, otherwise what follows the words. A line that begins with `#` is
    a comment if its number of columns differs from that of the rows of its sentence; a lone
    `#hashtag`, and any other row with a different number of columns, is refused.

    Args:
        columns: those to read, by default the tokens in column `reader.settings.column`.
    Returns:
        The key after the last sentence, at the end of the generator.
    Raises:
        InputError: those of `detect_format` and `detect_token_column`.
    """
    if columns is None:
        columns = _columns_of_settings(reader)
    head, line_groups = split_head(reader)
    column_format = detect_format(reader, head)
    number = columns.tokens.number
    if number is None:
        number = detect_token_column(reader, head, column_format, columns)
    columns = _with_token_column(columns, number)
    warn_of_other_labels(reader, head, column_format, columns)
    groups = read_conll_groups(reader, line_groups, column_format)
    return (yield from _read_sentences(reader, key, groups, columns))


def column_number(path: str, text_format: str, column: str | None, parameter: str) -> int | None:
    """The number of a column in a CoNLL-U file or in other columns, given as text.

    Args:
        column: a number from 1, -1 for the last, or in CoNLL-U a name; None if it is not given. A
            UsageError if there is no such column.
        parameter: name of `column` in messages.
    """
    if column is None:
        return None
    is_conllu = text_format == "conllu"
    if is_conllu and column.lower() in CONLLU_COLUMNS:
        return CONLLU_COLUMNS.index(column.lower()) + 1
    try:
        number = int(column)
    except ValueError:
        problem = f"no column of {path}, which is {text_format}"
        names = f", or one of {', '.join(CONLLU_COLUMNS)}" if is_conllu else ""
        hint = f"`{parameter}` is a number from 1, -1 for the last{names}"
        raise UsageError(problem, hint, where=f"`{parameter}={column}`") from None
    if number == 0:
        hint = "1 is the first, -1 the last"
        raise UsageError("columns are counted from 1", hint, where=f"`{parameter}=0`")
    return number


def label_column(path: str, text_format: str, column: str | None, parameter: str) -> Column:
    """The column of the labels, by default that of `DEFAULT_LABEL_COLUMNS`.

    Args and errors are those of `column_number`.
    """
    chosen = DEFAULT_LABEL_COLUMNS[text_format] if column is None else column
    number = column_number(path, text_format, chosen, parameter)
    return Column(number, parameter, is_default=column is None)


def _columns_of_settings(reader: LineReader) -> Columns:
    return Columns(tokens=Column(reader.settings.column, "column"))


def _with_token_column(columns: Columns, default: int) -> Columns:
    """The columns; that of the tokens has the number `default` if none is given."""
    number = columns.tokens.number or default
    return columns._replace(tokens=columns.tokens._replace(number=number))


def _read_sentences(
    reader: LineReader, key: int, groups: Iterator[RowGroup], columns: Columns
) -> Generator[Sentence, None, int]:
    """Yield a sentence for each group that contains rows; the others are comments.

    Returns:
        The key after the last sentence.
    """
    documents = DocumentCounter()
    next_line = 1  # after the lines read so far
    other_lines: list[OtherLine] = []  # since the last sentence
    for group in groups:
        n_blank_lines = group.lines.first - next_line  # these are in no group
        other_lines += [OtherLine(0, "")] * n_blank_lines
        next_line = group.lines.first + len(group.lines.texts)
        for start in group.starts:
            documents.start(start.key)
        rows = group.rows
        is_refused = group.is_refused
        tokens: list[str] = []
        labels: list[str] = []
        if rows:
            try:
                tokens, labels = _read_columns_of_rows(rows, columns, reader.settings.max_tokens)
            except LineError as error:
                reader.reject(error.line, error.problem, error.hint, error.parameters)
                is_refused = True
                rows = SentenceRows()
        if is_refused:  # it takes a key and a position, so that those of later sentences stay
            documents.advance(yielded=False)
            key += 1
        if tokens == [DOCSTART]:  # in another column than the first
            documents.start(None)
            rows = SentenceRows()
        other_lines += _other_lines(group.lines, rows)
        if rows:
            yield documents.sentence(
                tokens,
                key=key,
                text=" ".join(tokens),
                source=reader.path,
                line=rows.lines[0],
                labels=labels,
                other_lines=other_lines,
            )
            documents.advance(yielded=True)
            key += 1
            other_lines = []
            next_line += 1  # the blank line that ends the sentence
    return key


def _read_columns_of_rows(
    rows: SentenceRows, columns: Columns, max_tokens: int
) -> tuple[list[str], list[str]]:
    """The tokens and the labels of a sentence; no labels if none are wanted."""
    first_line = rows.lines[0]
    if len(rows) > max_tokens:
        problem = f"a sentence of more than {plural(max_tokens, 'token')}"
        raise too_long(problem, first_line, max_tokens)
    tokens = _cells(rows, columns.tokens)
    if columns.labels is None:
        return tokens, []
    n_columns = len(rows.cells[0])
    if _index(columns.labels, n_columns) == _index(columns.tokens, n_columns):
        name = columns.labels.parameter
        setting = f"`{name}={columns.labels.number}`"
        raise LineError(
            f"{setting} is the column of the tokens; the number of columns is {n_columns}",
            f"`{name}` names the column of the labels",
            line=first_line,
            parameters=(name,),
        )
    return tokens, _cells(rows, columns.labels)


def _other_lines(lines: SentenceLines, rows: SentenceRows) -> list[OtherLine]:
    """The lines of a group that are not rows with tokens."""
    n_others = len(lines.texts) - len(rows)
    if n_others == 0:
        return []
    if rows and rows.lines[0] == lines.first + n_others:  # nearly always: all are above the rows
        return [OtherLine(0, line or "") for line in lines.texts[:n_others]]
    lines_of_rows = set(rows.lines)
    position = 0
    others = []
    for number, line in enumerate(lines.texts, lines.first):
        if number in lines_of_rows:
            position += 1
        else:
            others.append(OtherLine(position, line or ""))
    return others


def _conllu_document_start(line: str) -> DocumentStart | None:
    """The document that `# newdoc`, perhaps with an `id`, starts."""
    match = _CONLLU_DOCUMENT.match(line)
    if match is None:
        return None
    return DocumentStart(key=key_or_none(match["id"]))


def _index(column: Column, n_columns: int) -> int:
    """The index of a column in the cells of a row; below 0 if there is no such column."""
    number = column.number or 1
    return number - 1 if number > 0 else n_columns + number


def _cells(rows: SentenceRows, column: Column) -> list[str]:
    """The contents of a column of a sentence; a LineError if a row lacks it."""
    number = column.number or 1
    index = number - 1 if number > 0 else number
    with suppress(IndexError):  # of a row with fewer columns
        contents = [cells[index].strip(BLANK) for cells in rows.cells]
        if all(contents):
            return contents
    numbered = zip(rows.lines, rows.cells, strict=True)
    return [_cell(line, cells, column) for line, cells in numbered]  # raises the LineError


def _cell(line: int, cells: list[str], column: Column) -> str:
    """The content of a column of a row; a LineError if the row lacks it."""
    name = column.parameter
    n_columns = len(cells)
    index = _index(column, n_columns)
    if 0 <= index < n_columns:
        content = cells[index].strip(BLANK)
        if content:
            return content
        problem = f"column {column.number} is empty"
    else:
        problem = f"`{name}={column.number}` is missing: the number of columns is {n_columns}"
    hint = f"`{name}` chooses another; -1 is the last"
    raise LineError(problem, hint, line=line, parameters=(name,))
