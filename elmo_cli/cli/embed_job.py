"""`elmo embed` from its options to its jobs; what is wrong is refused before torch is imported."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from elmo_cli.cli import console
from elmo_cli.cli.options import input_settings
from elmo_cli.cluster.shard_folder import is_url, without_secrets
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import OutputError, UsageError
from elmo_cli.files import check_distinct
from elmo_cli.pretrained.load import ModelSource, locate
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.store.shards import parse_shard
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.input import check_inputs, require_files, stem

CLUSTER_OPTIONS = ("ray_address", "workers", "gpus_per_worker")
_EMBEDDER = ("state", "layers", "dtype", "pool", "batch_size", "engine", "precision", "device")
_STREAM_FORMATS = ("jsonl", "npz", "text")
# Suffixes that promise another format than HDF5, and what of ours comes near it.
_OTHER_FORMATS = {
    **dict.fromkeys((".npz", ".npy"), "npz"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".txt", ".tsv", ".csv", ".vec"), "text"),
    **dict.fromkeys((".pt", ".pth", ".bin", ".pkl", ".pickle", ".safetensors", ".mat"), ""),
    **dict.fromkeys((".parquet", ".arrow", ".feather", ".zarr", ".zip", ".tar"), ""),
}


def embed_command(settings: dict[str, Any]) -> None:
    """Run `elmo embed` with the values of its options."""
    start_s = time.monotonic()
    quiet, as_json, threads = (settings.pop(name) for name in ("quiet", "as_json", "threads"))
    stream, dry_run = settings.pop("stream"), settings.pop("dry_run")
    for name in CLUSTER_OPTIONS:
        if settings[name] is not None:
            option = name.replace("_", "-")
            raise UsageError(
                f"--{option}: has no meaning without --ray", "`--ray` distributes the run"
            )
    job = make_job(settings, stream)
    if job.output == "-":
        _check_stream(job, stream or "jsonl", {"--dry-run": dry_run, "--json": as_json})
        jobs = [job]
    else:
        jobs = _jobs_of(job, stream)
    if dry_run:
        require_files("--dry-run", job.inputs)
    files = locate_model(job)
    with console.loading(quiet=quiet):
        from elmo_cli.cli.embedding import EmbedRun

        run = EmbedRun(jobs, files, threads, quiet=quiet, as_json=as_json)
    if job.output == "-":
        run.stream(stream or "jsonl")
    elif dry_run:
        run.dry_run(loading_s=time.monotonic() - start_s)
    else:
        with _open_folder(job.output):
            run.embed()


def is_folder(output: str) -> bool:
    """Whether an output is a folder, or is to become one."""
    if is_url(output):
        return output.endswith("/")
    return output.endswith(("/", os.sep)) or os.path.isdir(output)


def locate_model(job: EmbedJob) -> ModelFiles:
    """The files of the model; an error if they are missing or it does not have the layers."""
    files = locate(job.model)
    job.check_layers(1 + files.read_options().n_layers)
    return files


def make_job(settings: dict[str, Any], stream: str | None) -> EmbedJob:
    """The job of the options; an error if they contradict each other.

    Args:
        stream: the format of standard output, which an output may then be missing for.
    """
    text, output = input_settings(settings), settings["output"]
    if not settings["files"]:
        raise UsageError("no input FILE is given", "name text files, or `-` for standard input")
    if output is None and stream is None:
        raise UsageError("no output is given", "`-o FILE` writes HDF5, `-o -` to standard output")
    model = settings["model"], settings["options"], settings["weights"]
    return EmbedJob(
        inputs=tuple(settings["files"]),
        output=output or "-",
        model=ModelSource(*model),
        text=text,
        embedder=EmbedderSettings(**{name: settings[name] for name in _EMBEDDER}),
        file=FileSpec(
            layout=settings["layout"],
            keys="sentence" if settings["use_sentence_keys"] else "number",
            forget_sentences=settings["forget_sentences"],
        ),
        shard=None if settings["shard"] is None else parse_shard(settings["shard"]),
        overwrite=settings["overwrite"],
        resume=settings["resume"],
    )


def _check_stream(job: EmbedJob, stream: str, others: dict[str, bool]) -> None:
    for option, is_given in {
        **others,
        "--overwrite": job.overwrite,
        "--resume": job.resume,
        "--shard": job.shard is not None,
        f"--layout {job.file.layout}": job.file.layout != FileSpec.layout,
        "--use-sentence-keys": job.file.keys != "number",
        "--forget-sentences": job.file.forget_sentences,
    }.items():
        if is_given:
            raise UsageError(
                f"{option}: has no meaning for standard output", "`-o FILE` writes HDF5"
            )
    if stream not in _STREAM_FORMATS:
        raise UsageError(
            f"--output-format {stream}: standard output is written as {', '.join(_STREAM_FORMATS)}",
            "`--input-format` says how files are read",
        )
    check_inputs(job.inputs, job.text)
    check_distinct("-", job.inputs)


def _jobs_of(job: EmbedJob, stream: str | None) -> list[EmbedJob]:
    """The jobs of a command, one per output file, whose paths are checked."""
    if stream is not None:
        output = without_secrets(job.output)
        raise UsageError(
            f"--output-format {stream}: {output} is a file, and files are HDF5",
            "`-o -` writes to standard output; `--input-format` says how files are read",
        )
    if is_url(job.output):
        raise UsageError(
            f"{without_secrets(job.output)}: only --ray writes to a URL",
            "`-o FILE`, and copy it there; or `-o URL/ --ray`, which puts shards there",
        )
    check_inputs(job.inputs, job.text)
    if not is_folder(job.output):
        job.check_paths()
        _check_suffix(job.output)
        return [job]
    jobs = _one_per_input(job)
    for one in jobs if os.path.isdir(job.output) else ():
        check_distinct(one.output, job.inputs)
        one.check_paths()
    return jobs


def _check_suffix(output: str) -> None:
    """Refuse a name that promises another format than HDF5."""
    suffix = Path(output).suffix.lower()
    if (stream := _OTHER_FORMATS.get(suffix)) is None:
        return
    other = "`open_embeddings` in Python reads it, to save it in any format"
    if stream:
        other = f"`-o - --output-format {stream} > {output}` writes {stream}"
    raise OutputError(
        f"{output}: files of embeddings are HDF5, not {suffix}",
        f"`-o {Path(output).with_suffix('.hdf5')}` writes HDF5; {other}",
    )


def _one_per_input(job: EmbedJob) -> list[EmbedJob]:
    """A job for each input, whose output in the folder is named after the input."""
    outputs: dict[str, str] = {}
    for name in job.inputs:
        if name == "-":
            raise UsageError(
                f"standard input has no name for a file in {job.output}", "`-o FILE` names it"
            )
        bare = stem(Path(name).name) or Path(name).name
        path = str(Path(job.output) / f"{bare}.hdf5")
        if path in outputs:
            raise UsageError(
                f"{outputs[path]} and {name} would both be written to {path}",
                "embed them one by one with `-o FILE`",
            )
        outputs[path] = name
    return [replace(job, inputs=(name,), output=path) for path, name in outputs.items()]


@contextmanager
def _open_folder(output: str) -> Iterator[None]:
    """Make an output that is a folder; remove it again if it stays empty."""
    folder, new = Path(output), list[Path]()
    if is_folder(output):
        new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        if new:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{output}: no such folder can be made ({error.strerror})", "choose another folder"
        ) from None
    try:
        yield
    finally:
        for path in new:
            with suppress(OSError):
                path.rmdir()  # fails for one that is not empty
