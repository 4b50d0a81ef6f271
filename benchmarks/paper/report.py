"""Print the tables of results next to the scores of the paper, and draw the figures.

    python -m benchmarks.paper.report --work WORK [--pictures FOLDER]

A difference is reported only if the lowest of three seeds of one setting is above the highest of
the other.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.paper.cells import FIGURE_1, FRACTIONS, SEEDS, TABLES, WITH, WITHOUT, Cell

# Peters et al. 2018, tables 1 to 3, in the order of TABLES; on SQuAD, SNLI, OntoNotes, CoNLL-2003.
PAPER = {
    "table1": {
        "QA": (81.1, 85.8),
        "SICK": (88.0, 88.7),
        "SRL": (81.4, 84.6),
        "Coref": (67.2, 70.4),
        "NER": (90.15, 92.22),
        "SST-5": (51.4, 54.7),
    },
    "table2": {
        "QA": (80.8, 84.7, 85.0, 85.2),
        "SICK": (88.1, 89.1, 89.3, 89.5),
        "SRL": (81.6, 84.1, 84.6, 84.8),
    },
    "table3": {"QA": (85.1, 85.6, 84.8), "SICK": (88.9, 89.5, 88.7), "SRL": (84.7, 84.3, 80.9)},
}
TITLES = {
    "table1": "Table 1: with and without ELMo",
    "table2": "Table 2: choice of layers",
    "table3": "Table 3: ELMo at the input, the output or both",
    "table7": "Table 7: with and without word vectors",
}
Results = dict[str, dict[str, Any]]


def read_results(work: Path) -> Results:
    """Read the results of all finished cells, by cell name."""
    return {path.stem: json.loads(path.read_text()) for path in (work / "cells").glob("*.json")}


def scores_of(results: Results, task: str, variant: str, fraction: float = 1.0) -> list[float]:
    """Return the test scores of the finished seeds."""
    names = [Cell(task, variant, seed, fraction).name for seed in SEEDS]
    return [results[name]["test"] for name in names if name in results]


def as_cell(scores: list[float]) -> str:
    """Format the mean and the standard deviation over seeds."""
    if not scores:
        return "not run"
    if len(scores) < len(SEEDS):
        return f"{mean(scores):.1f} ({len(scores)} of {len(SEEDS)} seeds)"
    return f"{mean(scores):.1f} ± {stdev(scores):.1f}"


def difference(first: list[float], second: list[float]) -> str:
    """Format the difference of two settings, if three seeds show one."""
    if min(len(first), len(second)) < len(SEEDS):
        return "not run"
    if min(second) > max(first) or min(first) > max(second):
        return f"{mean(second) - mean(first):+.1f}"
    return "no difference shown"


def table(results: Results, name: str) -> list[str]:
    """Return a Markdown table; "last − first" compares the last setting with the first."""
    tasks, variants = TABLES[name]
    lines = [f"| task | {' | '.join(variants)} | last − first | paper |"]
    lines.append("|---" * (len(variants) + 3) + "|")
    for task in tasks:
        scores = [scores_of(results, task, variant) for variant in variants]
        paper = PAPER.get(name, {}).get(task)
        cells = [task, *map(as_cell, scores), difference(scores[0], scores[-1])]
        cells.append(", ".join(f"{one:g}" for one in paper) if paper else "–")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def draw(results: Results, folder: Path) -> None:
    """Draw figures 1 and 2 as SVG."""
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    tasks, variants = FIGURE_1
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    for axes, task in zip(figure.subplots(1, len(tasks)), tasks, strict=True):
        for variant, style in zip(variants, ("o--", "s-"), strict=True):
            found = [(f, scores_of(results, task, variant, f)) for f in FRACTIONS]
            points = [(100 * f, mean(s), stdev(s)) for f, s in found if len(s) == len(SEEDS)]
            if points:
                x, y, deviations = zip(*points, strict=True)
                axes.errorbar(x, y, deviations, fmt=style, capsize=3, markersize=4, label=variant)
        axes.set(xscale="log", title=task, xlabel="training data (%)", ylabel="test score")
        axes.set_xticks([100 * f for f in FRACTIONS], [f"{100 * f:g}" for f in FRACTIONS])
        axes.minorticks_off()
        if axes.has_data():
            axes.legend()
    figure.savefig(folder / "figure1.svg")
    rows = [
        (f"{task}, {where}", mix["weights"])
        for task in TABLES["table1"][0]
        for where, mix in _mixes(results, task).items()
    ]
    figure = Figure(figsize=(6, 0.5 + 0.4 * max(1, len(rows))), layout="constrained")
    axes = figure.subplots()
    for number in range(3):
        left = [sum(weights[:number]) for _, weights in rows]
        width = [weights[number] for _, weights in rows]
        axes.barh([name for name, _ in rows], width, left=left, label=f"layer {number}")
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="softmax-normalized weight")
    axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
    figure.savefig(folder / "figure2.svg")


def _mixes(results: Results, task: str) -> dict[str, dict[str, Any]]:
    """Return the layer weights averaged over seeds, for "input" and "output"."""
    names = [Cell(task, WITH, seed).name for seed in SEEDS]
    found = [results[name]["mix"] for name in names if name in results]
    return {
        where: {
            "weights": [mean(ws) for ws in zip(*(m[where]["weights"] for m in found), strict=True)]
        }
        for where in (found[0] if found else {})
    }


def main() -> None:
    """Print all tables, and draw the figures if `--pictures` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument(
        "--pictures", type=Path, help="output folder for figure1.svg and figure2.svg"
    )
    given = parser.parse_args()
    results = read_results(given.work)
    for name, title in TITLES.items():
        print(f"\n## {title}\n", *table(results, name), sep="\n")
    for task in FIGURE_1[0]:
        rows = [(f, *(scores_of(results, task, v, f) for v in (WITHOUT, WITH))) for f in FRACTIONS]
        print(
            f"\n## Figure 1, {task}\n", "| training data | no ELMo | ELMo | difference |", sep="\n"
        )
        print("|---|---|---|---|")
        for fraction, without, with_elmo in rows:
            cells = as_cell(without), as_cell(with_elmo), difference(without, with_elmo)
            print(f"| {fraction:.0%} | {' | '.join(cells)} |")
    slowest = max((one["cpu_s"] for one in results.values()), default=0)
    print(f"\n{len(results)} cells; the slowest took {slowest:.0f} CPU seconds")
    if given.pictures:
        draw(results, given.pictures)


if __name__ == "__main__":
    main()
