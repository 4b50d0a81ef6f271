"""Task `classification`: one label per sentence, such as its sentiment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.errors import InputError
from elmo_cli.lm.settings import bounded, one_of
from elmo_cli.tasks.inputs import Inputs, SentenceBatch, Tokens
from elmo_cli.tasks.labels import label_of_fields, score_labels
from elmo_cli.tasks.layers import (
    BiLSTM,
    SequenceDropout,
    align,
    masked_max,
    masked_mean,
    masked_softmax,
)
from elmo_cli.tasks.readers import (
    checked_tokens,
    is_tree,
    parse_tree,
    read_json_lines,
    read_lines,
    tokens_of_fields,
)
from elmo_cli.tasks.representation import TokenRepresentation
from elmo_cli.tasks.settings import TaskSettings, probability
from elmo_cli.tasks.spans import Span
from elmo_cli.tasks.task import Example, Scores, Split, Task, TaskModel
from elmo_cli.text.input import InputSettings, format_of

_SHORT_TOKENS = 8  # longer subtrees are padded in a batch of their own
_MAXOUT_MAPS = 4  # linear maps per unit of a maxout layer


@dataclass(frozen=True)
class ClassifiedExample(Example[str]):
    """A sentence and its label.

    Attributes:
        subtrees: the labelled subtrees of a tree; empty for other formats.
    """

    subtrees: tuple[Span, ...] = ()


@dataclass(frozen=True)
class ClassificationSettings(TaskSettings):
    """The settings of `classification`.

    Attributes:
        model: "bilstm" (a biLSTM with pooling) or "bcn" (the biattentive classification network).
        subtrees: fraction of the subtrees of each batch to train on; 0 for none.
        state_dropout: dropout probability in the layers above the token representation.
    """

    model: str = one_of("bilstm", "bcn")
    subtrees: float = bounded(0.35, "a number from 0 to 1", lambda value: 0 <= value <= 1)
    state_dropout: float = probability(0.5)


class Biattention(nn.Module):
    """The encoder of the biattentive network; (batch, token, dim) -> (…, 2 * hidden).

    Source: McCann et al. 2017, section 5, with one sentence attending to itself.
    """

    def __init__(self, dim: int, settings: ClassificationSettings) -> None:
        super().__init__()
        hidden = settings.hidden
        self.dim = 2 * hidden
        self.reading = nn.Linear(dim, hidden)
        self.encoder = BiLSTM(hidden, hidden, settings.layers, settings.state_dropout)
        self.integrator = BiLSTM(3 * self.dim, hidden)
        self.dropout = SequenceDropout(settings.state_dropout)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        read = self.dropout(torch.relu(self.reading(x)))
        states = self.dropout(self.encoder(read, lengths))
        mask = torch.arange(x.shape[1], device=x.device)[None] < lengths[:, None]
        context = align(states @ states.transpose(1, 2), mask, states)
        integrated = torch.cat([states, states - context, states * context], -1)
        found: Tensor = self.integrator(integrated, lengths)
        return found


class Pooling(nn.Module):
    """Max, mean and self-attentive pooling over tokens, and min pooling with `has_min`.

    Attributes:
        dim: dimension of the output.
    """

    def __init__(self, dim: int, *, has_min: bool) -> None:
        super().__init__()
        self.attention = nn.Linear(dim, 1)
        self.has_min = has_min
        self.dim = (3 + has_min) * dim

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Pool (batch, token, dim) over the tokens of a mask (batch, token)."""
        weights = masked_softmax(self.attention(x)[..., 0], mask)
        attended = (weights[:, None] @ x)[:, 0]
        pooled = [masked_max(x, mask), masked_mean(x, mask), attended]
        if self.has_min:
            pooled.append(-masked_max(-x, mask))
        return torch.cat(pooled, -1)


class Maxout(nn.Module):
    """A maxout layer: the maximum of several linear maps (Goodfellow et al. 2013)."""

    def __init__(self, dim: int, output_dim: int) -> None:
        super().__init__()
        self.maps = nn.Linear(dim, output_dim * _MAXOUT_MAPS)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.maps(x).unflatten(-1, (-1, _MAXOUT_MAPS)).amax(-1)
        return found


class Classifier(TaskModel[ClassifiedExample, str]):
    """The biattentive classification network, or a biLSTM with pooling and a ReLU layer.

    Subtrees are classified from the states of their sentence.

    Args:
        labels: the label names.
    Source: Peters et al. 2018, A.8; McCann et al. 2017.
    """

    def __init__(
        self,
        settings: ClassificationSettings,
        labels: Sequence[str],
        representation: TokenRepresentation,
    ) -> None:
        super().__init__(settings, labels, representation)
        self.names = list(labels)
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.subtrees = settings.subtrees
        hidden, p, is_bcn = settings.hidden, settings.state_dropout, settings.model == "bcn"
        dim = representation.dim
        self.encoder = (
            Biattention(dim, settings) if is_bcn else BiLSTM(dim, hidden, settings.layers, p)
        )
        self.dropout = SequenceDropout(p)
        self.pooling = Pooling(self.encoder.dim + representation.output_dim, has_min=is_bcn)
        size, half = self.pooling.dim, 2 * hidden
        layers = [nn.Dropout(p), nn.Linear(size, half), nn.ReLU(), nn.Dropout(p)]
        if is_bcn:
            layers = [nn.Dropout(p), Maxout(size, 2 * half), nn.Dropout(p), Maxout(2 * half, half)]
        self.output = nn.Sequential(*layers, nn.Linear(half, len(self.names)))

    def _states(self, batch: SentenceBatch) -> Tensor:
        states = self.dropout(self.encoder(self.representation(batch), batch.lengths))
        return self.representation.at_output(states, batch)

    def _scores(self, states: Tensor, rows: Tensor, spans: Tensor) -> Tensor:
        """Return the label scores of spans, (span, label).

        Args:
            states: (batch, token, dim).
            rows: (span,) index of the sentence in the batch.
            spans: (span, 2) first token, and the token after the last.
        """
        lengths = spans[:, 1] - spans[:, 0]
        offsets = torch.arange(int(lengths.max()), device=states.device)[None]
        positions = (spans[:, :1] + offsets).clamp(max=states.shape[1] - 1)
        mask = offsets < lengths[:, None]
        found: Tensor = self.output(self.pooling(states[rows[:, None], positions], mask))
        return found

    def _sentence_scores(self, states: Tensor, lengths: Tensor) -> Tensor:
        rows = torch.arange(len(lengths), device=states.device)
        return self._scores(states, rows, torch.stack([torch.zeros_like(lengths), lengths], 1))

    def loss(self, examples: Sequence[ClassifiedExample], inputs: Inputs) -> Tensor:
        """Return the mean loss of sentences, plus that of a sample of their subtrees."""
        batch = inputs.batch([example.sentences[0] for example in examples])
        states = self._states(batch)
        targets = torch.tensor([self.numbers[example.target or ""] for example in examples])
        scores = self._sentence_scores(states, batch.lengths)
        loss = functional.cross_entropy(scores, targets.to(scores.device))
        sample = self._sample_subtrees(examples).to(states.device)
        is_short = sample[:, 2] - sample[:, 1] <= _SHORT_TOKENS
        for some in filter(len, (sample[is_short], sample[~is_short])):
            scores = self._scores(states, some[:, 0], some[:, 1:3])
            summed = functional.cross_entropy(scores, some[:, 3], reduction="sum")
            loss = loss + summed / len(sample)
        return loss

    def _sample_subtrees(self, examples: Sequence[ClassifiedExample]) -> Tensor:
        """Sample subtrees, each as row, start, end and label, (subtree, 4)."""
        found = [
            (row, start, end, self.numbers[label])
            for row, example in enumerate(examples)
            for start, end, label in example.subtrees
        ]
        kept = torch.rand(len(found)) < self.subtrees
        return torch.tensor(found, dtype=torch.long).reshape(-1, 4)[kept]

    def predict(self, examples: Sequence[ClassifiedExample], inputs: Inputs) -> list[str]:
        batch = inputs.batch([example.sentences[0] for example in examples])
        scores = self._sentence_scores(self._states(batch), batch.lengths)
        return [self.names[number] for number in scores.argmax(1).tolist()]


class ClassificationTask(Task[ClassifiedExample, str]):
    """One label per sentence."""

    name = "classification"
    settings_class = ClassificationSettings
    model_class = Classifier
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {
            "elmo.projection": 0,
            "char_filters": 0,
            "model": "bcn",
            "hidden": 300,
            "state_dropout": 0.2,
            "subtrees": 1.0,
            "batch_size": 100,
            "epochs": 20,
            "patience": 5,
            "lr_patience": 0,
        }
    }
    formats = ("jsonl", "tsv")
    reads_text = True

    def read(self, path: str, *, labelled: bool = True) -> Split[ClassifiedExample]:
        """Read trees as in SST, JSON lines, or lines of a label, a tab and the tokens."""
        split = Split[ClassifiedExample](path)
        is_json = format_of(path, InputSettings()) == "jsonl"
        found = _read_objects(path, labelled) if is_json else _read_text_lines(path, labelled)
        for where, tokens, label, subtrees in found:
            example = ClassifiedExample(split.add(tokens), where, label, subtrees)
            split.examples.append(example)
        return split

    def labels_of(self, example: ClassifiedExample) -> Iterable[str]:
        return (example.target or "", *(subtree.type for subtree in example.subtrees))

    def score(self, examples: Sequence[ClassifiedExample], predictions: Sequence[str]) -> Scores:
        return score_labels([example.target for example in examples], predictions)

    def format_example(
        self,
        example: ClassifiedExample,
        sentences: Sequence[Tokens],
        prediction: str,
        output_format: str,
    ) -> dict[str, Any] | str:
        if output_format == "tsv":
            return f"{prediction}\t{' '.join(sentences[0])}"
        return {"tokens": sentences[0], "label": prediction}


_ExampleFields = tuple[str, Tokens, str | None, tuple[Span, ...]]


def _read_objects(path: str, labelled: bool) -> Iterator[_ExampleFields]:
    for where, found in read_json_lines(path):
        label = label_of_fields(found, ("label",), where, labelled=labelled)
        yield where, tokens_of_fields(found, ("tokens", "text", "sentence"), where), label, ()


def _read_text_lines(path: str, labelled: bool) -> Iterator[_ExampleFields]:
    """Yield trees if the first non-blank line is one, otherwise labelled sentences."""
    has_trees = None
    for number, line in read_lines(path):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        if has_trees is None:
            has_trees = is_tree(line)
        if has_trees:
            tokens, (*subtrees, root) = parse_tree(line, where)
            yield where, tokens, root.type, tuple(subtrees)
        else:
            yield where, *_parse_line(line, where, labelled), ()


def _parse_line(line: str, where: str, labelled: bool) -> tuple[Tokens, str | None]:
    """Return the tokens and the label of a line; unless `labelled`, the label may be missing."""
    label, *cells = line.split("\t")
    if not cells and not labelled:
        return checked_tokens(label.split(), where), None
    if len(cells) != 1:
        what = f"{where}: {len(cells)} tabs instead of one"
        raise InputError(what, "a line is a label, a tab, and tokens separated by spaces")
    if not label.strip():
        raise InputError(f"{where}: no label before the tab", "each sentence needs a label")
    return checked_tokens(cells[0].split(), where), label.strip()


TASK = ClassificationTask
