"""One token per line, in columns: CoNLL-U, and the older CoNLL formats."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from elmo_cli.text.column_detection import (
    BLANK,
    DOCUMENT_START,
    Columns,
    detect_columns,
    is_boundary,
    peek_first_rows,
    split_at_spaces,
)
from elmo_cli.text.lines import LineReader
from elmo_cli.text.sentence import DocumentCounter, LineError, Sentence, shortened

_CONLLU_ID = re.compile(r"(?P<word>\d+)(?:[-.]\d+)?")
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b(?:\s+id\s*=(?P<id>.*))?")
_METADATA = re.compile(r"#\s*[\w.:]+\s=\s")  # `# sent_id = 1`
_LONE_HASHTAG = re.compile(r"#\w[^\s=]*\s*")
_COLUMN_HINT = "`column` chooses another; -1 is the last"
_MAX_HELD = 1000  # lines that begin with `#` before the first row of a sentence


@dataclass(frozen=True)
class _Boundary:
    """The end of a sentence, or the start of a document, which may have a key, or both."""

    starts_document: bool = False
    key: str | None = None
    ends_sentence: bool = True


# What a line means: a token, a boundary, an error in it; None: the line itself was refused.
_Event = str | _Boundary | LineError | None


def read_conllu(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    """Yield the sentences of a CoNLL-U file: its syntactic words, column 2 (FORM) by default.

    Comments, ranges of words (`1-2`) and empty nodes (`8.1`) are left out, so there are as many
    tokens as the file has words in its trees. A document starts at `# newdoc`; with an `id` it has
    a key, and its sentences have positions. `Sentence.text` is the tokens joined by one space, not
    the comment `# text`, because sentences are looked up by their tokens.

    Args:
        reader: of the file.
        key: of its first sentence; a refused sentence takes its key with it.
    Returns:
        The key of the first sentence of the next file.
    Raises:
        InputError: a line without tabs or the column, an ID that does not follow the one before, a
            sentence without words; and as `LineReader.lines` and `LineReader.admit`.
    Source: https://universaldependencies.org/format.html
    """
    events = _conllu_events(reader.lines(), reader.settings.column or 2)
    return (yield from _assemble(reader, key, events))


def read_conll(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    """Yield the sentences of a file of columns with one token per line and blank lines between.

    The separator and the column of the tokens are detected from the first rows unless `column` is
    given: see `detect_columns`. `-DOCSTART-` and `#begin document` start a document; below
    `#begin document (id); part n` its key is `id_n` as in e2e-coref, otherwise what follows the
    words. A line that begins with `#` is a comment if its number of columns differs from that of
    the rows next to it; a lone `#hashtag` among rows of several columns is refused.

    Args, Returns: as `read_conllu`.
    Raises:
        InputError: columns that do not tell which holds the tokens; a row that lacks the column or
            is separated otherwise; and as `LineReader.lines` and `LineReader.admit`.
    """
    head, lines = peek_first_rows(reader.lines())
    columns = detect_columns(reader, head)
    return (yield from _assemble(reader, key, _Rows(reader, columns).events(chain(head, lines))))


def _assemble(
    reader: LineReader, key: int, events: Iterator[tuple[int, _Event]]
) -> Generator[Sentence, None, int]:
    builder = _SentenceBuilder(reader, key)
    for number, event in events:
        if isinstance(event, str):
            builder.add(event, number)
        elif isinstance(event, _Boundary):
            if event.ends_sentence and (sentence := builder.close()):
                yield sentence
            builder.start_document(event)
        else:
            builder.refuse(number, event)
    if sentence := builder.close():  # the last sentence may lack its blank line
        yield sentence
    return builder.key


class _SentenceBuilder:
    """The sentence that is being read."""

    def __init__(self, reader: LineReader, key: int) -> None:
        self.key = key
        self._reader = reader
        self._documents = DocumentCounter()
        self._tokens: list[str] = []
        self._refused = False
        self._line = 0

    def add(self, token: str, line: int) -> None:
        if self._refused:
            return
        self._line = self._line or line
        self._tokens.append(token)
        most = self._reader.settings.max_tokens
        if len(self._tokens) > most:
            what = f"a sentence of more than {most} tokens"
            error = LineError(
                what, "is a blank line missing? otherwise raise the limit (`max_tokens`)"
            )
            self.refuse(self._line, error)

    def refuse(self, line: int, error: LineError | None) -> None:
        """Give up the sentence because of a line, which the reader may have refused already."""
        if error is not None and not self._refused:
            self._reader.reject(line, error.what, error.hint)
        self._refused = True
        self._tokens = []

    def start_document(self, boundary: _Boundary) -> None:
        if boundary.starts_document:
            self._documents.start(boundary.key)

    def close(self) -> Sentence | None:
        """The sentence; None if there is none, or it was refused and its key is left out."""
        tokens, refused, line = self._tokens, self._refused, self._line
        if not (tokens or refused):
            return None
        sentence = None
        if not refused:
            at = self._reader.name, line
            sentence = self._documents.sentence(tokens, self.key, " ".join(tokens), *at)
        self._documents.advance(yielded=not refused)
        self.key += 1
        self._tokens, self._refused, self._line = [], False, 0
        return sentence


def _conllu_events(lines: Iterable[str | None], column: int) -> Iterator[tuple[int, _Event]]:
    n_words = first_row = 0
    for number, line in enumerate(chain(lines, [""]), 1):
        if line is None:
            yield number, None
        elif line.startswith("#"):
            if document := _NEW_DOCUMENT.match(line):
                key = (document["id"] or "").strip() or None
                yield number, _Boundary(True, key, ends_sentence=False)
        elif not line.strip():
            if first_row and not n_words:
                hint = "give the sentence its words, or delete these lines"
                yield first_row, LineError("a sentence of ranges or empty nodes, no words", hint)
            yield number, _Boundary()
            n_words = first_row = 0
        else:
            first_row = first_row or number
            try:
                token = _conllu_token(line, n_words, column)
            except LineError as error:
                yield number, error
                n_words += 1
                continue
            if token is not None:
                n_words += 1
                yield number, token


def _conllu_token(line: str, n_before: int, column: int) -> str | None:
    """The token of a row, the (`n_before` + 1)-th of its sentence; None for other rows."""
    cells = line.split("\t")
    found = _CONLLU_ID.fullmatch(cells[0])
    if len(cells) == 1 or not found:
        raise LineError(
            f"{shortened(line)!r} is not a row of CoNLL-U, which begins with a number and a tab",
            "for other columns `format='conll'`, for one sentence per line `format='plain'`",
        )
    if found["word"] != cells[0]:
        return None
    if found["word"] != str(n_before + 1):
        raise LineError(
            f"ID {shortened(cells[0])!r}, {n_before + 1} has to follow; is a blank line missing?",
            "`format='conll'` with `column=2` reads the words and ignores their IDs",
        )
    return _cell(cells, column)


class _Rows:
    """The rows of a file of columns separated by tabs or spaces."""

    def __init__(self, reader: LineReader, columns: Columns) -> None:
        self._reader, self._columns = reader, columns
        self._width = columns.width  # of the row before

    def events(self, lines: Iterable[str | None]) -> Iterator[tuple[int, _Event]]:
        held: list[tuple[int, str]] = []  # `#` lines whose next neighbour is yet to come
        is_within = False  # a sentence, after its first row
        for number, line in enumerate(lines, 1):
            if line is None or is_boundary(line):
                yield from self._decide(held)
                is_within = is_within and line is None
                yield number, None if line is None else _boundary(line)
            elif line.startswith("#"):
                held.append((number, line))
                if is_within or len(held) == _MAX_HELD:
                    yield from self._decide(held)
            else:
                cells = self._columns.split(line)
                if is_within and len(cells) != self._width:
                    self._check_width(number, len(cells))
                self._width, is_within = len(cells), True
                yield from self._decide(held)
                yield number, self._token(line, cells)
        yield from self._decide(held)

    def _decide(self, held: list[tuple[int, str]]) -> Iterator[tuple[int, _Event]]:
        """The rows among lines that begin with `#`, by the columns of the row next to them."""
        for number, line in held:
            cells = self._columns.split(line)
            if _METADATA.match(line):
                continue
            if len(cells) == self._width:
                self._check_label(number, line, cells)
                yield number, self._token(line, cells)
            elif _LONE_HASHTAG.fullmatch(line):
                shown = shortened(line.strip())
                what = f"{shown!r} has no further column, rows next to it have {self._width}"
                hint = "add the columns that it lacks, or write a space after the # of a comment"
                yield number, LineError(what, hint)
        held.clear()

    def _check_label(self, number: int, line: str, cells: list[str]) -> None:
        """Warn of a row that may be a comment, since its last column is unlike the first rows'."""
        columns = self._columns
        if not columns.tabs and columns.width > 1 and cells[-1] not in columns.labels:
            self._reader.report.warn(
                "hash",
                f"{self._reader.name}, line {number}: {shortened(line)!r} has as many columns as "
                "the rows next to it and is read as a row; if it is a comment, delete it",
            )

    def _check_width(self, number: int, width: int) -> None:
        """Warn of a row of another width if it may be a sentence, or a line between rows."""
        if self._columns.column == 1 and (width == 1 or not self._columns.tabs):
            self._reader.report.warn(
                "width",
                f"{self._reader.name}, line {number}: {width} columns, the line before has "
                f"{self._width}; if lines are sentences, `format='plain'` reads them",
            )

    def _token(self, line: str, cells: list[str]) -> str | LineError:
        columns = self._columns
        if columns.tabs and len(cells) == 1 and len(split_at_spaces(line)) == columns.width > 1:
            return LineError(
                f"{shortened(line)!r} has no tab, which separates the columns of this file",
                "separate the columns of all rows in the same way",
            )
        try:
            return _cell(cells, columns.column)
        except LineError as error:
            return error


def _boundary(line: str) -> _Boundary:
    if line.startswith("-DOCSTART-"):
        return _Boundary(True)
    if not line.startswith("#begin document"):
        return _Boundary()
    if found := DOCUMENT_START.match(line):
        return _Boundary(True, f"{found['id']}_{int(found['part'] or 0)}")
    return _Boundary(True, line.removeprefix("#begin document").strip() or None)


def _cell(cells: list[str], column: int) -> str:
    """The content of a column, counted from 1, or from the end if negative."""
    index = column - 1 if column > 0 else column
    if not -len(cells) <= index < len(cells):
        raise LineError(f"{len(cells)} columns, `column={column}` is missing", _COLUMN_HINT)
    token = cells[index].strip(BLANK)
    if not token:
        raise LineError(f"column {column} is empty", _COLUMN_HINT)
    return token
