"""run_job: everything that `elmo embed` does with one output file."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from elmo_cli.embed.block_run import BlockRun, Watcher, blocks_of_inputs
from elmo_cli.embed.blocks import Block
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob, run_settings, suited
from elmo_cli.embed.summary import Summary
from elmo_cli.embed.survey import FileBytes, Survey, check_space, survey
from elmo_cli.errors import OutputError, UsageError
from elmo_cli.files import check_distinct, check_output_path, tsv_line, write_text
from elmo_cli.pretrained.load import load
from elmo_cli.store.log_lines import is_finished, log_path, part_path
from elmo_cli.store.spec import DTYPES, FileSpec
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.input import InputReport, check_inputs

__all__ = [
    "Summary",
    "Watcher",
    "check_model_apart",
    "check_places",
    "embedder_of",
    "held_bytes",
    "output_bytes",
    "run_job",
    "run_with",
    "skipped_list",
    "spec_of",
    "surveyed",
    "write_shard",
]


def run_job(job: EmbedJob, watcher: Watcher | None = None) -> Summary:
    """Load the model and embed the inputs into the output.

    Raises:
        ElmoError: of every kind; what was committed stays for `resume=True`.
    """
    check_places(job)
    embedder = embedder_of(job)
    check_model_apart(job, embedder)
    return run_with(job, embedder, watcher)


def check_places(job: EmbedJob) -> None:
    """Refuse inputs that can't be read and an output that can't be written, before any work.

    Raises:
        InputError: an input is not there.
        OutputError: the output is there already, or the list of what it leaves out, or its folder
            is not.
        UsageError: the output is also read from, or is standard output.
    """
    if job.output == "-":
        raise UsageError("-: standard output is no file", "name a file; `elmo embed -o -` streams")
    check_inputs(job.inputs, job.text)
    for written in (job.output, skipped_list(job.output)):
        check_distinct(written, job.inputs)
        check_distinct(written, (job.model, job.options, job.weights), what="a file of the model")
    check_output_path(job.output, overwrite=job.overwrite or job.resume, regular=True)
    is_begun = is_finished(job.output) or log_path(part_path(job.output)).exists()
    is_own = job.resume and is_begun
    check_output_path(skipped_list(job.output), overwrite=job.overwrite or is_own)


def check_model_apart(job: EmbedJob, embedder: Embedder) -> None:
    """Refuse an output that is a file of the model, of which a job need not name all.

    Raises:
        UsageError: it is one.
    """
    for written in (job.output, skipped_list(job.output)):
        check_distinct(written, embedder.bilm.files, what="a file of the model")


def embedder_of(job: EmbedJob) -> Embedder:
    """The embedder that a job asks for, its model loaded.

    With the fast engine, which has weights of its own, those of its `bilm` are freed.
    """
    bilm = load(job.model, options=job.options, weights=job.weights)
    embedder = Embedder(
        bilm,
        state=job.state,
        layers=job.layers,
        dtype=job.dtype,
        pool=job.pool,
        drop_layer_axis="one layer" in job.file_layout.needs,
        batch_size=job.batch_size,
        engine=job.engine,
        precision=job.precision,
        device=job.device,
    )
    if job.engine == "fast":
        bilm.to("meta")  # nobody else has it
    return embedder


def run_with(job: EmbedJob, embedder: Embedder, watcher: Watcher | None = None) -> Summary:
    """Embed the inputs into the output with an embedder that exists already.

    What is left out with `on_error="skip"` is listed next to the output, see `skipped_list`.

    Raises:
        ElmoError: of every kind; what was committed stays for `resume=True`.
    """
    job = suited(job, embedder)
    if job.state == "warm" and (unsure := embedder.bilm.warm_state_warning) and watcher is not None:
        watcher.warn(unsure)
    found, blocks_of, share = surveyed(job)
    if share is not None and not (job.resume and is_finished(job.output)):
        needed = output_bytes(job, embedder, share)
        try:
            check_space(
                job.output, needed, held=held_bytes(job.output), smaller=smaller(job, embedder)
            )
        except OutputError as error:
            if share.exact:
                raise
            _warn(watcher, error.message)  # it may fit all the same; if not, what is done is kept
    spec = spec_of(job, embedder, found, blocks_of)
    with EmbeddingsWriter.open(
        job.output, spec, resume=job.resume, overwrite=job.overwrite
    ) as writer:
        for warning in writer.warnings:
            _warn(watcher, warning)
        summary = BlockRun(job, embedder, writer, watcher, found, blocks_of).work()
    _list_skipped(summary)
    return summary


def _warn(watcher: Watcher | None, message: str) -> None:
    if watcher is not None:
        watcher.warn(message)
    else:
        warnings.warn(message, stacklevel=3)


def surveyed(
    job: EmbedJob, *, by_block: bool = False
) -> tuple[Survey | None, range, Survey | None]:
    """What there is to read, which of its blocks are the job's, and what there is in those.

    Args:
        by_block: read all of it and cut it into blocks, as is done for a shard in any case.
    Returns:
        The surveys are None where the inputs can be read only once.
    Raises:
        UsageError, InputError: as `read_sentences`.
    """
    found = survey(
        job.inputs,
        job.text,
        state=job.state,
        batch_size=job.batch_size,
        whole=by_block or job.shard is not None,
        layout=job.file_layout,
    )
    if job.shard is None or found is None:
        return found, range(2**62), found
    blocks_of = found.shard(*job.shard, state=job.state)
    return found, blocks_of, found.of_blocks(blocks_of)


def write_shard(
    job: EmbedJob, embedder: Embedder, found: Survey, blocks_of: range, blocks: Sequence[Block]
) -> Summary:
    """Make the file of one shard from blocks that were read elsewhere.

    Args:
        job: with its `shard`; an output that is there is replaced.
        found: the survey of the whole input.
        blocks_of: numbers of the shard's blocks.
        blocks: those blocks.
    Raises:
        ElmoError: of every kind; nothing is left of the file then.
    """
    spec = job.spec(run_settings(job, embedder), _first_key(blocks, found))
    with EmbeddingsWriter.open(job.output, spec, overwrite=True) as writer:
        try:
            return BlockRun(job, embedder, writer, None, found, blocks_of, blocks).work()
        except BaseException:
            writer.close(discard=True)
            raise


def output_bytes(job: EmbedJob, embedder: Embedder, found: Survey) -> FileBytes:
    """Size of a file with what was found, about."""
    output, options = embedder.output, embedder.bilm.options
    types_only = job.file_layout.unit == "types"
    return found.bytes(
        job.file_layout,
        n_kept=1 if types_only else output.n_kept,
        dim=options.projection_dim if types_only else options.dim,
        itemsize=DTYPES[job.dtype].itemsize,
        pooled=job.pool is not None,
    )


def smaller(job: EmbedJob, embedder: Embedder) -> list[str]:
    """What would make the file smaller, for a hint."""
    halves = ["`dtype=float16` halves it"] if job.dtype == "float32" else []
    n_kept = 1 if job.file_layout.unit == "types" else embedder.output.n_kept
    return halves + ([f"`layers=top` keeps 1 layer of {n_kept}"] if n_kept > 1 else [])


def skipped_list(output: str) -> str:
    """Where a run lists the input that `on_error="skip"` left out."""
    return f"{output}.skipped.tsv"


def _list_skipped(summary: Summary) -> None:
    """Write what was left out beside the output; a list of a run before is no longer true."""
    path = Path(skipped_list(summary.output))
    if summary.notes.skipped:
        lines = (tsv_line(*place) for place in summary.notes.skipped)
        write_text(path, lines, errors="surrogateescape")
    else:
        path.unlink(missing_ok=True)


def held_bytes(path: str) -> int:
    """Bytes of the unfinished file of `path`."""
    part = part_path(path)
    return part.stat().st_size if part.is_file() else 0


def spec_of(job: EmbedJob, embedder: Embedder, found: Survey | None, blocks_of: range) -> FileSpec:
    """The settings of the job's file."""
    return job.spec(run_settings(job, embedder), _first_sentence(job, found, blocks_of))


def _first_sentence(job: EmbedJob, found: Survey | None, blocks_of: range) -> int:
    """Key of the first sentence of a shard; a shard without blocks begins where the text ends."""
    if job.shard is None or found is None:
        return 0
    blocks = blocks_of_inputs(job, InputReport())
    block = next(islice(blocks, blocks_of.start, None), None)
    return _first_key([] if block is None else [block], found)


def _first_key(blocks: Sequence[Block], found: Survey) -> int:
    return blocks[0].sentences[0].key if blocks else found.sentences + found.left_out
