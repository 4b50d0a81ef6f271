"""Measure how often a model prefers the acceptable sentence of minimal pairs, beside other models.

    python -m benchmarks.model_card.minimal_pairs PAIRS PUBLISHED [-m MODEL] [--by-paradigm]

`elmo score --pairs --tokenize` measures the biLM: forward, backward, and the sum of both. The first
table has the accuracies by term, each the mean of its paradigms, next to those of PUBLISHED; the
second one has the rank correlations with the published accuracies over paradigms.

PAIRS is the full set of BLiMP as JSON lines, and PUBLISHED holds the accuracies that its authors
published (`models_summary.jsonl`), as fractions: a line per paradigm with its UID, its
linguistics_term, and `ngram` (5-gram), `lstm`, `txl` (Transformer-XL) and `gpt2`.

Source: Warstadt et al. 2020, https://github.com/alexwarstadt/blimp.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import table
from benchmarks.model_card.commands import elmo
from elmo_cli.arrays import Float64Array

SCORES = ("forward", "backward", "sum")
PUBLISHED = {"ngram": "5-gram", "lstm": "LSTM", "txl": "Transformer-XL", "gpt2": "GPT-2"}

Figures = dict[str, float]  # accuracies by column, in percent


def read_published(path: Path) -> tuple[dict[str, Figures], dict[str, str]]:
    """The accuracies of each paradigm in percent, and its term; lines with means are left out."""
    accuracies = {}
    terms = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        uid = fields["UID"]
        if uid != "overall":
            accuracies[uid] = {name: 100 * fields[key] for key, name in PUBLISHED.items()}
            terms[uid] = fields["linguistics_term"]
    return accuracies, terms


def with_published(
    facts: Mapping[str, Any], published: Mapping[str, Figures]
) -> dict[str, Figures]:
    """The figures of each paradigm: ours, those of other models, the share of unknown tokens."""
    figures = {}
    for paradigm in facts["paradigms"]:
        uid = paradigm["name"]
        if uid not in published:
            raise SystemExit(f"{uid}: not among the published paradigms")
        unknown = 100 * paradigm["pairs_with_unknown"] / paradigm["pairs"]
        figures[uid] = {**paradigm["accuracy"], **published[uid], "with unknown": unknown}
    return figures


def row_of(name: str, figures: list[Figures]) -> list[str]:
    """The means of some paradigms."""
    row = [name, str(len(figures))]
    for column in figures[0]:
        mean = np.mean([paradigm[column] for paradigm in figures])
        row.append(f"{mean:.1f}")
    return row


def rows_by_term(figures: Mapping[str, Figures], terms: Mapping[str, str]) -> list[list[str]]:
    """A row for each term, and the mean of all paradigms."""
    rows = []
    for term in sorted({terms[uid] for uid in figures}):
        members = [paradigm for uid, paradigm in figures.items() if terms[uid] == term]
        rows.append(row_of(term.replace("_", " "), members))
    rows.append(row_of("mean of all paradigms", list(figures.values())))
    return rows


def ranks(values: Float64Array) -> Float64Array:
    """Ranks from 0, (value,); equal values have the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last_ranks = np.cumsum(counts) - 1
    mean_ranks = last_ranks - (counts - 1) / 2
    return np.asarray(mean_ranks[inverse])


def spearman(values: Float64Array, others: Float64Array) -> float:
    """Spearman's rank correlation."""
    return float(np.corrcoef(ranks(values), ranks(others))[0, 1])


def correlation_rows(figures: Mapping[str, Figures]) -> list[list[str]]:
    """A row for each score, with its correlation with each published model."""
    columns = {
        name: np.asarray([paradigm[name] for paradigm in figures.values()])
        for name in (*SCORES, *PUBLISHED.values())
    }
    rows = []
    for score in SCORES:
        correlations = [spearman(columns[score], columns[name]) for name in PUBLISHED.values()]
        rows.append([score, *(f"{correlation:.2f}" for correlation in correlations)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", type=Path, metavar="PAIRS")
    parser.add_argument("published", type=Path, metavar="PUBLISHED")
    parser.add_argument("-m", "--model", default="elmo-en", help="[default: elmo-en]")
    parser.add_argument("--by-paradigm", action="store_true", help="also a row for each paradigm")
    parser.add_argument(
        "--facts", type=Path, help="the object of `elmo score --pairs --json`; computed by default"
    )
    given = parser.parse_args()
    published, terms = read_published(given.published)
    if given.facts:
        facts = json.loads(given.facts.read_text(encoding="utf-8"))
    else:
        facts = elmo("score", given.pairs, "--pairs", "--tokenize", "-m", given.model)
    figures = with_published(facts, published)
    header = ["right, %", "paradigms", *SCORES, *PUBLISHED.values(), "pairs with <UNK>"]
    print(table(header, rows_by_term(figures, terms)) + "\n")
    if given.by_paradigm:
        rows = [row_of(uid, [paradigm]) for uid, paradigm in figures.items()]
        print(table(header, rows) + "\n")
    print(table(["Spearman over paradigms", *PUBLISHED.values()], correlation_rows(figures)) + "\n")
    ties = facts["ties"]
    print(
        f"{facts['pairs']:,} pairs, {facts['pairs_with_unknown']:,} with <UNK>; equal scores: "
        f"{ties['forward']} forward, {ties['backward']} backward, {ties['sum']} in sum"
    )


if __name__ == "__main__":
    main()
