"""One token a line, in columns: CoNLL-U, and the older CoNLL formats."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from typing import Protocol

from elmo_cli.text.decode import Source
from elmo_cli.text.documents import Document
from elmo_cli.text.sentence import Sentence

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


def read_conllu(source: Source, key: int) -> Generator[Sentence, None, int]:
    """The sentences of a CoNLL-U file: its syntactic words, column 2 (FORM) unless `column` says.

    Left out are comments, ranges of words (`1-2`) and empty nodes (`8.1`), so that there are as
    many tokens as the file has words in its trees. A document begins at `# newdoc`; with an `id` it
    has a key, and its sentences have places. `Sentence.text` is the tokens joined by one space, not
    the comment `# text`, because a file of embeddings is searched by its tokens.

    Args:
        source: the file.
        key: of its first sentence; a sentence that is refused takes its key with it.
    Returns:
        The key that the first sentence of the next file has.
    Raises:
        InputError: a line without tabs or the column, an ID that does not follow the one before;
            and as `Source.lines` and `Source.admits`.
    Source: https://universaldependencies.org/format.html
    """
    columns = ConlluColumns(source.settings.column or 2)
    return (yield from _read(source, key, source.lines(), columns))


def read_conll(source: Source, key: int) -> Generator[Sentence, None, int]:
    """The sentences of a file with a token a line, in columns, and blank lines between sentences.

    Columns are parted by tabs if the first line with a token has one, so that a token may hold
    spaces, else by spaces. Without `column` the token is in column 4 if the file begins with
    `#begin document` (CoNLL-2012), in 2 if column 1 counts the words of the first sentence
    (CoNLL-X, 2009), else in 1 (CoNLL-2000, 2002, 2003, WNUT). `-DOCSTART-` begins a document,
    and so does `#begin document (id); part n`, whose key is `id_n` as e2e-coref makes it.

    Args, Returns: as `read_conllu`.
    Raises:
        InputError: a line that lacks the column; and as `Source.lines` and `Source.admits`.
    """
    head, lines = _head(source.lines())
    columns = _recognised(source, head)
    return (yield from _read(source, key, chain(head, lines), columns))


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


def _read(
    source: Source, key: int, lines: Iterable[str | None], columns: Columns
) -> Generator[Sentence, None, int]:
    draft = _Draft(source, key)
    for number, line in enumerate(chain(lines, [""]), 1):  # the last sentence may lack a blank line
        if line is None:
            draft.refuse(number)
        elif columns.parts_sentences(line):
            sentence = draft.close()
            if sentence:
                yield sentence
            draft.begin_document(columns.document(line))
        else:
            draft.begin_document(columns.document(line))
            _add_row(draft, source, columns, line, number)
    return draft.key


def _add_row(draft: _Draft, source: Source, columns: Columns, line: str, number: int) -> None:
    if draft.refused:
        return
    try:
        draft.add(columns.token(line, draft.n_tokens), number)
    except RowError as error:
        source.refuse(number, error.what, error.hint)
        draft.refuse(number)


class _Draft:
    """The sentence that is being read."""

    def __init__(self, source: Source, key: int) -> None:
        self.key = key
        self._source = source
        self._document = Document()
        self._clear()

    def _clear(self) -> None:
        self._tokens: list[str] = []
        self.n_tokens = 0
        self.refused = False
        self._line = 0

    def add(self, token: str | None, line: int) -> None:
        """One token more; beyond the most that is taken they are counted, but not kept."""
        if token is None:
            return
        self._line = self._line or line
        self.n_tokens += 1
        if self.n_tokens <= self._source.settings.max_tokens:
            self._tokens.append(token)

    def refuse(self, line: int) -> None:
        """Give the sentence up, as one of its lines can't be read."""
        self.refused = True
        self._line = self._line or line
        self._tokens.clear()

    def begin_document(self, begun: tuple[str | None] | None) -> None:
        if begun is not None:
            self._document.begin(begun[0])

    def close(self) -> Sentence | None:
        """The sentence; None if there is none, or if it was refused: then its key is left out."""
        if not (self.n_tokens or self.refused):
            return None
        taken = not self.refused and self._source.admits(self.n_tokens, self._line)
        sentence = self._sentence() if taken else None
        self._document.advance(taken)
        self.key += 1
        self._clear()
        return sentence

    def _sentence(self) -> Sentence:
        document = self._document
        return Sentence(
            tokens=tuple(self._tokens),
            key=self.key,
            text=" ".join(self._tokens),
            source=self._source.name,
            line=self._line,
            document=document.key,
            place=document.place,
            offset=document.offset,
            starts_document=document.starts,
        )


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


def _head(lines: Iterator[str | None]) -> tuple[list[str | None], Iterator[str | None]]:
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


def _rows(head: list[str | None]) -> list[str]:
    """The lines that hold a token of the first sentence, so far as marks and comments tell."""
    marks = PlainColumns(tabs=True, column=1)
    return [
        line
        for line in head
        if line and not marks.parts_sentences(line) and not _COMMENT.match(line)
    ]


def _recognised(source: Source, head: list[str | None]) -> PlainColumns:
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


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")
