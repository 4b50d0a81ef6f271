"""RunSummary: what a run of `elmo embed` did. Nothing here imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elmo_cli.embed.job import EmbedJob
from elmo_cli.files import write_text
from elmo_cli.fit import FitPoint
from elmo_cli.messages import tsv_line
from elmo_cli.text.input import InputReport


@dataclass(frozen=True)
class RunSummary:
    """What a run did.

    Attributes:
        output: the file.
        sentences, tokens: in the file.
        duplicates: sentences left out because the file has an equal one (layouts manylangs and
            bio-embeddings).
        computed: tokens computed by this run; fewer than `tokens` after `resume=True`, more where
            duplicates were computed and left out.
        bytes: size of the file.
        lacks_equal_lines: whether this run made a sentence map that has one entry for several
            sentences.
        report: what the readers reported.
        fit: how the first tokens fit the vocabulary of the model; empty if the model has none, or
            if the file was complete before.
        warnings: all warnings of the run, including those of the report.
    """

    output: str
    sentences: int
    tokens: int
    duplicates: int
    computed: int
    bytes: int
    report: InputReport
    lacks_equal_lines: bool = False
    fit: tuple[FitPoint, ...] = ()
    warnings: tuple[str, ...] = ()


def update_skipped_list(job: EmbedJob, report: InputReport) -> None:
    """Write the list of skipped lines, or remove that of an earlier run."""
    if report.skipped:
        lines = (tsv_line(line.source, line.line, line.reason) for line in report.skipped)
        write_text(job.skipped_list, lines, errors="surrogateescape")
    else:
        Path(job.skipped_list).unlink(missing_ok=True)
