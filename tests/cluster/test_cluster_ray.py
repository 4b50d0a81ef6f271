"""`elmo embed --engine ray` on a cluster of this machine: who works, and who dies, is no matter.

Behind `make test-ray`, which installs Ray.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from command_line import made

from elmo_cli.store.reader import open_embeddings

pytestmark = pytest.mark.ray

N_LINES = 12_000  # three shards
LINES = [f"Line {i} of the text has {'some ' * (i % 5)}tokens ." for i in range(N_LINES)]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ray") / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture(scope="module")
def whole(text: Path, tiny: Path) -> Path:
    """The file of one process."""
    out = text.with_name("whole.hdf5")
    made("embed", text, "-o", out, "-m", tiny, "-q", "--threads", "1")
    return out


def begun(text: Path, out: Path, tiny: Path, n_workers: int) -> subprocess.Popen[str]:
    words = ["embed", text, "-o", f"{out}/", "-m", tiny, "--engine", "ray", "--json"]
    command = [sys.executable, "-m", "elmo_cli", *map(str, words), "--workers", str(n_workers)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, start_new_session=True, **pipes)


def ended(process: subprocess.Popen[str], code: int = 0) -> dict[str, Any]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    facts: dict[str, Any] = json.loads(out)
    return facts


def shards(out: Path) -> list[Path]:
    return sorted(out.glob("part-*.hdf5"))


def wait_for_a_shard(out: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 120
    while not shards(out) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    assert shards(out)


def check_merged(out: Path, whole: Path) -> None:
    """Every array and attribute is that of one process, bit for bit."""
    merged = out / "merged.hdf5"
    made("merge", *shards(out), "-o", merged, "-q", "-f")
    with open_embeddings(merged) as one, open_embeddings(whole) as other:
        assert one.attributes == other.attributes
        assert len(one) == len(other) == N_LINES
        for key in other:
            assert one[key].tobytes() == other[key].tobytes()


def workers() -> Iterator[int]:
    """The processes of Ray that hold a model."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if (entry / "cmdline").read_bytes().startswith(b"ray::MapWorker"):
                yield int(entry.name)


def test_two_workers_give_the_file_of_one_process(
    text: Path, whole: Path, tiny: Path, tmp_path: Path
) -> None:
    """And the same command again computes nothing."""
    out = tmp_path / "shards"
    facts = ended(begun(text, out, tiny, 2))
    assert facts["computed_tokens"] == facts["tokens"] > N_LINES
    assert [path.name for path in shards(out)] == facts["shards"]
    assert len(facts["workers"]) == 2
    check_merged(out, whole)
    again = ended(begun(text, out, tiny, 1))
    assert again["computed_tokens"] == 0
    assert again["shards"] == facts["shards"]


def test_a_bad_line_costs_its_shard_alone(
    text: Path, whole: Path, tiny: Path, tmp_path: Path
) -> None:
    """Mended, the same command makes the one that is missing."""
    out, good = tmp_path / "shards", text.read_bytes()
    text.write_bytes(
        good.replace(b"Line 5000 ", b"Line \xff\x00 ").replace(b"Line 5001 ", b"x" * 10_000_000)
    )
    try:
        process = begun(text, out, tiny, 2)
        printed, err = process.communicate(timeout=300)
    finally:
        text.write_bytes(good)
    assert process.returncode == 1
    facts = json.loads(printed)
    assert len(facts["shards"]) == 2
    [missing] = facts["missing"]
    assert missing["shard"] == 2
    assert f"{text}, line 5001: " in missing["error"]
    assert "then the same command makes those alone" in err.splitlines()[-1]
    again = ended(begun(text, out, tiny, 2))
    assert 0 < again["computed_tokens"] < again["tokens"] / 2
    check_merged(out, whole)


@pytest.mark.parametrize("who", ["worker", "driver"])
def test_killed_in_the_middle(
    text: Path, whole: Path, tiny: Path, tmp_path: Path, who: str
) -> None:
    """Ray replaces a worker; a driver is started again by whoever started it."""
    out = tmp_path / "shards"
    process = begun(text, out, tiny, 2)
    wait_for_a_shard(out, process)
    if who == "worker":
        os.kill(next(workers()), signal.SIGKILL)
    else:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        process = begun(text, out, tiny, 2)
    facts = ended(process)
    assert len(facts["shards"]) == 3
    check_merged(out, whole)
