"""Labelled trees of sentences, one per line, as in the Stanford Sentiment Treebank."""

from __future__ import annotations

import re

from elmo_cli.errors import InputError
from elmo_cli.tasks.inputs import Tokens
from elmo_cli.tasks.readers import checked_tokens
from elmo_cli.tasks.spans import Span

_TREE = re.compile(r"\([^\s()]+ .*\)")
_ITEM = re.compile(r"\(([^\s()]+) |(\))|([^() ][^()]*)| ")
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


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
