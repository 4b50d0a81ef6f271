"""What `elmo embed` does between its options and the library: outputs, progress, summary."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from elmo_cli.cli import console
from elmo_cli.cli.bf16 import warn_of_slow_bf16
from elmo_cli.cli.console import counted
from elmo_cli.cli.places import folder_of, jobs_of
from elmo_cli.cli.texts import READING, reading_of, refuse_skipped, say_noticed
from elmo_cli.cluster.shard_folder import without_secrets
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob, suited
from elmo_cli.embed.rehearsal import Rehearsal, rehearse
from elmo_cli.embed.run import (
    Summary,
    check_model_apart,
    embedder_of,
    held_bytes,
    run_with,
    skipped_list,
)
from elmo_cli.embed.streams import stream_writer
from elmo_cli.embed.survey import check_space, gib
from elmo_cli.engine.runtime import keep_freed_memory, set_num_threads
from elmo_cli.errors import OutputError, UsageError
from elmo_cli.files import check_distinct
from elmo_cli.store.shards import parse_shard
from elmo_cli.text.input import InputReport, check_inputs, read_sentences, require_files

# What another program would take the file for by its name.
_OF_OTHER_FORMATS = (".npz", ".npy", ".txt", ".json", ".jsonl", ".csv", ".tsv", ".pt")
_CLUSTER = ("ray_address", "workers", "gpus_per_worker")


def embed_command(settings: dict[str, Any]) -> None:
    """Run `elmo embed` with the values of its options."""
    said = _Messages(settings.pop("quiet"), settings.pop("as_json"))
    threads = settings.pop("threads")
    stream, dry_run = settings.pop("stream"), settings.pop("dry_run")
    cluster = {name: settings.pop(name) for name in _CLUSTER}
    if settings.pop("ray"):
        from elmo_cli.cli.cluster import check_options, embed_on_ray

        apart = {"--output-format": stream, "--dry-run": dry_run, "--shard": settings["shard"]}
        for option in ("overwrite", "resume"):
            apart[f"--{option}"] = settings[option]
        check_options(apart)
        job = _job(settings, stream)
        return embed_on_ray(job, threads, cluster, quiet=said.quiet, as_json=said.as_json)
    for name, value in cluster.items():
        if value is not None:
            option = name.replace("_", "-")
            raise UsageError(
                f"--{option}: has no meaning without --ray", "`--ray` distributes the run"
            )
    set_num_threads(threads)
    keep_freed_memory()
    job = _job(settings, stream)
    if job.output == "-":
        if dry_run:
            raise _no_stdout("--dry-run")
        return _to_stdout(job, stream or "jsonl", said)
    if stream is not None:
        output = without_secrets(job.output)
        raise UsageError(
            f"--output-format {stream}: {output} is a file, and files are HDF5",
            "`-o -` writes to standard output; `--input-format` says how files are read",
        )
    jobs = jobs_of(job)
    embedder = embedder_of(job)
    for one in jobs:
        check_model_apart(one, embedder)
    said.about(embedder)
    if dry_run:
        return _dry_run(jobs, embedder, said)
    with folder_of(job.output):
        summaries = [_run(one, embedder, said) for one in jobs]
    if said.as_json:
        objects = [_as_object(summary) for summary in summaries]
        click.echo(json.dumps(objects[0] if len(objects) == 1 else objects))
    refuse_skipped(
        *(summary.notes for summary in summaries),
        lists=[skipped_list(summary.output) for summary in summaries if summary.notes.skipped],
    )


def _job(settings: dict[str, Any], stream: str | None) -> EmbedJob:
    files, output, shard = settings.pop("files"), settings.pop("output"), settings.pop("shard")
    keys = "sentence" if settings.pop("use_sentence_keys") else "number"
    text = reading_of(settings)
    if not files:
        raise UsageError("no input FILE is given", "name text files, or `-` for standard input")
    if output is None and stream is None:
        raise UsageError("no output is given", "`-o FILE` writes HDF5, `-o -` to standard output")
    return EmbedJob(
        inputs=tuple(files),
        output=output or "-",
        text=text,
        keys=keys,
        shard=None if shard is None else parse_shard(shard),
        **{name: value for name, value in settings.items() if name not in READING},
    )


class _Messages:
    """What goes to stderr."""

    def __init__(self, quiet: bool, as_json: bool) -> None:
        self.quiet, self.as_json = quiet, as_json

    def say(self, message: str) -> None:
        console.note(message, quiet=self.quiet)

    def about(self, embedder: Embedder) -> None:
        import torch

        where = str(embedder.device)
        if embedder.device.type == "cpu":
            n_threads = torch.get_num_threads()
            where += f", {n_threads} thread{'s' * (n_threads != 1)}"
        if embedder.precision != "float32":
            where += f", products in {embedder.precision}"
        self.say(f"model {embedder.bilm.name}, {embedder.bilm.options.dim} dimensions, on {where}")
        if embedder.precision == "bf16":
            warn_of_slow_bf16(embedder.device, quiet=self.quiet)


class _Watcher:
    """Moves the bar, and says what can't wait for the summary."""

    def __init__(self, stack: ExitStack, said: _Messages) -> None:
        self._stack, self._said = stack, said
        self._bar: console.Bar | None = None

    def warn(self, message: str) -> None:
        self._said.say(f"warning: {message}")

    def start(self, tokens: int | None, done: int) -> None:
        if done:
            self._said.say(f"going on after {counted(done, 'token')}")
        moving = console.bar(tokens, "tokens", done=done, quiet=self._said.quiet)
        self._bar = self._stack.enter_context(moving)

    def advance(self, tokens: int) -> None:
        if self._bar is not None:
            self._bar.advance(tokens)


def _run(job: EmbedJob, embedder: Embedder, said: _Messages) -> Summary:
    if Path(job.output).suffix.lower() in _OF_OTHER_FORMATS:
        said.say(f"warning: {job.output}: HDF5, whatever its name says")
    begun = time.monotonic()
    with ExitStack() as stack:
        summary = run_with(job, embedder, _Watcher(stack, said))
    seconds = time.monotonic() - begun
    say_noticed(summary.notes, quiet=said.quiet)
    if summary.duplicates:
        equal = "sentence equals another" if summary.duplicates == 1 else "sentences equal others"
        said.say(f"{summary.duplicates:,} {equal}; --layout {job.layout} holds one")
    said.say(
        f"{summary.output}: {counted(summary.sentences, 'sentence')}, "
        f"{counted(summary.tokens, 'token')}, {gib(summary.bytes)}; "
        f"{counted(summary.computed, 'token')} in {seconds:.1f} s"
        + (f" ({summary.computed / seconds:,.0f} tokens/s)" if summary.computed else "")
    )
    return summary


def _as_object(summary: Summary) -> dict[str, Any]:
    return {
        "output": summary.output,
        "sentences": summary.sentences,
        "tokens": summary.tokens,
        "duplicates": summary.duplicates,
        "computed_tokens": summary.computed,
        "bytes": summary.bytes,
        "blank_lines": summary.notes.blank_lines,
        "truncated_tokens": summary.notes.truncated_tokens,
        "skipped": summary.notes.skipped,
        "warnings": summary.notes.warnings,
    }


def _dry_run(jobs: list[EmbedJob], embedder: Embedder, said: _Messages) -> None:
    objects = []
    for job in jobs:
        require_files("--dry-run", job.inputs)
        found = rehearse(job, embedder)
        objects.append(
            {
                "output": job.output,
                "sentences": found.sentences,
                "tokens": found.tokens,
                "computed_tokens": found.computed,
                "exact": found.exact,
                "bytes": found.bytes.total,
                "peak_bytes": found.bytes.peak,
            }
        )
        if not said.as_json:
            click.echo(_in_words(job, found))
        if found.warning:
            said.say(f"warning: {found.warning}")
        if found.finished:
            continue
        try:  # told, and not refused: who asks for sizes may have another disk in mind
            check_space(job.output, found.bytes, held=held_bytes(job.output))
        except OutputError as error:
            said.say(f"warning: {error.message}")
    if said.as_json:
        click.echo(json.dumps(objects[0] if len(objects) == 1 else objects))


def _in_words(job: EmbedJob, found: Rehearsal) -> str:
    about = "" if found.exact else "about "
    size = f"about {gib(found.bytes.total)}"
    if found.bytes.is_copied:
        size += f" (on the disk {gib(found.bytes.peak)} while it is completed)"
    left = ""
    if found.committed:
        left = f"; {counted(found.committed, 'sentence')} there already, "
        left += f"{counted(found.computed, 'token')} left"
    if found.finished:
        size, left = gib(found.bytes.total), "; finished, nothing is left to do"
    return (
        f"{job.output}: {about}{counted(found.sentences, 'sentence')}, "
        f"{about}{counted(found.tokens, 'token')}, {size}{left}; nothing was written"
    )


def _to_stdout(job: EmbedJob, stream: str, said: _Messages) -> None:
    for option, given in (
        ("--overwrite", job.overwrite),
        ("--resume", job.resume),
        ("--shard", job.shard is not None),
        ("--json", said.as_json),
        (f"--layout {job.layout}", job.layout != EmbedJob.layout),
        ("--use-sentence-keys", job.keys != "number"),
        ("--forget-sentences", job.forget_sentences),
    ):
        if given:
            raise _no_stdout(option)
    notes = InputReport()
    check_inputs(job.inputs, job.text)
    check_distinct("-", job.inputs)
    with console.binary_stdout() as out:
        write = stream_writer(stream, out, pooled=job.pool is not None)
        embedder = embedder_of(job)
        said.about(embedder)
        for sentence, array in embedder.stream(
            read_sentences(job.inputs, suited(job, embedder).text, notes)
        ):
            write(sentence, array)
    say_noticed(notes, quiet=said.quiet)
    refuse_skipped(notes, more="`-o FILE` also writes a list beside the file")


def _no_stdout(option: str) -> UsageError:
    return UsageError(f"{option}: has no meaning for standard output", "`-o FILE` writes a file")
