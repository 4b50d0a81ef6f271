"""Task `classification`: one label per sentence, such as its sentiment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from elmo_cli.errors import InputError
from elmo_cli.fields import at_least, bounded, one_of
from elmo_cli.label_rules import is_no_label
from elmo_cli.tasks import layers
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.labels import Span, score_labels
from elmo_cli.tasks.readers import NO_TOKENS, Split, label_member, member, tokens_of
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.task import Example, Json, Scores, Task, TaskModel
from elmo_cli.text.column_signs import header_sign
from elmo_cli.text.sentence import Sentence, Tokens

_SHORT_TOKENS = 8  # longer subtrees are padded in a batch of their own
_MAXOUT_MAPS = 4  # linear maps per unit of a maxout layer
_TREE = re.compile(r"\([^\s()]+ .*\)")
_NESTED_TREE = re.compile(r"\([^\s()]+ \([^\s()]+ .*\)")
_TREE_ITEM = re.compile(r"\((?P<label>[^\s()]+) |(?P<token>[^ ()]+)|\)")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


@dataclass(frozen=True)
class ClassifiedExample(Example):
    """A sentence and its label, and for a tree its labeled subtrees."""

    subtrees: tuple[Span, ...] = ()


@dataclass(frozen=True)
class ClassificationSettings(TaskSettings):
    """The settings of `classification`."""

    model: str = one_of("bilstm", "bcn")
    subtrees: float = bounded(0.35, "a number from 0 to 1", lambda value: 0 <= value <= 1)
    epochs: int = at_least(1, 10)


class Biattention(nn.Module):
    """The encoder of the biattentive network; (batch, token, dim) -> (…, 2 * hidden).

    Source: McCann et al. 2017, section 5, with one sentence attending to itself.
    """

    def __init__(self, dim: int, settings: ClassificationSettings) -> None:
        super().__init__()
        hidden = settings.hidden
        self.dim = 2 * hidden
        self.reading = nn.Linear(dim, hidden)
        self.encoder = layers.BiLSTM(hidden, hidden, settings.layers, settings.dropout)
        self.integrator = layers.BiLSTM(3 * self.dim, hidden)
        self.dropout = layers.SequenceDropout(settings.dropout)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        read = self.dropout(torch.relu(self.reading(x)))
        states = self.dropout(self.encoder(read, lengths))  # (batch, token, 2 * hidden)
        mask = torch.arange(x.shape[1], device=x.device)[None] < lengths[:, None]
        similarity = states @ states.transpose(1, 2)  # (batch, token, token)
        context = layers.align(similarity, mask, states)
        features = torch.cat([states, states - context, states * context], -1)
        integrated: Tensor = self.integrator(features, lengths)
        return integrated


class Pooling(nn.Module):
    """Max, mean and self-attentive pooling over tokens, and min pooling with `has_min`."""

    def __init__(self, dim: int, *, has_min: bool) -> None:
        super().__init__()
        self.attention = nn.Linear(dim, 1)
        self.has_min = has_min
        self.dim = (3 + has_min) * dim

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Pool (batch, token, dim) over the tokens of a mask (batch, token)."""
        weights = layers.masked_softmax(self.attention(x)[..., 0], mask)  # (batch, token)
        attended = (weights[:, None] @ x)[:, 0]  # (batch, dim)
        pooled = [layers.masked_max(x, mask), layers.masked_mean(x, mask), attended]
        if self.has_min:
            pooled.append(-layers.masked_max(-x, mask))
        return torch.cat(pooled, -1)


class Maxout(nn.Module):
    """A maxout layer: the maximum of several linear maps (Goodfellow et al. 2013)."""

    def __init__(self, dim: int, output_dim: int) -> None:
        super().__init__()
        self.maps = nn.Linear(dim, output_dim * _MAXOUT_MAPS)

    def forward(self, x: Tensor) -> Tensor:
        units = self.maps(x).unflatten(-1, (-1, _MAXOUT_MAPS))  # (…, output_dim, map)
        largest: Tensor = units.amax(-1)
        return largest


class Classifier(TaskModel):
    """The biattentive classification network, or a biLSTM with pooling and a ReLU layer.

    Subtrees are classified from the states of their sentence.

    Source: Peters et al. 2018, A.8; McCann et al. 2017.
    """

    def build_encoder(self, dim: int) -> nn.Module:
        if self.settings.model == "bcn":
            return Biattention(dim, self.settings)
        return super().build_encoder(dim)

    def build(self) -> None:
        settings = self.settings
        p = settings.dropout
        hidden = 2 * settings.hidden
        is_bcn = settings.model == "bcn"
        self.pooling = Pooling(self.state_dim, has_min=is_bcn)
        dim = self.pooling.dim
        linear = nn.Linear(dim, hidden)  # drawn for both models, so that seeds keep their results
        modules: list[nn.Module]
        if is_bcn:
            modules = [
                nn.Dropout(p),
                Maxout(dim, 2 * hidden),
                nn.Dropout(p),
                Maxout(2 * hidden, hidden),
            ]
        else:
            modules = [nn.Dropout(p), linear, nn.ReLU(), nn.Dropout(p)]
        self.output = nn.Sequential(*modules, nn.Linear(hidden, len(self.labels)))

    def loss(self, examples: Sequence[ClassifiedExample], inputs: Inputs) -> Tensor:
        """Return the mean loss of sentences, plus that of a sample of their subtrees."""
        states, sentences = self._encode_sentences(examples, inputs)
        targets = torch.tensor([self.labels.index(example.target) for example in examples])
        scores = self._scores(states, sentences)
        loss = nn.functional.cross_entropy(scores, targets.to(scores.device))

        subtrees = self._sample_subtrees(examples).to(states.device)  # (subtree, 4)
        is_short = subtrees[:, 2] - subtrees[:, 1] <= _SHORT_TOKENS
        for group in (subtrees[is_short], subtrees[~is_short]):
            if len(group):
                scores = self._scores(states, group[:, :3])
                group_loss = nn.functional.cross_entropy(scores, group[:, 3], reduction="sum")
                loss = loss + group_loss / len(subtrees)
        return loss

    def predict(self, examples: Sequence[ClassifiedExample], inputs: Inputs) -> list[str]:
        states, sentences = self._encode_sentences(examples, inputs)
        scores = self._scores(states, sentences)
        return [self.labels[number] for number in scores.argmax(1).tolist()]

    def _encode_sentences(
        self, examples: Sequence[ClassifiedExample], inputs: Inputs
    ) -> tuple[Tensor, Tensor]:
        """Return the states, (batch, token, dim), and the sentences as spans for `_scores`."""
        batch = inputs.batch([example.sentences[0] for example in examples])
        rows = torch.arange(len(examples), device=batch.lengths.device)
        spans = torch.stack([rows, torch.zeros_like(rows), batch.lengths], 1)
        states = self.encode(self.representation(batch), batch)
        return states, spans

    def _scores(self, states: Tensor, spans: Tensor) -> Tensor:
        """Return the label scores of spans, (span, label).

        Args:
            states: (batch, token, dim).
            spans: (span, 3) index of the sentence, first token, and the token after the last.
        """
        rows, starts, ends = spans.T[..., None]  # each (span, 1)
        lengths = ends - starts
        offsets = torch.arange(int(lengths.max()), device=states.device)
        positions = (starts + offsets).clamp(max=states.shape[1] - 1)  # (span, offset)
        pooled = self.pooling(states[rows, positions], offsets < lengths)
        scores: Tensor = self.output(pooled)
        return scores

    def _sample_subtrees(self, examples: Sequence[ClassifiedExample]) -> Tensor:
        """Sample subtrees, each as row, start, end and label, (subtree, 4)."""
        subtrees = []
        for row, example in enumerate(examples):
            for span in example.subtrees:
                subtrees.append((row, span.start, span.end, self.labels.index(span.type)))
        is_kept = torch.rand(len(subtrees)) < self.settings.subtrees
        return torch.tensor(subtrees, dtype=torch.long).reshape(-1, 4)[is_kept]


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
        if split.is_jsonl:
            return _read_json(split, labelled)
        return _read_lines(split, labelled)

    def collect_labels(self, train: Split) -> Any:
        """Return the label names; InputError also for a first row of column names."""
        rows = []
        for example in train.examples:
            (tokens,) = example.texts(train.sentences)
            rows.append([example.target, " ".join(tokens)])
        first_example = train.examples[0]
        first_line = first_example.key + 1
        sign = header_sign(rows, first_line)
        if sign is not None:
            raise InputError(sign.problem, sign.hint, where=first_example.where)
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
                tokens.append(_BRACKETS.get(token, token))
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
