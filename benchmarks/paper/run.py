"""Train and score the cells of parts of the paper; cells with a result are skipped.

    python -m benchmarks.paper.run --data DATA --work WORK [--device NAME] table1 figure1

DATA contains the files that `cells.py` names. Each finished cell adds a line to
`benchmarks/paper/results.jsonl`; WORK holds embeddings and unfinished runs, which are resumed.
The part "tries" compares settings on dev, and does not read the test files. The part "published"
trains models of the published sizes and should run on a GPU: `--device cuda`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.common import ELMO, run_timed
from benchmarks.paper.cells import FILES, PARTS, Cell, cells_of
from benchmarks.paper.report import RESULTS, read_results


def train(cell: Cell, data: Path, work: Path, device: str) -> dict[str, Any]:
    """Train a cell, or resume its training, and return its result on dev."""
    folder = work / "runs" / cell.name
    mode = ["--resume"] if (folder / "task.json").exists() else []
    command = [*ELMO, *cell.command(data, work), *mode, "--json", "--device", device]
    cost = run_timed(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    facts = json.loads((folder / "scores.json").read_text())
    return {
        "cell": cell.name,
        "dev": facts["dev"][FILES[cell.task].score],
        "epochs": facts["epochs"],
        "best_epoch": facts["best_epoch"],
        "mix": facts["mix"],
        "cpu_s": round(cost.cpu),
        "device": device,
        "was_resumed": bool(mode),
    }


def evaluate(cell: Cell, data: Path, work: Path, device: str) -> dict[str, Any]:
    """Return the scores of a trained cell on test."""
    files = FILES[cell.task]
    folder = work / "runs" / cell.name
    words = [*ELMO, "evaluate", folder, "--test", data / files.test, "--json", "-q"]
    words += ["--embeddings", cell.embeddings(work), "--device", device]
    command = [str(word) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout)
    scores = {name: score for name, score in facts.items() if isinstance(score, float)}
    return {"test": scores[files.score], "scores": scores}


def run_cell(cell: Cell, data: Path, work: Path, device: str) -> dict[str, Any]:
    """Return the result of a cell, with the test scores unless the cell is a try."""
    result = train(cell, data, work, device)
    if not cell.is_try:
        result |= evaluate(cell, data, work, device)
    shutil.rmtree(work / "runs" / cell.name)
    return result


def main() -> None:
    """Run the cells of the parts on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1, help="cells to run at the same time")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--task", help="run only this task")
    given = parser.parse_args()
    results = read_results(RESULTS)

    def run(cell: Cell) -> None:
        known = results.get(cell.name, {})
        is_finished = bool(known) and (cell.is_try or "test" in known)
        if is_finished:
            return
        result = run_cell(cell, given.data, given.work, given.device)
        results[cell.name] = result
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        print(f"{cell.name}: dev {result['dev']:.2f}, {result['cpu_s']} CPU s", flush=True)

    cells = {}  # by name: parts share some
    for part in given.parts:
        for cell in cells_of(part):
            if given.task in (None, cell.task):
                cells[cell.name] = cell
    with ThreadPoolExecutor(given.jobs) as pool:
        for _ in pool.map(run, cells.values()):
            pass  # raise the error of a cell


if __name__ == "__main__":
    main()
