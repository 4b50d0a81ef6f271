"""Print the tables of results next to the scores of the paper, and draw the figures.

    python -m benchmarks.paper.report [--pictures FOLDER]

A difference is reported only if the lowest of three seeds of one setting is above the highest of
the other. `docs/explanation/elmo-in-tasks.md` contains the tables.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.paper.cells import (
    FIGURE_1,
    FILES,
    FRACTIONS,
    SEEDS,
    TABLES,
    WITH,
    WITHOUT,
    cell_of,
    try_of,
)
from elmo_cli.plot.figure import color_of, new_figure, write_figure
from elmo_cli.plot.layer_results import LayerWeights, draw_layer_weights

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
PAPER["published"] = PAPER["table1"]
TITLES = {
    "table1": "Table 1: with and without ELMo",
    "table2": "Table 2: choice of layers",
    "table3": "Table 3: ELMo at the input, the output or both",
    "table7": "Table 7: with and without word vectors",
    "published": "Models of the published sizes",
}
OTHER_SCORES = (("Coref", "f1_without_singletons"), ("QA", "exact_match"))
RESULTS = Path(__file__).with_name("results.jsonl")
Results = dict[str, dict[str, Any]]


def read_results(path: Path) -> Results:
    """Read the results of the finished cells, by cell name; the last line of a cell counts."""
    if not path.exists():
        return {}
    results = {}
    for line in path.read_text("utf-8").splitlines():
        result = json.loads(line)
        results[result["cell"]] = result
    return results


def finished(
    results: Results, part: str, task: str, variant: str, fraction: float = 1.0
) -> list[dict[str, Any]]:
    """Return the results of the finished seeds of a table, or of "figure1"."""
    names = [cell_of(part, task, variant, seed, fraction).name for seed in SEEDS]
    return [results[name] for name in names if "test" in results.get(name, {})]


def scores_of(
    results: Results, part: str, task: str, variant: str, fraction: float = 1.0
) -> list[float]:
    """Return the test scores of the finished seeds."""
    return [result["test"] for result in finished(results, part, task, variant, fraction)]


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


def compared(scores: list[list[float]]) -> list[str]:
    """Format the scores of settings, and the difference of the last and the first."""
    cells = [as_cell(seeds) for seeds in scores]
    return [*cells, difference(scores[0], scores[-1])]


def table(results: Results, name: str) -> list[str]:
    """Return a table of the tasks that were run; it compares the last setting with the first."""
    tasks, variants = TABLES[name]
    lines = _head("task", *variants, f"{variants[-1]} − {variants[0]}", "paper")
    for task in tasks:
        scores = [scores_of(results, name, task, variant) for variant in variants]
        if any(scores):
            published = PAPER.get(name, {}).get(task, ())
            paper = ", ".join(f"{score:g}" for score in published)
            lines.append(_row(task, *compared(scores), paper or "–"))
    return lines


def other_scores_table(results: Results) -> list[str]:
    """Return further scores of the runs of table 1 as a Markdown table."""
    lines = _head("task", "score", WITHOUT, WITH, "difference")
    for task, score in OTHER_SCORES:
        scores = []
        for variant in (WITHOUT, WITH):
            runs = finished(results, "table1", task, variant)
            scores.append([run["scores"][score] for run in runs])
        lines.append(_row(task, score.replace("_", " "), *compared(scores)))
    return lines


def figure_1_table(results: Results) -> list[str]:
    """Return the scores of figure 1 as a Markdown table."""
    lines = _head("task", "training data", WITHOUT, WITH, "difference")
    for task, fraction in itertools.product(FIGURE_1[0], FRACTIONS):
        scores = []
        for variant in FIGURE_1[1]:
            scores.append(scores_of(results, "figure1", task, variant, fraction))
        lines.append(_row(task, f"{fraction:.0%}", *compared(scores)))
    return lines


def tries_table(results: Results) -> list[str]:
    """Return the scores on dev of the settings that were compared; the best ones are bold."""
    lines = _head("task", "settings", WITHOUT, WITH)
    for task, files in FILES.items():
        if len(files.tries) == 1:
            continue
        for number, changes in enumerate(files.tries):
            settings = ", ".join(f"`{name}={value}`" for name, value in changes.items())
            cells = [task, settings or "none"]
            for variant, chosen in ((WITHOUT, files.chosen_without), (WITH, files.chosen)):
                result = results.get(try_of(task, variant, number).name)
                score = f"{result['dev']:.1f}" if result else "not run"
                cells.append(f"**{score}**" if number == chosen else score)
            lines.append(_row(*cells))
    return lines


def cost_table(results: Results) -> list[str]:
    """Return the mean CPU time and epochs of the runs of table 1."""
    lines = _head("task", "variant", "CPU seconds", "epochs", "best epoch")
    for task, variant in itertools.product(*TABLES["table1"]):
        runs = finished(results, "table1", task, variant)
        if not runs:
            continue
        means = []
        for key in ("cpu_s", "epochs", "best_epoch"):
            means.append(f"{mean(run[key] for run in runs):.0f}")
        lines.append(_row(task, variant, *means))
    return lines


def tables(results: Results) -> dict[str, list[str]]:
    """Return all tables as Markdown, by title."""
    by_title = {title: table(results, name) for name, title in TITLES.items()}
    by_title["Table 1, other scores"] = other_scores_table(results)
    by_title["Figure 1: scores by the amount of training data"] = figure_1_table(results)
    by_title["Settings compared on dev"] = tries_table(results)
    by_title["Cost of a run of table 1"] = cost_table(results)
    return by_title


def _head(*names: str) -> list[str]:
    return [_row(*names), "|---" * len(names) + "|"]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def draw(results: Results, folder: Path) -> None:
    """Draw figures 1 and 2 as SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks, variants = FIGURE_1
    with new_figure(7, 3.2) as figure:
        for axes, task in zip(figure.subplots(1, len(tasks)), tasks, strict=True):
            for number, variant in enumerate(variants):
                _draw_scores(axes, results, task, variant, color_of(number), ("o--", "s-")[number])
            axes.set(xscale="log", title=task, xlabel="training data (%)", ylabel="test score")
            ticks = [100 * fraction for fraction in FRACTIONS]
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
            if axes.has_data():
                axes.legend()
    write_figure(figure, folder / "figure1.svg")
    mixes = []
    for task in TABLES["table1"][0]:
        mixes += _mixes(results, task)
    write_figure(draw_layer_weights(mixes), folder / "figure2.svg")


def _draw_scores(
    axes: Any, results: Results, task: str, variant: str, color: str, style: str
) -> None:
    """Draw the mean scores of a variant by the fraction of the training data."""
    percentages = []
    means = []
    deviations = []
    for fraction in FRACTIONS:
        scores = scores_of(results, "figure1", task, variant, fraction)
        if len(scores) == len(SEEDS):
            percentages.append(100 * fraction)
            means.append(mean(scores))
            deviations.append(stdev(scores))
    if percentages:
        axes.errorbar(
            percentages,
            means,
            deviations,
            fmt=style,
            color=color,
            capsize=3,
            markersize=4,
            label=variant,
        )


def _mixes(results: Results, task: str) -> list[LayerWeights]:
    """Return the layer weights averaged over seeds, for "input" and "output"."""
    mixes = [run["mix"] for run in finished(results, "table1", task, WITH)]
    if not mixes:
        return []
    averaged = []
    for where in mixes[0]:
        weights_of_seeds = [mix[where]["weights"] for mix in mixes]
        by_layer = zip(*weights_of_seeds, strict=True)
        averaged.append(LayerWeights(f"{task}, {where}", tuple(mean(layer) for layer in by_layer)))
    return averaged


def main() -> None:
    """Print all tables, and draw the figures if `--pictures` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--pictures", type=Path, help="output folder for figure1.svg and figure2.svg"
    )
    given = parser.parse_args()
    results = read_results(RESULTS)
    for title, lines in tables(results).items():
        print(f"\n## {title}\n", *lines, sep="\n")
    if given.pictures:
        draw(results, given.pictures)


if __name__ == "__main__":
    main()
