"""MUC, B-cubed and CEAF-phi4: scores of predicted clusters of mentions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from elmo_cli.errors import UsageError

Mention = tuple[int, int]  # first and last token, from 0 in the document
Clusters = Sequence[frozenset[Mention]]  # disjoint


@dataclass(frozen=True)
class Counts:
    """Numerators and denominators of recall and precision, which are summed over documents.

    Attributes:
        found, true: numerator and denominator of recall.
        correct, predicted: numerator and denominator of precision.
    """

    found: float = 0
    true: float = 0
    correct: float = 0
    predicted: float = 0

    def __add__(self, other: Counts) -> Counts:
        sums = (self.found + other.found, self.true + other.true)
        return Counts(*sums, self.correct + other.correct, self.predicted + other.predicted)

    def percentages(self) -> dict[str, float]:
        """Return precision, recall and F1 in percent; 0 where a denominator is 0."""
        precision = self.correct / self.predicted if self.predicted else 0.0
        recall = self.found / self.true if self.true else 0.0
        total = precision + recall
        f1 = 2 * precision * recall / total if total else 0.0
        return {"precision": 100 * precision, "recall": 100 * recall, "f1": 100 * f1}


def muc(true: Clusters, predicted: Clusters) -> Counts:
    """Count the links between mentions that both clusterings share (Vilain et al. 1995)."""
    return Counts(*_links(true, predicted), *_links(predicted, true))


def b_cubed(true: Clusters, predicted: Clusters) -> Counts:
    """Sum the overlap of the two clusters of each mention (Bagga and Baldwin 1998)."""
    return Counts(*_overlaps(true, predicted), *_overlaps(predicted, true))


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
    owner = _owners(predicted)
    for row, cluster in enumerate(true):
        for column in {owner[mention] for mention in cluster if mention in owner}:
            other = predicted[column]
            similarity[row, column] = 2 * len(cluster & other) / (len(cluster) + len(other))
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    total = float(similarity[rows, columns].sum())
    return Counts(total, len(true), total, len(predicted))


def mentions(true: Clusters, predicted: Clusters) -> Counts:
    """Count the mentions that both have, whatever their clusters."""
    ours, theirs = _owners(predicted).keys(), _owners(true).keys()
    n_common = len(ours & theirs)
    return Counts(n_common, len(theirs), n_common, len(ours))


METRICS = {"muc": muc, "b_cubed": b_cubed, "ceaf_phi4": ceaf_phi4, "mentions": mentions}


def score_documents(documents: Iterable[tuple[Clusters, Clusters]]) -> dict[str, dict[str, float]]:
    """Return precision, recall and F1 of `METRICS` over documents, given as (true, predicted).

    Source: the reference scorer of CoNLL-2012 (Pradhan et al. 2014).
    """
    totals = dict.fromkeys(METRICS, Counts())
    for true, predicted in documents:
        for name, metric in METRICS.items():
            totals[name] += metric(true, predicted)
    return {name: counts.percentages() for name, counts in totals.items()}


def mean_f1(scores: Mapping[str, Mapping[str, float]]) -> float:
    """Return the mean F1 of MUC, B-cubed and CEAF-phi4, as papers report it."""
    return sum(scores[name]["f1"] for name in ("muc", "b_cubed", "ceaf_phi4")) / 3


def without_singletons(clusters: Clusters) -> Clusters:
    """Return the clusters of more than one mention."""
    return [cluster for cluster in clusters if len(cluster) > 1]


def check_scorer() -> None:
    """Raise a UsageError if scipy, which `ceaf_phi4` needs, is not installed."""
    ceaf_phi4([], [])


def _owners(clusters: Clusters) -> dict[Mention, int]:
    """Map each mention to the index of its cluster."""
    return {mention: i for i, cluster in enumerate(clusters) for mention in cluster}


def _links(clusters: Clusters, others: Clusters) -> tuple[int, int]:
    """Return the number of links of `clusters` that `others` share, and of all links."""
    owner = _owners(others)
    n_found = n_all = 0
    for cluster in clusters:
        # A mention that is missing from the others is a partition of its own.
        n_partitions = len({owner.get(mention, mention) for mention in cluster})
        n_found += len(cluster) - n_partitions
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
