"""EmbedJob: all settings of a run with one output file, and which of them decide about the bits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.warm import warm_sha256
from elmo_cli.errors import UsageError
from elmo_cli.store.settings import FileForm
from elmo_cli.store.shards import parse_shard
from elmo_cli.text.input import InputSettings, Name, require_files

# What an embedder is made with: a job of an embedder that is there takes none of it.
_EMBEDDERS = (
    *("model", "options", "weights", "state", "layers", "dtype", "pool", "batch_size"),
    *("engine", "precision", "device"),
)


@dataclass(frozen=True)
class EmbedJob:
    """Settings of a run with one output file.

    Attributes:
        inputs: text files; "-" is standard input.
        output: the embeddings file to make.
        text: how the inputs are read.
        model, options, weights: as in `load`.
        state, layers, dtype, pool, batch_size, engine, precision, device: as in `Embedder`.
        layout, keys, forget_sentences: how the file is keyed, see `store/SCHEMA.md`.
        overwrite: replace an output that is there.
        resume: go on with an unfinished output, or start it.
        shard: (i, n) for the i-th of n parts, from 1; None for all.
    """

    inputs: tuple[str, ...]
    output: str
    text: InputSettings = field(default_factory=InputSettings)
    model: str | None = None
    options: str | None = None
    weights: str | None = None
    state: str = "zero"
    layers: str = "all"
    dtype: str = "float32"
    pool: str | None = None
    batch_size: int | None = None
    engine: str = "fast"
    precision: str = "float32"
    device: str = "auto"
    layout: str = "allennlp"
    keys: str = "number"
    forget_sentences: bool = False
    overwrite: bool = False
    resume: bool = False
    shard: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.overwrite and self.resume:
            raise UsageError(
                "--overwrite and --resume: one starts anew, the other goes on",
                "leave out `--overwrite` to keep what is done",
            )
        if self.shard is not None and self.state == "carry":
            raise UsageError(
                "--shard with --state carry: each vector depends on all the text before it",
                "`--state zero` or `--state document` can be cut into shards",
            )
        if self.shard is not None:
            parse_shard("{}/{}".format(*self.shard))
            require_files("--shard", self.inputs)
        chosen = (self.layers, self.pool, self.state)
        if self.layout == "bilm-types" and chosen != ("all", None, "zero"):
            raise UsageError(
                "--layout bilm-types holds the token vectors and nothing else",
                "leave out `--layers`, `--pool` and `--state`",
            )
        self.form()
        one_layer = self.layers.strip().startswith("mix:") or "," not in self.layers
        if self.layout == "manylangs" and (self.layers.strip() == "all" or not one_layer):
            raise UsageError(
                f"--layout manylangs holds one layer a file, not --layers {self.layers}",
                "`--layers average`, `--layers top` or one number",
            )

    def form(self) -> FileForm:
        """What the output is like.

        Raises:
            UsageError: there is no such form.
        """
        return FileForm(self.layout, self.keys, self.forget_sentences, self.dtype)


def job_for(embedder: Embedder, source: Name, out: Name, settings: Mapping[str, Any]) -> EmbedJob:
    """The job of an embedder that is there: all that it was made with is taken from it.

    Raises:
        TypeError: a setting that the embedder decides, which would be passed over; or no name of a
            file, or no settings of its text.
    """
    refused = [name for name in settings if name in ("inputs", "output", *_EMBEDDERS)]
    if refused:
        raise TypeError(
            f"write does not take {', '.join(refused)}: the text and the file come first, and the "
            f"embedder decides {', '.join(_EMBEDDERS)}; `Embedder(load(…), …)` makes another"
        )
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"write takes the name of one file, not {type(source).__name__}")
    if not isinstance(settings.get("text", InputSettings()), InputSettings):
        raise TypeError(f"text= takes InputSettings, not {type(settings['text']).__name__}")
    shard = settings.get("shard")
    return EmbedJob(
        inputs=(os.fspath(source),),
        output=os.fspath(out),
        state=embedder.state,
        layers=embedder.output.name,
        dtype=embedder.output.dtype,
        pool=embedder.output.pool,
        batch_size=embedder.batch_size,
        **{**settings, "shard": parse_shard(shard) if isinstance(shard, str) else shard},
    )


def suited(job: EmbedJob, embedder: Embedder) -> EmbedJob:
    """The job with the model's places for characters, so that tokens it cuts are told."""
    longest = embedder.bilm.options.max_characters
    return replace(job, text=replace(job.text, max_characters=longest))


def header(job: EmbedJob, embedder: Embedder) -> dict[str, Any]:
    """The settings that decide about every array: what must agree for `--resume`."""
    header: dict[str, Any] = {
        "model": embedder.bilm.name,
        "model_sha256": embedder.bilm.sha256,
        "state": job.state,
        "layers": "0" if job.layout == "bilm-types" else embedder.output.name,
        "pool": job.pool or "none",
        "format": job.text.format,
        "tokenizer": "english" if job.text.tokenize else "whitespace",
        "blank": job.text.blank,
    }
    if embedder.precision != "float32":
        header["precision"] = embedder.precision
    if job.state == "carry":
        header["batch_size"] = embedder.batch_size
    if embedder.start is not None:
        header["state_sha256"] = warm_sha256(embedder.bilm, embedder.start)
    if job.text.column is not None:
        header["column"] = job.text.column
    if job.shard is not None:
        header["shard"] = "{}/{}".format(*job.shard)
    return header
