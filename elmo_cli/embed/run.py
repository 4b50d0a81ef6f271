"""run_job and embed_file: from text files to one embeddings file, block after block."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace

from elmo_cli.caller_warnings import warn_caller
from elmo_cli.embed.blocks import Block, TextScan, read_blocks, scan_text
from elmo_cli.embed.embed_run import EmbedRun, OnProgress, Warn
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.progress_line import ProgressLine
from elmo_cli.embed.run_summary import RunSummary as RunSummary
from elmo_cli.embed.run_summary import update_skipped_list
from elmo_cli.files import check_distinct
from elmo_cli.model.bilm import BiLM
from elmo_cli.pretrained.load import load_files, locate
from elmo_cli.store.shard_number import ShardNumber
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.input import InputReport, InputSettings, Name, is_stream


def embed_file(
    text: Name,
    output: Name,
    embedder: Embedder,
    *,
    file: FileSpec | None = None,
    input_settings: InputSettings | None = None,
    shard: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: bool | OnProgress = False,
) -> RunSummary:
    """Embed a text file into an embeddings file with an embedder, as `elmo embed` does.

    Args:
        output: the file; with the suffix .parquet it is Parquet, otherwise HDF5.
        file: layout and keys; its dtype is the embedder's.
        input_settings: how the text is read.
        shard: "1/4" for the first of four shards.
        overwrite: replace an existing output.
        resume: continue an unfinished output, or start it.
        progress: True for a line on standard error; or a function that is called with the tokens
            done so far and about how many there are in all (None if unknown), first before any
            computing and then by another thread.
    Raises:
        ElmoError: of every kind; what was committed stays for `resume=True`.

    Example:
        embed_file("corpus.txt", "corpus.hdf5", Embedder(load()))
    """
    job = EmbedJob(
        inputs=(os.fspath(text),),
        output=os.fspath(output),
        text=input_settings or InputSettings(),
        embedder=embedder.settings,
        file=file or FileSpec(),
        shard=ShardNumber.parse(shard) if shard else None,
        overwrite=overwrite,
        resume=resume,
    )
    if progress is False:
        return run_job(job, embedder=embedder)
    if progress is not True:
        return run_job(job, embedder=embedder, progress=progress)
    line = ProgressLine(job.output)
    with ExitStack() as stack:
        stack.callback(line.finish)
        return run_job(job, embedder=embedder, progress=line)


def run_job(
    job: EmbedJob,
    *,
    embedder: Embedder | None = None,
    progress: OnProgress | None = None,
    warn: Warn | None = None,
) -> RunSummary:
    """Embed the inputs of a job into its output.

    Args:
        embedder: made with the settings of the job; by default the model is loaded.
        progress: see `OnProgress`.
        warn: called with each warning, `warn_caller` by default; warnings about the input come
            before any computing.
    Raises:
        ElmoError: of every kind; what was committed stays for `resume=True`.
    """
    job.check_paths()
    embedder = embedder or make_embedder(job)
    for path in (job.output, job.skipped_list):
        check_distinct(path, embedder.bilm.files, what="a file of the model")
    job = job.for_model(embedder.bilm.options)
    give_warning = warn or warn_caller
    messages: list[str] = []

    def give_and_collect(message: str) -> None:
        messages.append(message)
        give_warning(message)

    scan = _scan_if_needed(job)
    warn_of_warm_state(embedder, give_and_collect)
    report = InputReport()
    on_progress = progress or _ignore_progress
    run = EmbedRun(job, embedder, scan, report, on_progress=on_progress, warn=give_and_collect)
    summary = run.write(read_blocks(job, report))
    update_skipped_list(job, report)
    return replace(summary, warnings=tuple(messages))


def warn_of_warm_state(embedder: Embedder, warn: Warn) -> None:
    """Warn if sentences start from a warm state that may be of another model."""
    if embedder.start is not None and embedder.bilm.warm_state_warning:
        warn(embedder.bilm.warm_state_warning)


def _scan_if_needed(job: EmbedJob) -> TextScan | None:
    """Read the whole text first if a shard or unique names need it and it can be read twice."""
    is_needed = job.shard is not None or job.layout.keyed_by == "name"
    has_stream = any(is_stream(path) for path in job.inputs)
    return scan_text(job) if is_needed and not has_stream else None


def _ignore_progress(done: int, total: int | None) -> None: ...


def _ignore_warning(message: str) -> None: ...


def make_embedder(job: EmbedJob, bilm: BiLM | None = None) -> Embedder:
    """Make the embedder of a job.

    Args:
        bilm: the model of the job, used by nobody else; by default it is loaded.
    """
    if bilm is None:
        bilm = load_files(locate(job.model))
    embedder = Embedder(bilm, job.embedder)
    if job.embedder.engine == "fast":
        embedder.weights_guard.release()  # frees the weights: the engine has its own copy
    return embedder


def write_shard(
    job: EmbedJob, embedder: Embedder, scan: TextScan, blocks: Iterable[Block]
) -> RunSummary:
    """Write the file of a shard from blocks that were read elsewhere.

    Args:
        job: its output is a temporary file of the caller, who decides what it replaces.
    """
    job = replace(job, overwrite=True)  # nothing to protect
    run = EmbedRun(
        job, embedder, scan, InputReport(), on_progress=_ignore_progress, warn=_ignore_warning
    )
    return run.write(blocks)
