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

# The lines of a sentence with their numbers; None for a line that was refused.
SentenceLines = list[tuple[int, str | None]]
NumberedLines = list[tuple[int, str]]
# The line and the token of each row; "" for a row that is no token, such as a range of words.
NumberedTokens = Iterator[tuple[int, str]]
TokenReader = Callable[[NumberedLines], NumberedTokens]


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
    line_groups = _split_into_sentences(reader, lambda line: not line.strip())
    read_tokens = partial(_read_conllu_tokens, reader)
    return _read_sentences(reader, key, line_groups, read_tokens, _CONLLU_DOCUMENT)


def read_conll(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    """Yield the sentences of a file of columns with one token per line and blank lines between.

    `_detect_columns` finds the separator and the column of the tokens. `-DOCSTART-` and
    `#begin document` start a document; below `#begin document (id); part n` its key is `id_n` as in
    e2e-coref, otherwise what follows the words. A line that begins with `#` is a comment if its
    number of columns differs from that of the rows of its sentence; a lone `#hashtag`, and any
    other row with a different number of columns, is refused.
    """
    line_groups = _split_into_sentences(reader, _is_boundary)
    head: list[SentenceLines] = []
    n_lines = 0
    for lines in line_groups:
        head.append(lines)
        n_lines += len(lines)
        if n_lines >= _N_DETECTED:
            break
    columns = _detect_columns(reader, head)
    read_tokens = partial(_read_tokens, reader, columns)
    all_groups = chain(head, line_groups)
    return (yield from _read_sentences(reader, key, all_groups, read_tokens, _DOCUMENT))


def is_row(line: str | None) -> bool:
    """Whether a line is certainly a row; one that begins with `#` may be a comment."""
    return line is not None and not _is_boundary(line) and not line.startswith("#")


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


def _split_into_sentences(
    reader: LineReader, is_boundary: Callable[[str], bool]
) -> Iterator[SentenceLines]:
    """Yield the lines of each sentence; a boundary that is not blank is the first of them."""
    lines: SentenceLines = []
    max_tokens = reader.settings.max_tokens
    for number, line in enumerate(reader.lines(), 1):
        if line is not None and is_boundary(line):
            if lines:
                yield lines
            lines = []
        elif len(lines) > max_tokens + _MAX_COMMENTS:  # it must not fill the memory
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
        if line is None or line.strip():
            lines.append((number, line))
    if lines:
        yield lines


def _read_sentences(
    reader: LineReader,
    key: int,
    line_groups: Iterator[SentenceLines],
    read_tokens: TokenReader,
    document_start: re.Pattern[str],
) -> Generator[Sentence, None, int]:
    """Yield a sentence for each group of lines that contains rows; the others are comments."""
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
        if is_refused:
            documents.advance(yielded=False)
            key += 1
        elif rows:
            first_line = rows[0][0]
            yield documents.sentence(tokens, key, " ".join(tokens), reader.name, first_line)
            documents.advance(yielded=True)
            key += 1
    return key


def _start_documents(
    documents: DocumentCounter, lines: NumberedLines, document_start: re.Pattern[str]
) -> None:
    for _, line in lines:
        if line[0] in "#-":  # a faster test than the pattern
            match = document_start.match(line)
            if match is not None:
                documents.start(_document_key(match.groupdict()))


def _document_key(values: dict[str, str | None]) -> str | None:
    """The key of a document from the values of `_CONLLU_DOCUMENT` or `_DOCUMENT`, if it has one."""
    text = values.get("text")
    if text is not None:
        part = int(values["part"] or 0)
        return f"{text}_{part}"
    document_id = (values["id"] or "").strip()
    return document_id or None


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


class _NumberedColumns(NamedTuple):
    """The columns of a file; `width` is how many most rows have, 1 if there is no row."""

    column: int  # of the tokens, from 1, or from the end if negative
    has_tabs: bool  # whether tabs separate them, so that a token may contain spaces
    width: int

    def split(self, line: str) -> list[str]:
        return line.split("\t") if self.has_tabs else _SPACES.split(line.strip(_BLANK))


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
    column = reader.settings.column
    columns = _NumberedColumns(column=column or 1, has_tabs=_has_tabs(rows), width=1)
    sentences = _cells_by_sentence(columns, head)
    columns = columns._replace(width=_most_frequent_width(sentences))
    if column is not None or columns.width == 1:
        return columns
    has_document_line = any(line.startswith("#begin document") for _, line in lines)
    if has_document_line and _is_numbered_by_column_3(sentences):
        return columns._replace(column=4)
    first_column = [[cells[0] for cells in sentence] for sentence in sentences]
    if not _may_be_tokens(first_column):
        cell = shortened(first_column[0][0])
        name = reader.column_parameter
        problem = (
            f"column 1 ({cell!r}) is always a number or the same in all rows of a sentence, so it "
            "may not hold tokens"
        )
        hint = (
            f"`{name}=2` reads the second column, as in CoNLL-X, `{name}=4` that of CoNLL-2012, "
            f"`{name}=1` this one; or `format='conllu'`"
        )
        first_row = rows[0][0]
        raise InputError(problem, hint, where=reader.where(first_row), parameters=(name, "format"))
    return columns


def _has_tabs(rows: NumberedLines) -> bool:
    """Whether the first row or most rows contain a tab."""
    n_with_tab = sum("\t" in line for _, line in rows)
    if n_with_tab == 0:
        return False
    first_row = rows[0][1]
    return "\t" in first_row or 2 * n_with_tab > len(rows)


def _cells_by_sentence(
    columns: _NumberedColumns, head: Sequence[SentenceLines]
) -> list[list[list[str]]]:
    """The cells of each row of each sentence that has a row."""
    sentences = []
    for group in head:
        cells_of_rows = [columns.split(line) for _, line in group if line and is_row(line)]
        if cells_of_rows:
            sentences.append(cells_of_rows)
    return sentences


def _most_frequent_width(sentences: list[list[list[str]]]) -> int:
    """The number of cells that most rows have; 1 if there is no row."""
    widths = Counter(len(cells) for sentence in sentences for cells in sentence)
    return max(widths, key=widths.__getitem__, default=1)


def _is_numbered_by_column_3(sentences: list[list[list[str]]]) -> bool:
    """Whether column 3 of nearly all rows is a number, and there is a column 4."""
    n_rows = 0
    n_numbered = 0
    for sentence in sentences:
        for cells in sentence:
            n_rows += 1
            n_numbered += len(cells) > 3 and _NUMBER.fullmatch(cells[2]) is not None
    return n_numbered > MOST * n_rows


def _may_be_tokens(sentences: list[list[str]]) -> bool:
    """Whether the cells of a column, by sentence, vary and are not nearly all numbers."""
    all_cells = [cell for sentence in sentences for cell in sentence]
    n_numbers = sum(_NUMBER.fullmatch(cell) is not None for cell in all_cells)
    if n_numbers > MOST * len(all_cells):
        return False
    if len(all_cells) < 2 or any(len(set(sentence)) > 1 for sentence in sentences):
        return True
    has_single_words_only = all(len(sentence) == 1 for sentence in sentences)
    return has_single_words_only and len(set(all_cells)) > 1


def _is_boundary(line: str) -> bool:
    """Whether a line separates sentences and holds no token, such as a blank line."""
    return not line.strip(_BLANK) or line.startswith(_BOUNDARIES)


def _read_tokens(
    reader: LineReader, columns: _NumberedColumns, lines: NumberedLines
) -> NumberedTokens:
    """Also warns of a row that may be a comment."""
    rows = [(n, line, columns.split(line)) for n, line in lines if not _is_boundary(line)]
    widths = [len(cells) for _, line, cells in rows if line[0] != "#"]
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
        if is_hash and width > 1 and (not columns.has_tabs or line[1:2] == " "):
            problem = "is read as a row, not as a comment; delete it if it is one"
            message = f"{reader.where(number)}: {shortened(line)!r} {problem}"
            reader.report.warn("hash", message)
        yield number, _cell(reader, cells, columns.column, number)


def _is_comment(line: str, *, is_ragged: bool) -> bool:
    """Whether a line that begins with `#` is a comment; `is_ragged`: it is not as wide as rows."""
    if is_ragged and not _LONE_HASHTAG.fullmatch(line):
        return True
    return _METADATA.match(line) is not None


def _cell(reader: LineReader, cells: list[str], column: int, number: int) -> str:
    """The content of a column, counted from 1, or from the end if negative."""
    index = column - 1 if column > 0 else column
    has_column = -len(cells) <= index < len(cells)
    token = cells[index].strip(_BLANK) if has_column else ""
    if not token:
        name = reader.column_parameter
        missing = f"`{name}={column}` is missing: the number of columns is {len(cells)}"
        problem = f"column {column} is empty" if has_column else missing
        hint = f"`{name}` chooses another; -1 is the last"
        raise LineError(problem, hint, line=number, parameters=(name,))
    return token
