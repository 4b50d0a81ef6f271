"""A run whose file is complete: recognized from its text and settings, without the model.

Nothing here imports torch.
"""

from __future__ import annotations

from pathlib import Path

from elmo_cli.embed.blocks import read_blocks, scan_text
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run_spec import run_spec_of_files
from elmo_cli.embed.run_summary import RunSummary, update_skipped_list
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.store.unfinished import is_finished
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.input import InputReport, is_stream


def summary_if_finished(job: EmbedJob, files: ModelFiles) -> RunSummary | None:
    """The summary of a job that is to be resumed and has nothing left to compute; otherwise None.

    It is also None where a run decides: with state "warm", for a text from a pipe, and for a file
    that was made from another text.

    Args:
        files: those of the model of the job.
    Raises:
        ResumeError: the file was made with other settings, or is not one of embeddings.
    """
    has_stream = any(is_stream(path) for path in job.inputs)
    if not job.resume or not is_finished(job.output) or has_stream:
        return None
    job = job.for_model(files.read_options())
    first_key = 0
    if job.shard is not None:
        scan = scan_text(job)
        first_key = scan.first_key(scan.shard(job.shard, state=job.embedder.state))
        report = scan.report
        text_sha256 = scan.text_sha256
    else:
        report = InputReport()
        text_sha256 = ""
        for block in read_blocks(job, report):
            text_sha256 = block.info.text_sha256
    spec = run_spec_of_files(job, files, first_key)
    if spec is None:
        return None
    with EmbeddingsWriter.open(job.output, spec, resume=True) as writer:
        committed = writer.progress
        if not writer.finished or committed.text_sha256 != text_sha256:
            return None
    update_skipped_list(job, report)
    return RunSummary(
        output=job.output,
        sentences=committed.sentences - committed.duplicates,
        tokens=committed.tokens,
        duplicates=committed.duplicates,
        computed=0,
        bytes=Path(job.output).stat().st_size,
        report=report,
        warnings=tuple(report.warnings),
    )
