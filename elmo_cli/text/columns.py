"""What the columns of a line hold: of CoNLL-U, and of the older CoNLL formats."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Protocol

from elmo_cli.text.decode import Source
from elmo_cli.text.refused_line import LineError, shortened

_ID = re.compile(r"(?P<word>\d+)(?:[-.]\d+)?")
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b(?:\s+id\s*=(?P<id>.*))?")
_BEGIN = "#begin document"
_BEGIN_DOCUMENT = re.compile(r"#begin document \((?P<id>.*)\);(?: part (?P<part>[0-9]{1,9}))?")
_COMMENT = re.compile(r"#\s*[\w.:]+\s=\s")
_SPACES = re.compile(r"[ \t]+")
_HEAD_LINES = 200  # of a column format, looked at to see what its columns are
_HEAD_CHARACTERS = 1 << 20


class Columns(Protocol):
    """What the column formats differ in."""

    def parts_sentences(self, line: str) -> bool:
        """Whether a line stands between sentences and holds no token, as a blank line does."""

    def document(self, line: str) -> tuple[str | None] | None:
        """(key of the document,) if one begins at this line, else None."""

    def token(self, line: str, n_before: int) -> str | None:
        """The token of a line, the (`n_before` + 1)-th of its sentence; None for a line without.

        Raises:
            LineError: a line that is not what the format has.
        """


class ConlluColumns:
    """CoNLL-U: ten columns parted by tabs, comments, IDs that count the words."""

    def __init__(self, column: int) -> None:
        self._column = column

    def parts_sentences(self, line: str) -> bool:
        return not line.strip()

    def document(self, line: str) -> tuple[str | None] | None:
        found = _NEW_DOCUMENT.match(line)
        return ((found["id"] or "").strip() or None,) if found else None

    def token(self, line: str, n_before: int) -> str | None:
        if line.startswith("#"):
            return None
        cells = line.split("\t")
        found = _ID.fullmatch(cells[0])
        if len(cells) == 1 or not found:
            raise LineError(
                f"{shortened(line)!r} is no row of CoNLL-U, which begins with a number and a tab",
                "for other columns use `--input-format conll`, "
                "for sentences `--input-format plain`",
            )
        if found["word"] != cells[0]:
            return None
        if found["word"] != str(n_before + 1):
            given = shortened(cells[0])
            raise LineError(
                f"ID {given!r}, {n_before + 1} has to follow; is a blank line missing?",
                "`--input-format conll --column 2` reads the words without looking at their IDs",
            )
        return _cell(cells, self._column)


class PlainColumns:
    """Older formats: columns parted by tabs or spaces, marks where documents begin and end."""

    def __init__(self, tabs: bool, column: int, n_cells: int = 0) -> None:
        """
        Args:
            tabs: whether tabs part the columns.
            column: of the tokens, from 1.
            n_cells: of the first row; 0 where that is not known.
        """
        self._tabs = tabs
        self._column = column
        self._n_cells = n_cells

    def parts_sentences(self, line: str) -> bool:
        return not line.strip(" \t") or line.startswith(("-DOCSTART-", _BEGIN, "#end document"))

    def document(self, line: str) -> tuple[str | None] | None:
        if line.startswith("-DOCSTART-"):
            return (None,)
        if not line.startswith(_BEGIN):
            return None
        found = _BEGIN_DOCUMENT.match(line)
        if found:
            return (f"{found['id']}_{int(found['part'] or 0)}",)
        return (line.removeprefix(_BEGIN).strip() or None,)

    def token(self, line: str, n_before: int) -> str | None:
        if self._tabs:
            if _may_be_comment(line):
                return None
            if "\t" not in line and len(_SPACES.split(line.strip())) == self._n_cells > 1:
                raise LineError(
                    f"{shortened(line)!r} has no tab, which parts the columns of this file",
                    "the first row tells whether columns are parted by tabs or by spaces",
                )
            return _cell(line.split("\t"), self._column)
        if _COMMENT.match(line):
            return None
        return _cell(_SPACES.split(line.strip(" \t")), self._column)


def head_of(lines: Iterator[str | None]) -> tuple[list[str | None], Iterator[str | None]]:
    """The first lines, to the end of a sentence that tells what the columns hold, and the others.

    A sentence of one token does not tell it, and a row that may be a comment is none; but it is not
    looked for for ever.
    """
    head: list[str | None] = []
    n_characters = 0
    for line in lines:
        head.append(line)
        n_characters += len(line or "")
        is_long = len(head) >= _HEAD_LINES or n_characters > _HEAD_CHARACTERS
        if is_long or (not (line or "").strip() and any(map(_tells, _sentences(head)))):
            break
    return head, lines


def recognised(source: Source, head: list[str | None]) -> PlainColumns:
    """The columns of a file that begins with these lines, as `read_conll` tells them apart."""
    sentences = _sentences(head)
    first = next((row for row in chain(*sentences) if not _may_be_comment(row)), "")
    tabs = "\t" in first
    if tabs:
        kept = ([row for row in rows if not _may_be_comment(row)] for rows in sentences)
        sentences = [rows for rows in kept if rows]
    column = source.settings.column
    if column is None:
        column = _token_column(source, head, sentences)
    return PlainColumns(tabs, column, len(first.split("\t")))


def _token_column(source: Source, head: list[str | None], sentences: list[list[str]]) -> int:
    begun = [line for line in head if line and line.startswith(_BEGIN)]
    if any(map(_BEGIN_DOCUMENT.match, begun)):
        return 4
    if _is_counted(sentences):
        source.notes.warn(
            "column",
            f"{source.name}: column 1 counts the tokens, so column 2 is read; `--column` chooses "
            "another, and `--input-format conllu` leaves out ranges and empty nodes",
        )
        return 2
    return 4 if begun else 1


def _is_counted(sentences: list[list[str]]) -> bool:
    """Whether column 1 counts the tokens of each sentence; one row alone does not tell."""
    cells = [[_SPACES.split(row, maxsplit=2) for row in rows] for rows in sentences]
    return (
        any(len(rows) > 1 for rows in cells)
        and all(rows[0][0] in ("1", "1-2") for rows in cells)
        and all(len(row) > 2 and _ID.fullmatch(row[0]) for row in chain(*cells))
    )


def _sentences(head: list[str | None]) -> list[list[str]]:
    """The lines that hold a token of each sentence, so far as marks and comments tell."""
    marks = PlainColumns(tabs=True, column=1)
    sentences: list[list[str]] = [[]]
    for line in head:
        if line is not None and marks.parts_sentences(line):
            sentences.append([])
        elif line and not _COMMENT.match(line):
            sentences[-1].append(line)
    return [rows for rows in sentences if rows]


def _tells(rows: list[str]) -> bool:
    return sum(not _may_be_comment(row) for row in rows) > 1


def _may_be_comment(row: str) -> bool:
    """Whether it is one if tabs part the columns; if not, it may hold the token "#"."""
    return row.startswith("#") and "\t" not in row


def _cell(cells: list[str], column: int) -> str:
    """What stands in a column, counted from 1, or from the end if negative."""
    index = column - 1 if column > 0 else column
    if not -len(cells) <= index < len(cells):
        raise LineError(
            f"{len(cells)} columns, column {column} is asked for",
            "`--column` chooses another; -1 is the last",
        )
    token = cells[index].strip(" ")
    if not token:
        raise LineError(f"column {column} is empty", "`--column` chooses another")
    return token
