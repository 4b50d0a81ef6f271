"""Readers of the files of tasks: JSON lines, and columns as in CoNLL-2012."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.regular_files import unique_keys
from elmo_cli.tasks.inputs import Tokens
from elmo_cli.tasks.spans import Span
from elmo_cli.text.input import check_inputs
from elmo_cli.text.input_settings import InputReport, InputSettings
from elmo_cli.text.lines import LineReader
from elmo_cli.text.sentence import token_problem
from elmo_cli.text.tokenizer import EnglishTokenizer

_TREE = re.compile(r"\([^\s()]+ .*\)")
_ITEM = re.compile(r"\(([^\s()]+) |(\))|([^() ][^()]*)| ")
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_BEGIN, _END = "#begin document", "#end document"


class Row(NamedTuple):
    """A line of columns.

    Attributes:
        line: its line number, from 1.
        cells: its cells, separated by tabs if the line has any, otherwise by spaces.
    """

    line: int
    cells: list[str]


class SentenceRows(NamedTuple):
    """The rows of a sentence, with the document that it belongs to.

    Attributes:
        document: the number of its document in the file.
        heading: the text after `#begin document`; "" outside documents.
    """

    rows: list[Row]
    document: int
    heading: str


def read_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file, which may be compressed, with their numbers; InputError."""
    settings = InputSettings(format="plain")  # whatever the file suffix
    check_inputs(path, settings)
    reader = LineReader(path, settings, InputReport())
    for number, line in enumerate(reader.lines(), 1):
        assert line is not None  # None only occurs with on_error="skip"
        yield number, line.rstrip("\n")


def read_json_lines(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a file of JSON lines, each with "FILE, line N" for messages."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        found = parse_json(line, where, "give one object per line")
        if not isinstance(found, dict):
            raise InputError(f"{where}: JSON, but not an object", "give one object per line")
        yield where, found


def parse_json(text: str, where: str, hint: str) -> Any:
    """Parse JSON; InputError if it is invalid or an object has a key twice."""
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error})", hint) from None


def tokens_of_fields(found: dict[str, Any], names: Sequence[str], where: str) -> Tokens:
    """Return the sentence of a JSON object, from the first of these fields that exists.

    Args:
        where: "FILE, line N", for messages.
    Raises:
        InputError: all fields are missing, or the first one is not a sentence.
    """
    name = next((name for name in names if name in found), None)
    if name is None:
        listed = " or ".join(f'"{one}"' for one in names)
        raise InputError(f"{where}: no {listed}", "give a list of tokens, or a text")
    return tokens_of_json(found[name], f'{where}: "{name}"')


def tokens_of_json(value: Any, where: str) -> Tokens:
    """Return a sentence from JSON: a list of tokens, or raw text, which is tokenized.

    Raises:
        InputError: it is neither, or contains no tokens or an invalid one.
    """
    if isinstance(value, str):
        value = list(chain.from_iterable(_tokenizer().sentences(value)))
    if not isinstance(value, list) or not all(isinstance(token, str) for token in value):
        what = f"{where} is neither a list of strings nor a string"
        raise InputError(what, "give a list of tokens, or a text")
    return checked_tokens(value, where)


def checked_tokens(tokens: Sequence[str], where: str) -> Tokens:
    """Return the tokens of a sentence; InputError if there are none or one is invalid."""
    if not tokens:
        raise InputError(f"{where} has no tokens", "remove it, or add its text")
    for token in tokens:
        if problem := token_problem(token):
            raise InputError(f"{where}: a token {problem}", "correct the token")
    return tuple(tokens)


@cache
def _tokenizer() -> EnglishTokenizer:
    return EnglishTokenizer()


def read_rows(path: str) -> Iterator[SentenceRows]:
    """Yield the sentences of a file of columns, as in CoNLL-2012.

    Blank lines separate sentences, and lines that begin with `#begin document` documents; other
    lines that begin with `#` and have a single cell are comments.
    """
    rows: list[Row] = []
    document, heading = 0, ""
    for number, line in read_lines(path):
        is_mark = line.startswith((_BEGIN, _END))
        if (is_mark or not line.strip()) and rows:
            yield SentenceRows(rows, document, heading)
            rows = []
        if line.startswith(_BEGIN):
            document, heading = document + 1, line.removeprefix(_BEGIN).strip()
        elif line.strip() and not is_mark:
            cells = line.split("\t") if "\t" in line else line.split()
            if len(cells) > 1 or not line.startswith("#"):
                rows.append(Row(number, cells))
    if rows:
        yield SentenceRows(rows, document, heading)


def is_tree(line: str) -> bool:
    """Whether a line has the form of a labelled tree."""
    return _TREE.fullmatch(line.strip()) is not None


def parse_tree(line: str, where: str) -> tuple[Tokens, list[Span]]:
    """Parse a labelled tree such as `(3 (2 A) (4 gem))`.

    Returns:
        the tokens, with the Penn Treebank escapes of brackets and slashes resolved, and all nodes
        with their labels, each after its children.
    Raises:
        InputError: the line is not one complete tree.
    """
    tokens: list[str] = []
    nodes: list[Span] = []
    parents: list[tuple[int, str]] = []  # first token and label of each open node
    line, end = line.strip(), 0
    for item in _ITEM.finditer(line):
        label, closes, words = item.groups()
        is_inside = parents or (label and not end)
        if item.start() != end or not is_inside or (closes and parents[-1][0] == len(tokens)):
            break
        end = item.end()
        if label:
            parents.append((len(tokens), label))
        elif closes:
            start, label = parents.pop()
            nodes.append(Span(start, len(tokens), label))
        elif words:
            tokens += map(_unescaped, words.strip(" ").split(" "))
    if parents or end != len(line):
        what = f"{where}: not a complete tree, at character {end + 1}"
        raise InputError(what, "a line is a tree such as `(3 (2 A) (4 gem))`")
    return checked_tokens(tokens, where), nodes


def _unescaped(token: str) -> str:
    return _ESCAPES.get(token, token.replace("\\/", "/").replace("\\*", "*"))
