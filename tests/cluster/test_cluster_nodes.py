"""`elmo embed --ray` on a cluster of several nodes, which come and go.

The nodes are Ray's own for tests: each has its raylet, its store and its workers, all of them on
this machine. Behind `make test-ray`, which installs Ray.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_runs import (
    LAYOUTS,
    N_SHARDS,
    begun,
    check_whole,
    ended,
    killed,
    processes,
    shards,
    wait_until,
)

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]  # of Ray, about its own

Whole = Callable[[str], Path]


class Nodes:
    """A head that only conducts, and nodes of one core each for a worker each."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False}
        self.cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self.nodes: list[Any] = []

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def bring_to(self, n_nodes: int) -> None:
        """Add nodes until there are so many."""
        while len(self.nodes) < n_nodes:
            self.nodes.append(self.cluster.add_node(num_cpus=1))

    def workers(self) -> list[int]:
        """For each node how many of its processes hold a model."""
        raylets = [node.all_processes["raylet"][0].process.pid for node in self.nodes]
        at_work = [process.parent for process in processes() if process.is_worker]
        return [at_work.count(raylet) for raylet in raylets]

    def lose(self, number: int) -> None:
        """End a node at once, as if its power had gone."""
        self.cluster.remove_node(self.nodes.pop(number), allow_graceful=False)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,
    ):
        patch.setenv("RAY_TMPDIR", folder)  # where Ray notes which cluster `auto` is
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = Nodes()
        try:
            yield made
        finally:
            made.cluster.shutdown()


@pytest.mark.slow
def test_two_nodes_give_the_file_of_one_process(
    nodes: Nodes, text: Path, whole: Whole, tiny: Path, tmp_path: Path
) -> None:
    """A worker on each of them."""
    nodes.bring_to(2)
    out = tmp_path / "shards"
    process = begun(text, out, tiny, "--ray-address", nodes.address)
    wait_until(lambda: nodes.workers() == [1, 1], process)
    facts, _ = ended(process)
    assert len(facts["workers"]) == 2
    check_whole(out, whole("allennlp"), facts)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_node_is_lost(
    nodes: Nodes, text: Path, whole: Whole, tiny: Path, tmp_path: Path, seed: int
) -> None:
    """Each other time another takes its place; the other times the one that is left does all."""
    chance, layout = random.Random(200 + seed), LAYOUTS[seed]
    nodes.bring_to(2)
    out = tmp_path / "shards"
    process = begun(text, out, tiny, "--layout", layout, "--ray-address", nodes.address)
    n_done = chance.randrange(N_SHARDS - 1)
    wait_until(lambda: nodes.workers() == [1, 1] and len(shards(out)) >= n_done, process)
    time.sleep(chance.uniform(0, 0.3 if n_done else 3))
    nodes.lose(chance.randrange(2))
    assert process.poll() is None, "it had ended before"
    if seed % 2:
        nodes.bring_to(2)
    facts, _ = ended(process)
    check_whole(out, whole(layout), facts)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_command_is_killed_and_the_cluster_stays(
    nodes: Nodes, text: Path, whole: Whole, tiny: Path, tmp_path: Path, seed: int
) -> None:
    """Its workers end with it, and the next command finds their places free."""
    chance = random.Random(300 + seed)
    nodes.bring_to(2)
    out = tmp_path / "shards"
    first = begun(text, out, tiny, "--ray-address", nodes.address)
    n_done = chance.randrange(N_SHARDS - 1)
    wait_until(lambda: nodes.workers() == [1, 1] and len(shards(out)) >= n_done, first)
    time.sleep(chance.uniform(0, 0.3))
    killed(first)
    facts, _ = ended(begun(text, out, tiny, "--ray-address", nodes.address))
    check_whole(out, whole("allennlp"), facts)


@pytest.mark.slow
def test_a_cluster_that_is_not_named_is_not_used(
    nodes: Nodes, text: Path, whole: Whole, tiny: Path, tmp_path: Path
) -> None:
    """Somebody else's on the same machine would be taken, and refuse a number of cores."""
    nodes.bring_to(2)
    out = tmp_path / "shards"
    process = begun(text, out, tiny)
    facts, _ = ended(process)
    assert nodes.workers() == [0, 0]
    check_whole(out, whole("allennlp"), facts)
