"""`elmo embed --ray` on Ray: it does not matter which processes and machines die.

Run by `make test-ray`, which installs Ray. A process is killed a short while after some shards are
complete. Machines are Ray's own nodes for tests, all of them on this machine.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from command_line import made

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]  # of Ray, about itself

N_LINES = 24_000
N_SHARDS = 6
TIMEOUT_S = 600.0  # for busy machines


class Command:
    """`elmo embed --ray --workers 2 --json` as the first process of a session."""

    def __init__(self, out: Path | str, text: Path, model: Path, options: Sequence[object]) -> None:
        words = ["embed", text, "-o", f"{out}/", "-m", model, "--ray", "--workers", 2, "--json"]
        command = [sys.executable, "-m", "elmo_cli", *map(str, [*words, *options])]
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, start_new_session=True, **pipes)

    def finish(self, code: int = 0) -> tuple[dict[str, Any], str]:
        """Its summary and its messages."""
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        assert self.process.returncode == code, err
        assert "Traceback" not in err, err
        return json.loads(out), err

    def kill(self) -> None:
        """`kill -9` of the command alone."""
        self.process.kill()
        self.process.communicate()

    def workers(self, method: str = "") -> list[int]:
        """Workers in its local cluster, or those that execute a method."""
        return [pid for pid, _, session in processes(method) if session == self.process.pid]

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition, while the command runs."""
        until = time.monotonic() + TIMEOUT_S
        while not condition():
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < until, "it did not happen"
            time.sleep(0.02)

    def wait_for_moment(self, out: Path, n_done: int, seconds: float) -> None:
        """Wait for some shards and then for a while, at most until the next shard."""
        self.wait_until(lambda: n_shards(out) >= n_done)
        n_now = n_shards(out)
        end_s = time.monotonic() + seconds
        self.wait_until(lambda: time.monotonic() > end_s or n_shards(out) > n_now)


def processes(method: str = "") -> Iterator[tuple[int, int, int]]:
    """(pid, parent, session) of the workers on this machine, with a method that they execute."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(entry.name)
            title = (entry / "cmdline").read_bytes()
            # The name in parentheses may contain anything, a parenthesis too.
            state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if title.startswith(f"ray::EmbedWorker{method}".encode()) and state != "Z":
                yield pid, int(parent), int(session)


def n_shards(out: Path) -> int:
    return len(list(out.glob("part-*")))


class Nodes:
    """A head without cores, and two nodes of one core each, for a worker each."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False}
        self.cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self.nodes: list[Any] = []

    def repair(self) -> None:
        while len(self.nodes) < 2:
            self.nodes.append(self.cluster.add_node(num_cpus=1))

    def workers(self) -> list[int]:
        """The number of workers on each node."""
        raylets = [node.all_processes["raylet"][0].process.pid for node in self.nodes]
        parents = [parent for _, parent, _ in processes()]
        return [parents.count(raylet) for raylet in raylets]

    def kill(self, number: int) -> None:
        self.cluster.remove_node(self.nodes.pop(number), allow_graceful=False)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,
    ):
        patch.setenv("RAY_TMPDIR", folder)  # where Ray notes which cluster `auto` is
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        nodes = Nodes()
        try:
            yield nodes
        finally:
            nodes.cluster.shutdown()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six shards of four blocks of 1,000 lines each."""
    path = tmp_path_factory.mktemp("cluster") / "text.txt"
    lines = (f"Line {i} of the text has {'some ' * (i % 5)}tokens .\n" for i in range(N_LINES))
    path.write_text("".join(lines))
    return path


@pytest.fixture
def start(text: Path, tiny: Path) -> Iterator[Callable[..., Command]]:
    """Starts commands; those that a failed test has left are killed with their clusters."""
    commands: list[Command] = []

    def start(out: Path | str, *options: object) -> Command:
        command = Command(out, text, tiny, ["--layout", "flat", *options])
        commands.append(command)
        return command

    yield start
    for command in commands:
        left = command.workers()
        if command.process.poll() is None:
            left.insert(0, command.process.pid)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def check(text: Path, tiny: Path) -> Callable[[Path, dict[str, Any]], None]:
    """Checks that a folder has all shards and nothing else, which merged are one process's file."""

    def check(out: Path, summary: dict[str, Any]) -> None:
        whole = text.with_name("whole.hdf5")
        merged = out.with_name("merged.hdf5")
        if not whole.exists():
            made("embed", text, "-o", whole, "-m", tiny, "--threads", "1", "--layout", "flat")
        assert sorted(path.name for path in out.iterdir()) == summary["shards"]
        assert (len(summary["shards"]), summary["sentences"]) == (N_SHARDS, N_LINES)
        made("merge", *out.iterdir(), "-o", merged)
        assert merged.read_bytes() == whole.read_bytes()

    return check


@pytest.mark.parametrize("url", ["{}", "file://{}"])
def test_two_workers_give_the_file_of_one_process(
    nodes: Nodes, start: Any, check: Any, tmp_path: Path, url: str
) -> None:
    """In a cluster of their own, not that of somebody else; the same command computes nothing."""
    nodes.repair()
    out = tmp_path / "shards"
    command = start(url.format(out))
    command.wait_until(command.workers)
    assert nodes.workers() == [0, 0]
    summary, _ = command.finish()
    assert summary["computed_tokens"] == summary["tokens"] > N_LINES
    assert len(summary["workers"]) == 2
    check(out, summary)
    again, _ = start(url.format(out)).finish()
    assert (again["computed_tokens"], again["shards"]) == (0, summary["shards"])


@pytest.mark.parametrize("n_done", [0, 1, 2])
@pytest.mark.parametrize("victim", ["worker", "command"])
def test_a_process_is_killed(
    start: Any, check: Any, tmp_path: Path, victim: str, n_done: int
) -> None:
    """While the model is loaded, computes or writes; a killed command is repeated at once."""
    chance = random.Random(n_done)
    out = tmp_path / "shards"
    command = start(out)
    command.wait_until(command.workers)
    command.wait_for_moment(out, n_done, chance.uniform(0, 0.3 if n_done else 3))
    n_kept = 0
    if victim == "worker":
        os.kill(chance.choice(command.workers()), signal.SIGKILL)
    else:
        command.kill()
        n_kept = n_shards(out)
        command = start(out)
    summary, _ = command.finish()
    assert summary["computed_tokens"] <= summary["tokens"] * (1 - n_kept / N_SHARDS) * 1.1
    check(out, summary)


def test_a_piece_that_kills_its_workers_is_given_up(start: Any, check: Any, tmp_path: Path) -> None:
    """For lack of memory, for example; the others are computed."""
    out = tmp_path / "shards"
    command = start(out, "--workers", 1)
    command.wait_until(lambda: n_shards(out) == N_SHARDS - 1)
    while command.process.poll() is None:
        for worker in command.workers(".embed"):
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        time.sleep(0.02)
    summary, err = command.finish(code=1)
    assert [missing["shard"] for missing in summary["missing"]] == [N_SHARDS]
    assert "1 of 6 shards missing, the first is 6: given up after 3 workers died" in err
    check(out, start(out).finish()[0])


@pytest.mark.parametrize("n_done", [0, 1])
@pytest.mark.parametrize("victim", ["node", "replaced node", "command"])
def test_a_node_is_lost(
    nodes: Nodes, start: Any, check: Any, tmp_path: Path, victim: str, n_done: int
) -> None:
    """Or the command: its workers end with it, so that the next one has their cores."""
    chance = random.Random(200 + n_done)
    out = tmp_path / "shards"
    nodes.repair()
    address = "--ray-address", nodes.cluster.address
    command = start(out, *address)
    command.wait_until(lambda: nodes.workers() == [1, 1])
    command.wait_for_moment(out, n_done, chance.uniform(0, 0.3 if n_done else 3))
    assert command.process.poll() is None, "it had ended before"
    if victim == "command":
        command.kill()
        command = start(out, *address)
    else:
        nodes.kill(chance.randrange(2))
    if victim == "replaced node":
        nodes.repair()
    check(out, command.finish()[0])
