"""embed_file: what `elmo embed` does, from Python."""

from __future__ import annotations

import os
from dataclasses import replace

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import RunSummary, run_job
from elmo_cli.store.shards import parse_shard
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.input import InputSettings, Name


def embed_file(
    text: Name,
    output: Name,
    embedder: Embedder,
    *,
    file: FileSpec | None = None,
    input_settings: InputSettings | None = None,
    shard: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
) -> RunSummary:
    """Embed a text file into an embeddings file with an embedder, as `elmo embed` does.

    Args:
        file: layout and keys; its dtype is the embedder's.
        input_settings: how the text is read.
        shard: "1/4" for the first of four shards.
        overwrite: replace an existing output.
        resume: continue an unfinished output, or start it.
    Raises:
        ElmoError: of every kind; what was committed stays for `resume=True`.

    Example:
        embed_file("corpus.txt", "corpus.hdf5", Embedder(load()))
    """
    job = EmbedJob(
        (os.fspath(text),),
        os.fspath(output),
        text=input_settings or InputSettings(),
        embedder=replace(embedder.settings, batch_size=embedder.batch_size),
        file=file or FileSpec(),
        shard=parse_shard(shard) if shard else None,
        overwrite=overwrite,
        resume=resume,
    )
    return run_job(job, embedder=embedder)
