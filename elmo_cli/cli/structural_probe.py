"""`elmo probe --structural`: train a structural probe on each layer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console, options
from elmo_cli.cli.table import print_table
from elmo_cli.errors import UsageError

if TYPE_CHECKING:
    from elmo_cli.analysis.labelled_vectors import LabelSettings
    from elmo_cli.analysis.probe_data import FilePair
    from elmo_cli.analysis.structural_data import StructuralData
    from elmo_cli.analysis.structural_layers import Layer, StructuralResult

WITHOUT_EFFECT = ("control", "mdl", "label_column")  # options of the linear probe
ONLY_STRUCTURAL = ("rank", "trees", "overwrite")
_HEADINGS = {
    "uuas": "UUAS, %",
    "root_accuracy": "root accuracy, %",
    "spearman": "Spearman",
    "dev_loss": "dev loss",
    "epochs": "epochs",
}
_FORMATS = {
    "uuas": ".2f",
    "root_accuracy": ".2f",
    "spearman": ".4f",
    "dev_loss": ".4f",
    "epochs": "d",
}


@dataclass(frozen=True, kw_only=True)
class StructuralJob:
    """What `elmo probe --structural` is to do.

    Attributes:
        task: what the probes predict, "distance" or "depth".
        files: all files to read.
        labels: how the treebanks are read.
        trees: the file of trees to write, if any.
    """

    task: str
    train: FilePair
    dev: FilePair | None
    test: FilePair
    files: list[str]
    labels: LabelSettings
    layers: tuple[int, ...]
    rank: int | None
    seed: int
    trees: str | None
    overwrite: bool
    threads: int | None


def run_structural_probe(job: StructuralJob) -> None:
    """Train a structural probe on each layer, print the scores, write predicted trees if asked."""
    from elmo_cli.analysis.structural_layers import (
        chain_scores,
        n_structural_epochs,
        rank_of_probe,
        structural_layers,
    )
    from elmo_cli.analysis.structural_probe import TASKS

    options.refuse_options(WITHOUT_EFFECT, "with --structural")
    if job.trees is None:
        options.refuse_options(["overwrite"], "without --trees")
    else:
        _check_trees_file(job.trees, job)
    data = _read(job)
    rank = rank_of_probe(data, job.rank)
    console.warn(*data.warnings)
    options.use_threads(job.threads)
    task = TASKS[job.task]
    with console.ProgressDisplay(n_structural_epochs(data), "epochs") as progress:
        layers = structural_layers(data, task, rank=rank, seed=job.seed, advance=progress.advance)
        results = dict(layers)
    facts = {
        "structural": task.name,
        **_data_facts(data),
        "rank": rank,
        "linear_chain": asdict(chain_scores(data, task)),
        "layers": [_layer_facts(layer, result) for layer, result in results.items()],
        "seed": job.seed,
        "warnings": list(data.warnings),
    }
    console.print_result(facts, partial(_print, facts))
    if job.trees is not None:  # last: the disk may be full
        _write_trees(job.trees, job, data, results)


def _check_trees_file(output: str, job: StructuralJob) -> None:
    """Refuse, before any work, a file that cannot be written."""
    if output == "-":
        problem = "standard output has the scores"
        raise UsageError(problem, "name a file", where="`trees=-`")
    console.check_output(output, job.files, overwrite=job.overwrite)


def _write_trees(
    output: str, job: StructuralJob, data: StructuralData, results: dict[Layer, StructuralResult]
) -> None:
    """Write the trees that the probe with the lowest loss on dev predicts, one per line."""
    from elmo_cli.analysis.predicted_trees import predicted_trees

    best = min(results, key=lambda layer: results[layer].dev_loss)
    trees = predicted_trees(data, job.task, best, results[best])
    lines = (json.dumps(tree, ensure_ascii=False, allow_nan=False) + "\n" for tree in trees)
    console.write_lines(output, lines, overwrite=job.overwrite)
    name = f"layer {best}" if isinstance(best, int) else best
    reason = ", which has the lowest loss on dev" if len(results) > 1 else ""
    console.note(f"{output}: trees of {name}{reason}")


def _read(job: StructuralJob) -> StructuralData:
    """Read and check the trees and the embeddings in a child process."""
    from elmo_cli.analysis.structural_data import read_structural_data
    from elmo_cli.errors import EmbeddingsFileError
    from elmo_cli.isolate import run_isolated

    read = partial(
        read_structural_data,
        train=job.train,
        dev=job.dev,
        test=job.test,
        labels=job.labels,
        layers=job.layers,
    )
    return run_isolated(read, job.files, EmbeddingsFileError)


def _data_facts(data: StructuralData) -> dict[str, Any]:
    facts: dict[str, Any] = {"model": data.probe_data.model, "state": data.probe_data.state}
    for name, split in data.splits.items():
        facts[name] = {
            "files": [split.labelled.vectors_file, split.labelled.labels_file],
            "sentences": len(split.heads),
            "words": sum(map(len, split.heads)),
            "sentences_left_out": split.n_left_out,
        }
    facts["dev_from_train"] = not data.probe_data.has_own_dev
    facts["punctuation"] = sum(int((~is_kept).sum()) for is_kept in data.is_kept)
    return facts


def _layer_facts(layer: Layer, result: StructuralResult) -> dict[str, Any]:
    return {
        "name": str(layer),
        **asdict(result.scores),
        "dev_loss": result.dev_loss,
        "epochs": result.epochs,
    }


def _print(facts: dict[str, Any]) -> None:
    """Print a summary of the data, and a table of the baseline and of each layer."""
    console.note(*_summary(facts))
    names = [name for name in _HEADINGS if name in facts["layers"][0]]
    rows = [["linear chain", *(_cell(facts["linear_chain"], name) for name in names)]]
    for layer in facts["layers"]:
        is_number = layer["name"].isdecimal()
        title = f"layer {layer['name']}" if is_number else layer["name"]
        rows.append([title, *(_cell(layer, name) for name in names)])
    print_table([facts["structural"], *(_HEADINGS[name] for name in names)], rows)


def _summary(facts: dict[str, Any]) -> Iterator[str]:
    counts = []
    for name in ("train", "dev", "test"):
        split = facts[name]
        counts.append(f"{name} {split['sentences']:,} sentences, {split['words']:,} words")
    yield f"trees: {'; '.join(counts)}, {facts['punctuation']:,} of them punctuation"
    yield f"projection of rank {facts['rank']:,}"
    if facts["model"] is not None:
        yield f"model {facts['model']}, state {facts['state'] or 'zero'}"


def _cell(facts: dict[str, Any], name: str) -> str:
    figure = facts.get(name)
    return "" if figure is None else format(figure, _FORMATS[name])
