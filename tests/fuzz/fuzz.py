"""Fuzzing for as long as one likes, led by coverage: `make fuzz SECONDS=300`.

An input that reaches a line of elmo_cli for the first time is kept, and damaged further. Each is
read in a child process: HDF5 crashes on some, which a fuzzer inside the process would not survive.
What fails is written to build/fuzz/, named after its target, and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import hashlib
import pickle
import sys
import time
import traceback
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from mutations import mutated
from targets import TARGETS, Target

import elmo_cli
from elmo_cli import isolate

PACKAGE = str(Path(elmo_cli.__file__).parent)
Lines = set[tuple[str, int]]


class Fuzzer:
    """Inputs for one target, and what they reached.

    Args:
        target: reads them.
        random: makes them.
    """

    def __init__(self, target: Target, random: Random) -> None:
        self.kept: list[tuple[bytes, bytes]] = [(seed, seed) for seed in target.seeds()]
        self.counts: Counter[str] = Counter()
        self._target, self._random = target, random
        self._lines: Lines = set()
        self._faults: set[str] = set()

    @property
    def n_lines(self) -> int:
        """Lines of the package reached so far."""
        return len(self._lines)

    def step(self, folder: Path, found: Path) -> None:
        """Make an input and see what becomes of it."""
        seed, content = self._next()
        reached = folder / "reached"
        reached.unlink(missing_ok=True)
        traced = replace(self._target, read=lambda *given: _traced(self._target, *given))
        try:
            outcome = traced.faces(folder, content)
        except Exception as error:
            outcome = "fault"
            self._report(error, content, found)
        self.counts[outcome] += 1
        lines: Lines = pickle.loads(reached.read_bytes()) if reached.exists() else set()
        if not lines <= self._lines:
            self._lines |= lines
            self.kept.append((seed, content))

    def _next(self) -> tuple[bytes, bytes]:
        """A sound file and what is left of it after some damage."""
        if not self.counts:
            return self.kept[0]
        if self._random.random() < 0.3:
            seed = self._random.choice(self._target.seeds())
            return seed, self._target.damaged(self._random)
        seed, content = self._random.choice(self.kept)
        in_place = self._target.signed is not None and len(content) == len(seed)
        content = mutated(content, self._random, keep_length=in_place)
        if in_place and self._target.signed is not None and self._random.random() < 0.7:
            content = self._target.signed(content, seed)
        return seed, content

    def _report(self, error: Exception, content: bytes, found: Path) -> None:
        text = "".join(traceback.format_exception(error))
        cause = [line for line in text.splitlines() if line.startswith("  File")]
        place = cause[-1] if cause and error.__cause__ is not None else text
        if place in self._faults:
            return
        self._faults.add(place)
        found.mkdir(parents=True, exist_ok=True)
        path = found / f"{self._target.name}-{hashlib.sha256(content).hexdigest()[:12]}"
        path.write_bytes(content)
        print(f"{path}\n{text}", flush=True)


def _traced(target: Target, folder: Path, content: bytes) -> object:
    """Read, and leave in the folder which lines of the package it took."""
    lines: Lines = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        return target.read(folder, content)
    finally:
        sys.settrace(None)
        (folder / "reached").write_bytes(pickle.dumps(lines))


def main() -> int:
    """Fuzz; 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="for all targets together")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers")
    parser.add_argument("--found", type=Path, default=Path("build/fuzz"))
    parser.add_argument("targets", nargs="*", default=list(TARGETS), help=", ".join(TARGETS))
    given = parser.parse_args()
    isolate.MIN_CPU_SECONDS = 5  # HDF5 is known to go round in circles
    n_faults = 0
    for name in given.targets:
        fuzzer = Fuzzer(TARGETS[name], Random(f"{name}/{given.seed}"))
        end = time.monotonic() + given.seconds / len(given.targets)
        with TemporaryDirectory() as folder:
            while time.monotonic() < end:
                fuzzer.step(Path(folder), given.found)
        outcomes = ", ".join(f"{n} {outcome}" for outcome, n in sorted(fuzzer.counts.items()))
        print(f"{name}: {outcomes}; {fuzzer.n_lines} lines reached", flush=True)
        n_faults += fuzzer.counts["fault"]
    return 1 if n_faults else 0


if __name__ == "__main__":
    sys.exit(main())
