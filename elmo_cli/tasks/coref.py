"""Task `coref`: clusters of mentions of the same entity; their files, and MUC, B3 and CEAF."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import linear_sum_assignment

from elmo_cli.errors import InputError
from elmo_cli.tasks.coref_model import Clusters, CorefDocument, CorefSettings, Mention, SpanRanker
from elmo_cli.tasks.readers import BEGIN, END, ColumnsRow, Split, member, tokens_of
from elmo_cli.tasks.task import Json, Scores, Task
from elmo_cli.text.input import InputReport, InputSettings, read_sentences
from elmo_cli.text.sentence import Tokens

MatchCounts = tuple[
    float, float, float, float
]  # recall's numerator and denominator, then precision's
_METRICS = ("muc", "b_cubed", "ceaf_phi4", "mentions")  # "f1" is the mean of the first three
_TINY = 1e-30
_NO_MENTION = ("", "-", "_", "*")  # cells of tokens where no mention begins or ends
_TOKEN_COLUMN = 3  # of CoNLL-2012; files of up to four columns have the token before the mentions


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

    def fill(self, split: Split, *, labelled: bool) -> None:
        (_read_json if split.is_jsonl else _read_conll)(split, labelled)

    def read_text(
        self, paths: Sequence[str], text: InputSettings, report: InputReport | None = None
    ) -> Split:
        split = Split(", ".join(paths))
        found = [one for one in read_sentences(paths, text, report) if one.tokens]
        starts = [i for i, sentence in enumerate(found) if sentence.starts_document or not i]
        for start, end in pairwise([*starts, len(found)]):
            name = found[start].document or f"document_{1 + len(split.examples)}"
            numbers = split.add(*(sentence.tokens for sentence in found[start:end]))
            split.examples.append(CorefDocument(numbers, found[start].where, None, name))
        return split

    def collect_labels(self, train: Split) -> dict[str, bool]:
        """Return whether there are clusters of one mention, as "singletons"."""
        sizes = {len(cluster) for one in train.examples for cluster in one.target}
        if not sizes:
            raise InputError(f"{train.path}: contains no cluster", "give annotated documents")
        return {"singletons": 1 in sizes}

    def score(self, examples: Sequence[CorefDocument], predictions: Sequence[Clusters]) -> Scores:
        true = (example.target for example in examples)
        return score_clusters(list(zip(true, predictions, strict=True)))

    def to_json(
        self, example: CorefDocument, sentences: list[Tokens], prediction: Clusters
    ) -> Json:
        fields: dict[str, Any] = {"doc_key": example.heading, "sentences": sentences}
        if example.target is not None:
            fields["clusters"] = [sorted(cluster) for cluster in example.target]
        return {**fields, "predicted_clusters": [sorted(cluster) for cluster in prediction]}

    def to_text(self, example: CorefDocument, sentences: list[Tokens], prediction: Clusters) -> str:
        """Return two columns, as the reference scorer of CoNLL-2012 reads them."""
        cells = iter(_cells(prediction, sum(map(len, sentences))))
        lines = [f"{BEGIN} {example.heading}".rstrip()]
        for tokens in sentences:
            lines += [*(f"{token}\t{next(cells)}" for token in tokens), ""]
        return "\n".join([*lines, END])


def _read_conll(split: Split, labelled: bool) -> None:
    for heading, sentences in split.documents():
        rows = list(chain.from_iterable(sentences))
        numbers: tuple[int, ...] = ()
        for sentence in sentences:
            tokens = []
            for split.where, cells in sentence:
                tokens.append(_token_of(cells))
            split.where = sentence[0].where
            numbers += split.add(tokens)
        clusters = _clusters_of(split, rows) if labelled else None
        split.examples.append(CorefDocument(numbers, rows[0].where, clusters, heading))


def _token_of(cells: Sequence[str]) -> str:
    if len(cells) < 2:
        raise ValueError("expected a token and its mentions, found one column")
    return cells[_TOKEN_COLUMN if len(cells) > _TOKEN_COLUMN + 1 else -2]


def _clusters_of(split: Split, rows: Sequence[ColumnsRow]) -> Clusters:
    """Return the clusters of the last column."""
    clusters: dict[str, set[Mention]] = defaultdict(set)
    unclosed: dict[str, list[int]] = defaultdict(list)  # entity -> first tokens of open mentions
    for position, (where, cells) in enumerate(rows):
        split.where = where
        for mark in [] if cells[-1] in _NO_MENTION else cells[-1].split("|"):
            entity, begins, ends = mark.strip("()"), mark.startswith("("), mark.endswith(")")
            if begins:
                unclosed[entity].append(position)
            elif not ends or not unclosed[entity]:
                raise ValueError(f"{mark!r} neither begins nor ends a mention")
            if ends:
                clusters[entity].add((unclosed[entity].pop(), position))
    for entity, starts in unclosed.items():
        if starts:
            split.where = rows[starts[0]].where
            raise ValueError(f"a mention of entity {entity} does not end")
    return _merge_overlapping(clusters.values())


def _merge_overlapping(clusters: Iterable[set[Mention]]) -> Clusters:
    """Merge clusters that share a mention, as in e2e-coref."""
    found: list[set[Mention]] = []
    for cluster in clusters:
        sharing = [one for one in found if one & cluster]
        found = [one for one in found if not one & cluster]
        found.append(cluster.union(*sharing))
    return [frozenset(cluster) for cluster in found]


def _read_json(split: Split, labelled: bool) -> None:
    for line in split.json_lines():
        found = member(line, "sentences", kinds=(list,)) or [[]]  # which is refused
        sentences = list(map(tokens_of, found))
        numbers = split.add(*sentences)
        n_tokens, name = sum(map(len, sentences)), str(line.get("doc_key", ""))
        clusters = _json_clusters(line["clusters"], n_tokens) if labelled else None
        split.examples.append(CorefDocument(numbers, split.where, clusters, name))


def _json_clusters(value: Any, n_tokens: int) -> Clusters:
    clusters = [{(first, last) for first, last in cluster} for cluster in value if cluster]
    for first, last in chain.from_iterable(clusters):
        if type(first) is not int or type(last) is not int or not 0 <= first <= last < n_tokens:
            raise ValueError(f"the mention {[first, last]} is not within the {n_tokens} tokens")
    return _merge_overlapping(clusters)


def _cells(clusters: Clusters, n_tokens: int) -> list[str]:
    """Return the cells of the last column of CoNLL-2012, one per token."""
    named = [(*mention, entity) for entity, cluster in enumerate(clusters) for mention in cluster]
    named.sort(key=lambda one: (one[0], -one[1]))  # outer mentions begin first and end last
    marks: list[list[str]] = [[] for _ in range(n_tokens)]
    for first, last, entity in reversed(named):
        if first < last:
            marks[last].append(f"{entity})")
    for first, last, entity in named:  # after ends: mentions of an entity may share a token
        marks[first].append(f"({entity})" if first == last else f"({entity}")
    return ["|".join(one) or "-" for one in marks]


def score_clusters(documents: Sequence[tuple[Clusters, Clusters]]) -> Scores:
    """Score the clusters of documents, given as (true, predicted).

    "f1" is the mean F1 of MUC, B-cubed and CEAF-phi4. `by_type` has precision, recall and F1 of
    each metric, with and without clusters of one mention.

    Source: the reference scorer of CoNLL-2012 (Pradhan et al. 2014), which sums the counts of
    documents.
    """
    found, linked = (_score_metrics(documents, least) for least in (1, 2))
    values = {"f1": _mean_f1(found), **{name: one["f1"] for name, one in found.items()}}
    values["f1_without_singletons"] = _mean_f1(linked)
    by_type = {**found, **{f"{name}, no singletons": one for name, one in linked.items()}}
    note = "f1 is the mean of muc, b_cubed and ceaf_phi4; clusters of one mention count"
    return Scores("f1", values, by_type, note)


def _score_metrics(
    documents: Sequence[tuple[Clusters, Clusters]], least: int
) -> dict[str, dict[str, float]]:
    """Return the scores of each metric for clusters of at least `least` mentions."""
    kept = ([[c for c in side if len(c) >= least] for side in document] for document in documents)
    counts = np.sum([_count(true, predicted) for true, predicted in kept], 0)
    recall, precision = (counts[:, 0::2] / np.maximum(counts[:, 1::2], 1)).T
    f1 = 2 * precision * recall / np.maximum(precision + recall, _TINY)
    rows = zip(*(100 * one for one in (precision, recall, f1)), strict=True)
    return {
        name: dict(zip(("precision", "recall", "f1"), map(float, row), strict=True))
        for name, row in zip(_METRICS, rows, strict=True)
    }


def _count(true: Clusters, predicted: Clusters) -> list[MatchCounts]:
    """Return what each of `_METRICS` counts in a document.

    MUC counts the links between mentions (Vilain et al. 1995), B-cubed adds up the overlaps of the
    two clusters of each mention (Bagga and Baldwin 1998), CEAF aligns clusters one to one by
    phi4 = 2 |K & R| / (|K| + |R|) (Luo 2005), and "mentions" ignores the clusters.
    """
    shared = np.array([[len(one & other) for other in predicted] for one in true], np.float64)
    shared = shared.reshape(len(true), len(predicted))
    rows, columns = (np.array(list(map(len, side)), np.float64) for side in (true, predicted))
    phi4 = 2 * shared / (rows[:, None] + columns)
    aligned = phi4[linear_sum_assignment(phi4, maximize=True)].sum()
    n_true, n_predicted, n_shared = rows.sum(), columns.sum(), shared.sum()
    n_links = n_shared - np.count_nonzero(shared)
    recalled, precise = (shared**2 / rows[:, None]).sum(), (shared**2 / columns).sum()
    return [
        (n_links, n_true - len(true), n_links, n_predicted - len(predicted)),
        (recalled, n_true, precise, n_predicted),
        (aligned, len(true), aligned, len(predicted)),
        (n_shared, n_true, n_shared, n_predicted),
    ]


def _mean_f1(scores: dict[str, dict[str, float]]) -> float:
    return sum(scores[name]["f1"] for name in _METRICS[:3]) / 3
