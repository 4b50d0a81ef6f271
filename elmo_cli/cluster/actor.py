"""EmbedActor: what a worker of the cluster holds, and does with a piece."""

from __future__ import annotations

import os
import pickle
import socket
import time
from typing import Any

import numpy as np

from elmo_cli.cluster.done import Row
from elmo_cli.cluster.folder import folder_of
from elmo_cli.cluster.home import go_home
from elmo_cli.cluster.sink import renew, store
from elmo_cli.cluster.source import Piece
from elmo_cli.cluster.url import shown
from elmo_cli.embed.job import EmbedJob, run_settings
from elmo_cli.embed.run import embedder_of
from elmo_cli.embed.survey import Survey
from elmo_cli.engine.runtime import keep_freed_memory, set_num_threads
from elmo_cli.errors import ElmoError, ResumeError


class EmbedActor:
    """Holds the model of one worker.

    Args:
        job: its output is the folder of the shards.
        found: the survey of the whole text.
        home: the folder that names of files are relative to.
        threads: on the CPU; None for what torch takes.
    """

    def __init__(self, job: EmbedJob, found: Survey, home: str, threads: int | None) -> None:
        # Of an actor that can't begin Ray would tell in its own way.
        self._error: ElmoError | None = go_home(job, home)
        set_num_threads(threads)
        keep_freed_memory()
        self._job, self._found, self._home = job, found, home
        if self._error is None:
            try:
                self._embedder = embedder_of(job)
            except ElmoError as error:
                self._error = error
        self._who = f"{socket.gethostname()}:{os.getpid()}"
        self._facts = {
            "sources": [list(source) for source in found.sources],
            "text_sha256": found.text_sha256,
            "skipped_sentences": found.left_out or None,
        }

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Do the pieces of a batch, each by itself; columns in, columns out."""
        done = [self._do(pickle.loads(content)) for content in batch["piece"]]
        return {name: np.array([row[name] for row in done], object) for name in done[0]}

    def _do(self, piece: Piece) -> Row:
        begun, name = time.monotonic(), ""
        row: Row = {
            "number": piece.number,
            "name": name,
            "sentences": sum(len(block.sentences) for block in piece.blocks),
            "tokens": piece.n_tokens,
            "computed": 0,
            "worker": self._who,
            "error": "",
            "hint": "",
            "begun": time.time(),
        }
        try:
            if error := self._error or piece.error:
                raise error
            settings = self._job.spec(run_settings(self._job, self._embedder)).to_attributes()
            row["name"] = name = piece.name(settings)
            folder = folder_of(self._job, self._home)
            if folder.has(name):
                renew(folder, name, self._facts)
            else:
                store(self._job, self._embedder, self._found, piece, folder, name)
                row["computed"] = piece.n_tokens
        except ResumeError as error:
            row["error"], row["hint"] = error.message, "remove it"
        except ElmoError as error:
            row["error"], row["hint"] = error.message, error.hint
        except OSError as error:
            place = os.path.join(shown(self._job.output), name)
            row["error"], row["hint"] = f"{place}: {error.strerror or error}", "see to the disk"
        except Exception as error:  # one piece must not end the work on the others
            row["error"] = f"{type(error).__name__}: {error}"
            row["hint"] = "this is a fault of elmo: please report it"
        finally:
            row["seconds"] = time.monotonic() - begun
        return row
