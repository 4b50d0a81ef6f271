"""Signs that rows are not what they are read as: another separator, or a row of column names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from elmo_cli.messages import shortened
from elmo_cli.text.control_characters import code_point
from elmo_cli.text.white_space import BLANK, OTHER_SPACES

MOST = 0.9  # of the rows; a few may be corrupt
_SEPARATORS = {sign: re.compile(f" ?{re.escape(sign)} ?") for sign in ",;|"}
_TAG_SEPARATORS = {sign: re.compile(f"(?<=.){sign}(?=.)") for sign in "/_"}
_OTHER_SPACES = re.compile(f" ?[{OTHER_SPACES}][ {OTHER_SPACES}]*")
_QUOTED = re.compile(r'"[^"]*"')
_QUOTED_CELL = re.compile(r'"(?:[^"]|"")*"')
_QUOTED_QUOTE = '""""'  # how tables with quotes write one
_NOT_QUOTED_HINT = "export the table without quotes, in pandas with `quoting=csv.QUOTE_NONE`"
_BLANKS = re.compile(r"[ \t]+")
_MAX_CHARACTERS = 10_000  # examined of a row
_CELL = r'(?:"(?:[^"]|"")*"|[^",]*)'
_CSV_ROW = re.compile(f"{_CELL}(?:,{_CELL})+")
# A number, a comma and text, which a number of thousands is not; or, as in LJ Speech, `id|text`
# with at least three words. What repeats does not overlap, so that a match takes linear time.
_ROW_WITH_ID = re.compile(r"\d+[,;](?=[^\d\s]).*|[^\s|]+\|[^ |]* [^ |]* [^|]*(?:\|[^|]*)?")

# Words of column names, such as `ner_tags`, `NE-COARSE-LIT` or `Sentence #`.
_NAME = re.compile(r"[^\W\d_]+")
_WORDS_OF_NAMES = """
    anas begin bio bioes category chunk chunks class coarse col column comp coref cpos cpostag
    deprel deps doc document end entities entity feat feats features fine form forms gold head
    id ids idx index inner iob label labels lemma lemmas lex lit meto misc morph msd ne nel ner
    nested num number offset outer pos postag pred prediction segment sent sentence sentences
    start stem surface tag tags target text token tokens type upos upostag word wordform words
    ws wsafter xpos xpostag
"""
_NAMES = frozenset(_WORDS_OF_NAMES.split())
_MAX_NAMED = 0.01  # fraction of the other rows whose cell is the name of its column

CSV_HINT = (
    'export it as JSON lines with "tokens" or "text", or as text with one sentence per line; '
    "`format='plain'` reads its rows as sentences"
)


class RowSign(NamedTuple):
    """What is wrong with rows, for a message about the first one."""

    problem: str
    hint: str


def separator_sign(rows: Sequence[str]) -> RowSign | None:
    """The sign that something other than a tab or a space separates the columns of rows.

    It does if nearly all rows contain it, mostly equally often, and have no space or tab except
    next to it. A single row may be one token, such as `10,000`.
    """
    if len(rows) < 2:
        return None
    texts = []
    for row in rows:
        text = _QUOTED.sub("x", row[:_MAX_CHARACTERS].strip(BLANK))
        texts.append(_BLANKS.sub(" ", text))
    for separator, pattern in _SEPARATORS.items():
        if _is_separator(texts, pattern):
            return RowSign(
                problem=f"the columns are separated by `{separator}`, not by tabs or spaces",
                hint=_separator_hint(rows, separator),
            )
    for separator, pattern in _TAG_SEPARATORS.items():
        if _is_separator(texts, pattern):
            return RowSign(
                problem=f"the tokens are joined with tags by `{separator}`",
                hint=f"separate them: `sed -E 's|(.*){separator}|\\1\\t|' FILE > NEW_FILE`",
            )
    if _is_separator(texts, _OTHER_SPACES):
        found = _OTHER_SPACES.search(texts[0])
        space = found[0].lstrip(" ")[0] if found else "\u00a0"
        in_bytes = "".join(f"\\x{byte:02X}" for byte in space.encode())
        return RowSign(
            problem=f"the columns are separated by {code_point(space)}, not by tabs or spaces",
            hint=f"replace it: `sed 's/{in_bytes}/\\t/g' FILE > NEW_FILE`",
        )
    return None


def _separator_hint(rows: Sequence[str], separator: str) -> str:
    """How to replace a separator, which in quotes may be part of a cell."""
    if any('"' in row for row in rows):
        return "export the table with tabs and without quotes"
    return f"replace it: `tr '{separator}' '\\t' < FILE > NEW_FILE`"


def _is_separator(texts: Sequence[str], separator: re.Pattern[str]) -> bool:
    """Whether nearly all texts contain a separator, mostly equally often, and no other space."""
    n_rows_by_count = Counter[int]()
    for text in texts:
        joined, n_separators = separator.subn("", text)
        if n_separators > 0 and " " not in joined:
            n_rows_by_count[n_separators] += 1
    n_most_frequent = max(n_rows_by_count.values(), default=0)
    if 2 * n_most_frequent < len(texts):
        return False
    return n_rows_by_count.total() >= MOST * len(texts)


def quotes_sign(rows: Sequence[list[str]]) -> RowSign | None:
    """The sign that nearly all rows have all their cells in quotes, as exports of tables have."""
    n_quoted = 0
    for cells in rows:
        if all(len(cell) > 2 and _QUOTED_CELL.fullmatch(cell) for cell in cells):
            n_quoted += 1
    if n_quoted < 2 or n_quoted < MOST * len(rows):
        return None
    return RowSign(problem="the cells are in quotes", hint=_NOT_QUOTED_HINT)


def quoted_quote_warning(cells: Sequence[str]) -> str:
    """What to say about a row with a cell that is a quote within quotes; "" without one."""
    if _QUOTED_QUOTE not in cells:
        return ""
    return f"a cell is `{_QUOTED_QUOTE}`, as tables write a single quote; {_NOT_QUOTED_HINT}"


def header_sign(rows: Sequence[list[str]], line: int) -> RowSign | None:
    """The sign that the first row names the columns of the others.

    It consists of at least two names, of which hardly any row has one in the same column.

    Args:
        rows: their cells.
        line: the number of the first row, for the hint.
    """
    if not rows:
        return None
    header = rows[0]
    names = column_names(header)
    if not names:
        return None
    others = [cells for cells in rows if cells != header]
    n_copies = len(rows) - len(others)
    for index, name in enumerate(header):
        n_with_name = 0
        for cells in others:
            if index < len(cells) and cells[index] == name:
                n_with_name += 1
        if n_with_name > _MAX_NAMED * len(others):
            return None
    shown = ", ".join(repr(shortened(name)) for name in names[:5])
    hint = f"delete it: `sed '{line}d' FILE > NEW_FILE`"
    if n_copies > 1:  # of files that were joined
        hint = f"delete all such rows: `grep -vxF \"$(sed -n '{line}p' FILE)\" FILE > NEW_FILE`"
    return RowSign(
        problem=f"the row names the columns ({shown}) and is not data",
        hint=hint,
    )


def csv_sign(rows: Sequence[str]) -> RowSign | None:
    """The sign that the lines of a text are rows of CSV.

    Either the first one names columns, or nearly all have quoted cells, separated by commas, or an
    id before the text.
    """
    if not rows:
        return None
    n_quoted = 0
    n_with_id = 0
    for row in rows:
        beginning = row[:_MAX_CHARACTERS]
        if '"' in row and _CSV_ROW.fullmatch(beginning):
            n_quoted += 1
        if _ROW_WITH_ID.fullmatch(beginning):
            n_with_id += 1
    has_quotes = len(rows) >= 2 and n_quoted >= MOST * len(rows)
    has_ids = len(rows) >= 3 and n_with_id >= MOST * len(rows)
    has_names = _has_names(rows[0], ",") or _has_names(rows[0], ";")
    if not has_quotes and not has_ids and not has_names:
        return None
    return RowSign(problem="looks like CSV, which is not read", hint=CSV_HINT)


def _has_names(row: str, separator: str) -> bool:
    """Whether the cells of a row are names of columns; in a sentence, a space follows a comma."""
    if f"{separator} " in row:
        return False
    return bool(column_names(row.split(separator)))


def column_names(cells: Sequence[str]) -> list[str]:
    """The cells without quotes, if at least two differ and all are names of columns; or none."""
    names = []
    for cell in cells:
        name = cell.strip("#\"' ")
        if name:  # unlike the first cell of `# form pos`
            names.append(name)
    if len(set(names)) < 2:
        return []
    for name in names:
        words = _NAME.findall(name.lower())
        if not words or not _NAMES.issuperset(words):
            return []
    return names
