"""MUC, B-cubed and CEAF-phi4: scores of predicted clusters of mentions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elmo_cli.errors import UsageError
from elmo_cli.tasks.task import Scores

Mention = tuple[int, int]  # first and last token, from 0 in the document
Clusters = Sequence[frozenset[Mention]]  # disjoint
Counts = tuple[float, float, float, float]  # recall's numerator and denominator, then precision's


def muc(true: Clusters, predicted: Clusters) -> Counts:
    """Count the links between mentions that both clusterings share (Vilain et al. 1995)."""
    ours, theirs = _owners(true), _owners(predicted)
    pairs = [(ours[mention], theirs[mention]) for mention in ours.keys() & theirs.keys()]
    n_shared = len(pairs) - len(set(pairs))
    return n_shared, len(ours) - len(true), n_shared, len(theirs) - len(predicted)


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
    ours, theirs = _owners(true), _owners(predicted)
    n_common = len(ours.keys() & theirs.keys())
    return n_common, len(ours), n_common, len(theirs)


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
    kept = [[[c for c in side if len(c) >= least] for side in document] for document in documents]
    return {
        metric.__name__: _percentages([metric(true, predicted) for true, predicted in kept])
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


def _owners(clusters: Clusters) -> dict[Mention, int]:
    """Map each mention to the index of its cluster."""
    return {mention: i for i, cluster in enumerate(clusters) for mention in cluster}


def _overlaps(clusters: Clusters, others: Clusters) -> tuple[float, int]:
    """Return the sum of |cluster & other| / |cluster| over mentions, and their number."""
    owner = _owners(others)
    total = 0.0
    for cluster in clusters:
        for mention in cluster & owner.keys():
            total += len(cluster & others[owner[mention]]) / len(cluster)
    return total, sum(map(len, clusters))
