"""From a piece of work to its shard, whole or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py

from elmo_cli.cluster.source import Piece
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import write_shard
from elmo_cli.embed.survey import Survey
from elmo_cli.store.attributes import read_attributes, write_attributes
from elmo_cli.store.finished import finished_facts

UNFINISHED = ".unfinished"  # a folder in the output; a shard is moved out of it when it is whole


def store(job: EmbedJob, embedder: Embedder, found: Survey, piece: Piece, name: str) -> None:
    """Compute a piece and put its shard into the folder of the output.

    Two workers that do the same piece, one of them thought dead, leave one sound file.

    Raises:
        ElmoError: of every kind; nothing is left of the shard then.
    """
    folder = Path(job.output)
    (folder / UNFINISHED).mkdir(parents=True, exist_ok=True)
    working = folder / UNFINISHED / f"{uuid.uuid4().hex}.hdf5"
    shard = replace(job, output=str(working), shard=(piece.number, piece.n_pieces))
    try:
        write_shard(shard, embedder, found, piece.blocks_of, piece.blocks)
        os.replace(working, folder / name)
    finally:
        working.unlink(missing_ok=True)


def renew(path: Path, facts: Mapping[str, Any]) -> None:
    """Let a finished shard say `facts` of the whole text, which may have been mended elsewhere.

    Raises:
        ResumeError: the file is no finished shard.
        OSError: it can't be written.
    """
    held = finished_facts(str(path))
    if all(held.get(name) == value for name, value in facts.items()):
        return
    copy = path.parent / UNFINISHED / f"{uuid.uuid4().hex}.hdf5"
    copy.parent.mkdir(exist_ok=True)
    try:
        shutil.copyfile(path, copy)
        with h5py.File(copy, "r+") as file:
            everything = read_attributes(file)
            for name in list(file.attrs):
                del file.attrs[name]
            write_attributes(file, {**everything, **facts})
        os.replace(copy, path)
    finally:
        copy.unlink(missing_ok=True)
