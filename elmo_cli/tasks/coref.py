"""Task `coref`: clusters of mentions of the same entity; their files, and MUC, B3 and CEAF."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import linear_sum_assignment

from elmo_cli.errors import InputError
from elmo_cli.messages import columns_line, shortened
from elmo_cli.tasks.coref_model import Clusters, CorefDocument, CorefSettings, Mention, SpanRanker
from elmo_cli.tasks.readers import (
    BEGIN,
    END,
    ColumnsDocument,
    ColumnsRow,
    Split,
    label_member,
    member,
    tokens_of,
)
from elmo_cli.tasks.task import Json, Scores, Task
from elmo_cli.text.sentence import Sentence, Tokens

_METRICS = ("muc", "b_cubed", "ceaf_phi4", "mentions")
_AVERAGED = ("muc", "b_cubed", "ceaf_phi4")  # whose mean F1 is the score
_TINY = 1e-30
_NO_MENTION = ("", "-", "_", "*")  # cells of tokens where no mention begins or ends
# Of CoNLL-2012, after the number of the token in its sentence. Files of up to four columns have the
# token before the mentions.
_TOKEN_COLUMN = 3


class CorefTask(Task):
    """Clusters of mentions, from CoNLL-2012 columns or the JSON lines of e2e-coref.

    In text, blank lines separate documents.
    """

    name = "coref"
    settings_class = CorefSettings
    model_class = SpanRanker
    presets: ClassVar = {
        "paper": "elmo.projection=0 char_filters=100 char_width=5 hidden=200 max_width=10 "
        "spans_per_token=0.4 max_antecedents=100 span_dim=400 scorer_dim=150 scorer_layers=2 "
        "window_tokens=1500 epochs=150 patience=10"
    }
    formats = ("jsonl", "conll")
    reads_text = True

    def fill(self, split: Split, *, labelled: bool) -> Iterator[None]:
        if split.is_jsonl:
            return _read_json(split, labelled)
        return _read_columns(split, labelled)

    def fill_text(self, split: Split, sentences: Iterable[Sentence]) -> Iterator[None]:
        """Add the documents of a text."""
        for number, of_document in enumerate(_split_documents(sentences), 1):
            first = of_document[0]
            document = CorefDocument(
                sentences=split.add(*(sentence.tokens for sentence in of_document)),
                where=first.where,
                target=None,
                heading=first.document or f"document_{number}",
                key=first.key,
                sentence_keys=tuple(sentence.key for sentence in of_document),
            )
            split.examples.append(document)
            yield

    def collect_labels(self, train: Split) -> dict[str, bool]:
        """Return whether there are clusters of one mention, as "singletons"."""
        sizes = {len(cluster) for document in train.examples for cluster in document.target}
        if not sizes:
            raise InputError("contains no cluster", "give annotated documents", where=train.path)
        return {"singletons": 1 in sizes}

    def known_labels(self) -> tuple[str, ...]:
        """Return nothing: clusters have no labels."""
        return ()

    def n_to_score(self, examples: Sequence[CorefDocument]) -> int:
        """Return how many documents have clusters."""
        return sum(bool(document.target) for document in examples)

    def check_model_labels(self, labels: Any) -> None:
        if not isinstance(labels["singletons"], bool):
            raise ValueError("whether there are singletons is not true or false")

    def score(self, examples: Sequence[CorefDocument], predictions: Sequence[Clusters]) -> Scores:
        gold = [example.target for example in examples]
        return score_clusters(list(zip(gold, predictions, strict=True)))

    def to_json(
        self, example: CorefDocument, sentences: list[Tokens], prediction: Clusters | None
    ) -> Json:
        fields: dict[str, Any] = {}
        if example.sentence_keys:
            fields["keys"] = example.sentence_keys
        fields |= {"doc_key": example.heading, "sentences": sentences}
        if example.target is not None:
            fields["clusters"] = [sorted(cluster) for cluster in example.target]
        predicted = [sorted(cluster) for cluster in prediction or ()]
        return {**fields, "predicted_clusters": predicted}

    def to_text(
        self, example: CorefDocument, sentences: list[Tokens], prediction: Clusters | None
    ) -> str:
        """Return two columns, as the reference scorer of CoNLL-2012 reads them."""
        n_tokens = sum(len(tokens) for tokens in sentences)
        cells = _cells(prediction or (), n_tokens)
        lines = [columns_line(f"{BEGIN} {example.heading}".rstrip())]
        position = 0
        for tokens in sentences:
            for token in tokens:
                lines.append(columns_line(token, cells[position]))
                position += 1
            lines.append("\n")
        lines.append(END)
        return "".join(lines)


def _split_documents(sentences: Iterable[Sentence]) -> Iterator[list[Sentence]]:
    """Yield the sentences of each document, without blank ones."""
    document: list[Sentence] = []
    for sentence in sentences:
        if not sentence.tokens:
            continue
        if sentence.starts_document and document:
            yield document
            document = []
        document.append(sentence)
    if document:
        yield document


def _read_json(split: Split, labelled: bool) -> Iterator[None]:
    for line in split.json_lines():
        with split.row():
            texts = member(line, "sentences", kinds=(list,))
            sentences = [tokens_of(text) for text in texts]
            n_tokens = sum(len(tokens) for tokens in sentences)
            if not labelled:  # blank sentences have no part in clusters
                sentences = [tokens for tokens in sentences if tokens]
            if not sentences:  # one blank sentence stands for a document without text
                sentences = [()]
            numbers = split.add(*sentences, allow_blank=not labelled)
            target = None
            if labelled:
                clusters = label_member(line, "clusters", kinds=(list,))
                target = None if clusters is None else _clusters_of_json(clusters, n_tokens)
            document = CorefDocument(
                sentences=numbers,
                where=split.where,
                target=target,
                heading=str(line.get("doc_key", "")),
                key=split.key,
            )
            split.examples.append(document)
        yield


def _clusters_of_json(value: Sequence[Any], n_tokens: int) -> Clusters:
    """Return clusters, which are lists of mentions; ValueError if one is invalid."""
    clusters = []
    for mentions in value:
        if not isinstance(mentions, list):
            raise ValueError(f"the cluster {shortened(repr(mentions))} is not a list of mentions")
        if mentions:
            clusters.append({_mention_of_json(mention, n_tokens) for mention in mentions})
    return _merge_overlapping(clusters)


def _mention_of_json(value: Any, n_tokens: int) -> Mention:
    is_pair = isinstance(value, list) and len(value) == 2
    if not is_pair or not all(type(position) is int for position in value):
        problem = "is not the first and the last of its tokens"
        raise ValueError(f"the mention {shortened(repr(value))} {problem}")
    first, last = value
    if not 0 <= first <= last < n_tokens:
        raise ValueError(f"the mention {value} is not within the {n_tokens} tokens")
    return first, last


def _read_columns(split: Split, labelled: bool) -> Iterator[None]:
    for document in split.documents():
        if document.is_complete:  # otherwise the positions in its clusters would be wrong
            with split.row():
                _read_document(split, document, labelled)
        yield
        split.key += len(document.sentences)


def _read_document(split: Split, document: ColumnsDocument, labelled: bool) -> None:
    """Add a document; its key is that of its first sentence."""
    rows: list[ColumnsRow] = []
    numbers: tuple[int, ...] = ()
    for sentence in document.sentences:
        tokens = []
        for row in sentence:
            split.where = row.where
            tokens.append(_token_of(row.cells))
        split.where = sentence[0].where
        numbers += split.add(tokens)
        rows += sentence
    example = CorefDocument(
        sentences=numbers,
        where=rows[0].where,
        target=_clusters_of_rows(split, rows) if labelled else None,
        heading=document.heading,
        key=split.key,
    )
    split.examples.append(example)


def _token_of(cells: Sequence[str]) -> str:
    if len(cells) < 2:
        raise ValueError("expected a token and its mentions, found one column")
    if len(cells) <= _TOKEN_COLUMN + 1:
        return cells[-2]
    number = cells[_TOKEN_COLUMN - 1]
    if not number.isdecimal():
        raise ValueError(f"column 3 is {shortened(number)!r}, not the number of the token")
    return cells[_TOKEN_COLUMN]


def _clusters_of_rows(split: Split, rows: Sequence[ColumnsRow]) -> Clusters:
    """Return the clusters of the last column of a document."""
    clusters: dict[str, set[Mention]] = defaultdict(set)
    open_starts: dict[str, list[int]] = defaultdict(list)  # entity -> first tokens of its mentions
    for position, row in enumerate(rows):
        split.where = row.where
        for mark in _marks_of(row.cells[-1]):
            entity = mark.strip("()")
            begins = mark.startswith("(")
            ends = mark.endswith(")")
            if begins:
                open_starts[entity].append(position)
            elif not ends or not open_starts[entity]:
                raise ValueError(f"{mark!r} neither begins nor ends a mention")
            if ends:
                clusters[entity].add((open_starts[entity].pop(), position))
    for entity, starts in open_starts.items():
        if starts:
            split.where = rows[starts[0]].where
            raise ValueError(f"a mention of entity {entity} does not end")
    return _merge_overlapping(clusters.values())


def _marks_of(cell: str) -> list[str]:
    """Return the beginnings and ends of mentions in a cell, such as `(0`, `1)` and `(2)`."""
    return [] if cell in _NO_MENTION else cell.split("|")


def _merge_overlapping(clusters: Iterable[set[Mention]]) -> Clusters:
    """Merge clusters that share a mention, as in e2e-coref."""
    merged: list[set[Mention]] = []
    for cluster in clusters:
        sharing = [other for other in merged if other & cluster]
        merged = [other for other in merged if not other & cluster]
        merged.append(cluster.union(*sharing))
    return [frozenset(cluster) for cluster in merged]


def _cells(clusters: Clusters, n_tokens: int) -> list[str]:
    """Return the cells of the last column of CoNLL-2012, one per token."""
    entities = [(mention, entity) for entity, cluster in enumerate(clusters) for mention in cluster]
    entities.sort(key=_outer_first)
    marks: list[list[str]] = [[] for _ in range(n_tokens)]
    for (first, last), entity in reversed(entities):  # inner mentions end first
        if first < last:
            marks[last].append(f"{entity})")
    for (first, last), entity in entities:  # after ends: mentions of an entity may share a token
        mark = f"({entity})" if first == last else f"({entity}"
        marks[first].append(mark)
    return ["|".join(of_token) or "-" for of_token in marks]


def _outer_first(mention_of_entity: tuple[Mention, int]) -> tuple[int, int]:
    """Return the key that sorts mentions by their first token, and outer before inner ones."""
    (first, last), _ = mention_of_entity
    return first, -last


@dataclass(frozen=True)
class MatchCounts:
    """What a metric counts: the numerators and the denominators of recall and of precision."""

    recalled: float = 0.0
    true: float = 0.0
    precise: float = 0.0
    predicted: float = 0.0

    def __add__(self, other: MatchCounts) -> MatchCounts:
        return MatchCounts(
            recalled=self.recalled + other.recalled,
            true=self.true + other.true,
            precise=self.precise + other.precise,
            predicted=self.predicted + other.predicted,
        )

    def scores(self) -> dict[str, float]:
        """Return precision, recall and F1 in percent."""
        recall = self.recalled / max(self.true, 1)
        precision = self.precise / max(self.predicted, 1)
        f1 = 2 * precision * recall / max(precision + recall, _TINY)
        return {"precision": 100 * precision, "recall": 100 * recall, "f1": 100 * f1}


def score_clusters(documents: Sequence[tuple[Clusters, Clusters]]) -> Scores:
    """Score the clusters of documents, given as (true, predicted).

    "f1" is the mean F1 of MUC, B-cubed and CEAF-phi4. `by_type` has precision, recall and F1 of
    each metric, with and without clusters of one mention.

    Source: the reference scorer of CoNLL-2012 (Pradhan et al. 2014), which sums the counts of
    documents.
    """
    scores = _score_metrics(documents, min_size=1)
    without_singletons = _score_metrics(documents, min_size=2)
    values = {"f1": _mean_f1(scores)}
    for metric in _METRICS:
        values[metric] = scores[metric]["f1"]
    values["f1_without_singletons"] = _mean_f1(without_singletons)
    by_type = dict(scores)
    for metric in _METRICS:
        by_type[f"{metric}, no singletons"] = without_singletons[metric]
    note = "f1 is the mean of muc, b_cubed and ceaf_phi4; clusters of one mention count"
    return Scores("f1", values, by_type, note)


def _score_metrics(
    documents: Sequence[tuple[Clusters, Clusters]], min_size: int
) -> dict[str, dict[str, float]]:
    """Return the scores of each metric for clusters of at least `min_size` mentions."""
    totals = dict.fromkeys(_METRICS, MatchCounts())
    for true, predicted in documents:
        counts = _count_matches(_at_least(true, min_size), _at_least(predicted, min_size))
        for metric in _METRICS:
            totals[metric] += counts[metric]
    return {metric: total.scores() for metric, total in totals.items()}


def _at_least(clusters: Clusters, min_size: int) -> Clusters:
    return [cluster for cluster in clusters if len(cluster) >= min_size]


def _count_matches(true: Clusters, predicted: Clusters) -> dict[str, MatchCounts]:
    """Return what each of `_METRICS` counts in a document.

    MUC counts the links between mentions (Vilain et al. 1995), B-cubed adds up the overlaps of the
    two clusters of each mention (Bagga and Baldwin 1998), CEAF aligns clusters one to one by
    phi4 = 2 |K & R| / (|K| + |R|) (Luo 2005), and "mentions" ignores the clusters.
    """
    overlaps = [[len(cluster & other) for other in predicted] for cluster in true]
    shared = np.array(overlaps, np.float64).reshape(len(true), len(predicted))
    true_sizes = np.array([len(cluster) for cluster in true], np.float64)
    predicted_sizes = np.array([len(cluster) for cluster in predicted], np.float64)
    n_true = float(true_sizes.sum())
    n_predicted = float(predicted_sizes.sum())
    n_shared = float(shared.sum())

    n_links = n_shared - np.count_nonzero(shared)
    muc = MatchCounts(
        recalled=n_links,
        true=n_true - len(true),
        precise=n_links,
        predicted=n_predicted - len(predicted),
    )
    b_cubed = MatchCounts(
        recalled=float((shared**2 / true_sizes[:, None]).sum()),
        true=n_true,
        precise=float((shared**2 / predicted_sizes).sum()),
        predicted=n_predicted,
    )
    phi4 = 2 * shared / (true_sizes[:, None] + predicted_sizes)
    aligned = float(phi4[linear_sum_assignment(phi4, maximize=True)].sum())
    ceaf_phi4 = MatchCounts(
        recalled=aligned, true=len(true), precise=aligned, predicted=len(predicted)
    )
    mentions = MatchCounts(recalled=n_shared, true=n_true, precise=n_shared, predicted=n_predicted)
    return {"muc": muc, "b_cubed": b_cubed, "ceaf_phi4": ceaf_phi4, "mentions": mentions}


def _mean_f1(scores: dict[str, dict[str, float]]) -> float:
    return sum(scores[metric]["f1"] for metric in _AVERAGED) / len(_AVERAGED)
