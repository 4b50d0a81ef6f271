"""SpanRanker: the model of task `coref`, which ranks preceding spans as antecedents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmo_cli.fields import at_least, positive
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.layers import MASKED, SequenceDropout, masked_softmax
from elmo_cli.tasks.settings import MOST_LAYERS, TaskSettings, size
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
    """A document; the target is its clusters of mentions.

    Attributes:
        heading: the text after `#begin document` in CoNLL-2012, or `doc_key` in JSON lines.
        sentence_keys: in text, the keys of its sentences, as in embeddings files.
    """

    heading: str
    sentence_keys: tuple[int, ...] = ()


@dataclass(frozen=True)
class CorefSettings(TaskSettings):
    """The settings of `coref`."""

    batch_size: int = size(1)
    epochs: int = at_least(1, 10)
    max_width: int = size(8, most=100)  # memory grows with its square
    spans_per_token: float = positive(0.3)
    max_antecedents: int = size(40)
    span_dim: int = size(200)
    scorer_dim: int = size(100)
    scorer_layers: int = size(1, most=MOST_LAYERS)
    window_tokens: int = at_least(1, 700)


class Candidates(NamedTuple):
    """The spans of a document, and the scores of the best spans and their antecedents.

    Attributes:
        spans: first and last token of each span, in order.
        mention_scores: (span,).
        kept: (kept,) indices of the best spans, in order.
        antecedents: (kept, 1 + n) indices into `kept`: the span itself for none, then antecedents.
        antecedent_scores: (kept, 1 + n), 0 for none, then those of the antecedents.
    """

    spans: list[Mention]
    mention_scores: Tensor
    kept: Tensor
    antecedents: Tensor
    antecedent_scores: Tensor


def scorer(settings: CorefSettings) -> nn.Sequential:
    """Return a feed-forward scorer without its first linear layer, (row, n, dim) -> (row, n)."""
    dim = settings.scorer_dim
    modules = [nn.ReLU(), SequenceDropout(_SCORER_DROPOUT)]
    for _ in range(settings.scorer_layers - 1):
        modules += [nn.Linear(dim, dim), nn.ReLU(), SequenceDropout(_SCORER_DROPOUT)]
    return nn.Sequential(*modules, nn.Linear(dim, 1), nn.Flatten(1))


class SpanVectors(nn.Module):
    """Vectors of all spans of up to `max_width` tokens: first, last and attended token, width.

    The linear layers precede the sum, so that the matrix products are per token, not per span.
    """

    def __init__(self, dim: int, state_dim: int, settings: CorefSettings) -> None:
        super().__init__()
        size = settings.span_dim
        self.max_width = settings.max_width
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
        n_tokens = len(x)
        widths = torch.arange(self.max_width, device=x.device)  # from 0: one token less
        lasts = torch.arange(n_tokens, device=x.device)[:, None] + widths  # (token, width)
        exists = lasts <= sentence_ends[:, None]
        lasts = lasts.clamp(max=n_tokens - 1)

        token_scores = self.attention(states)[lasts, 0]  # (token, width): of the tokens of a span
        scores = token_scores[:, None].expand(-1, self.max_width, -1)  # (token, width, token)
        is_inside = widths[None] <= widths[:, None]  # (width, token)
        weights = masked_softmax(scores, is_inside.expand_as(scores))
        attended = weights @ self.attended(x)[lasts]  # (token, width, span_dim)

        vectors = self.first(states)[:, None] + self.last(states)[lasts] + attended
        vectors = torch.relu(vectors + self.widths(widths))
        spans = [(first, first + width) for first, width in exists.nonzero().tolist()]
        return vectors[exists], spans


class SpanRanker(TaskModel):
    """Ranks the preceding spans of a span as its antecedents.

    Source: Lee et al. 2017, and 2018 for the bilinear scores that choose the antecedents. Here
        a span representation is a layer over its parts, and mentions have a loss of their own.
    """

    def build(self) -> None:
        settings = self.settings
        size = settings.span_dim
        dim = settings.scorer_dim
        self.spans = SpanVectors(self.representation.dim, self.state_dim, settings)
        self.mention_input = nn.Linear(size, dim)
        self.mention = scorer(settings)
        self.coarse = nn.Linear(size, size)
        self.anaphor = nn.Linear(size, dim)
        self.antecedent = nn.Linear(size, dim, bias=False)
        self.product = nn.Linear(size, dim, bias=False)
        distances = nn.Embedding(len(_DISTANCES) + 1, _FEATURE_DIM)
        self.distances = nn.Sequential(distances, nn.Linear(_FEATURE_DIM, dim, bias=False))
        self.pair = scorer(settings)

    def loss(self, examples: Sequence[CorefDocument], inputs: Inputs) -> Tensor:
        return torch.stack([self._loss(example, inputs) for example in examples]).mean()

    def predict(self, examples: Sequence[CorefDocument], inputs: Inputs) -> list[Clusters]:
        return [self._clusters(self.candidates(example.sentences, inputs)) for example in examples]

    def candidates(self, numbers: Sequence[int], inputs: Inputs) -> Candidates:
        """Return the candidates of a document, or of consecutive sentences in it."""
        x, states = self._encode_document(numbers, inputs)
        lengths = torch.tensor([len(inputs.sentences[number]) for number in numbers])
        sentence_ends = (lengths.cumsum(0) - 1).repeat_interleave(lengths).to(x.device)
        vectors, spans = self.spans(x, states, sentence_ends)
        mention_scores = self.mention(self.mention_input(vectors)[None])[0]
        n_kept = min(len(spans), 1 + int(self.settings.spans_per_token * len(x)))
        kept = mention_scores.topk(n_kept).indices.sort().values
        antecedents, antecedent_scores = self._rank(vectors[kept], mention_scores[kept])
        return Candidates(
            spans=spans,
            mention_scores=mention_scores,
            kept=kept,
            antecedents=antecedents,
            antecedent_scores=antecedent_scores,
        )

    def _encode_document(self, numbers: Sequence[int], inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the token vectors and states of sentences, (token, dim), in document order."""
        lengths = [len(inputs.sentences[number]) for number in numbers]
        positions = torch.split(torch.arange(sum(lengths)), lengths)  # of the tokens, by sentence
        vectors = []
        states = []
        positions_read = []
        for indices in _group_by_length(lengths):
            batch = inputs.batch([numbers[i] for i in indices])
            batch_vectors = self.representation(batch)
            batch_states = self.encode(batch_vectors, batch)
            vectors.append(batch_vectors[batch.mask])
            states.append(batch_states[batch.mask])
            positions_read.append(torch.cat([positions[i] for i in indices]).to(inputs.device))
        in_order = torch.cat(positions_read).argsort()
        return torch.cat(vectors)[in_order], torch.cat(states)[in_order]

    def _rank(self, vectors: Tensor, mention_scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return `antecedents` and `antecedent_scores` of `Candidates` for the kept spans.

        Args:
            vectors: (kept, span_dim).
            mention_scores: (kept,).
        """
        antecedents = []
        scores = []
        # In chunks, since all pairs of the spans of a novel would exhaust the memory.
        numbers = torch.arange(len(vectors), device=vectors.device)
        for rows in torch.split(numbers, _CHUNK_SPANS):
            chunk_antecedents, chunk_scores = self._rank_rows(rows, vectors, mention_scores)
            antecedents.append(chunk_antecedents)
            scores.append(chunk_scores)
        return torch.cat(antecedents), torch.cat(scores)

    def _rank_rows(
        self, rows: Tensor, vectors: Tensor, mention_scores: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the antecedents of the spans with the numbers `rows`, (row,), and their scores.

        Both are (row, 1 + n), as in `Candidates`.
        """
        own = vectors[rows]  # (row, span_dim)
        numbers = torch.arange(len(vectors), device=rows.device)
        coarse = self.coarse(own) @ vectors.T + mention_scores[rows, None] + mention_scores
        coarse = coarse.masked_fill(numbers >= rows[:, None], MASKED)  # (row, kept)
        n_antecedents = min(self.settings.max_antecedents, len(vectors))
        coarse, antecedents = coarse.topk(n_antecedents, 1)  # (row, antecedent)

        distances = rows[:, None] - antecedents
        bounds = torch.tensor(_DISTANCES, device=rows.device)
        buckets = torch.bucketize(distances, bounds, right=True)
        hidden = self.product(own[:, None] * vectors[antecedents])  # (row, antecedent, scorer_dim)
        hidden = hidden + self.antecedent(vectors)[antecedents] + self.anaphor(own)[:, None]
        hidden = hidden + self.distances(buckets)
        scores = (self.pair(hidden) + coarse).masked_fill(distances <= 0, MASKED)

        with_none = torch.cat([rows[:, None], antecedents], 1)
        return with_none, nn.functional.pad(scores, (1, 0))

    def _loss(self, document: CorefDocument, inputs: Inputs) -> Tensor:
        """Return the loss of a window of a document: that of its links and of its mentions."""
        numbers, start = self._sample_window(document, inputs)
        found = self.candidates(numbers, inputs)
        entities = torch.tensor(  # (span,)
            _entities_of_spans(document.target, found.spans, start), device=inputs.device
        )
        kept = entities[found.kept]
        is_mention = kept[:, None] > 0
        is_true = (kept[:, None] == kept[found.antecedents]) & is_mention  # (kept, 1 + n)
        is_true &= found.antecedent_scores > MASKED
        is_true[:, 0] = ~is_true[:, 1:].any(1)
        true_scores = found.antecedent_scores.masked_fill(~is_true, MASKED)
        link_losses = found.antecedent_scores.logsumexp(1) - true_scores.logsumexp(1)
        link_loss = link_losses.mean()
        mention_loss = nn.functional.binary_cross_entropy_with_logits(
            found.mention_scores, (entities > 0).float(), reduction="sum"
        )
        loss: Tensor = link_loss + mention_loss / len(kept)
        return loss

    def _sample_window(self, document: CorefDocument, inputs: Inputs) -> tuple[Sequence[int], int]:
        """Sample sentences to train on; return them and the position of their first token."""
        window_tokens = self.settings.window_tokens
        starts = []  # position of the first token of each sentence
        n_tokens = 0
        for number in document.sentences:
            starts.append(n_tokens)
            n_tokens += len(inputs.sentences[number])
        n_windows = sum(n_tokens - start >= window_tokens for start in starts)
        first = int(torch.randint(max(1, n_windows), ()))
        end = starts[first] + window_tokens
        n_sentences = sum(start < end for start in starts[first:])
        return document.sentences[first : first + n_sentences], starts[first]

    def _clusters(self, found: Candidates) -> Clusters:
        best = found.antecedent_scores.argmax(1, keepdim=True)  # (kept, 1)
        links = found.antecedents.gather(1, best)[:, 0]
        is_mention = (found.mention_scores[found.kept] > 0) & self.labels["singletons"]
        spans = [found.spans[i] for i in found.kept.tolist()]
        return join_links(spans, links.tolist(), is_mention.tolist())


def _group_by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the indices of sentences for each batch, from the longest sentences to the shortest."""
    remaining = sorted(range(len(lengths)), key=lengths.__getitem__)
    while remaining:
        longest = lengths[remaining[-1]]
        n_sentences = max(1, _MAX_PADDED_TOKENS // longest)
        yield remaining[-n_sentences:]
        del remaining[-n_sentences:]


def _entities_of_spans(clusters: Clusters, spans: Sequence[Mention], start: int) -> list[int]:
    """Return the number of the cluster of each span, from 1, or 0 if it is not a mention.

    The spans are counted from the token `start` of the document.
    """
    entities = {}
    for entity, cluster in enumerate(clusters, 1):
        for mention in cluster:
            entities[mention] = entity
    return [entities.get((start + first, start + last), 0) for first, last in spans]


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
