"""One token per line, in columns: CoNLL-U, and the older CoNLL formats."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from elmo_cli.errors import InputError, UsageError
from elmo_cli.messages import plural, shortened
from elmo_cli.text.lines import LineReader
from elmo_cli.text.sentence import DocumentCounter, LineError, Sentence

CONLLU_COLUMNS = (
    *("id", "form", "lemma", "upos", "xpos"),
    *("feats", "head", "deprel", "deps", "misc"),
)
_OTHER_COLUMNS = re.compile(r"#\s*global\.columns\s*=(?!\s*\S+\s+FORM(?!\S))")  # CoNLL-U Plus
_CONLLU_ID = re.compile(r"(?P<word>\d+)(?P<more>[-.]\d+)?")
# The line that starts a document, and its key.
_CONLLU_DOCUMENT = re.compile(r"#\s*newdoc\b(?:\s+id\s*=(?P<id>.*))?")
_DOCUMENT = re.compile(
    r"-DOCSTART-|#begin document(?: \((?P<text>.*)\);(?: part (?P<part>\d{1,9}))?|(?P<id>.*))"
)
# `# sent_id = 1`, and `# id 52<TAB>domain=en` in MultiCoNER
_METADATA = re.compile(r"#\s*[\w.:]+\s=\s|# [^\t]+\t\w+=")
_LONE_HASHTAG = re.compile(r"#\w[^\s=]*\s*")
_COLUMN_HINT = "`column` chooses another; -1 is the last"
_RAGGED_HINT = (
    "separate all rows in the same way, write a space after the # of a comment; or "
    "`format='plain'` if lines are sentences"
)
_TOO_LONG_HINT = "is a blank line missing? otherwise raise the limit (`max_tokens`)"
_MAX_COMMENTS = 10_000  # lines of a sentence besides its tokens
_N_DETECTED = 2_000  # lines that are enough to detect columns
# White space between columns or alone on a line; U+00A0 may be a token.
_BLANK = " \t\x0b\x0c\x1c\x1d\x1e\x1f"
_BOUNDARIES = ("-DOCSTART-", "#begin document", "#end document")
_NUMBER = re.compile(r"[0-9]{1,9}(?:[-.][0-9]+)?")  # also a range or an empty node of CoNLL-U
_SPACES = re.compile(r"[ \t]+")
MOST = 0.9  # of the rows; a few may be corrupt

SentenceLines = list[
    tuple[int, str | None]
]  # the lines of a sentence; None for one that was refused
NumberedLines = list[tuple[int, str]]  # of a sentence, with their numbers
Cells = Iterator[tuple[int, str]]  # line and token of each row, "" for a row without one


def read_conllu(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    """Yield the sentences of a CoNLL-U file: its syntactic words, column 2 (FORM) by default.

    Comments, ranges of words (`1-2`) and empty nodes (`8.1`) are left out. A document starts at
    `# newdoc`; with an `id` it has a key, and its sentences have positions. `Sentence.text` is the
    tokens joined by one space, not `# text`, because sentences are looked up by their tokens. A
    refused sentence takes its key with it.

    Raises:
        InputError: the second column of CoNLL-U Plus is not FORM, and no column is given.

    Source: https://universaldependencies.org/format.html
    """
    groups = _groups(reader, lambda line: not line.strip())
    cells_of = partial(_conllu_cells, reader)
    return _read(reader, key, groups, cells_of, _CONLLU_DOCUMENT)


def read_conll(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    """Yield the sentences of a file of columns with one token per line and blank lines between.

    `_detect_columns` finds the separator and the column of the tokens. `-DOCSTART-` and
    `#begin document` start a document; below `#begin document (id); part n` its key is `id_n` as in
    e2e-coref, otherwise what follows the words. A line that begins with `#` is a comment if its
    number of columns differs from that of the rows of its sentence; a lone `#hashtag`, and any
    other row with a different number of columns, is refused.
    """
    groups = _groups(reader, _is_boundary)
    head: list[SentenceLines] = []
    while sum(map(len, head)) < _N_DETECTED and (group := next(groups, None)):
        head.append(group)
    cells_of = partial(_cells, reader, _detect_columns(reader, head))
    return (yield from _read(reader, key, chain(head, groups), cells_of, _DOCUMENT))


def is_row(line: str | None) -> bool:
    """Whether a line is certainly a row; one that begins with `#` may be a comment."""
    return line is not None and not _is_boundary(line) and not line.startswith("#")


def _groups(reader: LineReader, is_boundary: Callable[[str], bool]) -> Iterator[SentenceLines]:
    """Yield the lines of each sentence; a boundary that is not blank is the first of them."""
    held: SentenceLines = []
    most = reader.settings.max_tokens
    for number, line in enumerate(reader.lines(), 1):
        if line is not None and is_boundary(line):
            if held:
                yield held
            held = []
        elif len(held) > most + _MAX_COMMENTS:  # an endless sentence must not fill the memory
            what = f"a sentence of more than {plural(most, 'token')}, with comments "
            what += plural(len(held), "line")
            raise InputError(f"{reader.name}, line {held[0][0]}: {what}", _TOO_LONG_HINT)
        if line is None or line.strip():
            held.append((number, line))
    if held:
        yield held


def label_column(path: str, text_format: str, column: str | None, parameter: str) -> int:
    """The number of the column of the labels in a CoNLL-U file or in other columns.

    Args:
        column: a number from 1, -1 for the last, or in CoNLL-U a name; by default XPOS in CoNLL-U
            and the last elsewhere. A UsageError if there is no such column.
        parameter: name of `column` in messages.
    """
    is_conllu = text_format == "conllu"
    column = column or ("xpos" if is_conllu else "-1")
    if is_conllu and column.lower() in CONLLU_COLUMNS:
        return CONLLU_COLUMNS.index(column.lower()) + 1
    try:
        return int(column)
    except ValueError:
        what = f"`{parameter}={column}`: no column of {path}, which is {text_format}"
        names = f", or one of {', '.join(CONLLU_COLUMNS)}" if is_conllu else ""
        hint = f"`{parameter}` is a number from 1, -1 for the last{names}"
        raise UsageError(what, hint) from None


def _read(
    reader: LineReader,
    key: int,
    groups: Iterator[SentenceLines],
    cells_of: Callable[[NumberedLines], Cells],
    document: re.Pattern[str],
) -> Generator[Sentence, None, int]:
    documents = DocumentCounter()
    for group in groups:
        lines = [(number, line) for number, line in group if line is not None]
        for found in filter(None, (document.match(line) for _, line in lines if line[0] in "#-")):
            documents.start(_document_key(**found.groupdict()))
        is_refused = len(lines) < len(group)
        try:
            cells = [] if is_refused else list(cells_of(lines))
            tokens = _tokens(cells, reader.settings.max_tokens)
        except LineError as error:
            reader.reject(error.line, error.what, error.hint)
            is_refused = True
        if is_refused or cells:
            if not is_refused:
                yield documents.sentence(tokens, key, " ".join(tokens), reader.name, cells[0][0])
            documents.advance(yielded=not is_refused)
            key += 1
    return key


def _document_key(id: str | None, text: str | None = None, part: str | None = None) -> str | None:
    return (id or "").strip() or None if text is None else f"{text}_{int(part or 0)}"


def _tokens(cells: list[tuple[int, str]], most: int) -> list[str]:
    tokens = [token for _, token in cells if token]
    if cells and not tokens:
        what = "a sentence of ranges or empty nodes, no words"
        raise LineError(what, "add its words", cells[0][0])
    if len(tokens) > most:
        what = f"a sentence of more than {plural(most, 'token')}"
        raise LineError(what, _TOO_LONG_HINT, cells[0][0])
    return tokens


def _conllu_cells(reader: LineReader, lines: NumberedLines) -> Cells:
    column, n_words = reader.settings.column or 2, 0
    for number, line in lines:
        if line.startswith("#"):
            if reader.settings.column is None and _OTHER_COLUMNS.match(line):
                what = f"{reader.name}, line {number}: {shortened(line)!r}: FORM is not column 2"
                raise InputError(what, "give its number, such as `column=3`")
            continue
        cells = line.split("\t")
        found = _CONLLU_ID.fullmatch(cells[0])
        if len(cells) == 1 or not found:
            what = "is not a row of CoNLL-U, which begins with a number and a tab"
            hint = "for other columns `format='conll'`, for one sentence per line `format='plain'`"
            raise LineError(f"{shortened(line)!r} {what}", hint, number)
        if found["more"]:
            yield number, ""
            continue
        n_words += 1
        if found["word"] != str(n_words):
            what = f"ID {shortened(cells[0])!r} instead of {n_words}; is a blank line missing?"
            hint = "`format='conll'` with `column=2` reads the words and ignores their IDs"
            raise LineError(what, hint, number)
        yield number, _cell(cells, column, number)


class _NumberedColumns(NamedTuple):
    """The columns of a file; `width` is how many most rows have, 1 if there is no row."""

    column: int  # of the tokens, from 1, or from the end if negative
    tabs: bool  # whether tabs separate them, so that a token may contain spaces
    width: int

    def split(self, line: str) -> list[str]:
        return line.split("\t") if self.tabs else _SPACES.split(line.strip(_BLANK))


def _detect_columns(reader: LineReader, head: Sequence[SentenceLines]) -> _NumberedColumns:
    """Detect the columns of a file from its first sentences.

    Tabs separate them if the first row or most rows have one, otherwise spaces. The tokens are in
    column 4 below `#begin document` if column 3 numbers them, as in CoNLL-2012, otherwise in column
    1 (CoNLL-2000, 2002, 2003, WNUT), unless `reader.settings.column` is given.

    Raises:
        InputError: column 1 holds only numbers, or the same in all rows of a sentence.
    """
    lines = [(number, line) for group in head for number, line in group if line is not None]
    rows = [(number, line) for number, line in lines if is_row(line)]
    n_tabs = sum("\t" in line for _, line in rows)
    tabs = n_tabs > 0 and ("\t" in rows[0][1] or 2 * n_tabs > len(rows))
    columns = _NumberedColumns(reader.settings.column or 1, tabs, 1)
    split = [[columns.split(line) for _, line in group if line and is_row(line)] for group in head]
    sentences = list(filter(None, split))
    widths = Counter(len(row) for row in chain.from_iterable(sentences))
    columns = columns._replace(width=max(widths, key=widths.__getitem__, default=1))
    if reader.settings.column is not None or columns.width == 1:
        return columns
    if any(line.startswith("#begin document") for _, line in lines):
        cells = list(chain.from_iterable(sentences))
        n_numbered = sum(len(row) > 3 and _NUMBER.fullmatch(row[2]) is not None for row in cells)
        if n_numbered > MOST * len(cells):
            return columns._replace(column=4)
    if not _may_be_tokens([[row[0] for row in rows] for rows in sentences]):
        where = f"{reader.name}, line {rows[0][0]}: column 1 ({shortened(sentences[0][0][0])!r})"
        what = "is always a number or the same in all rows of a sentence, so it may not hold tokens"
        hint = (
            "`column=2` reads the second column, as in CoNLL-X, `column=4` that of CoNLL-2012, "
            "`column=1` this one; or `format='conllu'`"
        )
        raise InputError(f"{where} {what}", hint)
    return columns


def _may_be_tokens(cells: list[list[str]]) -> bool:
    """Whether the cells of a column, by sentence, vary and are not nearly all numbers."""
    every = list(chain.from_iterable(cells))
    if sum(_NUMBER.fullmatch(cell) is not None for cell in every) > MOST * len(every):
        return False
    varies = len(every) < 2 or any(len(set(rows)) > 1 for rows in cells)
    return varies or (len(set(every)) > 1 and all(len(rows) == 1 for rows in cells))


def _is_boundary(line: str) -> bool:
    """Whether a line separates sentences and holds no token, such as a blank line."""
    return not line.strip(_BLANK) or line.startswith(_BOUNDARIES)


def _cells(reader: LineReader, columns: _NumberedColumns, lines: NumberedLines) -> Cells:
    """Also warns of a row that may be a comment."""
    rows = [(n, line, columns.split(line)) for n, line in lines if not _is_boundary(line)]
    width = max((len(cells) for _, line, cells in rows if line[0] != "#"), default=columns.width)
    for number, line, cells in rows:
        is_hash, is_ragged = line[0] == "#", len(cells) != width
        is_comment = is_ragged and not _LONE_HASHTAG.fullmatch(line)
        if is_hash and (is_comment or _METADATA.match(line)):
            continue
        if is_ragged:
            n = f"the number of columns is {len(cells)}"
            what = f"{shortened(line)!r}: {n}, not {width} as in the rows next to it"
            raise LineError(what, _RAGGED_HINT, number)
        if is_hash and width > 1 and (not columns.tabs or line[1:2] == " "):
            what = f"{shortened(line)!r} is read as a row, not as a comment; delete it if it is one"
            reader.report.warn("hash", f"{reader.name}, line {number}: {what}")
        yield number, _cell(cells, columns.column, number)


def _cell(cells: list[str], column: int, number: int) -> str:
    """The content of a column, counted from 1, or from the end if negative."""
    index = column - 1 if column > 0 else column
    if not -len(cells) <= index < len(cells):
        what = f"`column={column}` is missing: the number of columns is {len(cells)}"
        raise LineError(what, _COLUMN_HINT, number)
    if not (token := cells[index].strip(_BLANK)):
        raise LineError(f"column {column} is empty", _COLUMN_HINT, number)
    return token
