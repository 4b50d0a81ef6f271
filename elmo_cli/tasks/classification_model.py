"""Classifier: the model of task `classification`, which classifies sentences and their subtrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmo_cli.fields import at_least, bounded, one_of
from elmo_cli.tasks import layers
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.labels import Span
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.task import Example, TaskModel

_SHORT_TOKENS = 8  # longer subtrees are padded in a batch of their own
_MAXOUT_MAPS = 4  # linear maps per unit of a maxout layer


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


class BatchSpans(NamedTuple):
    """Spans of tokens of the sentences of a batch, (span,) each.

    Attributes:
        rows: the number of the sentence in the batch.
        starts, ends: the first token, and the token after the last.
    """

    rows: Tensor
    starts: Tensor
    ends: Tensor

    @property
    def lengths(self) -> Tensor:
        """The numbers of tokens, (span,)."""
        return self.ends - self.starts

    def chosen(self, is_chosen: Tensor) -> BatchSpans:
        """The spans for which `is_chosen`, (span,), is true."""
        return BatchSpans(
            rows=self.rows[is_chosen],
            starts=self.starts[is_chosen],
            ends=self.ends[is_chosen],
        )


class LabelledSpans(NamedTuple):
    """Spans, and the number of the label of each, (span,)."""

    spans: BatchSpans
    labels: Tensor


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

        subtrees = self._sample_subtrees(examples, states.device)
        is_short = subtrees.spans.lengths <= _SHORT_TOKENS
        for is_in_group in (is_short, ~is_short):
            if is_in_group.any():
                scores = self._scores(states, subtrees.spans.chosen(is_in_group))
                labels = subtrees.labels[is_in_group]
                group_loss = nn.functional.cross_entropy(scores, labels, reduction="sum")
                loss = loss + group_loss / len(subtrees.labels)
        return loss

    def predict(self, examples: Sequence[ClassifiedExample], inputs: Inputs) -> list[str]:
        states, sentences = self._encode_sentences(examples, inputs)
        scores = self._scores(states, sentences)
        return [self.labels[number] for number in scores.argmax(1).tolist()]

    def _encode_sentences(
        self, examples: Sequence[ClassifiedExample], inputs: Inputs
    ) -> tuple[Tensor, BatchSpans]:
        """Return the states, (batch, token, dim), and the sentences as spans."""
        batch = inputs.batch([example.sentences[0] for example in examples])
        rows = torch.arange(len(examples), device=batch.lengths.device)
        spans = BatchSpans(rows, starts=torch.zeros_like(rows), ends=batch.lengths)
        states = self.encode(self.representation(batch), batch)
        return states, spans

    def _scores(self, states: Tensor, spans: BatchSpans) -> Tensor:
        """Return the label scores of spans, (span, label), from states, (batch, token, dim)."""
        lengths = spans.lengths
        offsets = torch.arange(int(lengths.max()), device=states.device)
        positions = spans.starts[:, None] + offsets  # (span, offset)
        inner_positions = positions.clamp(max=states.shape[1] - 1)
        of_spans = states[spans.rows[:, None], inner_positions]  # (span, offset, dim)
        pooled = self.pooling(of_spans, offsets < lengths[:, None])
        scores: Tensor = self.output(pooled)
        return scores

    def _sample_subtrees(
        self, examples: Sequence[ClassifiedExample], device: torch.device
    ) -> LabelledSpans:
        """Sample a fraction of the subtrees of sentences."""
        rows = []
        starts = []
        ends = []
        labels = []
        for row, example in enumerate(examples):
            for span in example.subtrees:
                rows.append(row)
                starts.append(span.start)
                ends.append(span.end)
                labels.append(self.labels.index(span.type))
        is_kept = torch.rand(len(rows)) < self.settings.subtrees

        def sample(numbers: list[int]) -> Tensor:
            return torch.tensor(numbers, dtype=torch.long)[is_kept].to(device)

        spans = BatchSpans(rows=sample(rows), starts=sample(starts), ends=sample(ends))
        return LabelledSpans(spans, labels=sample(labels))
