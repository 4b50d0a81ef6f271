"""Train and score cells of the paper's tables and figures; cells with a result are skipped.

    python -m benchmarks.paper.run --data DATA --work WORK table1 table2 figure1

DATA contains the files that `cells.py` names; each result is a JSON file in WORK/cells.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.common import ELMO, run_timed
from benchmarks.paper.cells import FILES, TABLES, Cell, cells_of


def run_cell(cell: Cell, data: Path, work: Path) -> dict[str, Any]:
    """Train a cell, or resume its training, and score it on dev and test."""
    folder = work / "runs" / cell.name
    mode = ["--resume"] if (folder / "task.json").exists() else []
    cost = run_timed([*ELMO, *cell.command(data, work), *mode, "--json"], stdout=subprocess.DEVNULL)
    files, vectors = FILES[cell.task], work / "vectors" / cell.task
    scored = [*ELMO, "evaluate", folder, "--test", data / files.test, "--json", "-q"]
    done = subprocess.run(
        list(map(str, [*scored, "--embeddings", vectors])),
        capture_output=True,
        text=True,
        check=True,
    )
    facts = json.loads((folder / "scores.json").read_text())
    test = json.loads(done.stdout)
    shutil.rmtree(folder)
    return {
        "cell": vars(cell),
        "dev": facts["dev"][files.score],
        "test": test[files.score],
        "scores": {name: value for name, value in test.items() if isinstance(value, float)},
        "cpu_s": cost.cpu,
        "was_resumed": bool(mode),
        "epochs": facts["epochs"],
        "best_epoch": facts["best_epoch"],
        "mix": facts["mix"],
    }


def main() -> None:
    """Run the cells of the tables and figures on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=[*TABLES, "figure1"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--task", help="run only this task")
    given = parser.parse_args()
    results = given.work / "cells"
    results.mkdir(parents=True, exist_ok=True)
    for part in given.parts:
        for cell in cells_of(part):
            path = results / f"{cell.name}.json"
            if path.exists() or given.task not in (None, cell.task):
                continue
            result = run_cell(cell, given.data, given.work)
            path.write_text(json.dumps(result, indent=1) + "\n")
            print(f"{cell.name}: dev {result['dev']:.2f}, test {result['test']:.2f}, "
                  f"{result['cpu_s']:.0f} CPU s", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
