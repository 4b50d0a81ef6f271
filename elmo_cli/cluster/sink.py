"""From a piece of work to its shard, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from elmo_cli.cluster.folder import Folder
from elmo_cli.cluster.source import Piece
from elmo_cli.embed.blocks import TextScan
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import write_shard
from elmo_cli.files import tsv_line, write_text
from elmo_cli.hdf5 import open_hdf5
from elmo_cli.store.attributes import read_attributes, write_attributes
from elmo_cli.text.input import InputReport

SKIPPED = "skipped.tsv"  # what `--on-error skip` left out


def store(
    job: EmbedJob, embedder: Embedder, found: TextScan, piece: Piece, folder: Folder, name: str
) -> None:
    """Compute a piece and put its shard into the folder, under a name.

    Two workers that do the same piece, one of them thought dead, leave one sound file.

    Raises:
        ElmoError, OSError: of every kind; nothing is left of the shard then.
    """
    with folder.working() as working:
        shard = replace(job, output=str(working), shard=(piece.number, piece.n_pieces))
        write_shard(shard, embedder, found, piece.blocks)
        folder.put(working, name)


def list_skipped(folder: Folder, notes: InputReport) -> str:
    """List what was left out in the folder; a list of a run before is no longer true.

    Returns:
        The name of the list; empty if there is nothing in it.
    Raises:
        OutputError, OSError: it can't be written.
    """
    if not (notes.skipped or folder.has(SKIPPED)):
        return ""
    with folder.working() as working:
        lines = (tsv_line(*place) for place in notes.skipped)
        write_text(working, lines, errors="surrogateescape")
        folder.put(working, SKIPPED)
    return SKIPPED if notes.skipped else ""


def renew(folder: Folder, name: str, facts: Mapping[str, Any]) -> None:
    """Let a finished shard say `facts` of the whole text, which may have been mended elsewhere.

    A fact that is None is none that the shard is to say.

    Raises:
        ResumeError: the file is no finished shard.
        OutputError, OSError: it can't be written.
    """
    held = folder.facts(name)
    if all(held.get(fact) == value for fact, value in facts.items()):
        return
    with folder.working() as copy:
        folder.fetch(name, copy)
        with open_hdf5(copy, "r+") as file:
            everything = read_attributes(file)
            for attribute in list(file.attrs):
                del file.attrs[attribute]
            said = {**everything, **facts}
            write_attributes(file, {fact: it for fact, it in said.items() if it is not None})
        folder.put(copy, name)
