"""The run of `elmo embed` after its jobs are checked: load the model, write or plan, report."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import torch

from elmo_cli.cli import console
from elmo_cli.cli.console import plural
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.plan import Plan, plan_job
from elmo_cli.embed.run import RunSummary, make_embedder, run_job
from elmo_cli.embed.speed import expected_rate
from elmo_cli.embed.stream_formats import sentence_writer
from elmo_cli.engine.runtime import keep_freed_memory, set_num_threads
from elmo_cli.files import format_bytes
from elmo_cli.pretrained.load import load_files
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.text.input import InputReport, is_stream, read_sentences


def load_embedder(
    job: EmbedJob, files: ModelFiles, threads: int | None, *, quiet: bool
) -> Embedder:
    """Load the embedder of a job and print its device and number of threads."""
    set_num_threads(threads)
    keep_freed_memory()
    embedder = make_embedder(job, load_files(files))
    where = str(embedder.device)
    if where == "cpu":
        where += f", {plural(torch.get_num_threads(), 'thread')}"
    if embedder.precision != "float32":
        where += f", products in {embedder.precision}"
    dim = embedder.bilm.options.dim
    console.note(f"model {embedder.bilm.name}, {dim} dimensions, on {where}", quiet=quiet)
    if embedder.precision == "bf16":
        console.warn_of_slow_bf16(embedder.device, quiet=quiet)
    return embedder


def write_files(
    jobs: Sequence[EmbedJob], embedder: Embedder, *, quiet: bool, as_json: bool
) -> None:
    """Write the HDF5 file of each job; exit with code 3 if lines were skipped."""
    summaries = [_write_file(job, embedder, quiet=quiet) for job in jobs]
    if as_json:
        _print_json([_as_object(summary) for summary in summaries])
    reports = [summary.report for summary in summaries]
    both = zip(jobs, reports, strict=True)
    console.exit_if_skipped(*reports, lists=[job.skipped_list for job, one in both if one.skipped])


def _write_file(job: EmbedJob, embedder: Embedder, *, quiet: bool) -> RunSummary:
    start_s, rate = time.monotonic(), 0.0
    is_watched = not quiet and console.is_terminal(sys.stderr)
    if is_watched and not any(map(is_stream, job.inputs)):
        rate = expected_rate(job, embedder)
    progress = console.Progress(None, "tokens", rate=rate, is_estimate=True, quiet=quiet)

    def on_progress(done: int, total: int | None) -> None:
        if done and not progress.is_shown:
            console.note(f"resuming: {plural(done, 'token')} done", quiet=quiet)
        progress.update(done, total)

    def warn(message: str) -> None:
        console.note(f"warning: {message}", quiet=quiet)

    with progress:
        summary = run_job(job, embedder=embedder, progress=on_progress, warn=warn)
    console.print_truncated(summary.report, quiet=quiet)
    for line in _summary(job, summary, time.monotonic() - start_s):
        console.note(line, quiet=quiet)
    return summary


def _summary(job: EmbedJob, summary: RunSummary, seconds: float) -> list[str]:
    rate = f" ({summary.computed / seconds:,.0f} tokens/s)" if summary.computed else ""
    lines = [
        f"{summary.output}: {plural(summary.sentences, 'sentence')}, "
        f"{plural(summary.tokens, 'token')}, {format_bytes(summary.bytes)}; "
        f"{plural(summary.computed, 'token')} in {seconds:.1f} s{rate}"
    ]
    if n := summary.duplicates:
        equal = "sentence equals another" if n == 1 else "sentences equal others"
        lines.insert(0, f"{n:,} {equal}; --layout {job.file.layout} holds one")
    return lines


def _as_object(summary: RunSummary) -> dict[str, Any]:
    report = summary.report
    return {
        "output": summary.output,
        "sentences": summary.sentences,
        "tokens": summary.tokens,
        "duplicates": summary.duplicates,
        "computed_tokens": summary.computed,
        "bytes": summary.bytes,
        "blank_lines": report.blank_lines,
        "truncated_tokens": report.truncated_tokens,
        "skipped": report.skipped,
        "warnings": report.warnings,
    }


def write_stdout(job: EmbedJob, embedder: Embedder, stream_format: str, *, quiet: bool) -> None:
    """Write the sentences to standard output as they are computed."""
    report, n_warned = InputReport(), 0
    text = job.with_max_characters(embedder.bilm.options.max_characters).text
    pooled = job.embedder.pool is not None
    with (
        console.binary_stdout() as out,
        sentence_writer(stream_format, out, pooled=pooled) as write,
    ):
        for sentence, array in embedder.stream(read_sentences(job.inputs, text, report)):
            write(sentence, array)
            for warning in report.warnings[n_warned:]:
                console.note(f"warning: {warning}", quiet=quiet)
            n_warned = len(report.warnings)
    console.print_truncated(report, quiet=quiet)
    console.exit_if_skipped(report, more="`-o FILE` also writes a list next to the file")


def print_plans(
    jobs: Sequence[EmbedJob], embedder: Embedder, loading_s: float, *, quiet: bool, as_json: bool
) -> None:
    """Print what the jobs would do, including the time to load the model."""
    objects = []
    for job in jobs:
        plan = plan_job(job, embedder)
        seconds = [loading_s + one for one in plan.seconds or (0.0, 0.0, 0.0)]
        if not as_json:
            console.say(_in_words(job.output, plan, seconds))
        for warning in plan.warnings:
            console.note(f"warning: {warning}", quiet=quiet)
        objects.append(
            {
                "output": job.output,
                "sentences": plan.sentences,
                "tokens": plan.tokens,
                "computed_tokens": plan.computed,
                "bytes": plan.size.total,
                "peak_bytes": plan.size.peak,
                "seconds": round(seconds[0], 1),
                "seconds_range": [round(one, 1) for one in seconds[1:]],
            }
        )
    if as_json:
        _print_json(objects)


def _in_words(output: str, plan: Plan, seconds: Sequence[float]) -> str:
    size = format_bytes(plan.size.total)
    counts = f"{output}: {plural(plan.sentences, 'sentence')}, {plural(plan.tokens, 'token')}"
    if plan.size.is_copied:
        size += f" ({format_bytes(plan.size.peak)} on disk while it is being completed)"
    estimate, low, high = map(console.duration, seconds)
    remaining = ""
    if plan.committed:
        remaining = f"; {plural(plan.committed, 'sentence')} done, "
        remaining += f"{plural(plan.computed, 'token')} remaining"
    return (
        f"{counts}, about {size}, about {estimate} ({low} to {high}){remaining}; "
        "nothing was written"
    )


def _print_json(objects: list[dict[str, Any]]) -> None:
    console.print_json(objects[0] if len(objects) == 1 else objects)
