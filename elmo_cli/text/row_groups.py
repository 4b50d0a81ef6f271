"""RowGroup: the rows of each sentence of a file of columns, and the headings before them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.messages import plural, shortened
from elmo_cli.text.column_format import (
    DOCSTART,
    ColumnFormat,
    SentenceLines,
    detect_format,
    is_boundary,
    is_row,
)
from elmo_cli.text.column_signs import MOST
from elmo_cli.text.input_settings import MAX_TOKENS
from elmo_cli.text.lines import LineError, LineReader
from elmo_cli.text.white_space import BLANK, is_blank

# In CoNLL-2012 `(TEXT); part N` follows, elsewhere any name or nothing.
_CONLL_DOCUMENT = re.compile(
    r"-DOCSTART-|#begin document(?: \((?P<text>.*)\);(?: part (?P<part>\d{1,9}))?|(?P<name>.*))"
)
# `# sent_id = 1`, and `# id 52<TAB>domain=en` in MultiCoNER
_METADATA = re.compile(r"#\s*[\w.:]+\s=\s|# [^\t]+\t\w+=")
_LONE_HASHTAG = re.compile(r"#\w[^\s=]*\s*")
_RAGGED_HINT = (
    "separate all rows in the same way, write a space after the # of a comment; or "
    "`format='plain'` if lines are sentences"
)
_TOO_LONG_HINT = "is a blank line missing?"
_BOUNDARY_STARTS = f"{BLANK}#-"  # first characters of lines that end a sentence
_MAX_COMMENTS = 10_000  # lines of a sentence besides its tokens
_N_DETECTED = 2_000  # lines that are enough to detect columns
_MANY_ROWS = 1_000  # tokens that hardly any sentence has
_MANY_SENTENCES = 20  # that hardly ever have one token each


@dataclass(slots=True)
class SentenceRows:
    """The rows of a sentence.

    Attributes:
        lines: the numbers of their lines, from 1.
        cells: the contents of the columns of each row.
    """

    lines: Sequence[int] = ()
    cells: Sequence[list[str]] = ()

    def __len__(self) -> int:
        return len(self.lines)


class DocumentStart(NamedTuple):
    """The start of a document."""

    key: str | None  # None if the file gives it none


DocumentStartReader = Callable[[str], DocumentStart | None]  # None: the line does not start one
RowReader = Callable[[SentenceLines], SentenceRows]  # of lines that were not refused


class RowGroup(NamedTuple):
    """The rows of a sentence, and the lines before them that start documents.

    Attributes:
        lines: all lines of the group, also comments.
        headings: the lines `-DOCSTART-`, `#begin document` and `#end document`.
        starts: one for each line that starts a document.
        rows: none if the group is refused, or contains only comments and headings.
        is_refused: whether one of the lines can't be read, or is not a valid row.
    """

    lines: SentenceLines
    headings: list[str]
    starts: list[DocumentStart]
    rows: SentenceRows
    is_refused: bool


def read_row_groups(reader: LineReader) -> Iterator[RowGroup]:
    """Yield the rows of each sentence of a file of columns, where all columns are needed.

    Raises:
        InputError: those of `detect_format`, or a row has another number of columns than its
            sentence.
    """
    head, line_groups = split_head(reader)
    return read_conll_groups(reader, line_groups, detect_format(reader, head))


def split_head(reader: LineReader) -> tuple[list[SentenceLines], Iterator[SentenceLines]]:
    """The lines of the first sentences, to detect columns, and those of all sentences."""
    line_groups = split_into_sentences(reader, is_boundary)
    head: list[SentenceLines] = []
    n_lines = 0
    for lines in line_groups:
        head.append(lines)
        n_lines += len(lines.texts)
        if n_lines >= _N_DETECTED:
            break
    _warn_of_single_tokens(reader, head)
    return head, chain(head, line_groups)


def _warn_of_single_tokens(reader: LineReader, head: Sequence[SentenceLines]) -> None:
    """Warn if the first sentences have one token each, as if a blank line followed every row."""
    n_rows_of_sentences = []
    for lines in head:
        n_rows = sum(map(is_row, lines.texts))
        if n_rows > 0:
            n_rows_of_sentences.append(n_rows)
    n_single = n_rows_of_sentences.count(1)
    if n_single >= _MANY_SENTENCES and n_single > MOST * len(n_rows_of_sentences):
        first_line = reader.where(head[0].first)
        problem = "each sentence has one token; a blank line ends a sentence"
        reader.report.warn("single tokens", f"{first_line}: {problem}")


def read_conll_groups(
    reader: LineReader, line_groups: Iterator[SentenceLines], column_format: ColumnFormat
) -> Iterator[RowGroup]:
    """Yield the rows of each sentence of a file of columns other than CoNLL-U."""
    read_rows = partial(_read_conll_rows, reader, column_format)
    return read_groups(reader, line_groups, read_rows, _conll_document_start)


def read_groups(
    reader: LineReader,
    line_groups: Iterator[SentenceLines],
    read_rows: RowReader,
    document_start: DocumentStartReader,
) -> Iterator[RowGroup]:
    """Yield the rows of each group of lines; a group with an unreadable line has none."""
    for lines in line_groups:
        headings = []
        starts = []
        marked = [text for text in lines.texts if text is not None and text[0] in "#-"]
        if _may_start_documents(marked):  # nearly all comments do not
            for line in marked:
                start = document_start(line)
                if start is not None:
                    starts.append(start)
                if is_boundary(line):
                    headings.append(line)
        rows = SentenceRows()
        is_refused = None in lines.texts
        if not is_refused:
            try:
                rows = read_rows(lines)
            except LineError as error:
                reader.reject(error.line, error.problem, error.hint, error.parameters)
                is_refused = True
        if len(rows) > _MANY_ROWS:
            problem = f"a sentence of {plural(len(rows), 'token')}; is a blank line missing?"
            reader.report.warn("long sentence", f"{reader.where(rows.lines[0])}: {problem}")
        yield RowGroup(
            lines=lines,
            headings=headings,
            starts=starts,
            rows=rows,
            is_refused=is_refused,
        )


def _may_start_documents(lines: list[str]) -> bool:
    """Whether one of the lines may be a heading, or start a document."""
    joined = "\n".join(lines)
    return "doc" in joined or DOCSTART in joined  # newdoc, #begin and #end document


def split_into_sentences(
    reader: LineReader, ends_sentence: Callable[[str], bool]
) -> Iterator[SentenceLines]:
    """Yield the lines of each sentence.

    Args:
        ends_sentence: whether a line ends the sentence before it. Unless it is blank, it is the
            first line of the next group.
    Raises:
        InputError: a sentence has more lines than its tokens and `_MAX_COMMENTS` comments may take.
            It cannot be skipped: its end has not been read, and its lines must not fill the memory.
    """
    lines: list[str | None] = []
    max_tokens = reader.settings.max_tokens
    max_lines = max_tokens + _MAX_COMMENTS
    number = 0
    for number, line in enumerate(reader.lines(), 1):
        # `line[:1]` of an empty line is "", which is in every string.
        if line is not None and line[:1] in _BOUNDARY_STARTS and ends_sentence(line):
            if lines:
                yield SentenceLines(number - len(lines), lines)
            lines = []
            if is_blank(line):
                continue
        elif len(lines) > max_lines:
            n_tokens = plural(max_tokens, "token")
            n_lines = plural(len(lines), "line")
            problem = f"a sentence of more than {n_tokens}, with comments {n_lines}"
            error = too_long(problem, number - len(lines), max_tokens)
            where = reader.where(error.line)
            raise InputError(error.problem, error.hint, where=where, parameters=error.parameters)
        lines.append(line)
    if lines:
        yield SentenceLines(number + 1 - len(lines), lines)


def too_long(problem: str, line: int, max_tokens: int) -> LineError:
    """The error of a sentence that is too long; its hint names the limit if it can be raised."""
    if max_tokens == MAX_TOKENS:
        return LineError(problem, _TOO_LONG_HINT, line=line)
    hint = f"{_TOO_LONG_HINT} otherwise raise the limit (`max_tokens`)"
    return LineError(problem, hint, line=line, parameters=("max_tokens",))


def _conll_document_start(line: str) -> DocumentStart | None:
    """The document that `-DOCSTART-` or `#begin document` starts."""
    match = _CONLL_DOCUMENT.match(line)
    if match is None:
        return None
    if match["text"] is None:
        return DocumentStart(key=key_or_none(match["name"]))
    part = int(match["part"] or 0)
    return DocumentStart(key=f"{match['text']}_{part}")


def key_or_none(name: str | None) -> str | None:
    """The key of a document from the rest of the line that starts it; None if it is blank."""
    if name is None:
        return None
    return name.strip() or None


def _read_conll_rows(
    reader: LineReader, column_format: ColumnFormat, sentence_lines: SentenceLines
) -> SentenceRows:
    """The rows of a sentence without comments; warn of a row that may be a comment.

    Raises:
        LineError: a row has another number of columns than the others.
    """
    lines = sentence_lines.readable()
    if lines:
        _, first_line = lines[0]
        if is_boundary(first_line):  # only the first line of a group may be a boundary
            lines = lines[1:]
    numbers = [number for number, _ in lines]
    all_cells = [column_format.split(line) for _, line in lines]
    widths = []
    for cells, (_, line) in zip(all_cells, lines, strict=True):
        if line[0] != "#":
            widths.append(len(cells))
    # The widest row is right: a row that lost a separator is likelier than one that gained some.
    width = max(widths, default=column_format.width)
    if len(widths) == len(lines) and min(widths, default=width) == width:
        return SentenceRows(numbers, all_cells)
    kept_numbers = []
    kept_cells = []
    for cells, (number, line) in zip(all_cells, lines, strict=True):
        is_hash = line[0] == "#"
        is_ragged = len(cells) != width
        if is_hash and _is_comment(line, is_ragged=is_ragged):
            continue
        if is_ragged:
            problem = (
                f"{shortened(line)!r}: the number of columns is {len(cells)}, not {width} as "
                "in the rows next to it"
            )
            raise LineError(problem, _RAGGED_HINT, line=number, parameters=("format",))
        # In a row such as `#tag<TAB>O` the hash is certainly a part of the token.
        is_token_and_tab = column_format.has_tabs and line[1:2] != " "
        if is_hash and width > 1 and not is_token_and_tab:
            problem = "is read as a row, not as a comment; delete it if it is one"
            message = f"{reader.where(number)}: {shortened(line)!r} {problem}"
            reader.report.warn("hash", message)
        kept_numbers.append(number)
        kept_cells.append(cells)
    return SentenceRows(kept_numbers, kept_cells)


def _is_comment(line: str, *, is_ragged: bool) -> bool:
    """Whether a line that begins with `#` is a comment.

    Args:
        is_ragged: whether its number of columns differs from that of the rows of its sentence.
    """
    if is_ragged and not _LONE_HASHTAG.fullmatch(line):
        return True
    return _METADATA.match(line) is not None
