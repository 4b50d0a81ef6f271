"""Compare the speed of two checkouts of elmo: run `elmo embed` of both in turns on one text.

    python benchmarks/speed/paired.py OLD NEW --text FILE [--pairs 7] [--layout allennlp] [-- ARG…]

OLD and NEW are folders with a checkout, or git revisions, which are checked out into temporary
worktrees. Arguments after `--` go to `elmo embed` of both. The options that the script itself
passes (-o, -m, --layout, --dtype, -q) exist in every version.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
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

_ROWS = 4096  # compared at once
UNITS = {"wall": "s", "cpu": "s", "peak": "MB"}


def main() -> None:
    given = _arguments()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=given.output_dir)))
        checkouts = [stack.enter_context(checkout(name)) for name in (given.old, given.new)]
        model = given.model or model_path(given.size, folder)
        is_equal = [
            compare(given, checkouts, layout, Path(model).resolve(), folder)
            for layout in given.layout or ["allennlp"]
        ]
    sys.exit(0 if all(is_equal) else 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", metavar="OLD", help="folder or git revision")
    parser.add_argument("new", metavar="NEW", help="folder or git revision")
    parser.add_argument("--text", type=Path, default=ROOT / "docs" / "sample.txt", metavar="FILE")
    parser.add_argument("--pairs", type=int, default=7, metavar="N", help="[default: 7]")
    parser.add_argument("--model", metavar="DIR", help="[default: random weights of --size]")
    parser.add_argument("--size", choices=SIZES, default="small", help="[default: small]")
    parser.add_argument("--layout", action="append", help="may be repeated [default: allennlp]")
    parser.add_argument("--dtype", default="float32", help="[default: float32]")
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


@contextmanager
def checkout(name: str) -> Iterator[Path]:
    """The folder of a checkout; a revision gets a worktree that is removed again."""
    if (Path(name) / "elmo_cli").is_dir():
        yield Path(name).resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "checkout"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(place), name], check=True)
        try:
            yield place
        finally:
            subprocess.run([*git, "remove", "--force", str(place)], check=True)


def compare(
    given: argparse.Namespace, checkouts: Sequence[Path], layout: str, model: Path, folder: Path
) -> bool:
    """Run the pairs of one layout and print their ratios; whether both outputs are equal."""
    outputs = [folder / "old.hdf5", folder / "new.hdf5"]
    words = ["-m", str(model), "--layout", layout, "--dtype", given.dtype, *given.more]

    def run(k: int) -> Cost:
        outputs[k].unlink(missing_ok=True)
        return embed(checkouts[k], given.text.resolve(), outputs[k], words)

    for k in (0, 1):  # not measured: it fills the caches, and its outputs are compared
        run(k)
    print(f"layout {layout}: {given.text.name}, {' '.join(words)}")
    difference = vector_difference(*outputs)
    comparison = f"differ: {difference}" if difference else "are equal"
    print(f"  vectors of both outputs {comparison}", flush=True)
    pairs = []
    for number in range(given.pairs):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        costs = {k: run(k) for k in order}
        pairs.append((costs[0], costs[1]))
        figures = "; ".join(
            f"{name} {a:.2f} → {b:.2f} {UNITS[name]} ({b / a:.3f})"
            for name, a, b in zip(Cost._fields, *pairs[-1], strict=True)
        )
        print(f"  pair {number + 1} ({'new' if order[0] else 'old'} first): {figures}", flush=True)
    for output in outputs:
        output.unlink()
    for name in Cost._fields:
        ratios = [getattr(new, name) / getattr(old, name) for old, new in pairs]
        print(
            f"  {name}: median NEW/OLD {statistics.median(ratios):.3f} "
            f"({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} pairs)"
        )
    return not difference


def embed(checkout: Path, text: Path, output: Path, words: Sequence[str]) -> Cost:
    """Run `elmo embed` of a checkout in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [*ELMO, "embed", text, "-o", output, "-q", *words]
    return run_timed(command, cwd=checkout, env=environment)


def vector_difference(old: Path, new: Path) -> str:
    """How the vectors of two embeddings files differ; "" if they are equal bit for bit."""
    with h5py.File(old, "r") as a, h5py.File(new, "r") as b:
        first, second = vectors(a), vectors(b)
        if only := sorted(first.keys() ^ second.keys()):
            return f"{len(only)} data sets are in one file only, such as {only[0]}"
        worst = max((difference(first[name], second[name]) for name in first), default=0.0)
    return "" if worst == 0 else f"by up to {worst:.3g}"


def vectors(file: h5py.File) -> dict[str, h5py.Dataset]:
    """The data sets of vectors: floats or int8, in two dimensions or more."""
    found: dict[str, h5py.Dataset] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.ndim >= 2 and item.dtype.kind in "fi":
            found[name] = item

    file.visititems(visit)
    return found


def difference(a: h5py.Dataset, b: h5py.Dataset) -> float:
    """The largest absolute difference of two data sets; infinite where their shapes differ."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    worst = 0.0
    for begin in range(0, len(a), _ROWS):
        one, other = a[begin : begin + _ROWS], b[begin : begin + _ROWS]
        if one.tobytes() != other.tobytes():
            found = np.abs(one.astype(np.float64) - other.astype(np.float64)).max()
            worst = max(worst, float(found), float(np.finfo(np.float64).tiny))
    return worst


if __name__ == "__main__":
    main()
