"""Memory does not grow with the corpus.

Without this a list that holds every sentence, or a cache without a bound, would show only on the
day that somebody embeds a large corpus.
"""

from __future__ import annotations

import os
import platform
import random
import subprocess
import sys

import pytest


def peak_mib(*args: str) -> float:
    """Peak resident memory of `elmo embed …`, in MiB."""
    child = subprocess.Popen([sys.executable, "-m", "elmo_cli", "embed", "--quiet", *args])
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return usage.ru_maxrss / 1024


def corpus(path, n_lines: int) -> int:
    """Lines of 3 tokens, of ever new types; the size of the text in bytes."""
    made = random.Random(n_lines)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(n_lines):
            file.write(f"the river {made.random():.6}\n")
    return path.stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", [("--layout", "flat"), ("--forget-sentences",), ()], ids=["flat", "no-map", "map"]
)
def test_a_million_lines_need_no_more_than_ten_thousand(tiny, tmp_path, how):
    few = tmp_path / "few.txt"
    many = tmp_path / "many.txt"
    corpus(few, 10_000)
    size = corpus(many, 1_000_000)
    args = ("-m", str(tiny), *how, "-o")
    base = peak_mib(str(few), *args, str(tmp_path / "few.hdf5"))
    peak = peak_mib(str(many), *args, str(tmp_path / "many.hdf5"))
    # The sentence map is one JSON string by its format; it may cost three times the text.
    room = 0 if how else 3 * size / 2**20
    print(f"{how}: 10 thousand lines {base:.0f} MiB, 1 million {peak:.0f} MiB, text {size:,} bytes")
    assert peak <= 1.1 * base + room


# Prints how much memory stays after a large block is freed, in MiB: at the end of a run, and later.
FREED_BLOCKS = """
import resource
from contextlib import suppress
from elmo_cli.cli.main import main
from elmo_cli.store.writer import EmbeddingsWriter

def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20

def kept_mib():
    before = resident_mib()
    block = bytearray(b"x") * (16 << 20)
    del block
    return resident_mib() - before

def finish(writer, attributes, original=EmbeddingsWriter.finish):
    print(kept_mib())
    original(writer, attributes)

EmbeddingsWriter.finish = finish
with suppress(SystemExit):
    main()
print(kept_mib())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="settings of glibc")
def test_the_end_of_a_run_returns_large_blocks(tiny, tmp_path):
    """Until then, glibc keeps them; it would keep several copies of a large sentence map."""
    text = tmp_path / "text.txt"
    corpus(text, 2)
    command = [sys.executable, "-c", FREED_BLOCKS, "embed", "--quiet", str(text)]
    command += ["-m", str(tiny), "-o", str(tmp_path / "text.hdf5")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    at_the_end, afterwards = map(float, done.stdout.split())
    assert at_the_end < 4
    assert afterwards > 8
