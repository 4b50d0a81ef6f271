"""Task `classification`: one label per sentence, such as its sentiment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from elmo_cli.errors import InputError
from elmo_cli.fields import at_least, bounded, one_of
from elmo_cli.tasks import layers
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.labels import Span, score_labels
from elmo_cli.tasks.readers import Split, member, tokens_of
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.task import Example, Json, Scores, Task, TaskModel
from elmo_cli.text.input_report import InputReport
from elmo_cli.text.input_settings import InputSettings
from elmo_cli.text.sentence import Tokens

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
        states = self.dropout(self.encoder(read, lengths))
        mask = torch.arange(x.shape[1], device=x.device)[None] < lengths[:, None]
        context = layers.align(states @ states.transpose(1, 2), mask, states)
        integrated = torch.cat([states, states - context, states * context], -1)
        found: Tensor = self.integrator(integrated, lengths)
        return found


class Pooling(nn.Module):
    """Max, mean and self-attentive pooling over tokens, and min pooling with `has_min`."""

    def __init__(self, dim: int, *, has_min: bool) -> None:
        super().__init__()
        self.attention = nn.Linear(dim, 1)
        self.has_min = has_min
        self.dim = (3 + has_min) * dim

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Pool (batch, token, dim) over the tokens of a mask (batch, token)."""
        weights = layers.masked_softmax(self.attention(x)[..., 0], mask)
        attended = (weights[:, None] @ x)[:, 0]
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
        found: Tensor = self.maps(x).unflatten(-1, (-1, _MAXOUT_MAPS)).amax(-1)
        return found


class Classifier(TaskModel):
    """The biattentive classification network, or a biLSTM with pooling and a ReLU layer.

    Subtrees are classified from the states of their sentence.

    Source: Peters et al. 2018, A.8; McCann et al. 2017.
    """

    def build(self) -> None:
        settings, is_bcn = self.settings, self.settings.model == "bcn"
        self.pooling = Pooling(self.state_dim, has_min=is_bcn)
        size, half, p = self.pooling.dim, 2 * settings.hidden, settings.dropout
        parts = [nn.Dropout(p), nn.Linear(size, half), nn.ReLU(), nn.Dropout(p)]
        if is_bcn:
            parts = [nn.Dropout(p), Maxout(size, 2 * half), nn.Dropout(p), Maxout(2 * half, half)]
        self.output = nn.Sequential(*parts, nn.Linear(half, len(self.labels)))

    def build_encoder(self, dim: int) -> nn.Module:
        is_bcn = self.settings.model == "bcn"
        return Biattention(dim, self.settings) if is_bcn else super().build_encoder(dim)

    def _encode(
        self, examples: Sequence[ClassifiedExample], inputs: Inputs
    ) -> tuple[Tensor, Tensor]:
        """Return the states, (batch, token, dim), and the sentences as spans for `_scores`."""
        batch = inputs.batch([example.sentences[0] for example in examples])
        rows = torch.arange(len(examples), device=batch.lengths.device)
        spans = torch.stack([rows, torch.zeros_like(rows), batch.lengths], 1)
        return self.encode(self.representation(batch), batch), spans

    def _scores(self, states: Tensor, spans: Tensor) -> Tensor:
        """Return the label scores of spans, (span, label).

        Args:
            states: (batch, token, dim).
            spans: (span, 3) index of the sentence, first token, and the token after the last.
        """
        rows, starts, ends = spans.T[..., None]
        offsets = torch.arange(int((ends - starts).max()), device=states.device)
        positions = (starts + offsets).clamp(max=states.shape[1] - 1)
        found: Tensor = self.output(self.pooling(states[rows, positions], offsets < ends - starts))
        return found

    def loss(self, examples: Sequence[ClassifiedExample], inputs: Inputs) -> Tensor:
        """Return the mean loss of sentences, plus that of a sample of their subtrees."""
        states, sentences = self._encode(examples, inputs)
        targets = torch.tensor([self.labels.index(example.target) for example in examples])
        scores = self._scores(states, sentences)
        loss = nn.functional.cross_entropy(scores, targets.to(scores.device))
        sample = self._sample_subtrees(examples).to(states.device)
        is_short = sample[:, 2] - sample[:, 1] <= _SHORT_TOKENS
        for some in filter(len, (sample[is_short], sample[~is_short])):
            scores = self._scores(states, some[:, :3])
            summed = nn.functional.cross_entropy(scores, some[:, 3], reduction="sum")
            loss = loss + summed / len(sample)
        return loss

    def _sample_subtrees(self, examples: Sequence[ClassifiedExample]) -> Tensor:
        """Sample subtrees, each as row, start, end and label, (subtree, 4)."""
        found = [
            (row, start, end, self.labels.index(label))
            for row, example in enumerate(examples)
            for start, end, label in example.subtrees
        ]
        kept = torch.rand(len(found)) < self.settings.subtrees
        return torch.tensor(found, dtype=torch.long).reshape(-1, 4)[kept]

    def predict(self, examples: Sequence[ClassifiedExample], inputs: Inputs) -> list[str]:
        scores = self._scores(*self._encode(examples, inputs))
        return [self.labels[number] for number in scores.argmax(1).tolist()]


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

    def fill(self, split: Split, *, labelled: bool) -> None:
        (_read_json if split.is_jsonl else _read_text)(split, labelled)

    def read_text(
        self, paths: Sequence[str], text: InputSettings, report: InputReport | None = None
    ) -> Split:
        split = super().read_text(paths, text, report)
        if split.sentences and _NESTED_TREE.fullmatch(" ".join(split.sentences[0])):
            where = split.examples[0].where
            raise InputError(f"{where}: expected text, found a tree", "`as_data=True` reads trees")
        return split

    def labels_of(self, example: ClassifiedExample) -> Iterable[str]:
        return (example.target, *(subtree.type for subtree in example.subtrees))

    def score(self, examples: Sequence[ClassifiedExample], predictions: Sequence[str]) -> Scores:
        return score_labels((example.target for example in examples), predictions)

    def to_json(self, example: ClassifiedExample, sentences: list[Tokens], prediction: str) -> Json:
        return {"tokens": sentences[0], "label": prediction}


def _read_json(split: Split, labelled: bool) -> None:
    for line in split.json_lines():
        label = member(line, "label", required=labelled)
        numbers = split.add(tokens_of(member(line, "tokens", "text", kinds=(list, str))))
        target = None if label is None else str(label)
        split.examples.append(ClassifiedExample(numbers, split.where, target))


def _read_text(split: Split, labelled: bool) -> None:
    """Read trees if the first line is one, otherwise lines of a label, a tab and tokens."""
    has_trees = False
    for line in filter(str.strip, split.lines()):
        if not split.examples:
            has_trees = _TREE.fullmatch(line.rstrip()) is not None
        subtrees: list[Span] = []
        if has_trees:
            tokens, (*subtrees, root) = parse_tree(line)
            label: str | None = root.type
        else:
            *labels, text = line.split("\t")
            if len(labels) > 1 or not all(map(str.strip, labels)) or (labelled and not labels):
                raise ValueError("expected a label, a tab and a sentence")
            tokens, label = text.split(), labels[0].strip() if labels else None
        example = ClassifiedExample(split.add(tokens), split.where, label, tuple(subtrees))
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
        is_valid = nodes[-1][:2] == (0, len(tokens)) and len(nodes) == line.count("(")
    except IndexError:
        is_valid = False
    if not is_valid or any(node.start == node.end for node in nodes):
        raise ValueError("not a tree")
    return tokens, nodes
