"""Embedders of jobs, made once: reading and packing a model takes longer than a small text."""

from __future__ import annotations

from functools import cache

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import make_embedder
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.pretrained.load import ModelSource
from elmo_cli.store.spec import FileSpec


def cached_embedder(job: EmbedJob) -> Embedder:
    """What `make_embedder` returns, once for each model and its settings."""
    return _embedder(job.model, job.embedder, job.file.layout)


@cache
def _embedder(model: ModelSource, settings: EmbedderSettings, layout: str) -> Embedder:
    job = EmbedJob(inputs=("-",), output="", model=model, embedder=settings, file=FileSpec(layout))
    return make_embedder(job)
