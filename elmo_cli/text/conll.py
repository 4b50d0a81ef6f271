"""One token per line, in columns: CoNLL-U, and the older CoNLL formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

from elmo_cli.errors import InputError, UsageError
from elmo_cli.messages import plural, shortened
from elmo_cli.text.column_format import (
    BLANK,
    ColumnFormat,
    NumberedLines,
    SentenceLines,
    detect_columns,
    is_boundary,
)
from elmo_cli.text.lines import LineError, LineReader
from elmo_cli.text.sentence import DocumentCounter, Sentence

CONLLU_COLUMNS = (
    *("id", "form", "lemma", "upos", "xpos"),
    *("feats", "head", "deprel", "deps", "misc"),
)
_OTHER_COLUMNS = re.compile(r"#\s*global\.columns\s*=(?!\s*\S+\s+FORM(?!\S))")  # CoNLL-U Plus
_CONLLU_ID = re.compile(r"(?P<word>\d+)(?P<more>[-.]\d+)?")
_CONLLU_DOCUMENT = re.compile(r"#\s*newdoc\b(?:\s+id\s*=(?P<id>.*))?")
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
_TOO_LONG_HINT = "is a blank line missing? otherwise raise the limit (`max_tokens`)"
_MAX_COMMENTS = 10_000  # lines of a sentence besides its tokens
_N_DETECTED = 2_000  # lines that are enough to detect columns
# The line and the token of each row; "" for a row that is no token, such as a range of words.
NumberedTokens = Iterator[tuple[int, str]]
TokenReader = Callable[[NumberedLines], NumberedTokens]


class DocumentStart(NamedTuple):
    """The start of a document."""

    key: str | None  # None if the file gives it none


DocumentStartReader = Callable[[str], DocumentStart | None]  # None: the line does not start one


def read_conllu(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    """Yield the sentences of a CoNLL-U file: its syntactic words, column 2 (FORM) by default.

    Comments, ranges of words (`1-2`) and empty nodes (`8.1`) are left out. A document starts at
    `# newdoc`; with an `id` it has a key, and its sentences have positions. `Sentence.text` is the
    tokens joined by one space, not `# text`, because sentences are looked up by their tokens. A
    refused sentence takes its key with it.

    Returns:
        The key after the last sentence, at the end of the generator.
    Raises:
        InputError: the second column of CoNLL-U Plus is not FORM, and no column is given.

    Source: https://universaldependencies.org/format.html
    """
    line_groups = _split_into_sentences(reader, _is_blank)
    read_tokens = partial(_read_conllu_tokens, reader)
    return _read_sentences(reader, key, line_groups, read_tokens, _conllu_document_start)


def read_conll(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    """Yield the sentences of a file of columns with one token per line and blank lines between.

    `detect_columns` finds the separator and the column of the tokens. `-DOCSTART-` and
    `#begin document` start a document; below `#begin document (id); part n` its key is `id_n` as in
    e2e-coref, otherwise what follows the words. A line that begins with `#` is a comment if its
    number of columns differs from that of the rows of its sentence; a lone `#hashtag`, and any
    other row with a different number of columns, is refused.

    Returns:
        The key after the last sentence, at the end of the generator.
    Raises:
        InputError: as `detect_columns`.
    """
    line_groups = _split_into_sentences(reader, is_boundary)
    head: list[SentenceLines] = []
    n_lines = 0
    for lines in line_groups:
        head.append(lines)
        n_lines += len(lines)
        if n_lines >= _N_DETECTED:
            break
    columns = detect_columns(reader, head)
    read_tokens = partial(_read_conll_tokens, reader, columns)
    all_groups = chain(head, line_groups)
    return (yield from _read_sentences(reader, key, all_groups, read_tokens, _conll_document_start))


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


def _is_blank(line: str) -> bool:
    return not line.strip()


def _split_into_sentences(
    reader: LineReader, is_boundary: Callable[[str], bool]
) -> Iterator[SentenceLines]:
    """Yield the lines of each sentence; a boundary that is not blank is the first of them.

    Raises:
        InputError: a sentence has more lines than its tokens and `_MAX_COMMENTS` comments may take.
            It cannot be skipped: its end has not been read, and its lines must not fill the memory.
    """
    lines: SentenceLines = []
    max_tokens = reader.settings.max_tokens
    for number, line in enumerate(reader.lines(), 1):
        if line is not None and is_boundary(line):
            if lines:
                yield lines
            lines = []
            if _is_blank(line):
                continue
        elif len(lines) > max_tokens + _MAX_COMMENTS:
            n_tokens = plural(max_tokens, "token")
            n_lines = plural(len(lines), "line")
            problem = f"a sentence of more than {n_tokens}, with comments {n_lines}"
            first_line = lines[0][0]
            raise InputError(
                problem,
                _TOO_LONG_HINT,
                where=reader.where(first_line),
                parameters=("max_tokens",),
            )
        lines.append((number, line))
    if lines:
        yield lines


def _read_sentences(
    reader: LineReader,
    key: int,
    line_groups: Iterator[SentenceLines],
    read_tokens: TokenReader,
    document_start: DocumentStartReader,
) -> Generator[Sentence, None, int]:
    """Yield a sentence for each group of lines that contains rows; the others are comments.

    Returns:
        The key after the last sentence.
    """
    documents = DocumentCounter()
    for line_group in line_groups:
        lines = [(number, line) for number, line in line_group if line is not None]
        _start_documents(documents, lines, document_start)
        is_refused = len(lines) < len(line_group)
        rows: list[tuple[int, str]] = []
        tokens: list[str] = []
        if not is_refused:
            try:
                rows = list(read_tokens(lines))
                tokens = _tokens_of_rows(rows, reader.settings.max_tokens)
            except LineError as error:
                reader.reject(error.line, error.problem, error.hint, error.parameters)
                is_refused = True
        if is_refused:  # it takes its key and its position, so that those of later ones stay
            documents.advance(yielded=False)
            key += 1
        elif rows:
            first_line = rows[0][0]
            yield documents.sentence(tokens, key, " ".join(tokens), reader.name, first_line)
            documents.advance(yielded=True)
            key += 1
    return key


def _start_documents(
    documents: DocumentCounter, lines: NumberedLines, document_start: DocumentStartReader
) -> None:
    for _, line in lines:
        if line[0] in "#-":  # a faster test than the pattern
            start = document_start(line)
            if start is not None:
                documents.start(start.key)


def _conllu_document_start(line: str) -> DocumentStart | None:
    """The document that `# newdoc`, perhaps with an `id`, starts."""
    match = _CONLLU_DOCUMENT.match(line)
    if match is None:
        return None
    return DocumentStart(key=_key_or_none(match["id"]))


def _conll_document_start(line: str) -> DocumentStart | None:
    """The document that `-DOCSTART-` or `#begin document` starts."""
    match = _CONLL_DOCUMENT.match(line)
    if match is None:
        return None
    if match["text"] is None:
        return DocumentStart(key=_key_or_none(match["name"]))
    part = int(match["part"] or 0)
    return DocumentStart(key=f"{match['text']}_{part}")


def _key_or_none(name: str | None) -> str | None:
    if name is None:
        return None
    return name.strip() or None


def _tokens_of_rows(rows: list[tuple[int, str]], max_tokens: int) -> list[str]:
    tokens = [token for _, token in rows if token]
    if rows and not tokens:
        problem = "a sentence of ranges or empty nodes, no words"
        raise LineError(problem, "add its words", line=rows[0][0])
    if len(tokens) > max_tokens:
        problem = f"a sentence of more than {plural(max_tokens, 'token')}"
        raise LineError(problem, _TOO_LONG_HINT, line=rows[0][0], parameters=("max_tokens",))
    return tokens


def _read_conllu_tokens(reader: LineReader, lines: NumberedLines) -> NumberedTokens:
    column = reader.settings.column or 2
    n_words = 0
    for number, line in lines:
        if line.startswith("#"):
            if reader.settings.column is None and _OTHER_COLUMNS.match(line):
                hint = f"give its number, such as `{reader.column_parameter}=3`"
                problem = f"{shortened(line)!r}: FORM is not column 2"
                raise InputError(
                    problem,
                    hint,
                    where=reader.where(number),
                    parameters=(reader.column_parameter,),
                )
            continue
        cells = line.split("\t")
        conllu_id = _CONLLU_ID.fullmatch(cells[0])
        if len(cells) == 1 or conllu_id is None:
            problem = "is not a row of CoNLL-U, which begins with a number and a tab"
            hint = "for other columns `format='conll'`, for one sentence per line `format='plain'`"
            problem = f"{shortened(line)!r} {problem}"
            raise LineError(problem, hint, line=number, parameters=("format",))
        if conllu_id["more"]:
            yield number, ""
            continue
        n_words += 1
        if conllu_id["word"] != str(n_words):
            found = shortened(cells[0])
            problem = f"ID {found!r} instead of {n_words}; is a blank line missing?"
            with_column = f"`format='conll'` with `{reader.column_parameter}=2`"
            hint = f"{with_column} reads the words and ignores their IDs"
            parameters = ("format", reader.column_parameter)
            raise LineError(problem, hint, line=number, parameters=parameters)
        yield number, _cell(reader, cells, column, number)


def _read_conll_tokens(
    reader: LineReader, columns: ColumnFormat, lines: NumberedLines
) -> NumberedTokens:
    """Yield the tokens of a sentence; warn of a row that may be a comment."""
    rows = [(n, line, columns.split(line)) for n, line in lines if not is_boundary(line)]
    widths = [len(cells) for _, line, cells in rows if line[0] != "#"]
    # The widest row is right: a row that lost a separator is likelier than one that gained some.
    width = max(widths, default=columns.width)
    for number, line, cells in rows:
        is_hash = line[0] == "#"
        is_ragged = len(cells) != width
        if is_hash and _is_comment(line, is_ragged=is_ragged):
            continue
        if is_ragged:
            numbers = (
                f"the number of columns is {len(cells)}, not {width} as in the rows next to it"
            )
            problem = f"{shortened(line)!r}: {numbers}"
            raise LineError(problem, _RAGGED_HINT, line=number, parameters=("format",))
        # In a row such as `#tag<TAB>O` the hash is certainly a part of the token.
        is_token_and_tab = columns.has_tabs and line[1:2] != " "
        if is_hash and width > 1 and not is_token_and_tab:
            problem = "is read as a row, not as a comment; delete it if it is one"
            message = f"{reader.where(number)}: {shortened(line)!r} {problem}"
            reader.report.warn("hash", message)
        yield number, _cell(reader, cells, columns.column, number)


def _is_comment(line: str, *, is_ragged: bool) -> bool:
    """Whether a line that begins with `#` is a comment.

    Args:
        is_ragged: whether its number of columns differs from that of the rows of its sentence.
    """
    if is_ragged and not _LONE_HASHTAG.fullmatch(line):
        return True
    return _METADATA.match(line) is not None


def _cell(reader: LineReader, cells: list[str], column: int, number: int) -> str:
    """The content of a column, counted from 1, or from the end if negative."""
    index = column - 1 if column > 0 else column
    has_column = -len(cells) <= index < len(cells)
    token = cells[index].strip(BLANK) if has_column else ""
    if not token:
        name = reader.column_parameter
        missing = f"`{name}={column}` is missing: the number of columns is {len(cells)}"
        problem = f"column {column} is empty" if has_column else missing
        hint = f"`{name}` chooses another; -1 is the last"
        raise LineError(problem, hint, line=number, parameters=(name,))
    return token
