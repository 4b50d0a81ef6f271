"""Task `classification`: one label per sentence, such as its sentiment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, ClassVar

from elmo_cli.errors import InputError
from elmo_cli.label_rules import are_exchanged, is_no_label
from elmo_cli.messages import shortened
from elmo_cli.tasks.classification_model import (
    ClassificationSettings,
    ClassifiedExample,
    Classifier,
)
from elmo_cli.tasks.labels import Span, score_labels
from elmo_cli.tasks.readers import NO_TOKENS, Split, label_member, member, tokens_of
from elmo_cli.tasks.task import Json, Scores, Task
from elmo_cli.text.column_signs import header_sign
from elmo_cli.text.input_signs import N_CHECKED
from elmo_cli.text.sentence import Sentence, Tokens
from elmo_cli.text.treebank import ESCAPES_OF_BRACKETS

_TREE = re.compile(r"\([^\s()]+ .*\)")
_NESTED_TREE = re.compile(r"\([^\s()]+ \([^\s()]+ .*\)")
_TREE_ITEM = re.compile(r"\((?P<label>[^\s()]+) |(?P<token>[^ ()]+)|\)")
_LINES_HINT = (
    "the label comes before the tab; `awk -F '\\t' -v OFS='\\t' '{print $2, $1}' FILE > NEW_FILE` "
    "exchanges the columns"
)
_JSON_HINT = 'the label is the field "label", the text "tokens", "text" or "sentence"'
_BRACKETS_OF_ESCAPES = {escape: bracket for bracket, escape in ESCAPES_OF_BRACKETS.items()}


class ClassificationTask(Task):
    """One label per sentence: trees as in SST, JSON lines, or lines of LABEL, tab and tokens."""

    name = "classification"
    settings_class = ClassificationSettings
    model_class = Classifier
    presets: ClassVar = {
        "paper": "elmo.projection=0 char_filters=0 model=bcn hidden=300 dropout=0.2 subtrees=1 "
        "batch_size=100 epochs=20 patience=5 lr_patience=0"
    }
    reads_text = True

    def fill(self, split: Split, *, labelled: bool) -> Iterator[None]:
        rows = _read_json(split, labelled) if split.is_jsonl else _read_lines(split, labelled)
        return _refuse_column_names(split, rows)

    def collect_labels(self, train: Split) -> Any:
        """Return the label names; InputError also if labels and texts seem to be exchanged."""
        labels = [example.target for example in train.examples]
        texts = [" ".join(train.sentences[example.sentences[0]]) for example in train.examples]
        if are_exchanged(labels, texts):
            example = shortened(max(labels, key=len))
            problem = f"labels and texts seem to be exchanged: a label is {example!r}"
            hint = _JSON_HINT if train.is_jsonl else _LINES_HINT
            raise InputError(problem, hint, where=train.path)
        return super().collect_labels(train)

    def fill_text(self, split: Split, sentences: Iterable[Sentence]) -> Iterator[None]:
        """Add the sentences of a text; InputError if the first one is a tree."""
        rest = iter(sentences)
        first = next(rest, None)
        if first is None:
            return
        if _NESTED_TREE.fullmatch(" ".join(first.tokens)):
            problem = "expected text, found a tree"
            raise InputError(problem, "`as_data=True` reads trees", where=first.where)
        yield from super().fill_text(split, chain([first], rest))

    def labels_of(self, example: ClassifiedExample) -> Iterable[str]:
        return [example.target, *(subtree.type for subtree in example.subtrees)]

    def scored_labels_of(self, example: ClassifiedExample) -> Iterable[str]:
        return [example.target]

    def score(self, examples: Sequence[ClassifiedExample], predictions: Sequence[str]) -> Scores:
        return score_labels([example.target for example in examples], predictions)

    def to_json(
        self, example: ClassifiedExample, sentences: list[Tokens], prediction: str | None
    ) -> Json:
        return {"tokens": sentences[0], "label": prediction}


def _refuse_column_names(split: Split, rows: Iterator[None]) -> Iterator[None]:
    """Yield after each row; an InputError after the first ones if the first names the columns.

    The rows are yielded before, because a pipe may keep the next one waiting.
    """
    examples: list[ClassifiedExample] = []
    cells: list[list[str]] = []
    n_before = len(split.examples)
    for _ in islice(rows, N_CHECKED):
        for example in split.examples[n_before:]:
            if not example.is_blank:
                [tokens] = example.texts(split.sentences)
                examples.append(example)
                cells.append([example.target or "", " ".join(tokens)])
        yield
        n_before = len(split.examples)  # the caller may have taken some out
    if examples:
        first = examples[0]
        sign = header_sign(cells, first.key + 1)
        if sign is not None:
            raise InputError(sign.problem, sign.hint, where=first.where)
    yield from rows


def _read_json(split: Split, labelled: bool) -> Iterator[None]:
    for line in split.json_lines():
        with split.row():
            label = label_member(line, "label", required=labelled)
            text = member(line, "tokens", "text", "sentence", kinds=(list, str))
            allow_blank = label is None or not labelled
            example = ClassifiedExample(
                sentences=split.add(tokens_of(text), allow_blank=allow_blank),
                where=split.where,
                target=None if label is None else str(label),
                key=split.key,
            )
            split.examples.append(example)
        yield


def _read_lines(split: Split, labelled: bool) -> Iterator[None]:
    """Read trees if the first line is one, otherwise lines of a label, a tab and tokens."""
    has_trees = None  # unknown before the first line
    for key, line in enumerate(split.lines()):
        split.key = key
        if not line.strip():
            blank = ClassifiedExample(
                sentences=(NO_TOKENS,), where=split.where, target=None, key=split.key
            )
            split.examples.append(blank)
            yield
            continue
        if has_trees is None:
            has_trees = _TREE.fullmatch(line.rstrip()) is not None
        with split.row():
            if has_trees:
                _read_tree(split, line)
            else:
                _read_labelled_line(split, line, labelled)
        yield


def _read_tree(split: Split, line: str) -> None:
    tokens, nodes = parse_tree(line)
    *subtrees, root = nodes
    example = ClassifiedExample(
        sentences=split.add(tokens),
        where=split.where,
        target=None if is_no_label(root.type) else root.type,
        subtrees=tuple(subtree for subtree in subtrees if not is_no_label(subtree.type)),
        key=split.key,
    )
    split.examples.append(example)


def _read_labelled_line(split: Split, line: str, labelled: bool) -> None:
    *labels, text = line.split("\t")
    has_blank = any(not label.strip() for label in labels)
    is_label_missing = labelled and not labels
    if len(labels) > 1 or has_blank or is_label_missing:
        raise ValueError("expected a label, a tab and a sentence")
    label = labels[0].strip() if labels else None
    example = ClassifiedExample(
        sentences=split.add(text.split(), allow_blank=not labelled),
        where=split.where,
        target=None if is_no_label(label) else label,
        key=split.key,
    )
    split.examples.append(example)


def parse_tree(line: str) -> tuple[list[str], list[Span]]:
    """Parse a labeled tree such as `(3 (2 A) (4 gem))`; ValueError if it is not one.

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
                tokens.append(_BRACKETS_OF_ESCAPES.get(token, token))
            else:
                start, label = parents.pop()
                nodes.append(Span(start, len(tokens), label))
        root = nodes[-1]
    except IndexError:  # a bracket closes no node, or there is none
        raise ValueError("not a tree") from None
    has_all_tokens = root.start == 0 and root.end == len(tokens)
    has_all_nodes = len(nodes) == line.count("(")
    if not has_all_tokens or not has_all_nodes or any(node.start == node.end for node in nodes):
        raise ValueError("not a tree")
    return tokens, nodes
