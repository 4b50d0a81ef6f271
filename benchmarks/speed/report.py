"""Print the tables of docs/benchmarks.md from the records in `benchmarks/results/`.

    python -m benchmarks.speed.report [RECORD…]

Each table comes with the commands, the machine, the versions, the date and the records from which
it is printed. All records of a table must have the same machine and versions. A cell is the median
of all measurements, followed by their range where there are several.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import table

RESULTS = Path(__file__).resolve().parents[1] / "results"
_LINK = "../benchmarks/results"  # from docs/benchmarks.md
Json = dict[str, Any]


@dataclass(frozen=True)
class NamedRecord:
    """A record that `--json` has written.

    Attributes:
        name: of its file.
        facts: its content.
    """

    name: str
    facts: Json

    @property
    def program(self) -> str:
        """The module that wrote it."""
        return str(self.facts["command"].split()[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", nargs="*", type=Path, metavar="RECORD")
    given = parser.parse_args()
    print("\n\n".join(sections(read_records(given.records or sorted(RESULTS.glob("*.json"))))))


def read_records(paths: Sequence[Path]) -> list[NamedRecord]:
    return [NamedRecord(path.name, json.loads(path.read_text("utf-8"))) for path in paths]


def sections(records: Sequence[NamedRecord]) -> list[str]:
    """Each table, below the commands, the machine, the versions and the date of its records."""
    texts = []
    for program, make_table in TABLES.items():
        chosen = [record for record in records if record.program == program]
        if chosen:
            texts.append(f"{_origin(chosen)}\n\n{make_table(measurements_of(chosen))}")
    return texts


def measurements_of(records: Sequence[NamedRecord]) -> list[Json]:
    measurements: list[Json] = []
    for record in records:
        measurements += record.facts["measurements"]
    return measurements


def _origin(records: Sequence[NamedRecord]) -> str:
    """The commands of the records, and their machine and versions; SystemExit if these differ."""
    commands = [record.facts["command"] for record in records]
    surroundings = {_surroundings(record.facts) for record in records}
    if len(surroundings) > 1:
        names = ", ".join(record.name for record in records)
        raise SystemExit(f"not of one machine and version: {names}")
    days = sorted({record.facts["date"][:10] for record in records})
    when = " to ".join(dict.fromkeys([days[0], days[-1]]))
    links = ", ".join(f"[{record.name}]({_LINK}/{record.name})" for record in records)
    raw_data = f"Raw data: {links}"
    loads = [record.facts["other_load"] for record in records]
    if None not in loads:
        raw_data += f"; other processes used at most {max(loads):.1%} of the CPUs"
    lines = [
        "<!-- not run: takes minutes -->",
        "```sh",
        *commands,
        "```",
        "",
        f"Measured {when} {surroundings.pop()}",
        f"{raw_data}.",
    ]
    return "\n".join(lines)


def _surroundings(facts: Json) -> str:
    """The machine and the versions of a record, in words."""
    processor = facts["processor"]
    torch = facts["torch"]
    packages = facts["packages"]
    return (
        f"on {processor['usable_cpus']} of {processor['cpus']} "
        f"CPUs ({processor['name']}, {torch['cpu_capability']}) under {facts['system']['name']},\n"
        f"with elmo {facts['elmo']['version']} ({facts['elmo']['source']}), Python "
        f"{facts['python']}, PyTorch {torch['version']}, NumPy {packages['numpy']}, h5py "
        f"{packages['h5py']} and HDF5 {facts['hdf5']}."
    )


def spread(values: Sequence[float], digits: int = 0) -> str:
    """The median of values and, if there are several, their range."""
    shown = f"{median(values):,.{digits}f}"
    if len(values) == 1:
        return shown
    return f"{shown} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def by_model_and_text(measurements: Sequence[Json]) -> dict[tuple[str, int], list[Json]]:
    """The measurements of each model and number of tokens, in the order of the tables."""
    groups: dict[tuple[str, int], list[Json]] = {}
    for measurement in measurements:
        key = (measurement["model"], measurement["text"]["tokens"])
        groups.setdefault(key, []).append(measurement)
    names = list(dict.fromkeys(["small", "elmo-en", "original", *(name for name, _ in groups)]))
    ordered = sorted(groups, key=lambda key: (names.index(key[0]), key[1]))
    return {key: groups[key] for key in ordered}


def embed_table(measurements: Sequence[Json]) -> str:
    header = [
        "model",
        "tokens",
        "from start to closed file, tokens/s",
        "computing alone, tokens/s",
        "peak memory, MB",
        "one sentence, s",
        "product of 2048 × 2048 matrices before and after, GFLOP/s",
    ]
    rows = []
    for (model, n_tokens), group in by_model_and_text(measurements).items():
        commands = [run for measurement in group for run in measurement["commands"]]
        computing = [run for measurement in group for run in measurement["computing"]]
        products = []
        for run in computing:
            products += [max(run["product_gflops_before"]), max(run["product_gflops_after"])]
        one_sentence_s = [cost["wall_s"] for run in commands for cost in run["one_sentence"]]
        row = [
            model,
            f"{n_tokens:,}",
            spread([n_tokens / run["text"]["wall_s"] for run in commands]),
            spread([n_tokens / run["float32_s"] for run in computing]),
            spread([run["text"]["peak_mb"] for run in commands]),
            spread(one_sentence_s, 1),
            f"{min(products):.0f} to {max(products):.0f}",
        ]
        rows.append(row)
    return table(header, rows)


def plain_loop_table(measurements: Sequence[Json]) -> str:
    header = ["model", "pairs", "elmo embed, tokens/s", "plain loop, tokens/s", "ratio"]
    rows = []
    for (model, n_tokens), group in by_model_and_text(measurements).items():
        pairs = [pair for measurement in group for pair in measurement["pairs"]]
        loop = [pair["loop_tokens_per_s"] for pair in pairs]
        embed = [n_tokens / pair["embed"]["wall_s"] for pair in pairs]
        ratios = [ours / plain for ours, plain in zip(embed, loop, strict=True)]
        rows.append([model, len(pairs), spread(embed), spread(loop), spread(ratios, 1)])
    return table(header, rows)


def peers_table(measurements: Sequence[Json]) -> str:
    header = [
        "program",
        "model",
        "tokens",
        "whole process, tokens/s",
        "embedding alone, tokens/s",
        "elmo embed, whole process, tokens/s",
        "ratio of whole processes",
        "peak memory, MB",
        "peak memory of elmo, MB",
    ]
    rows = []
    for measurement in measurements:
        n_tokens = measurement["text"]["tokens"]
        peers = [pair["peer"] for pair in measurement["pairs"]]
        ours = [pair["elmo"] for pair in measurement["pairs"]]
        ratios = [peer["wall_s"] / elmo["wall_s"] for peer, elmo in zip(peers, ours, strict=True)]
        row = [
            measurement["program"],
            measurement["model"],
            f"{n_tokens:,}",
            spread([n_tokens / peer["wall_s"] for peer in peers]),
            spread([n_tokens / peer["embedding_s"] for peer in peers]),
            spread([n_tokens / elmo["wall_s"] for elmo in ours]),
            spread(ratios, 1),
            spread([peer["peak_mb"] for peer in peers]),
            spread([elmo["peak_mb"] for elmo in ours]),
        ]
        rows.append(row)
    return table(header, rows)


def training_table(measurements: Sequence[Json]) -> str:
    header = ["model", "steps", "tokens/s", "processor time per step, s", "peak memory, MB"]
    rows = []
    for measurement in measurements:
        few = measurement["few_steps"]
        many = measurement["many_steps"]
        n_steps = measurement["steps"]
        row = [
            measurement["model"],
            n_steps,
            f"{measurement['tokens'] / (many['wall_s'] - few['wall_s']):,.0f}",
            f"{(many['cpu_s'] - few['cpu_s']) / n_steps:.2f}",
            f"{many['peak_mb']:,.0f}",
        ]
        rows.append(row)
    return table(header, sorted(rows, key=lambda row: row[0] == "original"))


TABLES: dict[str, Callable[[Sequence[Json]], str]] = {
    "benchmarks.speed.embed": embed_table,
    "benchmarks.speed.plain_loop": plain_loop_table,
    "benchmarks.speed.peers": peers_table,
    "benchmarks.speed.training": training_table,
}


if __name__ == "__main__":
    main()
