"""What the columns of a line hold: of CoNLL-U, and of the older CoNLL formats."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from elmo_cli.text.decode import Source

_ID = re.compile(r"(?P<word>\d+)(?:[-.]\d+)?")
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b(?:\s+id\s*=(?P<id>.*))?")
_BEGIN_DOCUMENT = re.compile(r"#begin document \((?P<id>.*)\);(?: part (?P<part>[0-9]{1,9}))?")
_COMMENT = re.compile(r"#\s*[\w.:]+\s=\s")
_SPACES = re.compile(r"[ \t]+")
_HEAD_LINES = 200  # of a column format, looked at to see what its columns are
_HEAD_CHARACTERS = 1 << 20


class RowError(ValueError):
    """A line that holds no token where one has to be: what is wrong, and what to do."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


class Columns(Protocol):
    """What the column formats differ in."""

    def parts_sentences(self, line: str) -> bool:
        """Whether a line stands between sentences and holds no token, as a blank line does."""

    def document(self, line: str) -> tuple[str | None] | None:
        """(key of the document,) if one begins at this line, else None."""

    def token(self, line: str, n_before: int) -> str | None:
        """The token of a line, the (`n_before` + 1)-th of its sentence; None for a line without.

        Raises:
            RowError: a line that is not what the format has.
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
            raise RowError(
                f"{_shown(line)} is no row of CoNLL-U, which begins with a number and a tab",
                "for other columns use `--input-format conll`, "
                "for sentences `--input-format plain`",
            )
        if found["word"] != cells[0]:
            return None
        if found["word"] != str(n_before + 1):
            raise RowError(
                f"ID {_shown(cells[0])}, {n_before + 1} has to follow; is a blank line missing?",
                "`--input-format conll --column 2` reads the words without looking at their IDs",
            )
        return _cell(cells, self._column)


class PlainColumns:
    """Older formats: columns parted by tabs or spaces, marks where documents begin and end."""

    def __init__(self, tabs: bool, column: int) -> None:
        self._tabs = tabs
        self._column = column

    def parts_sentences(self, line: str) -> bool:
        return not line.strip(" \t") or line.startswith(
            ("-DOCSTART-", "#begin document", "#end document")
        )

    def document(self, line: str) -> tuple[str | None] | None:
        if line.startswith("-DOCSTART-"):
            return (None,)
        found = _BEGIN_DOCUMENT.match(line)
        return (f"{found['id']}_{int(found['part'] or 0)}",) if found else None

    def token(self, line: str, n_before: int) -> str | None:
        if self._tabs:
            if line.startswith("#") and "\t" not in line:
                return None
            return _cell(line.split("\t"), self._column)
        if _COMMENT.match(line):
            return None
        return _cell(_SPACES.split(line.strip(" \t")), self._column)


def head_of(lines: Iterator[str | None]) -> tuple[list[str | None], Iterator[str | None]]:
    """The first lines, to the end of the first sentence if it is not too long, and the others."""
    head: list[str | None] = []
    n_characters = 0
    for line in lines:
        head.append(line)
        n_characters += len(line or "")
        is_long = len(head) >= _HEAD_LINES or n_characters > _HEAD_CHARACTERS
        if is_long or (not (line or "").strip() and _rows(head)):
            break
    return head, lines


def recognised(source: Source, head: list[str | None]) -> PlainColumns:
    """The columns of a file that begins with these lines, as `read_conll` tells them apart."""
    rows = _rows(head)
    first = next((row for row in rows if "\t" in row or not row.startswith("#")), "")
    tabs = "\t" in first
    if tabs:
        rows = [row for row in rows if "\t" in row or not row.startswith("#")]
    column = source.settings.column
    if column is None:
        column = _token_column(source, head, [_SPACES.split(row, maxsplit=2) for row in rows])
    return PlainColumns(tabs, column)


def _token_column(source: Source, head: list[str | None], rows: list[list[str]]) -> int:
    if any(line and line.startswith("#begin document") for line in head):
        return 4
    counted = [_ID.fullmatch(cells[0]) for cells in rows if len(cells) > 2]
    if len(counted) == len(rows) > 1 and all(counted) and rows[0][0] in ("1", "1-2"):
        source.notes.warn(
            "column",
            f"{source.name}: column 1 counts the tokens, so column 2 is read; `--column` chooses "
            "another, and `--input-format conllu` leaves out ranges and empty nodes",
        )
        return 2
    return 1


def _rows(head: list[str | None]) -> list[str]:
    """The lines that hold a token of the first sentence, so far as marks and comments tell."""
    marks = PlainColumns(tabs=True, column=1)
    return [
        line
        for line in head
        if line and not marks.parts_sentences(line) and not _COMMENT.match(line)
    ]


def _cell(cells: list[str], column: int) -> str:
    """The token in a column, counted from 1, or from the end if negative."""
    index = column - 1 if column > 0 else column
    if not -len(cells) <= index < len(cells):
        raise RowError(
            f"{len(cells)} columns, column {column} is asked for",
            "`--column` chooses the column of the tokens; -1 is the last",
        )
    token = cells[index].strip(" ")
    if not token:
        raise RowError(f"column {column} is empty", "`--column` chooses the column of the tokens")
    return token


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")
