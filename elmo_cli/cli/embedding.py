"""What `elmo embed` does once its jobs are checked: load the model, run, report."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import torch

from elmo_cli.cli import console
from elmo_cli.cli.console import (
    duration,
    exit_if_skipped,
    plural,
    print_truncated,
    warn_of_slow_bf16,
)
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.plan import Plan, check_free_space, plan_job
from elmo_cli.embed.run import RunSummary, make_embedder, run_job
from elmo_cli.embed.speed import expected_rate
from elmo_cli.embed.stream_formats import sentence_writer
from elmo_cli.engine.runtime import keep_freed_memory, set_num_threads
from elmo_cli.files import format_bytes
from elmo_cli.pretrained.load import load_files
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.text.input import InputReport, is_stream, read_sentences
from elmo_cli.text.sentence import Sentence


class EmbedRun:
    """The jobs of a command, which differ in inputs and output alone, and their embedder."""

    def __init__(
        self,
        jobs: list[EmbedJob],
        files: ModelFiles,
        threads: int | None,
        *,
        quiet: bool,
        as_json: bool,
    ) -> None:
        set_num_threads(threads)
        keep_freed_memory()
        self._jobs, self._quiet, self._as_json = jobs, quiet, as_json
        self._embedder = make_embedder(jobs[0], load_files(files))
        for job in jobs:
            job.check_not_model(self._embedder.bilm.files)
        self._note_model()

    def embed(self) -> None:
        """Run the jobs, report each, and exit with 3 if lines were skipped."""
        summaries = [self._embed(job) for job in self._jobs]
        self._print_json([_as_object(summary) for summary in summaries])
        reports = [summary.report for summary in summaries]
        lists = [
            job.skipped_list
            for job, report in zip(self._jobs, reports, strict=True)
            if report.skipped
        ]
        exit_if_skipped(*reports, lists=lists)

    def dry_run(self, *, loading_s: float) -> None:
        """Print what the jobs would do."""
        objects = []
        for job in self._jobs:
            plan = plan_job(job, self._embedder)
            seconds = [loading_s + one for one in plan.seconds or (0.0, 0.0, 0.0)]
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
            if not self._as_json:
                console.say(_in_words(job, plan, seconds))
            for warning in plan.warnings:
                self._warn(warning)
            if not plan.finished:  # not refused: the run may get another disk
                warning = check_free_space(job, self._embedder, plan.size, is_exact=False)
                self._warn(warning)
        self._print_json(objects)

    def stream(self, stream_format: str) -> None:
        """Write the sentences to standard output."""
        (job,), report = self._jobs, InputReport()
        text = job.with_max_characters(self._embedder.bilm.options.max_characters).text
        pooled = job.embedder.pool is not None
        with (
            console.binary_stdout() as out,
            sentence_writer(stream_format, out, pooled=pooled) as write,
        ):
            sentences = self._with_warnings(read_sentences(job.inputs, text, report), report)
            for sentence, array in self._embedder.stream(sentences):
                write(sentence, array)
        print_truncated(report, quiet=self._quiet)
        exit_if_skipped(report, more="`-o FILE` also writes a list next to the file")

    def _embed(self, job: EmbedJob) -> RunSummary:
        start_s, rate = time.monotonic(), 0.0
        is_watched = not self._quiet and console.is_terminal(sys.stderr)
        if is_watched and not any(map(is_stream, job.inputs)):
            rate = expected_rate(job, self._embedder)
        progress = console.Progress(None, "tokens", rate=rate, is_estimate=True, quiet=self._quiet)

        def on_progress(done: int, total: int | None) -> None:
            if done and not progress.is_shown:
                self._note(f"resuming: {plural(done, 'token')} done")
            progress.update(done, total)

        with progress:
            summary = run_job(job, embedder=self._embedder, progress=on_progress, warn=self._warn)
        self._note_summary(job, summary, time.monotonic() - start_s)
        return summary

    def _note_model(self) -> None:
        embedder = self._embedder
        where = str(embedder.device)
        if embedder.device.type == "cpu":
            where += f", {plural(torch.get_num_threads(), 'thread')}"
        if embedder.precision != "float32":
            where += f", products in {embedder.precision}"
        dim = embedder.bilm.options.dim
        self._note(f"model {embedder.bilm.name}, {dim} dimensions, on {where}")
        if embedder.precision == "bf16":
            warn_of_slow_bf16(embedder.device, quiet=self._quiet)

    def _note_summary(self, job: EmbedJob, summary: RunSummary, seconds: float) -> None:
        print_truncated(summary.report, quiet=self._quiet)
        if n := summary.duplicates:
            equal = "sentence equals another" if n == 1 else "sentences equal others"
            self._note(f"{n:,} {equal}; --layout {job.file.layout} holds one")
        rate = f" ({summary.computed / seconds:,.0f} tokens/s)" if summary.computed else ""
        self._note(
            f"{summary.output}: {plural(summary.sentences, 'sentence')}, "
            f"{plural(summary.tokens, 'token')}, {format_bytes(summary.bytes)}; "
            f"{plural(summary.computed, 'token')} in {seconds:.1f} s{rate}"
        )

    def _with_warnings(
        self, sentences: Iterator[Sentence], report: InputReport
    ) -> Iterator[Sentence]:
        """The sentences; warnings about them are printed at once."""
        n_printed = 0
        for sentence in sentences:
            for warning in report.warnings[n_printed:]:
                self._warn(warning)
            n_printed = len(report.warnings)
            yield sentence
        for warning in report.warnings[n_printed:]:
            self._warn(warning)

    def _warn(self, message: str) -> None:
        if message:
            self._note(f"warning: {message}")

    def _note(self, message: str) -> None:
        console.note(message, quiet=self._quiet)

    def _print_json(self, objects: list[dict[str, Any]]) -> None:
        if self._as_json:
            console.print_json(objects[0] if len(objects) == 1 else objects)


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


def _in_words(job: EmbedJob, plan: Plan, seconds: list[float]) -> str:
    about = f"about {format_bytes(plan.size.total)}"
    if plan.size.is_copied:
        about += f" (on the disk {format_bytes(plan.size.peak)} while it is completed)"
    about += f", about {duration(seconds[0])} ({duration(seconds[1])} to {duration(seconds[2])})"
    left = ""
    if plan.committed:
        left = f"; {plural(plan.committed, 'sentence')} done, "
        left += f"{plural(plan.computed, 'token')} remaining"
    if plan.finished:
        about, left = format_bytes(plan.size.total), "; finished, nothing remains to be done"
    return (
        f"{job.output}: {plural(plan.sentences, 'sentence')}, {plural(plan.tokens, 'token')}, "
        f"{about}{left}; nothing was written"
    )
