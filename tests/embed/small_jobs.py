"""Variants of a job of seven blocks: with other settings, as shards, ended after some blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import run_job
from elmo_cli.store.shard_number import ShardNumber

N_BLOCKS = 7  # of the fixture `job`
OF_FILE = ("layout", "keys", "forget_sentences", "sentence_map")


def changed(job: EmbedJob, **changes: Any) -> EmbedJob:
    """The job with other settings: of the embedder, of the file (`layout`, …), or of itself."""
    of_embedder = {k: v for k, v in changes.items() if hasattr(job.embedder, k)}
    of_file = {k: v for k, v in changes.items() if k in OF_FILE}
    rest = {k: v for k, v in changes.items() if k not in of_embedder and k not in of_file}
    embedder = replace(job.embedder, **of_embedder)
    file = replace(job.file, **of_file)
    return replace(job, embedder=embedder, file=file, **rest)


def shards_of(job: EmbedJob, n: int) -> list[EmbedJob]:
    return [
        replace(job, output=f"{job.output}.{i}", shard=ShardNumber(i, n)) for i in range(1, n + 1)
    ]


class Ended(BaseException):
    """The process ends here, as far as the run can tell."""


def run_until(block: int, job: EmbedJob) -> EmbedJob:
    """Run a job that ends after it has computed `block` blocks; the job that resumes it."""
    embed_block = Embedder.embed_block
    n_started = 0

    def counted(self: Embedder, *args: Any, **settings: Any) -> Any:
        nonlocal n_started
        if n_started == block:
            raise Ended
        n_started += 1
        return embed_block(self, *args, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Embedder, "embed_block", counted)
        with pytest.raises(Ended):
            run_job(job)
    return replace(job, resume=True, overwrite=False)
