"""A dry run: everything that a run checks before its model computes; it writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from elmo_cli.embed.block_run import blocks_of_inputs, check_vocabulary
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob, suited
from elmo_cli.embed.run import output_bytes, spec_of, surveyed
from elmo_cli.embed.same_text import check_begun, check_finished, too_short
from elmo_cli.embed.survey import FileBytes, Survey
from elmo_cli.errors import InputError
from elmo_cli.files import check_output_path, output_errors
from elmo_cli.store.layouts import UniqueNames
from elmo_cli.store.log_lines import Progress, is_finished, log_path, part_path, read_log
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import (
    check_same_settings,
    finished_attributes,
    progress_of,
    refuse_committed,
)
from elmo_cli.text.input import InputReport, shorten_list


@dataclass(frozen=True)
class Rehearsal:
    """What a run would do.

    Attributes:
        sentences, tokens: in the finished file.
        exact: false where these are estimates from a sample.
        bytes: size of that file, about.
        computed: tokens that remain to be computed.
        committed: sentences that are in the file already.
        finished: whether the file is complete, and nothing remains to be done.
        warning: what is odd about it; "" for nothing.
    """

    sentences: int
    tokens: int
    exact: bool
    bytes: FileBytes
    computed: int
    committed: int = 0
    finished: bool = False
    warning: str = ""


def rehearse(job: EmbedJob, embedder: Embedder) -> Rehearsal:
    """Check all that a run would check before its model computes, and refuse what it would.

    Args:
        job: whose paths `check_places` has accepted.
    Raises:
        ElmoError: as the run; of what its model or the disk would refuse nothing is known.
    """
    job = suited(job, embedder)
    layout = job.file_layout
    finished = job.resume and is_finished(job.output)
    done = Progress() if finished or job.overwrite else _committed(job)
    by_block = finished or done.blocks > 0 or layout.unit == "types"
    found, blocks_of, share = surveyed(job, by_block=by_block)
    if found is None or share is None:
        raise InputError(
            f"{shorten_list(job.inputs)}: some are missing now", "name files that stay"
        )
    spec = spec_of(job, embedder, found, blocks_of)
    if finished:
        return _finished(job, found, spec)
    if done.blocks:
        check_same_settings(f"{job.output}.part: unfinished", _settings(job), spec)
        _check_same_text(job, done, found.block_sha256[blocks_of.start : blocks_of.stop])
    n_sentences, n_tokens = share.sentences, share.tokens
    if layout.keeps_first or layout.unit == "types":
        n_sentences, n_tokens = _stored(job, blocks_of)
    committed = range(blocks_of.start, blocks_of.start + done.blocks)
    return Rehearsal(
        n_sentences,
        n_tokens,
        share.exact,
        output_bytes(job, embedder, Survey(n_sentences, n_tokens, share.exact)),
        computed=share.tokens - sum(found.block_tokens[k] for k in committed),
        committed=done.sentences,
        warning="" if blocks_of else found.empty_shard(*job.shard or (1, 1)),
    )


def _stored(job: EmbedJob, blocks_of: range) -> tuple[int, int]:
    """Sentences and tokens that the file gets, for a layout that may leave some out."""
    names, n_sentences, n_tokens = UniqueNames(job.file_layout), 0, 0
    for block in islice(blocks_of_inputs(job, InputReport()), blocks_of.start, blocks_of.stop):
        if job.file_layout.unit == "types":
            check_vocabulary(block)
        for sentence in filter(names.add, block.sentences):
            n_sentences, n_tokens = n_sentences + 1, n_tokens + len(sentence.tokens)
    return n_sentences, n_tokens


def _committed(job: EmbedJob) -> Progress:
    """What is committed of an unfinished output, if the run may continue it.

    Raises:
        OutputError, ResumeError: it may not.
    """
    part = part_path(job.output)
    with output_errors(f"{job.output}.part"):
        if not (part.is_file() and part.stat().st_size and log_path(part).exists()):
            return Progress()
        _, overwrite, progress = read_log(part)
    if not job.resume:
        refuse_committed(job.output, progress)
        return Progress()
    check_output_path(job.output, overwrite=overwrite)
    return progress


def _settings(job: EmbedJob) -> FileSpec:
    return read_log(part_path(job.output))[0]


def _check_same_text(job: EmbedJob, done: Progress, block_sha256: tuple[str, ...]) -> None:
    if done.blocks > len(block_sha256):
        raise too_short(job.output, done)
    check_begun(job.output, done, block_sha256[done.blocks - 1])


def _finished(job: EmbedJob, found: Survey, spec: FileSpec) -> Rehearsal:
    """What remains to be done where the file is finished: nothing, if it is what was asked for."""
    facts = finished_attributes(job.output)
    check_same_settings(f"{job.output}: finished", FileSpec.from_attributes(facts), spec)
    done = progress_of(facts)
    n_all = found.sentences if job.shard is None else None
    check_finished(job.output, done, found.text_sha256, n_all)
    return Rehearsal(
        done.sentences - done.duplicates,
        done.tokens,
        True,
        FileBytes(0, Path(job.output).stat().st_size, is_copied=False),
        computed=0,
        committed=done.sentences,
        finished=True,
    )
