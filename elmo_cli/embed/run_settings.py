"""run_spec: the settings of a file, which must agree to resume its run or to merge shards."""

from __future__ import annotations

from dataclasses import replace

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


def run_spec(job: EmbedJob, embedder: Embedder, first_sentence: int = 0) -> FileSpec:
    """The settings of the file of a job: all that affect the arrays, those that are None left out.

    Args:
        first_sentence: the key with which its input begins.
    """
    bilm, start, text = embedder.bilm, embedder.start, job.text
    settings = {
        "model": bilm.name,
        "model_sha256": bilm.sha256,
        "state": job.embedder.state,
        "layers": "0" if job.layout.unit == "types" else embedder.output.layers.name,
        "pool": job.embedder.pool or "none",
        "format": text.format,
        "tokenizer": "english" if text.tokenize else "whitespace",
        "blank": text.blank,
        "precision": embedder.precision if embedder.precision != "float32" else None,
        "batch_size": embedder.batch_size if job.embedder.state == "carry" else None,
        "state_sha256": None if start is None else warm_state_id(bilm, start),
        "column": text.column,
        "shard": None if job.shard is None else "{}/{}".format(*job.shard),
    }
    known = {name: value for name, value in settings.items() if value is not None}
    return replace(job.file, first_sentence=first_sentence, run_settings=known)
