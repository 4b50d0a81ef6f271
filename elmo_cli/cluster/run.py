"""run_on_cluster: a job on Ray, from text files to a folder of shards."""

from __future__ import annotations

import logging
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
import ray.data

from elmo_cli.cluster.actor import EmbedActor
from elmo_cli.cluster.done import Done, Row
from elmo_cli.cluster.folder import Folder, folder_of
from elmo_cli.cluster.home import go_home
from elmo_cli.cluster.sink import list_skipped
from elmo_cli.cluster.source import n_pieces_of, pieces, survey_of
from elmo_cli.embed.blocks import TextScan
from elmo_cli.embed.job import EmbedJob
from elmo_cli.errors import UsageError

_BLOCK_BYTES = 1  # each piece is a block of its own to Ray, and goes to the next free worker
# Ray counts each call of a worker that can't be reached, and makes three in the seconds in which a
# machine is lost: a piece may then need new workers, which a new round brings.
_RETRIES, _ROUNDS = 2, 3


@dataclass(frozen=True)
class Cluster:
    """Where and on how many workers.

    Attributes:
        address: of a cluster that runs, as Ray takes it; None for $RAY_ADDRESS, or one of this
            machine that ends with the job.
        workers: processes that hold a model each.
        threads: of each on the CPU; Ray gives it as many cores.
        gpus: of each; a part of one may be enough.
    """

    address: str | None = None
    workers: int = 1
    threads: int = 1
    gpus: float = 0.0


def run_on_cluster(
    job: EmbedJob,
    cluster: Cluster,
    *,
    begin: Callable[[int, int], None] = lambda n_tokens, n_shards: None,
    advance: Callable[[Row], None] = lambda row: None,
) -> Done:
    """Embed the inputs into a folder with one file for each piece of the text.

    Shards that are there already are left as they are. Ray starts workers that died anew, and gives
    their pieces to others; a piece at which one worker after the other dies (of lack of memory,
    say) is given up, and does not hold up the rest.

    Args:
        job: its output is the folder, a path or a URL, which all machines see under this name, as
            the inputs.
        begin: called with the tokens and shards of the whole text.
        advance: called with each piece that is done, in any order.
    Raises:
        ElmoError: of every kind, before work starts; what goes wrong with a piece is in its row.
    """
    home = os.getcwd()  # workers begin elsewhere
    folder = folder_of(job, home)
    folder.make()
    rows: list[Row] = []
    with _connected(cluster):
        found, notes = survey_of(job)
        if job.text.on_error == "stop":  # what can't be read is not left out, it is missing
            notes.skipped.clear()
        skipped = list_skipped(folder, notes)
        n_shards = n_pieces_of(found)
        begin(found.totals(range(len(found.blocks)))[1], n_shards)
        left = set(range(1, n_shards + 1))
        for _ in range(_ROUNDS):
            for row in _rows(job, found, cluster, home, left) if left else ():
                rows.append(row)
                left = left - {int(row["number"])}
                advance(row)
    rows += [_given_up(job, found, number) for number in left]
    rows.sort(key=lambda row: int(row["number"]))
    _check_seen(folder, rows)
    done = Done(rows, notes, skipped)
    done.others = folder.others(done.shards)
    if not done.missing:
        folder.clean_up()
    return done


def _rows(
    job: EmbedJob, found: TextScan, cluster: Cluster, home: str, left: set[int]
) -> Iterator[Row]:
    """What becomes of the pieces with the numbers in `left`; none of those that are given up."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = _BLOCK_BYTES
    context.execution_options.preserve_order = False
    context.max_errored_blocks = -1  # a piece that is given up has no row

    # Pieces that are given up are told by their rows; tracebacks of Ray stay in its log file.
    for handler in logging.getLogger("ray.data").handlers:
        if not isinstance(handler, logging.FileHandler):
            handler.setLevel(logging.CRITICAL)

    def read(_: Any) -> Iterator[dict[str, Any]]:
        for piece in pieces(job, found, go_home(job, home)):
            if piece.number in left:
                yield {"piece": pickle.dumps(piece)}

    work = ray.data.from_items([{"all": 0}]).flat_map(read, num_cpus=0)
    with warnings.catch_warnings():
        # Of `max_task_retries`, which Ray 2.64 is to take away; setup.cfg stops before it.
        warnings.simplefilter("ignore")
        done = work.map_batches(
            EmbedActor,
            fn_constructor_args=(job, found, home, None if cluster.gpus else cluster.threads),
            batch_size=1,
            # One at a time: of those that wait at a worker, its death would count against all.
            compute=ray.data.ActorPoolStrategy(
                size=cluster.workers, max_tasks_in_flight_per_actor=1
            ),
            max_task_retries=_RETRIES,
            num_cpus=cluster.threads,
            num_gpus=cluster.gpus,
        )
    yield from done.iter_rows()


def _given_up(job: EmbedJob, found: TextScan, number: int) -> Row:
    """The row of a piece that nobody could do."""
    blocks_of = found.shard((number, n_pieces_of(found)), state=job.embedder.state)
    n_sentences, n_tokens = found.totals(blocks_of)
    return {
        "number": number,
        "name": "",
        "sentences": n_sentences,
        "tokens": n_tokens,
        "computed": 0,
        "worker": "",
        "error": "given up, since every worker died at it",
        "hint": "if for lack of memory, let there be fewer workers, or a smaller --batch-size",
        "begun": 0.0,
        "seconds": 0.0,
    }


def _check_seen(folder: Folder, rows: list[Row]) -> None:
    """Take a shard for missing that its worker has put where nobody else sees it."""
    absent = folder.absent(str(row["name"]) for row in rows if not row["error"])
    for row in rows:
        if row["name"] in absent:
            row["error"] = f"{row['name']}: worker {row['worker']} has it, and here it is not seen"
            row["hint"] = "name a folder that all machines see"


@contextmanager
def _connected(cluster: Cluster) -> Iterator[None]:
    """Ray for as long as the job needs it; one that was there before stays.

    Raises:
        UsageError: there is no cluster at the address.
    """
    if ray.is_initialized():
        yield
        return
    address = cluster.address or os.environ.get("RAY_ADDRESS")
    here = {} if address else {"num_cpus": cluster.workers * cluster.threads}
    try:
        # Without an address Ray would look for a cluster of this machine first, and take it.
        ray.init(address=address or "local", log_to_driver=False, logging_level="error", **here)
    except (ConnectionError, RuntimeError, ValueError) as error:  # Ray raises all of them
        if not address:
            raise
        by = "--ray-address" if cluster.address else "$RAY_ADDRESS"
        raise UsageError(
            f"{by} {address}: no Ray cluster is reached there ({error})",
            "`ray status` on one of its machines shows whether it runs; without an address one of "
            "this machine is made",
        ) from None
    try:
        yield
    finally:
        ray.shutdown()
