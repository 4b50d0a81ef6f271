"""Readers of the files of tasks: lines, columns of documents, JSON lines and trees."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.lm.settings import KINDS
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
_KINDS = {**KINDS, list: "a list"}
BEGIN, END = "#begin document", "#end document"
_tokenizer = cache(EnglishTokenizer)


def read_lines(path: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a text file, which may be compressed, each with its "FILE, line N"."""
    settings = InputSettings(format="plain")  # whatever the file suffix
    check_inputs(path, settings)
    for number, line in enumerate(LineReader(path, settings, InputReport()).lines(), 1):
        yield f"{path}, line {number}", line or ""


class Row(NamedTuple):
    """A line of columns: "FILE, line N", and cells, split at tabs if it has any, else at spaces."""

    where: str
    cells: list[str]


def read_documents(path: str) -> Iterator[tuple[str, list[list[Row]]]]:
    """Yield the documents of a file of columns, as in CoNLL-2012.

    A document is the text after its `#begin document`, by default the path, and the rows of each
    sentence. Blank lines separate sentences.
    """
    heading = path
    sentences: list[list[Row]] = [[]]
    for where, line in chain(read_lines(path), [("", BEGIN)]):
        if line.strip() and not line.startswith((BEGIN, END)):
            cells = line.split("\t") if "\t" in line else line.split()
            sentences[-1].append(Row(where, [cell.strip() for cell in cells]))
        elif sentences[-1]:
            sentences.append([])
        if line.startswith(BEGIN):
            if found := [rows for rows in sentences if rows]:
                yield heading, found
            heading, sentences = line.removeprefix(BEGIN).strip(), [[]]


class JsonLine(NamedTuple):
    """An object of a file of JSON lines, with its "FILE, line N" for messages."""

    where: str
    fields: dict[str, Any]

    def get(self, *names: str, kinds: tuple[type, ...], required: bool = True) -> Any:
        """Return the first of these fields that is neither null nor ""; None if there is none.

        InputError if it is `required`, but missing or not of one of the kinds.
        """
        given = (self.fields.get(name) for name in names)
        value = next((one for one in given if one not in (None, "")), None)
        if required and type(value) not in kinds:
            what = f"{self.where}: no valid {' or '.join(names)}"
            kind = " or ".join(_KINDS[kind] for kind in kinds)
            raise InputError(what, f'give each object {kind} as "{names[0]}"')
        return value

    def label(self, *names: str, required: bool) -> str | None:
        """Return a label, a string or a whole number, as a string; errors as for `get`."""
        label = self.get(*names, kinds=(str, int), required=required)
        return None if label is None else str(label)

    def tokens(self, *names: str) -> Tokens:
        """Return a sentence, a list of tokens or a text; InputError if it is missing or invalid."""
        return tokens_of_json(self.get(*names, kinds=(list, str)), f"{self.where}: a sentence")


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
    """Parse JSON; InputError if it is invalid, with NaN, or an object has a key twice."""
    try:
        return json.loads(text, object_pairs_hook=unique_keys, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error})", hint) from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a value")


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


def is_tree(line: str) -> bool:
    """Whether a line is meant as a tree: in parentheses, with a label directly after the first."""
    return _TREE_ITEM.match(line) is not None and line.startswith("(") and line.rstrip()[-1] == ")"


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
        is_valid = nodes[-1][:2] == (0, len(tokens)) and len(nodes) == line.count("(")
    except IndexError:
        is_valid = False
    if not is_valid or any(node.start == node.end for node in nodes):
        raise InputError(f"{where}: not a tree", "a line is a tree such as `(3 (2 A) (4 gem))`")
    return tuple(tokens), nodes
