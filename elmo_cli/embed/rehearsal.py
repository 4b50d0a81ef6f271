"""Rehearsal: a run with one output file up to where its model would compute; it makes no file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from elmo_cli.embed.block_run import blocks_of_inputs, check_vocabulary
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob, suited
from elmo_cli.embed.run import output_bytes, surveyed, writer_settings
from elmo_cli.embed.same_text import check_begun, check_finished, too_short
from elmo_cli.embed.survey import Survey
from elmo_cli.errors import InputError
from elmo_cli.store.finished import finished_facts
from elmo_cli.store.journal import Journal, Progress, check_settings, read_journal
from elmo_cli.store.layouts import layout_class
from elmo_cli.store.layouts.datasets import DatasetLayout
from elmo_cli.store.layouts.numbered import NumberedLayout
from elmo_cli.store.part import refuse_committed
from elmo_cli.store.place import check_free, is_finished, output_errors, part_path, real_path
from elmo_cli.store.settings import checked_settings, settings_of
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.input import InputReport, shorten_list


@dataclass(frozen=True)
class Rehearsal:
    """What a run would do.

    Attributes:
        sentences, tokens: in the file when it is whole.
        exact: false where these were reckoned from a sample.
        bytes: size of that file, about.
        computed: tokens that are left to compute.
        committed: sentences that are in the file already.
        finished: whether the file is whole, and nothing is left to do.
        warning: what is odd about it; "" for nothing.
    """

    sentences: int
    tokens: int
    exact: bool
    bytes: int
    computed: int
    committed: int = 0
    finished: bool = False
    warning: str = ""


def rehearse(job: EmbedJob, embedder: Embedder) -> Rehearsal:
    """Look at all that a run would look at before its model computes, and refuse what it would.

    Args:
        job: whose places `check_places` has looked at.
    Raises:
        ElmoError: as the run; of what its model or the disk would refuse nothing is known.
    """
    job = suited(job, embedder)
    finished = job.resume and is_finished(job.output)
    journal = None if finished or job.overwrite else _journal(job.output)
    reads_all = finished or journal is not None or _is_named_by_text(job)
    found, blocks_of, share = surveyed(job, by_block=reads_all or job.layout == "bilm-types")
    if found is None or share is None:
        raise InputError(
            f"{shorten_list(job.inputs)}: not all there any more", "name files that stay"
        )
    settings = writer_settings(job, embedder, found, blocks_of)
    now = checked_settings(job.form(), settings["header"], settings["first_sentence"])
    if finished:
        return _finished(job, found, now)
    done = _committed(job, journal, now)
    if job.resume and journal is not None and journal.finished:
        return _whole(job, done, found, journal.duplicates, part_path(real_path(job.output)))
    own_sha256 = found.block_sha256[blocks_of.start : blocks_of.stop]
    if done.blocks > len(own_sha256):
        raise too_short(job.output, done)
    if done.blocks:
        check_begun(job.output, done, own_sha256[done.blocks - 1])
    n_sentences, n_tokens = share.sentences, share.tokens
    if _is_named_by_text(job):
        n_sentences, n_tokens = _named(job, settings, blocks_of)
    elif job.layout == "bilm-types":
        for block in islice(blocks_of_inputs(job, InputReport()), blocks_of.start, blocks_of.stop):
            check_vocabulary(block)
    return Rehearsal(
        n_sentences,
        n_tokens,
        share.exact,
        output_bytes(job, embedder, Survey(n_sentences, n_tokens, share.exact)),
        computed=share.tokens
        - sum(islice(found.block_tokens, blocks_of.start, blocks_of.start + done.blocks)),
        committed=done.sentences,
        warning="" if blocks_of else found.empty_shard(*job.shard or (1, 1)),
    )


def _is_named_by_text(job: EmbedJob) -> bool:
    """Whether datasets have names that a text may give twice, or not give."""
    layout = layout_class(job.layout, job.keys)
    return issubclass(layout, DatasetLayout) and not issubclass(layout, NumberedLayout)


def _named(job: EmbedJob, settings: Mapping[str, Any], blocks_of: range) -> tuple[int, int]:
    """Let a writer name all sentences, without vectors, in a folder that is gone thereafter.

    Returns:
        sentences and tokens of the file.
    """
    with (
        TemporaryDirectory() as folder,
        EmbeddingsWriter.create(os.path.join(folder, "names.hdf5"), **settings) as writer,
    ):
        for block in islice(blocks_of_inputs(job, InputReport()), blocks_of.start, blocks_of.stop):
            for sentence in block.sentences:
                shape = (0,) if job.pool else (len(sentence.tokens), 0)
                writer.append(sentence, np.empty(shape, np.float32))
            writer.commit(block.text_sha256)
        return writer.progress.sentences - writer.duplicates, writer.progress.tokens


def _journal(out: str) -> Journal | None:
    """What is committed of OUT.part; None where nothing is."""
    part = part_path(real_path(out))
    with output_errors(f"{out}.part"):
        return read_journal(part) if part.is_file() and part.stat().st_size else None


def _committed(job: EmbedJob, journal: Journal | None, settings: Mapping[str, Any]) -> Progress:
    """What is committed, if the run may go on with it.

    Raises:
        OutputError, ResumeError: it may not.
    """
    if journal is None:
        return Progress()
    if not job.resume:
        refuse_committed(job.output, journal)
        return Progress()
    where = f"{job.output}.part: unfinished, {journal.sentences} sentences"
    check_settings(where, journal.settings, settings)
    if not (journal.overwrite or journal.finished):
        check_free(job.output)
    return journal.progress


def _finished(job: EmbedJob, found: Survey, settings: Mapping[str, Any]) -> Rehearsal:
    """What is left to do where the file is finished: nothing, if it is what was asked for."""
    facts = finished_facts(job.output)
    check_settings(f"{job.output}: finished", settings_of(facts), settings)
    duplicates = facts.get("duplicates", 0)
    n_read, text_sha256 = facts["sentences"] + duplicates, facts.get("text_sha256", "")
    done = Progress(n_read, facts["tokens"], text_sha256=text_sha256)
    return _whole(job, done, found, duplicates, Path(job.output))


def _whole(job: EmbedJob, done: Progress, found: Survey, duplicates: int, file: Path) -> Rehearsal:
    n_all = found.sentences if job.shard is None else None
    check_finished(job.output, done, found.text_sha256, n_all)
    return Rehearsal(
        done.sentences - duplicates,
        done.tokens,
        True,
        file.stat().st_size,
        computed=0,
        committed=done.sentences,
        finished=True,
    )
