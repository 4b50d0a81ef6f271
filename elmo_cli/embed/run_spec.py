"""run_spec: the settings that the embeddings file of a job records."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from elmo_cli.embed.blocks import CARRY_BATCH_SIZE
from elmo_cli.embed.job import EmbedJob
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.store.layers import LayerSelection
from elmo_cli.store.spec import FileSpec

if TYPE_CHECKING:
    from elmo_cli.embed.embedder import Embedder


def run_spec(job: EmbedJob, embedder: Embedder, first_sentence: int = 0) -> FileSpec:
    """The file settings of a job whose input begins with the key `first_sentence`.

    They must match when a run is resumed or shards are merged.
    """
    bilm = embedder.bilm
    state_sha256 = None
    if embedder.start is not None:
        from elmo_cli.pretrained.warm_state import warm_state_id  # imports torch

        state_sha256 = warm_state_id(bilm, embedder.start)
    return _file_spec(
        job,
        first_sentence,
        model=bilm.name,
        model_sha256=bilm.sha256,
        model_family=bilm.family,
        layers=embedder.output.layers.name,
        precision=embedder.precision,
        batch_size=embedder.batch_size,
        state_sha256=state_sha256,
    )


def run_spec_of_files(job: EmbedJob, files: ModelFiles, first_sentence: int = 0) -> FileSpec | None:
    """The result of `run_spec` without loading the model; None if it is needed (state "warm")."""
    settings = job.embedder
    if settings.state == "warm":
        return None
    n_layers = 1 + files.read_options().n_layers
    selection = LayerSelection.parse(
        settings.layers, range(n_layers), n_layers, drop_axis=settings.drop_layer_axis
    )
    return _file_spec(
        job,
        first_sentence,
        model=files.name,
        model_sha256=files.sha256,
        model_family=files.family.key,
        layers=selection.name,
        precision=settings.precision,
        batch_size=settings.batch_size or CARRY_BATCH_SIZE,
        state_sha256=None,
    )


def _file_spec(
    job: EmbedJob,
    first_sentence: int,
    *,
    model: str | None,
    model_sha256: str | None,
    model_family: str,
    layers: str,
    precision: str,
    batch_size: int,
    state_sha256: str | None,
) -> FileSpec:
    """The file settings of a job and what it uses of its model."""
    settings = {
        "model": model,
        "model_sha256": model_sha256,
        # The usual family, HDF5, is not recorded; "" is a model that was never in a file.
        "model_family": model_family if model_family not in ("", "bilm-tf") else None,
        "state": job.embedder.state,
        "layers": "0" if job.layout.unit == "types" else layers,
        "pool": job.embedder.pool or "none",
        "format": job.text.format,
        "tokenizer": "english" if job.text.tokenize else "whitespace",
        "blank": job.text.blank,
        "precision": precision if precision != "float32" else None,
        "batch_size": batch_size if job.embedder.state == "carry" else None,
        "state_sha256": state_sha256,
        "column": job.text.column,
        "rows": job.text.rows if job.text.rows != "words" else None,
        "shard": None if job.shard is None else str(job.shard),
    }
    known = {name: value for name, value in settings.items() if value is not None}
    return replace(job.file, first_sentence=first_sentence, run_settings=known)
