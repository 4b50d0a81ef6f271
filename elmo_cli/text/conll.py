"""One token per line, in columns: CoNLL-U, and the older CoNLL formats."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from elmo_cli.text.column_detection import BLANK, Columns, detect_columns, first_rows, is_boundary
from elmo_cli.text.lines import LineReader
from elmo_cli.text.sentence import DocumentCounter, LineError, Sentence, shortened

_CONLLU_ID = re.compile(r"(?P<word>\d+)(?P<more>[-.]\d+)?")
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b(?:\s+id\s*=(?P<id>.*))?")
_DOCUMENT_START = re.compile(r"#begin document \((?P<id>.*)\);(?: part (?P<part>[0-9]{1,9}))?")
_METADATA = re.compile(r"#\s*[\w.:]+\s=\s")  # `# sent_id = 1`
_LONE_HASHTAG = re.compile(r"#\w[^\s=]*\s*")
_COLUMN_HINT = "`column` chooses another; -1 is the last"
_MAX_HELD = 10_000  # rows of a sentence; the next ones are judged by themselves


@dataclass(frozen=True)
class _Boundary:
    """The end of a sentence, or the start of a document, which may have a key, or both."""

    starts_document: bool = False
    key: str | None = None
    ends_sentence: bool = True


# What a line means: a token, "" a row without one, a boundary, an error in it; None: the line
# itself was refused.
_Event = str | _Boundary | LineError | None


def read_conllu(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    """Yield the sentences of a CoNLL-U file: its syntactic words, column 2 (FORM) by default.

    Comments, ranges of words (`1-2`) and empty nodes (`8.1`) are left out. A document starts at
    `# newdoc`; with an `id` it has a key, and its sentences have positions. `Sentence.text` is the
    tokens joined by one space, not `# text`, because sentences are looked up by their tokens.

    Args:
        key: of its first sentence; a refused sentence takes its key with it.
    Returns:
        The key of the first sentence of the next file.
    Source: https://universaldependencies.org/format.html
    """
    return _assemble(reader, key, _conllu_events(reader.lines(), reader.settings.column or 2))


def read_conll(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    """Yield the sentences of a file of columns with one token per line and blank lines between.

    `detect_columns` finds the separator and the column of the tokens. `-DOCSTART-` and
    `#begin document` start a document; below `#begin document (id); part n` its key is `id_n` as in
    e2e-coref, otherwise what follows the words. A line that begins with `#` is a comment if its
    number of columns differs from that of the rows of its sentence; a lone `#hashtag` or word among
    rows of several columns is refused. Arguments and errors are those of `read_conllu`.
    """
    lines = reader.lines()
    head = first_rows(lines)
    columns = detect_columns(reader, head)
    return (yield from _assemble(reader, key, _column_events(reader, columns, chain(head, lines))))


def _assemble(
    reader: LineReader, key: int, events: Iterable[tuple[int, _Event]]
) -> Generator[Sentence, None, int]:
    documents, most = DocumentCounter(), reader.settings.max_tokens
    tokens: list[str] = []
    is_refused, first = False, 0
    for number, event in chain(events, [(0, _Boundary())]):  # the last blank line may be missing
        if isinstance(event, str):
            first = first or number
            tokens += [event] if event else []
            if len(tokens) <= most:
                continue
            hint = "is a blank line missing? otherwise raise the limit (`max_tokens`)"
            number, event = first, LineError(f"a sentence of more than {most} tokens", hint)
        elif isinstance(event, _Boundary) and first and not (tokens or is_refused):
            reader.reject(first, "a sentence of ranges or empty nodes, no words", "add its words")
            is_refused = True
        if isinstance(event, LineError) and not is_refused:
            reader.reject(number, event.what, event.hint)
        if not isinstance(event, _Boundary):
            tokens, is_refused = [], True
            continue
        if event.ends_sentence and (tokens or is_refused):
            if not is_refused:
                yield documents.sentence(tokens, key, " ".join(tokens), reader.name, first)
            documents.advance(yielded=not is_refused)
            tokens, is_refused, first, key = [], False, 0, key + 1
        if event.starts_document:
            documents.start(event.key)
    return key


def _conllu_events(lines: Iterable[str | None], column: int) -> Iterator[tuple[int, _Event]]:
    n_words = 0
    for number, line in enumerate(lines, 1):
        if line is None:
            yield number, None
        elif line.startswith("#"):
            if document := _NEW_DOCUMENT.match(line):
                key = (document["id"] or "").strip() or None
                yield number, _Boundary(True, key, ends_sentence=False)
        elif not line.strip():
            n_words = 0
            yield number, _Boundary()
        else:
            event = _conllu_token(line, n_words + 1, column)
            n_words += event != ""
            yield number, event


def _conllu_token(line: str, expected: int, column: int) -> str | LineError:
    """The token of a row whose ID is `expected`; empty for ranges and empty nodes."""
    cells = line.split("\t")
    found = _CONLLU_ID.fullmatch(cells[0])
    if len(cells) == 1 or not found:
        return LineError(
            f"{shortened(line)!r} is not a row of CoNLL-U, which begins with a number and a tab",
            "for other columns `format='conll'`, for one sentence per line `format='plain'`",
        )
    if found["more"]:
        return ""
    if found["word"] != str(expected):
        return LineError(
            f"ID {shortened(cells[0])!r}, {expected} has to follow; is a blank line missing?",
            "`format='conll'` with `column=2` reads the words and ignores their IDs",
        )
    return _cell(cells, column)


def _column_events(
    reader: LineReader, columns: Columns, lines: Iterable[str | None]
) -> Iterator[tuple[int, _Event]]:
    held: list[tuple[int, str]] = []  # the rows of a sentence
    for number, line in enumerate(chain(lines, [""]), 1):
        is_row = line is not None and not is_boundary(line)
        if line is not None and is_row:
            held.append((number, line))
        if not is_row or len(held) == _MAX_HELD:
            yield from _tokens(reader, columns, held)
            held = []
        if not is_row:
            yield number, None if line is None else _boundary(line)


def _tokens(
    reader: LineReader, columns: Columns, rows: list[tuple[int, str]]
) -> Iterator[tuple[int, str | LineError]]:
    """The tokens of a sentence; a `#` line of fewer or more columns than its rows is a comment."""
    split = [(number, line, columns.split(line)) for number, line in rows]
    widths = (len(cells) for _, line, cells in split if line[0] != "#")
    width = max(widths, default=columns.width)
    for number, line, cells in split:
        n, is_hash = len(cells), line[0] == "#"
        is_comment = is_hash and n != width and not _LONE_HASHTAG.fullmatch(line)
        if is_comment or _METADATA.match(line):
            continue
        if n == 1 < width:
            what = f"{shortened(line)!r} is one column, the rows next to it have {width}"
            hint = "separate all rows in the same way; write a space after the # of a comment"
            yield number, LineError(what, hint)
            continue
        where = f"{reader.name}, line {number}: {shortened(line)!r}"
        if n != width:
            what = f"has {n} columns, others {width}; if lines are sentences, `format='plain'`"
            reader.report.warn("width", f"{where} {what}")
        elif is_hash and not columns.tabs and n > 1 and cells[-1] not in columns.labels:
            what = "is read as a row, not as a comment; delete it if it is one"
            reader.report.warn("hash", f"{where} {what}")
        yield number, _cell(cells, columns.column)


def _boundary(line: str) -> _Boundary:
    if found := _DOCUMENT_START.match(line):
        return _Boundary(True, f"{found['id']}_{int(found['part'] or 0)}")
    if line.startswith("#begin document"):
        return _Boundary(True, line.removeprefix("#begin document").strip() or None)
    return _Boundary(line.startswith("-DOCSTART-"))


def _cell(cells: list[str], column: int) -> str | LineError:
    """The content of a column, counted from 1, or from the end if negative."""
    index = column - 1 if column > 0 else column
    if not -len(cells) <= index < len(cells):
        return LineError(f"{len(cells)} columns, `column={column}` is missing", _COLUMN_HINT)
    return cells[index].strip(BLANK) or LineError(f"column {column} is empty", _COLUMN_HINT)
