"""Processor: the name of the processor, its CPUs and the instructions that speed depends on."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")  # of Linux
# The names in /proc/cpuinfo of instructions that PyTorch, oneDNN or float16 weights use. NEON is
# `asimd` on 64-bit ARM.
_FEATURES = (
    "avx2",
    "f16c",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_bf16",
    "amx_int8",
    "asimd",
    "sve",
)
_COMMON_NAMES = {"asimd": "neon"}
_NAME_FIELDS = ("model name", "Hardware", "cpu model", "cpu")


@dataclass(frozen=True, kw_only=True)
class Processor:
    """The processor of this machine.

    Attributes:
        name: its model, or the architecture if the system does not state a model.
        n_usable_cpus: number of CPUs that this process may run on.
        n_cpus: number of CPUs of the machine.
        features: names of instruction sets, of those that speed depends on.
    """

    name: str
    n_usable_cpus: int
    n_cpus: int
    features: tuple[str, ...]

    @classmethod
    def of_this_machine(cls) -> Processor:
        """Read what the system states."""
        facts = _facts_of_cpuinfo()
        n_cpus = os.cpu_count() or 1
        return cls(
            name=_name(facts),
            n_usable_cpus=_count_usable_cpus(n_cpus),
            n_cpus=n_cpus,
            features=_features(facts),
        )


def _facts_of_cpuinfo() -> dict[str, str]:
    """The fields of the first CPU; empty on other systems than Linux."""
    facts: dict[str, str] = {}
    with suppress(OSError):
        for line in _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, content = line.partition(":")
            facts.setdefault(name.strip(), content.strip())
    return facts


def _name(facts: dict[str, str]) -> str:
    for field in _NAME_FIELDS:
        if facts.get(field):
            return facts[field]
    return _name_on_macos() or platform.machine()


def _features(facts: dict[str, str]) -> tuple[str, ...]:
    flags = set(facts.get("flags", facts.get("Features", "")).split())
    if platform.machine() == "arm64":  # macOS, where every processor has it
        flags.add("asimd")
    return tuple(_COMMON_NAMES.get(name, name) for name in _FEATURES if name in flags)


def _count_usable_cpus(n_cpus: int) -> int:
    """The number of CPUs that this process may use; all of them if the system sets no limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return n_cpus


def _name_on_macos() -> str:
    if platform.system() != "Darwin":
        return ""
    return first_line_of(["sysctl", "-n", "machdep.cpu.brand_string"])


def first_line_of(command: Sequence[str]) -> str:
    """The first line that a program of the system prints; "" if it fails or does not exist."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
        return done.stdout.partition("\n")[0].strip()
    return ""
