"""run_job: everything that `elmo embed` does with one output file."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from elmo_cli.embed.block_run import BlockRun, Watcher, blocks_of_inputs
from elmo_cli.embed.blocks import Block
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob, header, suited
from elmo_cli.embed.summary import Summary
from elmo_cli.embed.survey import Survey, check_space, survey
from elmo_cli.errors import OutputError, UsageError
from elmo_cli.files import check_output_path, tsv_line, write_text
from elmo_cli.pretrained.load import load
from elmo_cli.store.apart import beside_embeddings, check_apart, skipped_list
from elmo_cli.store.discard import discard, whole_or_nothing
from elmo_cli.store.place import check_free, check_place, is_finished, part_path, real_path
from elmo_cli.store.settings import DTYPES
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.formats import check_texts
from elmo_cli.text.notes import Notes

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
    "surveyed",
    "write_shard",
    "writer_settings",
]


def run_job(job: EmbedJob, watcher: Watcher | None = None) -> Summary:
    """Load the model and embed the inputs into the output.

    Raises:
        ElmoError: of every kind; what was committed stays for `resume`.
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
    check_texts(job.inputs, job.text)
    read = (job.model, job.options, job.weights)
    check_apart(job.output, job.inputs, read, beside=beside_embeddings(job.output))
    check_place(job.output)
    if not (job.overwrite or job.resume):
        check_free(job.output)
    is_own = job.resume and (is_finished(job.output) or part_path(real_path(job.output)).exists())
    check_output_path(skipped_list(job.output), overwrite=job.overwrite or is_own)


def check_model_apart(job: EmbedJob, embedder: Embedder) -> None:
    """Refuse an output that is a file of the model, of which a job need not name all.

    Raises:
        UsageError: it is one.
    """
    beside = beside_embeddings(job.output)
    check_apart(job.output, (), embedder.bilm.files, beside=beside)


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
        bare=job.layout == "manylangs",
        batch_size=job.batch_size,
        engine=job.engine,
        precision=job.precision,
        device=job.device,
    )
    if job.engine == "fast":
        bilm.to("meta")  # nobody else has it
    return embedder


def run_with(job: EmbedJob, embedder: Embedder, watcher: Watcher | None = None) -> Summary:
    """As `run_job`, with an embedder that is there already.

    What is left out with `on_error="skip"` is listed beside the output, see `skipped_list`.
    """
    job = suited(job, embedder)
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
            # It may fit all the same; if not, what is done is kept.
            if watcher is not None:
                watcher.warn(error.message)
            else:
                warnings.warn(error.message, stacklevel=2)
    with _writer(job, embedder, found, blocks_of) as writer:
        try:
            summary = BlockRun(job, embedder, writer, watcher, found, blocks_of).work()
        except BaseException:
            if not (writer.finished or writer.progress.blocks):
                discard(writer, job.output)  # there is nothing in it to go on with
            raise
    _list_skipped(summary)
    return summary


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
    settings = _settings(job, embedder, _first_key(blocks, found))
    with whole_or_nothing(job.output, overwrite=True, **settings) as writer:
        return BlockRun(job, embedder, writer, None, found, blocks_of, blocks).work()


def output_bytes(job: EmbedJob, embedder: Embedder, found: Survey) -> int:
    """Size of a file with what was found, about."""
    output, options = embedder.output, embedder.bilm.options
    types_only = job.layout == "bilm-types"
    return found.bytes(
        job.layout,
        n_kept=1 if types_only else output.n_kept,
        dim=options.projection if types_only else options.dim,
        itemsize=DTYPES[job.dtype].itemsize,
        pooled=job.pool is not None,
    )


def smaller(job: EmbedJob, embedder: Embedder) -> list[str]:
    """What would make the file smaller, for a hint."""
    halves = ["`--dtype float16` halves it"] if job.dtype == "float32" else []
    n_kept = 1 if job.layout == "bilm-types" else embedder.output.n_kept
    return halves + ([f"`--layers top` keeps 1 layer of {n_kept}"] if n_kept > 1 else [])


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
    part = part_path(real_path(path))
    return part.stat().st_size if part.is_file() else 0


def _writer(
    job: EmbedJob, embedder: Embedder, found: Survey | None, blocks_of: range
) -> EmbeddingsWriter:
    settings = writer_settings(job, embedder, found, blocks_of)
    if job.resume:
        return EmbeddingsWriter.resume(job.output, **settings)
    return EmbeddingsWriter.create(job.output, overwrite=job.overwrite, **settings)


def writer_settings(
    job: EmbedJob, embedder: Embedder, found: Survey | None, blocks_of: range
) -> dict[str, Any]:
    """What the writer of the job's file is made with."""
    return _settings(job, embedder, _first_sentence(job, found, blocks_of))


def _settings(job: EmbedJob, embedder: Embedder, first_sentence: int) -> dict[str, Any]:
    settings = {"header": header(job, embedder), "first_sentence": first_sentence}
    return {**job.form().settings(), **settings}


def _first_sentence(job: EmbedJob, found: Survey | None, blocks_of: range) -> int:
    """Key of the first sentence of a shard; a shard without blocks begins where the text ends."""
    if job.shard is None or found is None:
        return 0
    blocks = blocks_of_inputs(job, Notes())
    block = next(islice(blocks, blocks_of.start, None), None)
    return _first_key([] if block is None else [block], found)


def _first_key(blocks: Sequence[Block], found: Survey) -> int:
    return blocks[0].sentences[0].key if blocks else found.sentences + found.left_out
