"""run_spec: the settings that the embeddings file of a job records."""

from __future__ import annotations

from dataclasses import replace

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.pretrained.warm_state import warm_state_id
from elmo_cli.store.spec import FileSpec


def run_spec(job: EmbedJob, embedder: Embedder, first_sentence: int = 0) -> FileSpec:
    """The file settings of a job whose input begins with the key `first_sentence`.

    They must match when a run is resumed or shards are merged.
    """
    bilm = embedder.bilm
    start = embedder.start
    settings = {
        "model": bilm.name,
        "model_sha256": bilm.sha256,
        "state": job.embedder.state,
        "layers": "0" if job.layout.unit == "types" else embedder.output.layers.name,
        "pool": job.embedder.pool or "none",
        "format": job.text.format,
        "tokenizer": "english" if job.text.tokenize else "whitespace",
        "blank": job.text.blank,
        "precision": embedder.precision if embedder.precision != "float32" else None,
        "batch_size": embedder.batch_size if job.embedder.state == "carry" else None,
        "state_sha256": None if start is None else warm_state_id(bilm, start),
        "column": job.text.column,
        "shard": None if job.shard is None else "{}/{}".format(*job.shard),
    }
    known = {name: value for name, value in settings.items() if value is not None}
    return replace(job.file, first_sentence=first_sentence, run_settings=known)
