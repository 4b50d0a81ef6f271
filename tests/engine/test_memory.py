"""Memory that is freed: kept for what comes next."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# Page faults of a second thread that makes an array as large as the one which a first has freed.
FAULTS = """
import resource, threading, torch
from elmo_cli.engine.memory import keep_freed_memory

KEEP and keep_freed_memory()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    made = [torch.ones(6 << 18) for _ in range(16)]  # 6 MB each, more than glibc gives a thread
    del made
    found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

found = []
for _ in range(3):
    thread = threading.Thread(target=faults)
    thread.start()
    thread.join()
print(*found)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="settings of glibc")
def test_what_a_thread_frees_the_next_one_has() -> None:
    """Without it a tenth of the time would go into pages that the system zeroes anew."""

    def faults(keep: bool) -> list[int]:
        command = [sys.executable, "-c", FAULTS.replace("KEEP", str(keep))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return [int(n) for n in done.stdout.split()]

    first, *later = faults(keep=True)
    assert first > 20_000  # pages of 4 kB; all are new
    assert max(later) < first / 2
    assert faults(keep=False)[1] > first / 2  # as it is without the settings
