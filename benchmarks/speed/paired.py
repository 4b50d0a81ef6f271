"""Compare two checkouts of elmo: run one command of both in turns.

    python benchmarks/speed/paired.py OLD NEW --text FILE [--layout flat] [--pairs 7] [-- ARG…]
    python benchmarks/speed/paired.py OLD NEW --command pretrain --text FILE [--max-steps 20]
    python benchmarks/speed/paired.py OLD NEW --command help [--json FILE]

OLD and NEW are folders with a checkout, or git revisions, which are checked out into temporary
worktrees. Arguments after `--` go to the command of both. The options that the script itself passes
to it exist in every version.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import (
    ELMO,
    MEMORY,
    ROOT,
    SIZES,
    Cost,
    model_path,
    parse_arguments,
    run_timed,
)
from benchmarks.record import Record

_ROWS = 4096  # compared at once
_FIGURES = {"wall": "s", "cpu": "s", "peak": "MB"}  # of a Cost, with their units


@dataclass(frozen=True)
class Side:
    """One of the two checkouts, with the path that its command writes to."""

    checkout: Path
    output: Path

    def run(self, command: TimedCommand) -> Cost:
        """Run a command of the checkout in a process of its own."""
        if self.output.is_dir():
            shutil.rmtree(self.output)
        self.output.unlink(missing_ok=True)
        return run_timed(
            [*ELMO, *command.words(self.output)],
            cwd=self.checkout,
            env={**os.environ, "PYTHONPATH": str(self.checkout)},
            stdout=subprocess.DEVNULL,
        )


class TimedCommand(ABC):
    """A command of elmo that is timed."""

    @abstractmethod
    def words(self, output: Path) -> list[str]:
        """The arguments of `elmo`, to write to a path."""

    @abstractmethod
    def difference(self, old: Path, new: Path) -> str:
        """How two outputs differ; "" if they are equal bit for bit."""


@dataclass(frozen=True)
class Embed(TimedCommand):
    """`elmo embed`, whose outputs are embeddings files."""

    text: Path
    model: Path
    layout: str
    dtype: str
    more: Sequence[str]

    def words(self, output: Path) -> list[str]:
        settings = ["-m", str(self.model), "--layout", self.layout, "--dtype", self.dtype]
        return ["embed", str(self.text), "-o", str(output), "-q", *settings, *self.more]

    def difference(self, old: Path, new: Path) -> str:
        return file_difference(old, new)


@dataclass(frozen=True)
class Pretrain(TimedCommand):
    """`elmo pretrain` of a new model, whose outputs are model folders."""

    text: Path
    options: Path
    max_steps: int
    seed: int
    more: Sequence[str]

    def words(self, output: Path) -> list[str]:
        settings = ["--options-file", str(self.options), "--max-steps", str(self.max_steps)]
        settings += ["--seed", str(self.seed)]
        return ["pretrain", str(self.text), "-o", str(output), "-q", *settings, *self.more]

    def difference(self, old: Path, new: Path) -> str:
        return file_difference(old / "weights.hdf5", new / "weights.hdf5")


class Help(TimedCommand):
    """`elmo --help`, which shows how long a command takes to start; it has no output to compare."""

    def words(self, output: Path) -> list[str]:
        return ["--help"]

    def difference(self, old: Path, new: Path) -> str:
        return ""


def main() -> None:
    given = _arguments()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=given.output_dir)))
        old = Side(stack.enter_context(checkout(given.old)), folder / "old")
        new = Side(stack.enter_context(checkout(given.new)), folder / "new")
        record = Record(given.json, "benchmarks.speed.paired")
        is_equal = True
        for command in commands(given, folder):
            is_equal &= compare(command, old, new, given.pairs, record)
    sys.exit(0 if is_equal else 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", metavar="OLD", help="folder or git revision")
    parser.add_argument("new", metavar="NEW", help="folder or git revision")
    parser.add_argument(
        "--command",
        choices=("embed", "pretrain", "help"),
        default="embed",
        help="`elmo embed`, `elmo pretrain` or `elmo --help` [default: embed]",
    )
    parser.add_argument("--text", type=Path, default=ROOT / "docs" / "sample.txt", metavar="FILE")
    parser.add_argument("--pairs", type=int, default=7, metavar="N", help="[default: 7]")
    parser.add_argument("--model", metavar="DIR", help="[default: random weights of --size]")
    parser.add_argument("--size", choices=SIZES, default="small", help="[default: small]")
    parser.add_argument(
        "--layout", action="append", help="of embed; may be repeated [default: allennlp]"
    )
    parser.add_argument("--dtype", default="float32", help="of embed [default: float32]")
    parser.add_argument(
        "--max-steps", type=int, default=20, metavar="N", help="of pretrain [default: 20]"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of pretrain [default: 1]")
    parser.add_argument(
        "--output-dir",
        type=Path,
        default=MEMORY,
        metavar="DIR",
        help="where outputs are written [default: /dev/shm where it exists]",
    )
    given = parse_arguments(parser)
    if not given.text.is_file():
        parser.error(f"--text {given.text}: no such file")
    return given


def commands(given: argparse.Namespace, folder: Path) -> Iterator[TimedCommand]:
    """The commands to time: one, or one for each layout; models are written to a folder."""
    if given.command == "help":
        yield Help()
        return
    text = given.text.resolve()
    model = Path(given.model or model_path(given.size, folder)).resolve()
    if given.command == "pretrain":
        yield Pretrain(
            text=text,
            options=model / "options.json",
            max_steps=given.max_steps,
            seed=given.seed,
            more=given.more,
        )
        return
    for layout in given.layout or ["allennlp"]:
        yield Embed(text=text, model=model, layout=layout, dtype=given.dtype, more=given.more)


@contextmanager
def checkout(name: str) -> Iterator[Path]:
    """The folder of a checkout; a revision gets a worktree that is removed again."""
    if (Path(name) / "elmo_cli").is_dir():
        yield Path(name).resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkout"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(path), name], check=True)
        try:
            yield path
        finally:
            subprocess.run([*git, "remove", "--force", str(path)], check=True)


def compare(command: TimedCommand, old: Side, new: Side, n_pairs: int, record: Record) -> bool:
    """Run the pairs of a command, print and record them; whether both outputs are equal."""
    print(f"elmo {' '.join(command.words(Path('OUT')))}")
    old.run(command)  # not measured: it fills the caches, and its output is compared
    new.run(command)
    difference = command.difference(old.output, new.output)
    if difference:
        print(f"  outputs differ: {difference}", flush=True)
    elif old.output.exists():
        print("  outputs are equal", flush=True)
    old_costs = []
    new_costs = []
    for number in range(n_pairs):
        is_old_first = number % 2 == 0
        if is_old_first:
            old_cost = old.run(command)
            new_cost = new.run(command)
        else:
            new_cost = new.run(command)
            old_cost = old.run(command)
        old_costs.append(old_cost)
        new_costs.append(new_cost)
        first = "old" if is_old_first else "new"
        figures = pair_figures(old_cost, new_cost)
        print(f"  pair {number + 1} ({first} first): {figures}", flush=True)
    for name in _FIGURES:
        print(f"  {name}: {ratio_figures(old_costs, new_costs, name)}")
    record.add(
        command=f"elmo {' '.join(command.words(Path('OUT')))}",
        difference=difference,
        old=[cost.as_json() for cost in old_costs],
        new=[cost.as_json() for cost in new_costs],
    )
    return not difference


def pair_figures(old: Cost, new: Cost) -> str:
    """The costs of a pair of runs with their ratios."""
    figures = []
    for name, unit in _FIGURES.items():
        before = getattr(old, name)
        after = getattr(new, name)
        figures.append(f"{name} {before:.2f} → {after:.2f} {unit} ({after / before:.3f})")
    return "; ".join(figures)


def ratio_figures(old_costs: Sequence[Cost], new_costs: Sequence[Cost], name: str) -> str:
    """The median and the range of the ratios NEW/OLD of one figure."""
    ratios = []
    for old, new in zip(old_costs, new_costs, strict=True):
        ratios.append(getattr(new, name) / getattr(old, name))
    median = statistics.median(ratios)
    return (
        f"median NEW/OLD {median:.3f} ({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} pairs)"
    )


def file_difference(old: Path, new: Path) -> str:
    """How the arrays of two HDF5 files differ; "" if they are equal bit for bit."""
    with h5py.File(old, "r") as old_file, h5py.File(new, "r") as new_file:
        old_arrays = float_arrays(old_file)
        new_arrays = float_arrays(new_file)
        in_one_file = sorted(old_arrays.keys() ^ new_arrays.keys())
        if in_one_file:
            return f"{len(in_one_file)} data sets are in one file only, such as {in_one_file[0]}"
        largest = 0.0
        for name, array in old_arrays.items():
            largest = max(largest, array_difference(array, new_arrays[name]))
    return "" if largest == 0 else f"by up to {largest:.3g}"


def float_arrays(file: h5py.File) -> dict[str, h5py.Dataset]:
    """The data sets of vectors or weights: floats or int8, in two dimensions or more."""
    arrays: dict[str, h5py.Dataset] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.ndim >= 2 and item.dtype.kind in "fi":
            arrays[name] = item

    file.visititems(visit)
    return arrays


def array_difference(old: h5py.Dataset, new: h5py.Dataset) -> float:
    """The largest absolute difference of two data sets; infinite where their shapes differ."""
    if old.shape != new.shape or old.dtype != new.dtype:
        return float("inf")
    largest = 0.0
    for begin in range(0, len(old), _ROWS):
        old_rows = old[begin : begin + _ROWS]
        new_rows = new[begin : begin + _ROWS]
        if old_rows.tobytes() == new_rows.tobytes():
            continue
        differences = np.abs(old_rows.astype(np.float64) - new_rows.astype(np.float64))
        # Bits may differ where values do not: 0.0 and -0.0.
        tiny = float(np.finfo(np.float64).tiny)
        largest = max(largest, float(differences.max()), tiny)
    return largest


if __name__ == "__main__":
    main()
