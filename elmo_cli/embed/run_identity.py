"""RunIdentity: the settings that must agree to resume a run, or to merge shards."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import h5py
import numpy as np
import torch

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.pretrained.warm_state import warm_state_id
from elmo_cli.store.spec import FileSpec
from elmo_cli.version import __version__

VERSIONS = {
    "elmo_version": __version__,
    "torch_version": str(torch.__version__),
    "numpy_version": np.__version__,
    "h5py_version": h5py.__version__,
}


@dataclass(frozen=True)
class RunIdentity:
    """All settings that affect the arrays; they become attributes of the file, except None."""

    model: str
    model_sha256: str
    state: str
    layers: str
    pool: str
    format: str
    tokenizer: str
    blank: str
    precision: str | None = None
    batch_size: int | None = None
    state_sha256: str | None = None
    column: int | None = None
    shard: str | None = None

    @classmethod
    def of(cls, job: EmbedJob, embedder: Embedder) -> RunIdentity:
        """The identity of a job with its embedder."""
        bilm, start = embedder.bilm, embedder.start
        return cls(
            model=bilm.name,
            model_sha256=bilm.sha256,
            state=job.embedder.state,
            layers="0" if job.layout.unit == "types" else embedder.output.layers.name,
            pool=job.embedder.pool or "none",
            format=job.text.format,
            tokenizer="english" if job.text.tokenize else "whitespace",
            blank=job.text.blank,
            precision=embedder.precision if embedder.precision != "float32" else None,
            batch_size=embedder.batch_size if job.embedder.state == "carry" else None,
            state_sha256=None if start is None else warm_state_id(bilm, start),
            column=job.text.column,
            shard=None if job.shard is None else "{}/{}".format(*job.shard),
        )

    def as_attributes(self) -> dict[str, str | int]:
        """The settings as attributes of a file hold them."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def spec(cls, job: EmbedJob, embedder: Embedder, first_sentence: int = 0) -> FileSpec:
        """The settings of the file of a job, whose input begins with this key."""
        run_settings = cls.of(job, embedder).as_attributes()
        return replace(job.file, first_sentence=first_sentence, run_settings=run_settings)
