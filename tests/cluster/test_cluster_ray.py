"""`elmo embed --ray` on a cluster of this machine: who works, and who dies, is no matter.

Behind `make test-ray`, which installs Ray. A seed chooses the moment of a kill, so that one that
did harm can be tried again.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from cluster_runs import (
    LAYOUTS,
    N_LINES,
    N_SHARDS,
    at_a_piece,
    begun,
    check_whole,
    ended,
    killed,
    shards,
    wait_for_the_end_of_its_cluster,
    wait_until,
    workers,
)

pytestmark = pytest.mark.ray

Whole = Callable[[str], Path]
BINARY = bytes(byte for byte in range(256) if byte not in b"\r\n") * 4000  # 1 MB without a line end
LONG = b"word " * 2_000_000  # 10 MB


def test_two_workers_give_the_file_of_one_process(
    text: Path, whole: Whole, tiny: Path, tmp_path: Path
) -> None:
    """And the same command again computes nothing."""
    out = tmp_path / "shards"
    facts, _ = ended(begun(text, out, tiny))
    assert facts["computed_tokens"] == facts["tokens"] > N_LINES
    assert len(facts["workers"]) == 2
    check_whole(out, whole("allennlp"), facts)
    again, _ = ended(begun(text, out, tiny, n_workers=1))
    assert again["computed_tokens"] == 0
    assert again["shards"] == facts["shards"]


def test_bad_lines_cost_their_shards_alone(
    text: Path, whole: Whole, tiny: Path, tmp_path: Path
) -> None:
    """All others are made; mended, the same command makes those that are missing."""
    out, good = tmp_path / "shards", text.read_bytes()
    bad = good.replace(b"Line 5000 ", b"Line " + BINARY).replace(b"Line 13000 ", LONG)
    text.write_bytes(bad)
    try:
        process = begun(text, out, tiny)
        facts, said = ended(process, code=1)
    finally:
        text.write_bytes(good)
    assert [missing["shard"] for missing in facts["missing"]] == [2, 4]
    binary, long = (missing["error"] for missing in facts["missing"])
    assert binary.startswith(f"{text}, line 5001: 0x80 is not UTF-8")
    assert long.startswith(f"{text}, line 13001: 2000")
    assert long.endswith("tokens, more than `max_tokens=100000`")
    assert said.splitlines() == [
        f"error: {out}/: 2 of 6 shards are missing, the first 2: {binary}",
        "hint: mend the line; then the same command makes those alone",
    ]
    assert [path.name for path in shards(out)] == facts["shards"]
    assert len(facts["shards"]) == N_SHARDS - 2
    again, _ = ended(begun(text, out, tiny))
    assert 0 < again["computed_tokens"] < again["tokens"] / 2
    check_whole(out, whole("allennlp"), again)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_worker_is_killed(
    text: Path, whole: Whole, tiny: Path, tmp_path: Path, seed: int
) -> None:
    """While it loads its model, computes, or writes; Ray starts another."""
    chance, layout = random.Random(seed), LAYOUTS[seed]
    out = tmp_path / "shards"
    process = begun(text, out, tiny, "--layout", layout)
    n_done = chance.randrange(N_SHARDS - 1)
    wait_until(lambda: workers(process) and len(shards(out)) >= n_done, process)
    # One that has just begun is at its model for some seconds.
    time.sleep(chance.uniform(0, 0.3 if n_done else 3))
    os.kill(chance.choice(workers(process)), signal.SIGKILL)
    facts, _ = ended(process)
    check_whole(out, whole(layout), facts)


@pytest.mark.slow
def test_a_piece_that_kills_its_workers_is_given_up(
    text: Path, whole: Whole, tiny: Path, tmp_path: Path
) -> None:
    """One of lack of memory, say: the command ends, and says which one it is."""
    out = tmp_path / "shards"
    process = begun(text, out, tiny, n_workers=1)
    wait_until(lambda: len(shards(out)) >= N_SHARDS - 1, process)
    while process.poll() is None:
        for worker in at_a_piece(process):
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        time.sleep(0.02)
    facts, said = ended(process, code=1)
    why = "given up, since every worker died at it"
    assert facts["missing"] == [{"shard": N_SHARDS, "error": why}]
    assert said.startswith(f"error: {out}/: 1 of 6 shards is missing, the first 6: {why}\nhint: ")
    again, _ = ended(begun(text, out, tiny))
    check_whole(out, whole("allennlp"), again)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_the_command_is_killed(
    text: Path, whole: Whole, tiny: Path, tmp_path: Path, seed: int
) -> None:
    """Given again at once, while what it has left behind still ends, it makes the rest."""
    chance, layout = random.Random(100 + seed), LAYOUTS[seed]
    out = tmp_path / "shards"
    first = begun(text, out, tiny, "--layout", layout)
    n_done = chance.randrange(N_SHARDS - 1)
    wait_until(lambda: len(shards(out)) >= n_done, first)
    time.sleep(chance.uniform(0, 0.3 if n_done else 12))
    killed(first)
    kept = {path.name for path in shards(out)}
    second = begun(text, out, tiny, "--layout", layout)
    facts, _ = ended(second)
    assert kept <= set(facts["shards"])
    assert facts["computed_tokens"] <= facts["tokens"] * (N_SHARDS - len(kept)) / N_SHARDS * 1.1
    check_whole(out, whole(layout), facts)
    wait_for_the_end_of_its_cluster(first)
    wait_for_the_end_of_its_cluster(second)
