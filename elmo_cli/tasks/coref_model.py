"""SpanRanker: the model of task `coref`, which ranks preceding spans as antecedents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmo_cli.fields import at_least, positive
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.layers import MASKED, SequenceDropout, masked_softmax
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.task import Example, TaskModel

Mention = tuple[int, int]  # first and last token, from 0 in the document
Clusters = Sequence[frozenset[Mention]]  # disjoint
_FEATURE_DIM = 20  # of the embeddings of span widths and distances
_DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)  # lower bounds of the distance buckets
_SCORER_DROPOUT = 0.2
_MAX_PADDED_TOKENS = 1_500  # of a batch of sentences of similar length
_CHUNK_SPANS = 1_024  # whose pairs are scored at a time


@dataclass(frozen=True)
class CorefDocument(Example):
    """A document; the target is its clusters of mentions."""

    heading: str  # the text after `#begin document` in CoNLL-2012, or `doc_key` in JSON lines


@dataclass(frozen=True)
class CorefSettings(TaskSettings):
    """The settings of `coref`."""

    batch_size: int = at_least(1, 1)
    epochs: int = at_least(1, 10)
    max_width: int = at_least(1, 8)
    spans_per_token: float = positive(0.3)
    max_antecedents: int = at_least(1, 40)
    span_dim: int = at_least(1, 200)
    scorer_dim: int = at_least(1, 100)
    scorer_layers: int = at_least(1, 1)
    window_tokens: int = at_least(1, 700)


class Candidates(NamedTuple):
    """The spans of a document, and the scores of the best spans and their antecedents.

    Attributes:
        spans: first and last token of each span, in order.
        mention: (span,) mention scores.
        kept: (kept,) indices of the best spans, in order.
        antecedents: (kept, 1 + n) indices into `kept`: the span itself for none, then antecedents.
        scores: (kept, 1 + n) antecedent scores: 0 for none, then those of the antecedents.
    """

    spans: list[Mention]
    mention: Tensor
    kept: Tensor
    antecedents: Tensor
    scores: Tensor


def scorer(settings: CorefSettings) -> nn.Sequential:
    """Return a feed-forward scorer without its first linear layer, (row, n, dim) -> (row, n)."""
    dim, modules = settings.scorer_dim, [nn.ReLU(), SequenceDropout(_SCORER_DROPOUT)]
    for _ in range(settings.scorer_layers - 1):
        modules += [nn.Linear(dim, dim), nn.ReLU(), SequenceDropout(_SCORER_DROPOUT)]
    return nn.Sequential(*modules, nn.Linear(dim, 1), nn.Flatten(1))


class SpanVectors(nn.Module):
    """Vectors of all spans of up to `max_width` tokens: first, last and attended token, width.

    The linear layers precede the sum, so that the matrix products are per token, not per span.
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
    ) -> tuple[Tensor, list[Mention]]:
        """Return the vectors of the spans, (span, span_dim), and the spans, in order.

        Args:
            x, states: (token, dim) of a document, before and after the biLSTM.
            sentence_ends: (token,) the last token of the sentence of each token.
        """
        widths = torch.arange(self.max_width, device=x.device)
        ends = torch.arange(len(x), device=x.device)[:, None] + widths
        exists = ends <= sentence_ends[:, None]
        inside = ends.clamp(max=len(x) - 1)
        scores = self.attention(states)[inside, 0][:, None].expand(-1, self.max_width, -1)
        weights = masked_softmax(scores, (widths[None] <= widths[:, None]).expand_as(scores))
        attended = weights @ self.attended(x)[inside]
        vectors = self.first(states)[:, None] + self.last(states)[inside] + attended
        spans = [(first, first + width) for first, width in exists.nonzero().tolist()]
        return torch.relu(vectors + self.widths(widths))[exists], spans


class SpanRanker(TaskModel):
    """Ranks the preceding spans of a span as its antecedents.

    Source: Lee et al. 2017, and 2018 for the bilinear scores that choose the antecedents. Here
        a span representation is a layer over its parts, and mentions have a loss of their own.
    """

    def build(self) -> None:
        settings = self.settings
        self.spans = SpanVectors(self.representation.dim, self.state_dim, settings)
        size, dim = settings.span_dim, settings.scorer_dim
        self.mention_input, self.mention = nn.Linear(size, dim), scorer(settings)
        self.coarse = nn.Linear(size, size)
        self.anaphor, self.antecedent = nn.Linear(size, dim), nn.Linear(size, dim, bias=False)
        self.product = nn.Linear(size, dim, bias=False)
        distances = nn.Embedding(len(_DISTANCES) + 1, _FEATURE_DIM)
        self.distances = nn.Sequential(distances, nn.Linear(_FEATURE_DIM, dim, bias=False))
        self.pair = scorer(settings)

    def candidates(self, numbers: Sequence[int], inputs: Inputs) -> Candidates:
        """Return the candidates of a document, or of consecutive sentences in it."""
        x, states = self._encode(numbers, inputs)
        lengths = torch.tensor([len(inputs.sentences[number]) for number in numbers])
        sentence_ends = (lengths.cumsum(0) - 1).repeat_interleave(lengths).to(x.device)
        vectors, spans = self.spans(x, states, sentence_ends)
        mention = self.mention(self.mention_input(vectors)[None])[0]
        n_kept = min(len(spans), 1 + int(self.settings.spans_per_token * len(x)))
        kept = mention.topk(n_kept).indices.sort().values
        vectors, scores = vectors[kept], mention[kept]
        # In chunks, since all pairs of the spans of a novel would exhaust the memory.
        rows = torch.split(torch.arange(n_kept, device=x.device), _CHUNK_SPANS)
        ranked = [self._rank(some, vectors, scores) for some in rows]
        antecedents, scores = (torch.cat(parts) for parts in zip(*ranked, strict=True))
        return Candidates(spans, mention, kept, antecedents, scores)

    def _encode(self, numbers: Sequence[int], inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the token vectors and states of sentences, (token, dim), in document order."""
        lengths = [len(inputs.sentences[number]) for number in numbers]
        positions = torch.split(torch.arange(sum(lengths)), lengths)
        order = sorted(range(len(numbers)), key=lengths.__getitem__)
        found = []
        while order:
            n = max(1, _MAX_PADDED_TOKENS // lengths[order[-1]])
            some, order = order[-n:], order[:-n]
            batch = inputs.batch([numbers[i] for i in some])
            x = self.representation(batch)
            states = self.encode(x, batch)
            at = torch.cat([positions[i] for i in some])
            found.append((x[batch.mask], states[batch.mask], at.to(x.device)))
        x, states, at = (torch.cat(parts) for parts in zip(*found, strict=True))
        in_order = at.argsort()
        return x[in_order], states[in_order]

    def _rank(self, rows: Tensor, vectors: Tensor, mention: Tensor) -> tuple[Tensor, Tensor]:
        """Return `antecedents` and `scores` of `Candidates` for the spans `rows`, (row,)."""
        own, numbers = vectors[rows], torch.arange(len(vectors), device=rows.device)
        coarse = self.coarse(own) @ vectors.T + mention[rows, None] + mention
        coarse = coarse.masked_fill(numbers >= rows[:, None], MASKED)
        coarse, antecedents = coarse.topk(min(self.settings.max_antecedents, len(vectors)), 1)
        distance = rows[:, None] - antecedents
        bounds = torch.tensor(_DISTANCES, device=rows.device)
        hidden = self.product(own[:, None] * vectors[antecedents])
        hidden = hidden + self.antecedent(vectors)[antecedents] + self.anaphor(own)[:, None]
        hidden = hidden + self.distances(torch.bucketize(distance, bounds, right=True))
        scores = (self.pair(hidden) + coarse).masked_fill(distance <= 0, MASKED)
        return torch.cat([rows[:, None], antecedents], 1), nn.functional.pad(scores, (1, 0))

    def loss(self, examples: Sequence[CorefDocument], inputs: Inputs) -> Tensor:
        return torch.stack([self._loss(example, inputs) for example in examples]).mean()

    def _loss(self, example: CorefDocument, inputs: Inputs) -> Tensor:
        numbers, start = self._window(example, inputs)
        found = self.candidates(numbers, inputs)
        entities = {m: i for i, cluster in enumerate(example.target, 1) for m in cluster}
        of_spans = [entities.get((start + first, start + last), 0) for first, last in found.spans]
        entity = torch.tensor(of_spans, device=inputs.device)
        kept = entity[found.kept]
        is_true = (kept[:, None] == kept[found.antecedents]) & (kept[:, None] > 0)
        is_true &= found.scores > MASKED
        is_true[:, 0] = ~is_true[:, 1:].any(1)
        true_scores = found.scores.masked_fill(~is_true, MASKED)
        links = (found.scores.logsumexp(1) - true_scores.logsumexp(1)).mean()
        mentions = nn.functional.binary_cross_entropy_with_logits(
            found.mention, (entity > 0).float(), reduction="sum"
        )
        loss: Tensor = links + mentions / len(kept)
        return loss

    def _window(self, example: CorefDocument, inputs: Inputs) -> tuple[Sequence[int], int]:
        """Sample sentences to train on; return them and the position of their first token."""
        most = self.settings.window_tokens
        lengths = [len(inputs.sentences[number]) for number in example.sentences]
        *begins, end = accumulate(lengths, initial=0)
        n_starts = sum(end - begin >= most for begin in begins) or 1
        start = int(torch.randint(n_starts, ()))
        n = sum(begin < begins[start] + most for begin in begins[start:])
        return example.sentences[start : start + n], begins[start]

    def predict(self, examples: Sequence[CorefDocument], inputs: Inputs) -> list[Clusters]:
        return [self._clusters(self.candidates(one.sentences, inputs)) for one in examples]

    def _clusters(self, found: Candidates) -> Clusters:
        links = found.antecedents.gather(1, found.scores.argmax(1, keepdim=True))[:, 0]
        is_mention = (found.mention[found.kept] > 0) & self.labels["singletons"]
        spans = [found.spans[i] for i in found.kept.tolist()]
        return join_links(spans, links.tolist(), is_mention.tolist())


def join_links(
    spans: Sequence[Mention], links: Sequence[int], is_mention: Sequence[bool]
) -> Clusters:
    """Return the clusters of linked spans.

    `links` has for each span the index of its antecedent, which precedes it, or its own for none;
    a span without links that `is_mention` is a cluster of its own.
    """
    roots: dict[int, int] = {}  # span -> the first span of its cluster
    for i, link in enumerate(links):
        if link != i or is_mention[i]:
            roots[i] = roots.setdefault(link, link)
    clusters: dict[int, set[Mention]] = defaultdict(set)
    for i, root in roots.items():
        clusters[root].add(spans[i])
    return [frozenset(cluster) for cluster in clusters.values()]
