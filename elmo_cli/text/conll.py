"""One token per line, in columns: CoNLL-U, and the older CoNLL formats."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import partial

from elmo_cli.errors import InputError, UsageError
from elmo_cli.messages import plural, shortened
from elmo_cli.text.column_format import (
    Column,
    Columns,
    SentenceLines,
    detect_format,
    detect_token_column,
)
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
_OTHER_COLUMNS = re.compile(r"#\s*global\.columns\s*=(?!\s*\S+\s+FORM(?!\S))")  # CoNLL-U Plus
_CONLLU_ID = re.compile(r"(?P<word>\d+)(?:-(?P<end>\d+)|\.(?P<empty_node>\d+))?")
_CONLLU_DOCUMENT = re.compile(r"#\s*newdoc\b(?:\s+id\s*=(?P<id>.*))?")
_WORD_IDS = [str(number) for number in range(1, 1001)]  # of a sentence that is read fast
_DOCSTART = "-DOCSTART-"
_RANGE_HINT = "a range such as `3-4` is above the rows of its words; correct it"


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
    read_rows = partial(_read_conllu_rows, reader, columns, _max_splits(columns))
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
    groups = read_conll_groups(reader, line_groups, column_format)
    return (yield from _read_sentences(reader, key, groups, _with_token_column(columns, number)))


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
    if column is None:
        column = DEFAULT_LABEL_COLUMNS[text_format]
    number = column_number(path, text_format, column, parameter)
    return Column(number, parameter)


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
        if tokens == [_DOCSTART]:  # in another column than the first
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


def _max_splits(columns: Columns) -> int:
    """Return at how many tabs a row of CoNLL-U is split; -1 for all.

    The columns after the last one that is read need not be split.
    """
    numbers = [columns.tokens.number or 2]
    if columns.labels is not None:
        numbers.append(columns.labels.number or 1)
    counts_from_end = min(numbers) < 0
    are_equal = len(set(numbers)) < len(numbers)  # the message about it has the number of columns
    if counts_from_end or are_equal:
        return -1
    return max(numbers)


def _read_conllu_rows(
    reader: LineReader, columns: Columns, max_splits: int, sentence_lines: SentenceLines
) -> SentenceRows:
    """The rows of a tree that `reader.settings.rows` chooses."""
    chosen = reader.settings.rows
    words = _read_words(reader, sentence_lines, max_splits)
    if words is not None:
        return words
    lines = sentence_lines.readable()
    numbers = []  # of the lines of rows
    cells_of_rows = []
    n_words = 0
    n_other_rows = 0  # ranges of words and empty nodes
    range_end = 0  # the last word of the last range that stands for its words
    for number, line in lines:
        if line[0] == "#":
            if columns.tokens.number is None and _OTHER_COLUMNS.match(line):
                name = columns.tokens.parameter
                problem = f"{shortened(line)!r}: FORM is not column 2"
                hint = f"give its number, such as `{name}=3`"
                raise InputError(problem, hint, where=reader.where(number), parameters=(name,))
            continue
        cells = line.split("\t", max_splits)
        is_next_word = cells[0] == str(n_words + 1) and len(cells) > 1
        if is_next_word and n_words >= range_end:  # nearly all rows, without the regex
            n_words += 1
            numbers.append(number)
            cells_of_rows.append(cells)
            continue
        conllu_id = _CONLLU_ID.fullmatch(cells[0])
        if len(cells) == 1 or conllu_id is None:
            shown = repr(shortened(line))
            problem = f"{shown} is not a row of CoNLL-U, which begins with a number and a tab"
            hint = "for other columns `format='conll'`, for one sentence per line `format='plain'`"
            raise LineError(problem, hint, line=number, parameters=("format",))
        if conllu_id.lastgroup != "word":
            n_other_rows += 1
            if chosen == "words":
                continue
            if chosen == "tokens":
                if conllu_id["empty_node"]:
                    continue
                range_end = _range_end(conllu_id, number, first_word=max(n_words, range_end) + 1)
            numbers.append(number)
            cells_of_rows.append(cells)
            continue
        n_words += 1
        if chosen != "tokens" or n_words > range_end:
            numbers.append(number)
            cells_of_rows.append(cells)
        if conllu_id["word"] != str(n_words):
            found = shortened(cells[0])
            problem = f"ID {found!r} instead of {n_words}; is a blank line missing?"
            name = columns.tokens.parameter
            hint = f"`format='conll'` with `{name}=2` reads the words and ignores their IDs"
            raise LineError(problem, hint, line=number, parameters=("format", name))
    if n_other_rows and not n_words:
        first_row = next(number for number, line in lines if not line.startswith("#"))
        problem = "a sentence of ranges or empty nodes, no words"
        raise LineError(problem, "add its words", line=first_row)
    if range_end > n_words:
        problem = f"a range ends at word {range_end}, the sentence at word {n_words}"
        raise LineError(problem, _RANGE_HINT, line=lines[-1][0])
    if chosen == "words":
        reader.report.rows_left_out += n_other_rows
    return SentenceRows(numbers, cells_of_rows)


def _read_words(reader: LineReader, lines: SentenceLines, max_splits: int) -> SentenceRows | None:
    """The rows of the words of a tree; None if it may be invalid, or other rows are to be read."""
    texts = [text for text in lines.texts if text is not None]
    n_comments = 0
    while n_comments < len(texts) and texts[n_comments][0] == "#":
        n_comments += 1
    may_have_other_columns = "global.columns" in "\n".join(texts[:n_comments])
    cells_of_rows = [line.split("\t", max_splits) for line in texts[n_comments:]]
    if may_have_other_columns or not cells_of_rows or min(map(len, cells_of_rows)) == 1:
        return None
    first_line = lines.first + n_comments
    ids = [cells[0] for cells in cells_of_rows]
    if ids == _WORD_IDS[: len(ids)]:  # most trees
        return SentenceRows(range(first_line, first_line + len(ids)), cells_of_rows)
    word_rows = [row for row, row_id in enumerate(ids) if row_id.isdigit()]
    word_ids = [ids[row] for row in word_rows]
    other_ids = [row_id for row_id in ids if not row_id.isdigit()]  # ranges and empty nodes
    if reader.settings.rows != "words" or not all(map(_CONLLU_ID.fullmatch, other_ids)):
        return None
    if not word_ids or word_ids != _WORD_IDS[: len(word_ids)]:
        return None
    reader.report.rows_left_out += len(other_ids)
    numbers = [first_line + row for row in word_rows]
    return SentenceRows(numbers, [cells_of_rows[row] for row in word_rows])


def _range_end(conllu_id: re.Match[str], line: int, *, first_word: int) -> int:
    """The last word of a range; a LineError unless it begins at the next word."""
    begin = int(conllu_id["word"])
    end = int(conllu_id["end"])
    if begin != first_word or end < begin:
        problem = f"the range {conllu_id[0]!r} does not begin at the next word, {first_word}"
        raise LineError(problem, _RANGE_HINT, line=line)
    return end


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
