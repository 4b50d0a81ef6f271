"""Read the lines of task files: JSON lines, and rows of columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.regular_files import unique_keys
from elmo_cli.text.input import check_inputs
from elmo_cli.text.input_settings import InputReport, InputSettings
from elmo_cli.text.lines import LineReader

_BEGIN, _END = "#begin document", "#end document"


class Row(NamedTuple):
    """A line of columns.

    Attributes:
        line: its number, from 1.
        cells: separated by tabs where the line has one, otherwise by spaces.
    """

    line: int
    cells: list[str]


class Rows(NamedTuple):
    """The rows of a sentence, and the document that it belongs to.

    Attributes:
        document: what follows `#begin document`; "" outside of documents.
        starts_document: whether the document starts with this sentence.
    """

    rows: list[Row]
    document: str
    starts_document: bool


def read_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file, compressed or not, with their numbers; or InputError."""
    check_inputs(path)
    reader = LineReader(path, InputSettings(), InputReport())
    for number, line in enumerate(reader.lines(), 1):
        assert line is not None  # as it is only with on_error="skip"
        yield number, line.rstrip("\n")


def read_json_lines(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a file of JSON lines, each with "FILE, line N" for messages."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            found = json.loads(line, object_pairs_hook=unique_keys)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: not JSON ({error})", "give one object per line") from None
        if not isinstance(found, dict):
            raise InputError(f"{where}: JSON, but not an object", "give one object per line")
        yield where, found


def read_rows(path: str) -> Iterator[Rows]:
    """Yield the sentences of a file of columns, as in CoNLL-2012.

    Blank lines separate sentences, and lines that begin with `#begin document` documents; other
    lines that begin with `#` and have a single cell are comments.
    """
    rows: list[Row] = []
    document, starts = "", True
    for number, line in read_lines(path):
        is_mark = line.startswith((_BEGIN, _END))
        if (is_mark or not line.strip()) and rows:
            yield Rows(rows, document, starts)
            rows, starts = [], False
        if line.startswith(_BEGIN):
            document, starts = line.removeprefix(_BEGIN).strip(), True
        elif line.strip() and not is_mark:
            cells = line.split("\t") if "\t" in line else line.split()
            if len(cells) > 1 or not line.startswith("#"):
                rows.append(Row(number, cells))
    if rows:
        yield Rows(rows, document, starts)
