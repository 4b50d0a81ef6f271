"""MUC, B-cubed and CEAF-phi4: scores of predicted clusters of mentions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from elmo_cli.errors import UsageError
from elmo_cli.tasks.task import Scores

Mention = tuple[int, int]  # first and last token, from 0 in the document
Clusters = Sequence[frozenset[Mention]]  # disjoint
Counts = tuple[float, float, float, float]  # recall's numerator and denominator, then precision's


def muc(true: Clusters, predicted: Clusters) -> Counts:
    """Count the links between mentions that both clusterings share (Vilain et al. 1995)."""
    return *_links(true, predicted), *_links(predicted, true)


def b_cubed(true: Clusters, predicted: Clusters) -> Counts:
    """Sum the overlap of the two clusters of each mention (Bagga and Baldwin 1998)."""
    return *_overlaps(true, predicted), *_overlaps(predicted, true)


def ceaf_phi4(true: Clusters, predicted: Clusters) -> Counts:
    """Align clusters one to one by phi4 = 2 |K & R| / (|K| + |R|) (Luo 2005).

    Raises:
        UsageError: scipy is not installed.
    """
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        what, hint = "coref: scipy is not installed", "run `pip install '.[tasks]'` in a clone"
        raise UsageError(what, hint) from None
    similarity = np.zeros((len(true), len(predicted)))
    for row, cluster in enumerate(true):
        similarity[row] = [2 * len(cluster & one) / (len(cluster) + len(one)) for one in predicted]
    total = float(similarity[linear_sum_assignment(similarity, maximize=True)].sum())
    return total, len(true), total, len(predicted)


def mentions(true: Clusters, predicted: Clusters) -> Counts:
    """Count the mentions that both have, whatever their clusters."""
    ours, theirs = set(chain.from_iterable(true)), set(chain.from_iterable(predicted))
    n_common = len(ours & theirs)
    return n_common, len(ours), n_common, len(theirs)


def score_clusters(documents: Sequence[tuple[Clusters, Clusters]]) -> Scores:
    """Score the clusters of documents, given as (true, predicted).

    "f1" is the mean F1 of MUC, B-cubed and CEAF-phi4. `by_type` has precision, recall and F1 of
    each metric, with and without clusters of one mention.

    Source: the reference scorer of CoNLL-2012 (Pradhan et al. 2014), which sums the counts of
    documents.
    """
    by_metric = _score_metrics(documents)
    linked = _score_metrics(
        [(_without_singletons(true), _without_singletons(found)) for true, found in documents]
    )
    values = {"f1": _mean_f1(by_metric), **{name: one["f1"] for name, one in by_metric.items()}}
    values["f1_without_singletons"] = _mean_f1(linked)
    by_type = {**by_metric, **{f"{name}, no singletons": one for name, one in linked.items()}}
    note = "f1 is the mean of muc, b_cubed and ceaf_phi4; clusters of one mention count"
    return Scores("f1", values, by_type, note)


def _score_metrics(documents: Iterable[tuple[Clusters, Clusters]]) -> dict[str, dict[str, float]]:
    return {
        metric.__name__: _percentages([metric(*document) for document in documents])
        for metric in (muc, b_cubed, ceaf_phi4, mentions)
    }


def _percentages(counts: Sequence[Counts]) -> dict[str, float]:
    """Return precision, recall and F1 in percent; 0 where a denominator is 0."""
    found, true, correct, predicted = np.array(counts, np.float64).sum(0).tolist()
    precision = correct / predicted if predicted else 0.0
    recall = found / true if true else 0.0
    total = precision + recall
    f1 = 2 * precision * recall / total if total else 0.0
    return {"precision": 100 * precision, "recall": 100 * recall, "f1": 100 * f1}


def _mean_f1(scores: dict[str, dict[str, float]]) -> float:
    return sum(scores[name]["f1"] for name in ("muc", "b_cubed", "ceaf_phi4")) / 3


def _without_singletons(clusters: Clusters) -> Clusters:
    return [cluster for cluster in clusters if len(cluster) > 1]


def _owners(clusters: Clusters) -> dict[Mention, int]:
    """Map each mention to the index of its cluster."""
    return {mention: i for i, cluster in enumerate(clusters) for mention in cluster}


def _links(clusters: Clusters, others: Clusters) -> tuple[int, int]:
    """Return the number of links of `clusters` that `others` share, and of all links."""
    owner = _owners(others)
    n_found = n_all = 0
    for cluster in clusters:
        # A mention that is missing from the others is a partition of its own.
        n_found += len(cluster) - len({owner.get(mention, mention) for mention in cluster})
        n_all += len(cluster) - 1
    return n_found, n_all


def _overlaps(clusters: Clusters, others: Clusters) -> tuple[float, int]:
    """Return the sum of |cluster & other| / |cluster| over mentions, and their number."""
    owner = _owners(others)
    total = 0.0
    for cluster in clusters:
        for mention in cluster & owner.keys():
            total += len(cluster & others[owner[mention]]) / len(cluster)
    return total, sum(map(len, clusters))
