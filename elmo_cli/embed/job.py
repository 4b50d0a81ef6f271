"""EmbedJob: all settings of a run with one output file, and which of them decide about the bits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from elmo_cli.embed.embedder import Embedder
from elmo_cli.errors import UsageError
from elmo_cli.pretrained.warm_state import warm_state_id
from elmo_cli.store.layouts import Layout, layout_of_spec
from elmo_cli.store.shards import parse_shard
from elmo_cli.store.spec import FileSpec
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
        resume: continue an unfinished output, or start it.
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
                "`overwrite=True` and `resume=True`: one starts over, the other continues",
                "leave out `overwrite` to keep what is done",
            )
        if self.shard is not None and self.state == "carry":
            raise UsageError(
                "`shard` and `state=carry`: each vector depends on all the text before it",
                "a run with `state=zero` or `state=document` can be divided into shards",
            )
        if self.shard is not None:
            parse_shard("{}/{}".format(*self.shard))
            require_files("--shard", self.inputs)
        layout = self.file_layout
        chosen = (self.layers, self.pool, self.state)
        if layout.unit == "types" and chosen != ("all", None, "zero"):
            raise UsageError(
                f"`layout={self.layout}` holds token vectors and nothing else",
                "leave out `layers`, `pool` and `state`",
            )
        one_layer = self.layers.strip().startswith("mix:") or "," not in self.layers
        if "one layer" in layout.needs and (self.layers.strip() == "all" or not one_layer):
            raise UsageError(
                f"`layout={self.layout}` holds one layer per file, not `layers={self.layers}`",
                "choose `layers=average`, `layers=top` or one number",
            )

    @property
    def file_layout(self) -> Layout:
        """The layout of the output.

        Raises:
            UsageError: there is no such layout, or it cannot hold these keys or this dtype.
        """
        return layout_of_spec(self.spec())

    def spec(
        self, run_settings: Mapping[str, Any] | None = None, first_sentence: int = 0
    ) -> FileSpec:
        """The settings of the output.

        Args:
            run_settings: as `run_settings` gives them; none for the layout alone.
            first_sentence: key with which the input of the file begins.
        """
        return FileSpec(
            layout=self.layout,
            keys=self.keys,
            forget_sentences=self.forget_sentences,
            dtype=self.dtype,
            first_sentence=first_sentence,
            run_settings=run_settings or {},
        )


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
        layers=embedder.output.layers.name,
        dtype=embedder.output.dtype,
        pool=embedder.output.pool,
        batch_size=embedder.batch_size,
        **{**settings, "shard": parse_shard(shard) if isinstance(shard, str) else shard},
    )


def suited(job: EmbedJob, embedder: Embedder) -> EmbedJob:
    """The job with the model's places for characters, so that tokens it cuts are told."""
    longest = embedder.bilm.options.max_characters
    return replace(job, text=replace(job.text, max_characters=longest))


def run_settings(job: EmbedJob, embedder: Embedder) -> dict[str, Any]:
    """The settings that decide about every array: what must agree for `resume=True`."""
    settings: dict[str, Any] = {
        "model": embedder.bilm.name,
        "model_sha256": embedder.bilm.sha256,
        "state": job.state,
        "layers": "0" if job.file_layout.unit == "types" else embedder.output.layers.name,
        "pool": job.pool or "none",
        "format": job.text.format,
        "tokenizer": "english" if job.text.tokenize else "whitespace",
        "blank": job.text.blank,
    }
    if embedder.precision != "float32":
        settings["precision"] = embedder.precision
    if job.state == "carry":
        settings["batch_size"] = embedder.batch_size
    if embedder.start is not None:
        settings["state_sha256"] = warm_state_id(embedder.bilm, embedder.start)
    if job.text.column is not None:
        settings["column"] = job.text.column
    if job.shard is not None:
        settings["shard"] = "{}/{}".format(*job.shard)
    return settings
