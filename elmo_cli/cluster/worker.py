"""EmbedWorker: the Ray actor that holds a model and turns pieces of text into shards."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from functools import cached_property
from typing import Any

from elmo_cli.cluster.pieces import Piece, Work
from elmo_cli.cluster.shard_folder import open_shard_folder
from elmo_cli.embed.blocks import TextScan
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import make_embedder, write_shard
from elmo_cli.embed.run_identity import RunIdentity
from elmo_cli.engine.runtime import keep_freed_memory, set_num_threads


class EmbedWorker:
    """Holds the model of one worker; Ray starts it, and starts it again when it dies.

    The paths of its job are absolute, and `threads=None` means torch's default.
    """

    def __init__(self, job: EmbedJob, scan: TextScan, threads: int | None) -> None:
        self._job, self._scan, self._threads = job, scan, threads

    def load(self) -> dict[str, Any]:
        """Load the model, and return the attributes that all shards of the run have in common."""
        return RunIdentity.spec(self._job, self._embedder).to_attributes()

    def embed(self, work: Work) -> Piece:
        """Write the shard of a piece under its name; a failure leaves nothing.

        If two workers have the same piece, one of them thought dead, the shard is valid.
        """
        (piece, blocks), started = work, time.monotonic()
        with open_shard_folder(self._job.output).writing(piece.name) as path:
            job = replace(self._job, output=str(path), shard=(piece.number, piece.n_pieces))
            write_shard(job, self._embedder, self._scan, blocks)
        worker = f"{socket.gethostname()}:{os.getpid()}"
        return replace(piece, worker=worker, seconds=time.monotonic() - started)

    @cached_property
    def _embedder(self) -> Embedder:
        set_num_threads(self._threads)
        keep_freed_memory()
        return make_embedder(self._job)
