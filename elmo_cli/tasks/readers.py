"""Readers of the files of tasks: lines, JSON lines, trees, and columns as in CoNLL-2012."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.regular_files import unique_keys
from elmo_cli.tasks.inputs import Tokens
from elmo_cli.tasks.labels import Span
from elmo_cli.text.input import check_inputs
from elmo_cli.text.input_settings import InputReport, InputSettings
from elmo_cli.text.lines import LineReader
from elmo_cli.text.sentence import token_problem
from elmo_cli.text.tokenizer import EnglishTokenizer

_TREE_ITEM = re.compile(r"\((?P<label>[^\s()]+) |(?P<token>[^ ()]+)|\)")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_BEGIN, _END = "#begin document", "#end document"
_tokenizer = cache(EnglishTokenizer)


def read_lines(path: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a text file, which may be compressed, each with its "FILE, line N"."""
    settings = InputSettings(format="plain")  # whatever the file suffix
    check_inputs(path, settings)
    for number, line in enumerate(LineReader(path, settings, InputReport()).lines(), 1):
        yield f"{path}, line {number}", line or ""


class JsonLine(NamedTuple):
    """An object of a file of JSON lines, with its "FILE, line N" for messages.

    A method takes possible names of a field; the first that is present and not null counts.
    """

    where: str
    fields: dict[str, Any]

    def get(self, *names: str, required: bool = True) -> Any:
        """Return a field; None, or if it is `required` an InputError, if it is missing."""
        value = next((self.fields[one] for one in names if self.fields.get(one) is not None), None)
        if value is None and required:
            listed = " or ".join(f'"{name}"' for name in names)
            raise InputError(f"{self.where}: no {listed}", "each line needs this field")
        return value

    def tokens(self, *names: str) -> Tokens:
        """Return a sentence; InputError if it is missing or `tokens_of_json` refuses it."""
        return tokens_of_json(self.get(*names), f"{self.where}: a sentence")

    def label(self, *names: str, required: bool) -> str | None:
        """Return a label, a string or a whole number; InputError if it is neither."""
        label = self.get(*names, required=required)
        if label is not None and (type(label) not in (str, int) or label == ""):
            what = f"{self.where}: the label is {json.dumps(label)[:40]}"
            raise InputError(what, "a label is a string or a whole number")
        return None if label is None else str(label)

    def number(self, *names: str, required: bool) -> float | None:
        """Return a finite number; InputError if it is not one."""
        number = self.get(*names, required=required)
        if number is not None and (type(number) not in (int, float) or not math.isfinite(number)):
            what = f"{self.where}: {json.dumps(number)[:40]} is not a number"
            raise InputError(what, "give a number such as 3.5")
        return None if number is None else float(number)


def read_json_lines(path: str) -> Iterator[JsonLine]:
    """Yield the objects of a file of JSON lines; InputError for a line that is not an object."""
    hint = "give one object per line"
    for where, line in read_lines(path):
        if line.strip():
            found = parse_json(line, where, hint)
            if not isinstance(found, dict):
                raise InputError(f"{where}: JSON, but not an object", hint)
            yield JsonLine(where, found)


def parse_json(text: str, where: str, hint: str) -> Any:
    """Parse JSON; InputError if it is invalid or an object has a key twice."""
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error})", hint) from None


def tokens_of_json(value: Any, where: str) -> Tokens:
    """Return a sentence from JSON: a list of tokens, or raw text, which is tokenized.

    InputError if it is neither, or contains no tokens or an invalid one.
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
    for problem in filter(None, map(token_problem, tokens)):
        raise InputError(f"{where}: a token {problem}", "correct the token")
    return tuple(tokens)


class Row(NamedTuple):
    """A line of columns: "FILE, line N", and cells, split at tabs if it has any, else at spaces."""

    where: str
    cells: list[str]


class SentenceRows(NamedTuple):
    """The rows of a sentence, the number of its document, and the text after `#begin document`."""

    rows: list[Row]
    document: int
    heading: str


def read_rows(path: str) -> Iterator[SentenceRows]:
    """Yield the sentences of a file of columns, as in CoNLL-2012.

    Blank lines separate sentences, and lines that begin with `#begin document` documents; other
    lines that begin with `#` and have a single cell are comments.
    """
    rows: list[Row] = []
    document, heading = 0, ""
    for where, line in chain(read_lines(path), [("", "")]):
        is_mark = line.startswith((_BEGIN, _END))
        if (is_mark or not line.strip()) and rows:
            yield SentenceRows(rows, document, heading)
            rows = []
        if line.startswith(_BEGIN):
            document, heading = document + 1, line.removeprefix(_BEGIN).strip()
        elif line.strip() and not is_mark:
            cells = line.split("\t") if "\t" in line else line.split()
            if len(cells) > 1 or not line.startswith("#"):
                rows.append(Row(where, cells))


def parse_tree(line: str, where: str) -> tuple[Tokens, list[Span]]:
    """Parse a labelled tree such as `(3 (2 A) (4 gem))`; InputError if it is not one.

    Returns:
        the tokens, with the Penn Treebank escapes resolved, and all nodes, each after its children.
    """
    tokens: list[str] = []
    nodes: list[Span] = []
    parents: list[tuple[int, str]] = []  # first token and label of each open node
    try:
        for item in _TREE_ITEM.finditer(line):
            if item["label"]:
                parents.append((len(tokens), item["label"]))
            elif item["token"]:
                token = item["token"].replace("\\/", "/").replace("\\*", "*")
                tokens.append(_BRACKETS.get(token, token))
            else:
                start, label = parents.pop()
                nodes.append(Span(start, len(tokens), label))
        is_tree = nodes[-1][:2] == (0, len(tokens)) and len(nodes) == line.count("(")
    except IndexError:
        is_tree = False
    if not is_tree or any(node.start == node.end for node in nodes):
        raise InputError(f"{where}: not a tree", "a line is a tree such as `(3 (2 A) (4 gem))`")
    return tuple(tokens), nodes
