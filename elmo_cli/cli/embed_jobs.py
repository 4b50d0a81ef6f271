"""The runs of `elmo embed` after its jobs are checked: in this process, or on a Ray cluster."""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from itertools import tee
from typing import TYPE_CHECKING, Any

import torch

from elmo_cli.cli import console, options
from elmo_cli.cli.embed_summary import (
    note_fit,
    note_programs,
    note_summary,
    print_objects,
    print_summaries,
)
from elmo_cli.cluster.shard_folder import SKIPPED_LIST
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.plan import Plan, SecondsRange, measure_speed, plan_job
from elmo_cli.embed.run import RunSummary, make_embedder, run_job
from elmo_cli.embed.stream_formats import sentence_writer
from elmo_cli.embed.text_fit import text_fit
from elmo_cli.errors import InputError
from elmo_cli.files import is_url
from elmo_cli.fit import fit_facts
from elmo_cli.messages import duration, format_bytes, plural, url_without_secrets
from elmo_cli.pretrained.load import load_files
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.requirements import import_program
from elmo_cli.text.input import InputReport, is_stream, read_sentences

if TYPE_CHECKING:
    from elmo_cli.cluster.run import ClusterResult
    from elmo_cli.text.sentence import Sentence

_TIMING_S = 0.3  # for the first estimate of the remaining time


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
    title = job.model.title(embedder.bilm.name)
    console.note(f"model {title}, {dim} dimensions, on {where}")
    options.warn_of_slow_bf16(embedder.precision, embedder.device)
    return embedder


def write_files(jobs: Sequence[EmbedJob], embedder: Embedder) -> None:
    """Write the file of each job; exit with code 3 if lines were skipped."""
    print_summaries(jobs, [_write_file(job, embedder) for job in jobs])


def _write_file(job: EmbedJob, embedder: Embedder) -> RunSummary:
    start_s = time.monotonic()
    rate = 0.0
    is_watched = not console.running.quiet and console.is_terminal(sys.stderr)
    has_stream = any(is_stream(name) for name in job.inputs)  # which can be read only once
    if is_watched and not has_stream:
        rate = measure_speed(job, embedder, _TIMING_S, min_chunks=1) or 0.0
    progress = console.ProgressDisplay(None, "tokens", rate=rate, is_estimate=True)

    def on_progress(done: int, total: int | None) -> None:
        if done and not progress.is_shown:
            console.note(f"resuming: {plural(done, 'token')} done")
        progress.update(done, total)

    with progress:
        summary = run_job(job, embedder=embedder, progress=on_progress, warn=console.warn)
    note_summary(job, summary, time.monotonic() - start_s)
    return summary


def write_stdout(job: EmbedJob, embedder: Embedder, stream_format: str) -> None:
    """Write the sentences to standard output as they are computed."""
    report = InputReport()
    n_warned = 0
    text = job.for_model(embedder.bilm.options).text
    pooled = job.embedder.pool is not None
    sentences = _with_fit(job, read_sentences(job.inputs, text, report), embedder)
    with (
        console.binary_stdout() as out,
        sentence_writer(stream_format, out, pooled=pooled) as write,
    ):
        for sentence, array in embedder.stream(sentences):
            write(sentence, array)
            console.warn(*report.warnings[n_warned:])
            n_warned = len(report.warnings)
    console.warn(*report.warnings[n_warned:])
    console.print_truncated(report)
    console.exit_if_skipped(report)


def _with_fit(
    job: EmbedJob, sentences: Iterable[Sentence], embedder: Embedder
) -> Iterator[Sentence]:
    """Print how the first sentences fit the vocabulary of the model; return all sentences."""
    # `tee` keeps the sentences that `text_fit` reads, until `all_sentences` has yielded them.
    beginning, all_sentences = tee(sentences)
    note_fit(text_fit(job, beginning, embedder, console.warn))
    return all_sentences


def print_plans(jobs: Sequence[EmbedJob], embedder: Embedder, loading_s: float) -> None:
    """Print what the jobs would do, including the time to load the model."""
    objects = []
    for job in jobs:
        plan = plan_job(job, embedder)
        computing = plan.seconds or SecondsRange(0.0, 0.0, 0.0)
        seconds = SecondsRange(
            estimate=loading_s + computing.estimate,
            low=loading_s + computing.low,
            high=loading_s + computing.high,
        )
        if not console.running.as_json:
            console.say(_plan_line(job.output, plan, seconds))
        console.warn(*plan.warnings)
        note_fit(plan.fit)
        objects.append(_plan_facts(job.output, plan, seconds))
    print_objects(objects)


def _plan_line(output: str, plan: Plan, seconds: SecondsRange) -> str:
    """Describe a plan for people."""
    sentences = plural(plan.sentences, "sentence")
    tokens = plural(plan.tokens, "token")
    size = format_bytes(plan.size.total)
    if plan.size.is_copied:
        size += f" ({format_bytes(plan.size.peak)} on disk while it is being completed)"
    time_range = f"{duration(seconds.low)} to {duration(seconds.high)}"
    line = f"{output}: {sentences}, {tokens}, about {size}, "
    line += f"about {duration(seconds.estimate)} ({time_range})"
    if plan.committed:
        line += f"; {plural(plan.committed, 'sentence')} done"
        line += f", {plural(plan.computed, 'token')} remaining"
    return f"{line}; nothing was written"


def _plan_facts(output: str, plan: Plan, seconds: SecondsRange) -> dict[str, Any]:
    """Return the JSON object of a plan."""
    return {
        "output": output,
        "sentences": plan.sentences,
        "tokens": plan.tokens,
        "computed_tokens": plan.computed,
        "bytes": plan.size.total,
        "peak_bytes": plan.size.peak,
        "fit": fit_facts(plan.fit),
        "seconds": _three_digits(seconds.estimate),
        "seconds_range": [_three_digits(seconds.low), _three_digits(seconds.high)],
    }


def _three_digits(seconds: float) -> float:
    """Round a duration to three significant digits, so that a short one is not 0."""
    return float(f"{seconds:.3g}")


def write_shards(
    job: EmbedJob, *, address: str | None, workers: int, threads: int, gpus: float
) -> None:
    """Run a job on a Ray cluster; `threads` and `gpus` are those of each worker."""
    _silence_ray()
    import_program("ray", "ray", where="--ray")
    from elmo_cli.cluster.run import ClusterSettings, LoadedModel, embed_on_cluster

    cluster = ClusterSettings(address=address, workers=workers, threads=threads, gpus=gpus)
    start_s = time.monotonic()
    progress = console.ProgressDisplay(None, "tokens")

    def on_progress(done: int, total: int) -> None:
        if not progress.is_shown:
            console.note(f"{plural(total, 'token')}, {done:,} done")
        progress.update(done, total)

    def on_model(model: LoadedModel) -> None:
        console.warn(*model.warnings)
        note_fit(model.fit)

    with progress, redirect_stdout(sys.stderr):  # Ray reports a dead worker on stdout
        result = embed_on_cluster(job, cluster, on_progress, on_model)
    seconds = time.monotonic() - start_s
    folder = url_without_secrets(job.output)
    console.warn(*result.report.warnings)
    console.print_truncated(result.report)
    facts = _cluster_facts(folder, result, seconds)
    n_done = f"{len(facts['shards']):,} of {plural(len(result.pieces), 'shard')}"
    computed = plural(facts["computed_tokens"], "token")
    console.note(f"{folder}: {n_done}; {computed} in {seconds:.1f} s")
    lacks_equal_lines = any(piece.lacks_equal_lines for piece in result.pieces)
    note_programs(job, [result.report], lacks_equal_lines=lacks_equal_lines)
    console.print_result(facts)
    _refuse_missing(folder, result)
    _suggest_merge(folder, facts["shards"][0])
    console.exit_if_skipped(result.report, lists=[os.path.join(folder, SKIPPED_LIST)])


def _silence_ray() -> None:
    """Keep Ray from printing what its own log files contain, and from reporting its use."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore", module=r"ray\.")


def _cluster_facts(output: str, result: ClusterResult, seconds: float) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    pieces = result.pieces
    missing = []
    for piece in pieces:
        if piece.error:
            missing.append({"shard": piece.number, "error": piece.error})
    return {
        "output": output,
        "shards": [piece.name for piece in pieces if not piece.error],
        "missing": missing,
        "sentences": sum(piece.n_sentences for piece in pieces),
        "tokens": sum(piece.n_tokens for piece in pieces),
        "computed_tokens": sum(piece.n_tokens for piece in pieces if piece.worker),
        "seconds": round(seconds, 1),
        "workers": sorted({piece.worker for piece in pieces if piece.worker}),
        "blank_lines": result.report.blank_lines,
        "fit": fit_facts(result.fit),
        "truncated_tokens": result.report.truncated_tokens,
        "skipped": result.report.skipped,
        "warnings": list(result.warnings),
    }


def _suggest_merge(folder: str, shard: str) -> None:
    """Print the command that joins the shards; those of one run end in the same digest."""
    if is_url(folder):
        console.note("download the shards first: `elmo merge` reads local files")
        folder = "shards/"
    digest_and_suffix = shard.split("-")[-1]
    names = os.path.join(folder, f"part-*-{digest_and_suffix}")
    console.note(f"`elmo merge {names} -o OUT.hdf5` joins them into one file")


def _refuse_missing(output: str, result: ClusterResult) -> None:
    missing = [piece for piece in result.pieces if piece.error]
    if missing:
        first = missing[0]
        n_missing = f"{len(missing):,} of {plural(len(result.pieces), 'shard')}"
        raise InputError(
            f"{n_missing} missing, the first is {first.number}: {first.error}",
            f"{first.hint}; then repeat the command to compute the missing shards",
            where=output,
        )
