"""embed_on_cluster: a job on Ray, from text files to a folder of shards, one for each piece."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from elmo_cli.cluster.pieces import Piece, Work, plan_pieces, read_pieces
from elmo_cli.cluster.shard_folder import open_shard_folder
from elmo_cli.embed.blocks import TextScan, read_blocks, scan_text
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import make_embedder, warn_of_warm_state, write_shard
from elmo_cli.embed.run_spec import run_spec
from elmo_cli.embed.text_fit import text_fit
from elmo_cli.engine.runtime import keep_freed_memory, set_num_threads
from elmo_cli.errors import ElmoError, ModelError, UsageError
from elmo_cli.fit import FitPoint
from elmo_cli.store.shard_number import ShardNumber
from elmo_cli.text.input import InputReport
from elmo_cli.text.sentence import Sentence

_ATTEMPTS = 3  # workers that may die at a piece before it is given up
_MAX_RESTARTS = 30  # of one worker


@dataclass(frozen=True)
class ClusterSettings:
    """Which cluster, and how many workers.

    Attributes:
        address: of a running cluster; None for $RAY_ADDRESS, or a cluster on this machine that
            ends with the job.
        workers: processes, each with its own model.
        threads: CPU threads of each worker; Ray reserves as many cores.
        gpus: of each worker; may be a fraction.
    """

    address: str | None = None
    workers: int = 1
    threads: int = 1
    gpus: float = 0.0


@dataclass(frozen=True)
class LoadedModel:
    """What a worker reports of the model that it has loaded.

    Attributes:
        attributes: those that all shards of the run have in common.
        fit: how the beginning of the text fits the vocabulary of the model; empty without one.
        warnings: first about the warm state, then that too little of the text fits, or why this
            could not be determined.
    """

    attributes: dict[str, Any]
    fit: tuple[FitPoint, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class ClusterResult:
    """All pieces of a text, each with the outcome of its shard.

    Attributes:
        report: what the readers of the text reported.
        fit: how the beginning of the text fits the vocabulary of the model; empty without one.
        warnings: those of the model, then those of the report.
    """

    pieces: tuple[Piece, ...]
    report: InputReport
    fit: tuple[FitPoint, ...] = ()
    warnings: tuple[str, ...] = ()


def embed_on_cluster(
    job: EmbedJob,
    cluster: ClusterSettings,
    progress: Callable[[int, int], None] = lambda done, total: None,
    on_model: Callable[[LoadedModel], None] = lambda model: None,
) -> ClusterResult:
    """Embed the inputs into a folder of shards, and skip shards that exist already.

    The output of the job is the folder, at the same path or URL on all machines. A shard that
    cannot be computed does not stop the others; its piece has the error.

    Args:
        job: with the limits of its model, as `EmbedJob.for_model` returns it.
        progress: called with the tokens that are done, and those of the whole text.
        on_model: called when the first worker has loaded the model, before a piece is computed.
    Raises:
        ElmoError: the text, the model, the folder or the cluster cannot be used.
    """
    folder = open_shard_folder(job.output)
    folder.check_writable()
    with _connected(cluster):
        scan = scan_text(job)
        folder.write_skipped(scan.report.skipped)
        pool = _WorkerPool(job, scan, cluster)
        model = pool.first_model()
        on_model(model)
        planned = plan_pieces(scan, job.embedder.state, model.attributes)
        pieces = {piece.number: piece for piece in planned}
        existing = folder.names()
        todo = [piece for piece in planned if piece.name not in existing]
        n_tokens = sum(piece.n_tokens for piece in planned)
        n_done = n_tokens - sum(piece.n_tokens for piece in todo)
        progress(n_done, n_tokens)
        for piece in pool.embed(read_pieces(job, todo), len(todo)):
            pieces[piece.number] = piece
            n_done += piece.n_tokens
            progress(n_done, n_tokens)
    existing = folder.names()
    results = tuple(_checked(piece, existing) for piece in pieces.values())
    if not any(piece.error for piece in results):
        folder.remove_partial({piece.name for piece in results})
    return ClusterResult(
        pieces=results,
        report=scan.report,
        fit=model.fit,
        warnings=(*model.warnings, *scan.report.warnings),
    )


class EmbedWorker:
    """Holds the model of one worker; Ray starts it, and starts it again when it dies.

    It works in the folder of the process that started the run, since paths of the job may be
    relative to it; `threads=None` means torch's default.
    """

    def __init__(self, job: EmbedJob, scan: TextScan, threads: int | None, folder: str) -> None:
        self._job = job
        self._scan = scan
        self._threads = threads
        with suppress(OSError):  # another machine may not have it, nor need it
            os.chdir(folder)

    def load(self, beginning: tuple[Sentence, ...]) -> LoadedModel:
        """Load the model, and compare the beginning of the text with its vocabulary."""
        attributes = run_spec(self._job, self._embedder).to_attributes()
        warnings: list[str] = []
        warn_of_warm_state(self._embedder, warnings.append)
        fit = text_fit(self._job, beginning, self._embedder, warnings.append)
        return LoadedModel(attributes=attributes, fit=fit, warnings=tuple(warnings))

    def embed(self, work: Work) -> Piece:
        """Write the shard of a piece under its name; a failure leaves nothing.

        If two workers have the same piece, one of them thought dead, the shard is valid.
        """
        piece = work.piece
        shard = ShardNumber(piece.number, piece.n_pieces)
        with open_shard_folder(self._job.output).writing(piece.name) as path:
            job = replace(self._job, output=str(path), shard=shard)
            summary = write_shard(job, self._embedder, self._scan, work.blocks)
        return replace(
            piece,
            lacks_equal_lines=summary.lacks_equal_lines,
            worker=f"{socket.gethostname()}:{os.getpid()}",
        )

    @cached_property
    def _embedder(self) -> Embedder:
        set_num_threads(self._threads)
        keep_freed_memory()
        return make_embedder(self._job)


@dataclass(frozen=True)
class _Call:
    """A call of a worker that has not returned yet.

    Attributes:
        worker: the actor of Ray.
        work: what the worker embeds; None if it loads its model.
    """

    worker: Any
    work: Work | None


class _WorkerPool:
    """Workers, each of which gets the next piece when it is idle.

    Ray restarts a worker that died. Its piece goes to the next idle worker: a retry by Ray would
    wait for the same worker, and forever if its machine is lost.
    """

    def __init__(self, job: EmbedJob, scan: TextScan, cluster: ClusterSettings) -> None:
        actor = ray.remote(
            num_cpus=cluster.threads,
            num_gpus=cluster.gpus,
            max_restarts=_MAX_RESTARTS,
            max_task_retries=-1,
        )(EmbedWorker)
        threads = None if cluster.gpus else cluster.threads
        first_block = next(read_blocks(job, InputReport()), None)
        self._beginning = () if first_block is None else first_block.sentences
        self._calls: dict[Any, _Call] = {}  # by Ray's reference to the result
        for _ in range(cluster.workers):
            self._load(actor.remote(job, scan, threads, os.getcwd()))
        self._idle: list[Any] = []
        self._again: list[Work] = []
        self._deaths = Counter[int]()
        self._model: LoadedModel | None = None  # of the first worker that has loaded it

    def first_model(self) -> LoadedModel:
        """Wait until a worker has loaded the model, and return what the first one reports of it."""
        while self._model is None:
            self._wait()
        return self._model

    def embed(self, pieces: Iterator[Work], n_pieces: int) -> Iterator[Piece]:
        """Compute pieces, and yield them with their outcome, in the order of completion."""
        n_left = n_pieces
        while n_left:
            self._give_work(pieces)
            piece = self._wait()
            if piece is not None:
                n_left -= 1
                yield piece

    def _give_work(self, pieces: Iterator[Work]) -> None:
        """Give each idle worker a piece, first one whose worker died."""
        while self._idle:
            work = self._again.pop() if self._again else next(pieces, None)
            if work is None:
                return
            worker = self._idle.pop()
            result = worker.embed.options(max_task_retries=0).remote(work)
            self._calls[result] = _Call(worker, work)

    def _load(self, worker: Any) -> None:
        self._calls[worker.load.remote(self._beginning)] = _Call(worker, work=None)

    def _wait(self) -> Piece | None:
        """Wait for one call; a piece with its outcome, or None if another call has to follow."""
        [result], _ = ray.wait(list(self._calls), num_returns=1)
        call = self._calls.pop(result)
        try:
            answer = ray.get(result)
        except RayTaskError as error:
            if call.work is None:
                raise error.cause from None
            answer = _failed(call.work.piece, error.cause)
        except RayError as error:
            return self._after_death(call, error)
        self._idle.append(call.worker)
        if call.work is None:
            self._check_model(answer)
            return None
        embedded: Piece = answer
        return embedded

    def _after_death(self, call: _Call, error: RayError) -> Piece | None:
        """Have a worker that died start again, and its piece computed by the next idle worker.

        Returns:
            The piece, if it is given up.
        Raises:
            ModelError: the worker died while it loaded its model, and it was the last one.
        """
        if call.work is None:  # Ray does not restart it any more
            if self._calls or self._idle:
                return None
            hint = "for lack of memory, use fewer workers; elmo must be installed on every machine"
            raise ModelError(f"no worker could start: {str(error).splitlines()[-1]}", hint)
        self._load(call.worker)
        piece = call.work.piece
        self._deaths[piece.number] += 1
        if self._deaths[piece.number] < _ATTEMPTS:
            self._again.append(call.work)
            return None
        hint = "for lack of memory, use fewer workers or a smaller `batch_size`"
        return replace(piece, error=f"given up after {_ATTEMPTS} workers died", hint=hint)

    def _check_model(self, model: LoadedModel) -> None:
        """Refuse machines with different models."""
        if self._model is None:
            self._model = model
        for name, ours in self._model.attributes.items():
            theirs = model.attributes.get(name)
            if theirs != ours:
                problem = f"{name} is {ours!r} on one machine, {theirs!r} on another"
                raise ModelError(problem, "all machines of the cluster need the same model")


def _failed(piece: Piece, error: Exception) -> Piece:
    if isinstance(error, ElmoError):
        return replace(piece, error=error.message, hint=error.hint)
    problem = f"{type(error).__name__}: {error}"
    return replace(piece, error=problem, hint="internal error; please report it")


def _checked(piece: Piece, existing: set[str]) -> Piece:
    """The piece, with an error if its worker wrote the shard where this machine cannot see it."""
    if piece.error or piece.name in existing:
        return piece
    problem = f"{piece.name}: written by worker {piece.worker}, but missing here"
    return replace(piece, error=problem, hint="name a folder that all machines share")


@contextmanager
def _connected(cluster: ClusterSettings) -> Iterator[None]:
    """Connect to Ray; a UsageError if no cluster answers, or this machine has too few GPUs."""
    address = cluster.address or os.environ.get("RAY_ADDRESS")
    local = {} if address else {"num_cpus": cluster.workers * cluster.threads}
    try:
        # With address None Ray would first look for a cluster of another user on this machine.
        ray.init(address=address or "local", log_to_driver=False, logging_level="error", **local)
    except (ConnectionError, RuntimeError, ValueError) as error:
        if not address:
            raise
        variable = f"`ray_address={address}`" if cluster.address else f"$RAY_ADDRESS {address}"
        hint = "`ray status` on one of its machines; without an address a local cluster is started"
        raise UsageError(f"no Ray cluster answers ({error})", hint, where=variable) from None
    try:
        n_gpus = ray.cluster_resources().get("GPU", 0)
        if not address and n_gpus < cluster.gpus:  # for which Ray would wait
            problem = f"this machine has {n_gpus:g} GPUs"
            hint = "0 computes on the CPU; `ray_address` names another cluster"
            raise UsageError(problem, hint, where=f"`gpus_per_worker={cluster.gpus:g}`")
        yield
    finally:
        ray.shutdown()
