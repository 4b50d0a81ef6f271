"""The record of a measurement as JSON: what was run, when, where, and every single figure.

`--json FILE` of the speed programs writes it, and `benchmarks.speed.report` prints tables from it.
The fields are described in `benchmarks/speed/README.md`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from elmo_cli import read_sentences
from elmo_cli.installation import describe_installation
from elmo_cli.pretrained.load import ModelSource

# Without the model, and without folders, which matter on one machine only.
_RECORDED_FACTS = (
    "system",
    "processor",
    "torch",
    "packages",
    "optional",
    "hdf5",
    "variables",
)


class Record:
    """What one run of a program has measured; the file is written after each measurement.

    Args:
        path: of the file; None writes nothing.
        program: the module, such as `benchmarks.speed.embed`.
    """

    def __init__(self, path: Path | None, program: str) -> None:
        self._path = path
        if path is None:
            return
        self._facts: dict[str, Any] = {
            "command": f"python -m {program} {shlex.join(sys.argv[1:])}",
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "other_load": None,
            **_describe_software(),
            "measurements": [],
        }
        self._start_cpu_s = _cpu_seconds()
        self._start_s = time.monotonic()
        self._write()  # a file that cannot be written is an error before minutes of measuring

    def add(self, **figures: Any) -> None:
        """Add a measurement, whose figures are values of JSON, and write the file."""
        if self._path is None:
            return
        self._facts["measurements"].append(figures)
        self._facts["other_load"] = self._other_load()
        self._write()

    def _other_load(self) -> float | None:
        """The fraction of all CPUs that other processes have used since the start, or None."""
        if self._start_cpu_s is None:
            return None
        end_cpu_s = _cpu_seconds()
        assert end_cpu_s is not None
        n_cpu_seconds = (time.monotonic() - self._start_s) * (os.cpu_count() or 1)
        all_s = end_cpu_s.of_all - self._start_cpu_s.of_all
        own_s = end_cpu_s.own - self._start_cpu_s.own
        others_s = all_s - own_s
        return round(max(0.0, others_s / n_cpu_seconds), 3)

    def _write(self) -> None:
        assert self._path is not None
        self._path.write_text(json.dumps(self._facts, indent=1) + "\n", encoding="utf-8")


class _CpuSeconds(NamedTuple):
    """Seconds that CPUs have worked: for all processes, and for this one and its children."""

    of_all: float
    own: float


def _cpu_seconds() -> _CpuSeconds | None:
    """The CPU seconds so far, which Linux states in /proc/stat; None on other systems."""
    try:
        line = Path("/proc/stat").read_text("utf-8").splitlines()[0]
    except OSError:
        return None
    _, user, nice, system, _idle, _iowait, irq, softirq, *_ = line.split()
    n_ticks = sum(int(ticks) for ticks in (user, nice, system, irq, softirq))
    times = os.times()
    own_s = times.user + times.system + times.children_user + times.children_system
    return _CpuSeconds(of_all=n_ticks / os.sysconf("SC_CLK_TCK"), own=own_s)


def _describe_software() -> dict[str, Any]:
    """What `elmo info --json` reports, without the default model and folders."""
    facts = describe_installation(ModelSource())
    return {
        "elmo": {"version": facts["elmo"]["version"], "source": facts["elmo"]["source"]},
        "python": facts["python"]["version"],
        **{name: facts[name] for name in _RECORDED_FACTS},
    }


def describe_text(path: Path) -> dict[str, Any]:
    """The digest and the sizes of a tokenized text."""
    n_sentences = 0
    n_tokens = 0
    types: set[str] = set()
    for sentence in read_sentences(str(path)):
        n_sentences += 1
        n_tokens += len(sentence.tokens)
        types.update(sentence.tokens)
    return {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "sentences": n_sentences,
        "tokens": n_tokens,
        "types": len(types),
    }
