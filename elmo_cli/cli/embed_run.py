"""The runs of `elmo embed` after its jobs are checked: in this process, or on a Ray cluster."""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import torch

from elmo_cli.cli import console, options
from elmo_cli.cluster.shard_folder import SKIPPED_LIST, without_secrets
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.plan import Plan, measure_speed, plan_job
from elmo_cli.embed.run import RunSummary, make_embedder, run_job
from elmo_cli.embed.stream_formats import sentence_writer
from elmo_cli.errors import InputError, ModelError
from elmo_cli.files import is_url
from elmo_cli.messages import duration, format_bytes, plural
from elmo_cli.pretrained.load import load_files
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.text.input import InputReport, is_stream, read_sentences

if TYPE_CHECKING:
    from elmo_cli.cluster.run import ClusterResult

# Fields of the JSON object of a file.
_SIZES = ("output", "sentences", "tokens", "duplicates", "computed_tokens", "bytes")
_FACTS = (*_SIZES, "blank_lines", "truncated_tokens", "skipped", "warnings")


def load_embedder(job: EmbedJob, files: ModelFiles, n_threads: int | None) -> Embedder:
    """Load the embedder of a job and print its device and number of threads."""
    options.use_threads(n_threads)
    embedder = make_embedder(job, load_files(files))
    where = str(embedder.device)
    if where == "cpu":
        where += f", {plural(torch.get_num_threads(), 'thread')}"
    if embedder.precision != "float32":
        where += f", products in {embedder.precision}"
    dim = embedder.bilm.options.dim
    console.note(f"model {embedder.bilm.name}, {dim} dimensions, on {where}")
    options.warn_of_slow_bf16(embedder.precision, embedder.device)
    return embedder


def write_files(jobs: Sequence[EmbedJob], embedder: Embedder) -> None:
    """Write the HDF5 file of each job; exit with code 3 if lines were skipped."""
    summaries = [_write_file(job, embedder) for job in jobs]
    _print_json([_as_object(summary) for summary in summaries])
    skipped_lists = []
    for job, summary in zip(jobs, summaries, strict=True):
        if summary.report.skipped:
            skipped_lists.append(job.skipped_list)
    reports = [summary.report for summary in summaries]
    console.exit_if_skipped(*reports, lists=skipped_lists)


def _write_file(job: EmbedJob, embedder: Embedder) -> RunSummary:
    start_s, rate = time.monotonic(), 0.0
    is_watched = not console.mode.quiet and console.is_terminal(sys.stderr)
    if is_watched and not any(map(is_stream, job.inputs)):
        rate = measure_speed(job, embedder, 0.3, n_chunks=1) or 0.0
    progress = console.ProgressDisplay(None, "tokens", rate=rate, is_estimate=True)

    def on_progress(done: int, total: int | None) -> None:
        if done and not progress.is_shown:
            console.note(f"resuming: {plural(done, 'token')} done")
        progress.update(done, total)

    with progress:
        summary = run_job(job, embedder=embedder, progress=on_progress, warn=console.warn)
    console.print_truncated(summary.report)
    if n := summary.duplicates:
        console.note(f"{plural(n, 'repeated sentence')} left out by --layout {job.file.layout}")
    seconds = time.monotonic() - start_s
    per_second = f" ({summary.computed / seconds:,.0f} tokens/s)" if summary.computed else ""
    console.note(
        f"{summary.output}: {plural(summary.sentences, 'sentence')}, "
        f"{plural(summary.tokens, 'token')}, {format_bytes(summary.bytes)}; "
        f"{plural(summary.computed, 'token')} in {seconds:.1f} s{per_second}"
    )
    return summary


def _as_object(summary: RunSummary) -> dict[str, Any]:
    facts = {**vars(summary), **vars(summary.report), "computed_tokens": summary.computed}
    return {name: facts[name] for name in _FACTS}


def _print_json(objects: list[dict[str, Any]]) -> None:
    console.print_result(objects[0] if len(objects) == 1 else objects)


def write_stdout(job: EmbedJob, embedder: Embedder, stream_format: str) -> None:
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
            console.warn(*report.warnings[n_warned:])
            n_warned = len(report.warnings)
    console.warn(*report.warnings[n_warned:])
    console.print_truncated(report)
    console.exit_if_skipped(report)


def print_plans(jobs: Sequence[EmbedJob], embedder: Embedder, loading_s: float) -> None:
    """Print what the jobs would do, including the time to load the model."""
    objects = []
    for job in jobs:
        plan = plan_job(job, embedder)
        seconds = [loading_s + one for one in plan.seconds or (0.0, 0.0, 0.0)]
        if not console.mode.as_json:
            console.say(_in_words(job.output, plan, seconds))
        console.warn(*plan.warnings)
        facts = {"output": job.output, "sentences": plan.sentences, "tokens": plan.tokens}
        facts |= {"computed_tokens": plan.computed, "bytes": plan.size.total}
        estimate, *limits = (round(one, 1) for one in seconds)
        facts |= {"peak_bytes": plan.size.peak, "seconds": estimate, "seconds_range": limits}
        objects.append(facts)
    _print_json(objects)


def _in_words(output: str, plan: Plan, seconds: Sequence[float]) -> str:
    size, remaining = format_bytes(plan.size.total), ""
    if plan.size.is_copied:
        size += f" ({format_bytes(plan.size.peak)} on disk while it is being completed)"
    if plan.committed:
        remaining = f"; {plural(plan.committed, 'sentence')} done, "
        remaining += f"{plural(plan.computed, 'token')} remaining"
    estimate, low, high = map(duration, seconds)
    return (
        f"{output}: {plural(plan.sentences, 'sentence')}, {plural(plan.tokens, 'token')}, about "
        f"{size}, about {estimate} ({low} to {high}){remaining}; nothing was written"
    )


def write_shards(
    job: EmbedJob, *, address: str | None, workers: int, threads: int, gpus: float
) -> None:
    """Run a job on a Ray cluster."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    logging.disable(logging.WARNING)  # Ray writes its own log files
    warnings.filterwarnings("ignore", module=r"ray\.")
    try:
        from elmo_cli.cluster.run import ClusterSettings, embed_on_cluster
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ModelError(
            "--ray: ray is not installed", "`pip install '.[ray]'` in a clone"
        ) from None
    cluster = ClusterSettings(address=address, workers=workers, threads=threads, gpus=gpus)
    start_s, progress = time.monotonic(), console.ProgressDisplay(None, "tokens")

    def on_progress(done: int, total: int) -> None:
        if not progress.is_shown:
            console.note(f"{plural(total, 'token')}, {done:,} done")
        progress.update(done, total)

    with progress, redirect_stdout(sys.stderr):  # Ray reports a dead worker on stdout
        result = embed_on_cluster(job, cluster, on_progress)
    summary = _cluster_facts(without_secrets(job.output), result, time.monotonic() - start_s)
    console.warn(*result.report.warnings)
    console.print_truncated(result.report)
    folder, n_shards = summary["output"], plural(len(result.pieces), "shard")
    computed = plural(summary["computed_tokens"], "token")
    done = f"{len(summary['shards']):,} of {n_shards}"
    console.note(f"{folder}: {done}; {computed} in {summary['seconds']:.1f} s")
    console.print_result(summary)
    _refuse_missing(folder, result)
    _suggest_merge(folder, summary["shards"][0])
    console.exit_if_skipped(result.report, lists=[os.path.join(folder, SKIPPED_LIST)])


def _cluster_facts(output: str, result: ClusterResult, seconds: float) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    pieces = result.pieces
    return {
        "output": output,
        "shards": [piece.name for piece in pieces if not piece.error],
        "missing": [{"shard": one.number, "error": one.error} for one in pieces if one.error],
        "sentences": sum(piece.n_sentences for piece in pieces),
        "tokens": sum(piece.n_tokens for piece in pieces),
        "computed_tokens": sum(piece.n_tokens for piece in pieces if piece.worker),
        "seconds": round(seconds, 1),
        "workers": sorted({piece.worker for piece in pieces if piece.worker}),
        "skipped": result.report.skipped,
        "warnings": result.report.warnings,
    }


def _suggest_merge(folder: str, shard: str) -> None:
    if is_url(folder):
        console.note("download the shards first: `elmo merge` reads local files")
        folder = "shards/"
    names = os.path.join(folder, f"part-*-{shard.rpartition('-')[2]}")
    console.note(f"`elmo merge {names} -o OUT.hdf5` joins them into one file")


def _refuse_missing(output: str, result: ClusterResult) -> None:
    missing = [piece for piece in result.pieces if piece.error]
    if missing:
        n_missing = f"{len(missing):,} of {plural(len(result.pieces), 'shard')}"
        first = f"the first is {missing[0].number}: {missing[0].error}"
        hint = f"{missing[0].hint}; then repeat the command to compute the missing shards"
        raise InputError(f"{output}: {n_missing} missing, {first}", hint)
