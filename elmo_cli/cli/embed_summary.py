"""What `elmo embed` prints of its files when they are complete. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elmo_cli.cli import console
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run_summary import RunSummary
from elmo_cli.fit import FitPoint, fit_facts
from elmo_cli.messages import format_bytes, plural
from elmo_cli.text.input_report import InputReport


def note_summary(job: EmbedJob, summary: RunSummary, seconds: float | None) -> None:
    """Print what a run did.

    Args:
        seconds: the duration of the run; None if the file was complete before it.
    """
    console.print_truncated(summary.report)
    if summary.duplicates:
        repeated = plural(summary.duplicates, "repeated sentence")
        console.note(f"{repeated} left out by --layout {job.file.layout}")
    note_fit(summary.fit)
    console.note(_summary_line(summary, seconds))


def note_fit(points: Sequence[FitPoint]) -> None:
    """Print the line of each point, unless its warning has been printed."""
    console.note(*(point.line for point in points if not point.warning))


def note_programs(
    job: EmbedJob, reports: Sequence[InputReport], *, lacks_equal_lines: bool = False
) -> None:
    """Print which options other programs need to read files of this text.

    Args:
        job: its settings are those of all files.
        lacks_equal_lines: whether a sentence map has one entry for several sentences.
    """
    file = job.file
    has_map = file.layout == "allennlp" and file.keys == "number" and not file.forget_sentences
    has_blank_lines = job.text.blank == "keep" and any(report.blank_lines for report in reports)
    n_rows_left_out = sum(report.rows_left_out for report in reports)
    if lacks_equal_lines:
        note_equal_lines()
    if has_map and has_blank_lines:
        console.note("blank lines: NeuroX needs a text without them")
    if n_rows_left_out:
        left_out = f"{plural(n_rows_left_out, 'row')} of multiword tokens or empty nodes left out"
        console.note(f"{left_out}: structural-probes needs `--rows all`")


def note_equal_lines() -> None:
    """Print that a sentence map has one entry for several sentences."""
    console.note(
        "repeated sentences: NeuroX needs `--sentence-map occurrences` of `elmo embed` or "
        "`elmo convert`"
    )


def print_summaries(jobs: Sequence[EmbedJob], summaries: Sequence[RunSummary]) -> None:
    """Print the results of jobs as JSON, if asked for; exit with code 3 if lines were skipped.

    What other programs need is printed once for all files.
    """
    if jobs:
        note_programs(
            jobs[0],
            [summary.report for summary in summaries],
            lacks_equal_lines=any(summary.lacks_equal_lines for summary in summaries),
        )
    print_objects([_summary_facts(summary) for summary in summaries])
    skipped_lists = []
    for job, summary in zip(jobs, summaries, strict=True):
        if summary.report.skipped:
            skipped_lists.append(job.skipped_list)
    reports = [summary.report for summary in summaries]
    console.exit_if_skipped(*reports, lists=skipped_lists)


def _summary_line(summary: RunSummary, seconds: float | None) -> str:
    sentences = plural(summary.sentences, "sentence")
    tokens = plural(summary.tokens, "token")
    computed = plural(summary.computed, "token")
    line = f"{summary.output}: {sentences}, {tokens}, {format_bytes(summary.bytes)}; "
    if seconds is None:
        return f"{line}complete already"
    line += f"{computed} in {seconds:.1f} s"
    if summary.computed:
        line += f" ({summary.computed / seconds:,.0f} tokens/s)"
    return line


def _summary_facts(summary: RunSummary) -> dict[str, Any]:
    """Return the JSON object of a file."""
    report = summary.report
    return {
        "output": summary.output,
        "sentences": summary.sentences,
        "tokens": summary.tokens,
        "duplicates": summary.duplicates,
        "computed_tokens": summary.computed,
        "bytes": summary.bytes,
        "blank_lines": report.blank_lines,
        "fit": fit_facts(summary.fit),
        "truncated_tokens": report.truncated_tokens,
        "skipped": report.skipped,
        "warnings": list(summary.warnings),
    }


def print_objects(objects: list[dict[str, Any]]) -> None:
    """Print the objects of several files, or that of a single one, without brackets."""
    console.print_result(objects[0] if len(objects) == 1 else objects)
