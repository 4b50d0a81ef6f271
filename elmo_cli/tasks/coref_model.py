"""SpanRanker: the model of task `coref`, which ranks the spans before a span as antecedents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.lm.settings import at_least, bounded, positive
from elmo_cli.tasks.coref_score import Clusters, Mention, without_singletons
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.layers import FAR, BiLSTM, SequenceDropout, masked_softmax
from elmo_cli.tasks.representation import TokenRepresentation
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.task import Example, TaskModel

NO_LINK = -1
_FEATURE_DIM = 20  # of the width of a span, and of the distance of two
_DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)  # where the classes of distances begin
_SCORER_DROPOUT = 0.2
_PADDED_TOKENS = 1_500  # of a batch of sentences of similar length
_ROWS = 1_024  # of a matrix of scores of pairs
_HEADING = re.compile(r"\((?P<name>.*)\)(?:; part (?P<part>\d{1,9}))?;?")


@dataclass(frozen=True)
class Document(Example):
    """A document.

    Attributes:
        heading: what follows `#begin document` in CoNLL-2012; in JSON lines its `doc_key`.
        clusters: of its mentions; None where they are unknown.
    """

    heading: str
    clusters: Clusters | None

    @property
    def name_and_part(self) -> tuple[str, int | None]:
        """The name of the document, and the number of its part in CoNLL-2012."""
        match = _HEADING.fullmatch(self.heading)
        return (match["name"], int(match["part"] or 0)) if match else (self.heading, None)


@dataclass(frozen=True)
class CorefSettings(TaskSettings):
    """The settings of `coref`.

    Attributes:
        max_width: tokens of the longest mention that is predicted.
        spans_per_token: spans that are kept as candidates, per token of the document.
        max_antecedents: candidates before a span that are scored with it in full.
        span_dim: size of the vector of a span.
        scorer_dim, scorer_layers: hidden layers of the two scorers.
        mention_loss: weight of the loss of single spans, mention or not, next to that of links.
        window_tokens: in training a longer document is cut to sentences of about as many tokens,
            at random in every epoch.
        singletons: predict clusters of one mention; by default if the training data have any.
    """

    batch_size: int = at_least(1, 1)
    epochs: int = at_least(1, 10)
    max_width: int = at_least(1, 8)
    spans_per_token: float = positive(0.3)
    max_antecedents: int = at_least(1, 40)
    span_dim: int = at_least(1, 200)
    scorer_dim: int = at_least(1, 100)
    scorer_layers: int = at_least(1, 1)
    mention_loss: float = bounded(1.0, "a number from 0", lambda value: value >= 0)
    window_tokens: int = at_least(1, 700)
    singletons: bool | None = None


class Candidates(NamedTuple):
    """The spans of a document, and the scores of the best ones and of their antecedents.

    Attributes:
        starts, ends: (span,) first and last tokens, in order.
        mention: (span,) scores.
        kept: (kept,) indices of the best spans, in order.
        antecedents: (kept, n) indices into `kept`.
        scores: (kept, 1 + n): 0 for no antecedent, then those of `antecedents`.
    """

    starts: Tensor
    ends: Tensor
    mention: Tensor
    kept: Tensor
    antecedents: Tensor
    scores: Tensor


class Scorer(nn.Module):
    """The hidden layers and the output of a scorer, without the linear map before them."""

    def __init__(self, settings: CorefSettings) -> None:
        super().__init__()
        dim, n_more = settings.scorer_dim, settings.scorer_layers - 1
        self.hidden = nn.ModuleList(nn.Linear(dim, dim) for _ in range(n_more))
        self.dropout = SequenceDropout(_SCORER_DROPOUT)
        self.output = nn.Linear(dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (row, n) of (row, n, scorer_dim); a row has one dropout mask."""
        x = self.dropout(torch.relu(x))
        for layer in self.hidden:
            x = self.dropout(torch.relu(layer(x)))
        scores: Tensor = self.output(x)[..., 0]
        return scores


class SpanVectors(nn.Module):
    """Vectors of all spans of up to `max_width` tokens: first, last and attended token, width.

    The parts are added after a linear map each, so that tokens are multiplied, not spans.
    """

    def __init__(self, dim: int, state_dim: int, settings: CorefSettings) -> None:
        super().__init__()
        size, self.max_width = settings.span_dim, settings.max_width
        self.attention = nn.Linear(state_dim, 1, bias=False)
        self.first = nn.Linear(state_dim, size)
        self.last = nn.Linear(state_dim, size, bias=False)
        self.attended = nn.Linear(dim, size, bias=False)
        widths = nn.Embedding(self.max_width, _FEATURE_DIM)
        self.widths = nn.Sequential(widths, nn.Linear(_FEATURE_DIM, size, bias=False))

    def forward(
        self, x: Tensor, states: Tensor, sentence_ends: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The vectors, first and last tokens of the spans, (span, …), in order.

        Args:
            x: (token, dim) of a document.
            states: (token, state_dim) of the biLSTM.
            sentence_ends: (token,) the last token of the sentence of each.
        """
        widths = torch.arange(self.max_width, device=x.device)
        starts = torch.arange(len(x), device=x.device)[:, None].expand(-1, self.max_width)
        ends = starts + widths
        exists = ends <= sentence_ends[:, None]
        inside = ends.clamp(max=len(x) - 1)
        scores = self.attention(states)[inside, 0][:, None].expand(-1, self.max_width, -1)
        weights = masked_softmax(scores, (widths[None] <= widths[:, None]).expand_as(scores))
        attended = weights @ self.attended(x)[inside]
        vectors = self.first(states)[:, None] + self.last(states)[inside] + attended
        return torch.relu(vectors + self.widths(widths))[exists], starts[exists], ends[exists]


class SpanRanker(TaskModel[Document, Clusters]):
    """Ranks the spans before a span as its antecedents.

    Args:
        labels: as of `CorefTask.labels`.
    Source: Lee et al. 2017, and 2018 for the bilinear scores that choose the antecedents. Here
        the vector of a span is a layer on its parts, and single spans have a loss of their own.
    """

    def __init__(
        self, settings: CorefSettings, labels: Any, representation: TokenRepresentation
    ) -> None:
        super().__init__(representation)
        self.settings = settings
        singletons = settings.singletons
        self.singletons = labels["singletons"] if singletons is None else singletons
        self.encoder = BiLSTM(
            representation.dim, settings.hidden, settings.layers, settings.dropout
        )
        self.dropout = SequenceDropout(settings.dropout)
        state_dim = self.encoder.dim + representation.output_dim
        self.spans = SpanVectors(representation.dim, state_dim, settings)
        size, dim = settings.span_dim, settings.scorer_dim
        self.mention_input, self.mention = nn.Linear(size, dim), Scorer(settings)
        self.coarse = nn.Linear(size, size)
        self.anaphor, self.antecedent = nn.Linear(size, dim), nn.Linear(size, dim, bias=False)
        self.product = nn.Linear(size, dim, bias=False)
        distances = nn.Embedding(len(_DISTANCES) + 1, _FEATURE_DIM)
        self.distances = nn.Sequential(distances, nn.Linear(_FEATURE_DIM, dim, bias=False))
        self.pair = Scorer(settings)

    def candidates(self, numbers: Sequence[int], inputs: Inputs) -> Candidates:
        """The candidates of a document, or of consecutive sentences of it."""
        x, states = self._encode(numbers, inputs)
        lengths = torch.tensor([len(inputs.sentences[number]) for number in numbers])
        sentence_ends = (lengths.cumsum(0) - 1).repeat_interleave(lengths).to(x.device)
        vectors, starts, ends = self.spans(x, states, sentence_ends)
        mention = self.mention(self.mention_input(vectors)[None])[0]
        n_kept = min(len(starts), 1 + int(self.settings.spans_per_token * len(x)))
        kept = mention.topk(n_kept).indices.sort().values
        # Row by row, since all pairs of the spans of a novel would fill the memory.
        rows = torch.split(torch.arange(n_kept, device=x.device), _ROWS)
        best, scores = vectors[kept], mention[kept]
        ranked = [self._rank(some, best, scores) for some in rows]
        antecedents, scores = (torch.cat(parts) for parts in zip(*ranked, strict=True))
        scores = torch.cat([scores.new_zeros(n_kept, 1), scores], 1)
        return Candidates(starts, ends, mention, kept, antecedents, scores)

    def _encode(self, numbers: Sequence[int], inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Vectors and states of the tokens of sentences, (token, dim), in batches by length."""
        lengths = [len(inputs.sentences[number]) for number in numbers]
        offsets = [0, *accumulate(lengths)]
        order = sorted(range(len(numbers)), key=lengths.__getitem__)
        found, places = [], []
        while order:
            n = max(1, _PADDED_TOKENS // lengths[order[-1]])
            some, order = order[-n:], order[:-n]
            batch = inputs.batch([numbers[i] for i in some])
            x = self.representation(batch)
            states = self.dropout(self.encoder(x, batch.lengths))
            states = self.representation.at_output(states, batch)
            found.append((x[batch.mask], states[batch.mask]))
            places += [place for i in some for place in range(offsets[i], offsets[i + 1])]
        in_order = torch.tensor(places).argsort().to(inputs.device)
        x, states = (torch.cat(parts)[in_order] for parts in zip(*found, strict=True))
        return x, states

    def _rank(self, rows: Tensor, vectors: Tensor, mention: Tensor) -> tuple[Tensor, Tensor]:
        """The best antecedents of the spans `rows` (row,), and their scores, both (row, n)."""
        own, numbers = vectors[rows], torch.arange(len(vectors), device=rows.device)
        coarse = self.coarse(own) @ vectors.T + mention[rows, None] + mention
        coarse = coarse.masked_fill(numbers >= rows[:, None], FAR)
        coarse, antecedents = coarse.topk(min(self.settings.max_antecedents, len(vectors)), 1)
        distance = rows[:, None] - antecedents
        bounds = torch.tensor(_DISTANCES, device=rows.device)
        hidden = self.product(own[:, None] * vectors[antecedents])
        hidden = hidden + self.antecedent(vectors)[antecedents] + self.anaphor(own)[:, None]
        hidden = hidden + self.distances(torch.bucketize(distance, bounds, right=True))
        return antecedents, (self.pair(hidden) + coarse).masked_fill(distance <= 0, FAR)

    def loss(self, examples: Sequence[Document], inputs: Inputs) -> Tensor:
        return torch.stack([self._loss(example, inputs) for example in examples]).mean()

    def _loss(self, example: Document, inputs: Inputs) -> Tensor:
        numbers, first = self._window(example, inputs)
        found = self.candidates(numbers, inputs)
        entities = {m: i for i, cluster in enumerate(example.clusters or (), 1) for m in cluster}
        spans = zip((found.starts + first).tolist(), (found.ends + first).tolist(), strict=True)
        entity = torch.tensor([entities.get(span, 0) for span in spans], device=inputs.device)
        kept = entity[found.kept]
        is_true = (kept[:, None] == kept[found.antecedents]) & (kept[:, None] > 0)
        is_true &= found.scores[:, 1:] > FAR
        is_true = torch.cat([~is_true.any(1, keepdim=True), is_true], 1)
        all_scores, true_scores = found.scores, found.scores.masked_fill(~is_true, FAR)
        links = (all_scores.logsumexp(1) - true_scores.logsumexp(1)).mean()
        mentions = functional.binary_cross_entropy_with_logits(
            found.mention, (entity > 0).float(), reduction="sum"
        )
        return links + self.settings.mention_loss * mentions / len(kept)

    def _window(self, example: Document, inputs: Inputs) -> tuple[Sequence[int], int]:
        """Sentences to train on, and the position of their first token in the document."""
        ends = list(accumulate(len(inputs.sentences[number]) for number in example.sentences))
        most = self.settings.window_tokens
        begins = [0, *ends[:-1]]
        n_starts = sum(ends[-1] - begin >= most for begin in begins) or 1
        start = int(torch.randint(n_starts, ()))
        n = sum(begins[start] <= begin < begins[start] + most for begin in begins)
        return example.sentences[start : start + n], begins[start]

    def predict(self, examples: Sequence[Document], inputs: Inputs) -> list[Clusters]:
        return [self._clusters(self.candidates(one.sentences, inputs)) for one in examples]

    def _clusters(self, found: Candidates) -> Clusters:
        """The clusters that follow from the best antecedents."""
        best = found.scores.argmax(1)
        links = found.antecedents.gather(1, (best - 1).clamp(min=0)[:, None])[:, 0]
        links = links.masked_fill(best == 0, NO_LINK)
        kept = (found.starts[found.kept].tolist(), found.ends[found.kept].tolist())
        is_mention = (found.mention[found.kept] > 0).tolist()
        clusters = join_links(list(zip(*kept, strict=True)), links.tolist(), is_mention)
        return clusters if self.singletons else without_singletons(clusters)


def join_links(
    spans: Sequence[Mention], links: Sequence[int], is_mention: Sequence[bool]
) -> Clusters:
    """Clusters of spans that are linked.

    Args:
        links: for each span the index of its antecedent, which is before it, or `NO_LINK`.
        is_mention: whether a span is a cluster of its own if no link joins it to others.
    """
    clusters: dict[int, set[Mention]] = {}  # by the index of each span of them
    for i, (link, alone) in enumerate(zip(links, is_mention, strict=True)):
        if link != NO_LINK:
            clusters[i] = clusters.setdefault(link, {spans[link]})
            clusters[i].add(spans[i])
        elif alone:
            clusters[i] = {spans[i]}
    distinct = {id(one): one for one in clusters.values()}
    return [frozenset(one) for one in distinct.values()]
