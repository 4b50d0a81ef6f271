"""Memory that is freed: kept for what comes next."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
from pathlib import Path

import pytest

# Page faults of three threads, one after the other, that make and free arrays of the same size:
# 96 MB, more than glibc keeps for a thread.
FAULTS = """
import resource, threading, torch
from elmo_cli.engine.memory import keep_freed_memory

KEEP and keep_freed_memory()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    made = [torch.ones(6 << 18) for _ in range(16)]
    del made
    found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

found = []
for _ in range(3):
    thread = threading.Thread(target=faults)
    thread.start()
    thread.join()
print(*found)
"""
HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="settings of glibc")
@pytest.mark.skipif(
    resource.getpagesize() != 4096 or (HUGE.exists() and "[always]" in HUGE.read_text()),
    reason="pages are large, so there are few of them to count",
)
def test_what_a_thread_frees_the_next_one_has() -> None:
    """Without it a tenth of the time would go into pages that the system zeroes anew."""
    names = ("MALLOC_", "GLIBC_TUNABLES")
    given = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    given |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # no threads before

    def later_faults(keep: bool) -> int:
        command = [sys.executable, "-c", FAULTS.replace("KEEP", str(keep))]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=given)
        return max(int(n) for n in done.stdout.split()[1:])

    assert later_faults(keep=True) < later_faults(keep=False) / 2
