"""EmbeddingsWriter: blocks of sentences in; an embeddings file out, when it is complete.

The HDF5 file is written once, at the end, from the block log; so its bytes do not depend on how
often the run was killed and resumed. See SCHEMA.md.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from elmo_cli.errors import OutputError, ResumeError
from elmo_cli.files import StrPath, check_output_path, output_errors, publish, resolve, sync_folder
from elmo_cli.hdf5 import open_hdf5, reading
from elmo_cli.store.attributes import read_attributes, write_attributes
from elmo_cli.store.block_log import BlockLog
from elmo_cli.store.layouts import (
    Facts,
    StoredSentence,
    Totals,
    UniqueNames,
    layout_of_spec,
    tokens_digest,
)
from elmo_cli.store.log_lines import Progress, is_finished, log_path, part_path, read_log
from elmo_cli.store.output_file import Tally, check_space, new_hdf5, temporary_file
from elmo_cli.store.spec import SCHEMA, FileSpec, difference
from elmo_cli.text.sentence import Sentence

_BYTES_PER_DATASET = 600  # what HDF5 needs for one, besides values and name


class EmbeddingsWriter:
    """Writes one embeddings file; made by `open`, used in a `with`.

    A writer that leaves its `with` before `finish` keeps what is committed for `resume=True`.

    Attributes:
        finished: whether OUT is complete; a resumed file may be so at once.
        progress: what is committed.
        warnings: what was wrong with an unfinished output, and what a finished one lacks.
    """

    def __init__(self, path: StrPath, spec: FileSpec) -> None:
        """For `open`."""
        self.finished, self.warnings, self.progress = False, list[str](), Progress()
        self._out, self._spec, self._layout = path, spec, layout_of_spec(spec)
        self._names = UniqueNames(self._layout)
        self._is_stored: deque[bool] = deque()
        self._log: BlockLog | None = None

    @classmethod
    def open(
        cls, path: StrPath, spec: FileSpec, *, resume: bool = False, overwrite: bool = False
    ) -> EmbeddingsWriter:
        """Begin a file, or resume it.

        Args:
            path: OUT. A file that exists stays until the new one is complete.
            spec: its settings.
            resume: continue an unfinished output after its last good block; start it if there is
                none; accept OUT if it is finished with these settings.
            overwrite: replace OUT, also if it appears later, and discard an unfinished output.
        Raises:
            UsageError: settings that contradict each other.
            ResumeError: the output was made with other settings, or is not one of ours.
            OutputError: the path is taken or cannot be written to.
        """
        writer = cls(path, spec)
        check_output_path(path, overwrite=overwrite or resume, regular=True)
        if resume and is_finished(path):
            writer._adopt_finished()
            return writer
        writer._log = log = BlockLog(path)
        try:
            if resume and log.exists:
                writer._resume(log)
            else:
                if not overwrite:
                    check_output_path(path)
                    refuse_committed(path, read_log(log.part)[2] if log.exists else Progress())
                log.create(spec, overwrite=overwrite)
        except BaseException:
            log.close(remove=not log.exists)
            raise
        return writer

    def check_names(self, sentences: Iterable[Sentence]) -> None:
        """Check the names of the next sentences, before anything is computed for them.

        Raises:
            InputError: the file cannot hold one of them besides the sentences before it.
        """
        self._is_stored.extend(map(self._names.add, sentences))

    def append_block(
        self,
        sentences: Sequence[Sentence],
        arrays: Sequence[np.ndarray],
        *,
        text_sha256: str,
        state: bytes = b"",
    ) -> None:
        """Commit a block: whatever happens to the process, `resume=True` continues after it.

        Args:
            sentences: in the order of the input.
            arrays: of each (layer, token, dim) or (token, dim); pooled (layer, dim) or (dim,).
            text_sha256: the caller's running hash of the text up to here.
            state: what the caller needs to continue after these sentences.
        Raises:
            InputError: as `check_names`, which need not be called.
            UsageError: the layout is not for such sentences or arrays.
            OutputError: a value that the dtype cannot hold; no space left.
        """
        log = self._open_log()
        self.check_names(sentences[len(self._is_stored) :])
        stored = [
            self._layout.store(sentence, array, self._spec)
            for sentence, array in zip(sentences, arrays, strict=True)
            if self._is_stored.popleft()
        ]
        digests = b"".join(tokens_digest(sentence.tokens) for sentence in sentences)
        log.append(stored, digests, text_sha256=text_sha256, state=state)
        self.progress = log.progress

    def finish(self, attributes: Mapping[str, Any]) -> list[str]:
        """Write the HDF5 file, give it its name and remove the unfinished output.

        Args:
            attributes: facts besides the settings: versions, sources, ….
        Returns:
            what the file lacks, also in `warnings`.
        Raises:
            OutputError: no space left; OUT was created meanwhile and may not be overwritten.
            ResumeError: a block has become corrupt.
        """
        log = self._open_log()
        resumable = log.progress.blocks > 0
        with (
            output_errors(self._out, resumable=resumable),
            temporary_file(self._out) as (temporary, lock),
        ):
            facts = self._write(log, temporary, attributes)
            complete = log.complete(temporary, lock.descriptor, facts.extents)
            log.mark_finished(complete)
            hint = "move it elsewhere; then `resume=True` completes the output of this run"
            publish(complete, self._out, overwrite=log.overwrite, hint=hint)
            log.close(remove=True)
            sync_folder(resolve(self._out).parent)
        self._log, self.finished = None, True
        self.warnings += facts.warnings
        return facts.warnings

    def close(self, *, discard: bool = False) -> None:
        """Close, and keep what is committed for `resume=True` unless it is to be discarded."""
        log, self._log = self._log, None
        if log is not None:
            log.close(remove=discard or not log.progress.blocks)

    def __enter__(self) -> EmbeddingsWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _resume(self, log: BlockLog) -> None:
        """Continue an unfinished output after its last good block."""
        log.open()
        check_same_settings(f"{log.name}: unfinished", log.spec, self._spec)
        check_output_path(self._out, overwrite=log.overwrite)  # now, not after all the work
        for block in log.verified_blocks():
            self.check_names(one.sentence() for one in block.sentences)
        self._is_stored.clear()
        if log.is_corrupt:
            number = log.progress.blocks + 1
            self.warnings.append(
                f"{log.name}: block {number} is corrupt (checksum); computing it and the following "
                "ones again"
            )
        self.progress = log.progress

    def _adopt_finished(self) -> None:
        """Accept OUT, if it is what is to be made; remove what a kill may have left."""
        facts = finished_attributes(self._out)
        check_same_settings(
            f"{os.fspath(self._out)}: finished", FileSpec.from_attributes(facts), self._spec
        )
        if log_path(part_path(self._out)).exists():
            log = BlockLog(self._out)
            log.close(remove=is_finished(self._out))
        self.progress, self.finished = progress_of(facts), True

    def _open_log(self) -> BlockLog:
        if self._log is None:
            raise ValueError(f"the writer of {os.fspath(self._out)} is closed")
        return self._log

    def _write(self, log: BlockLog, file: Path, attributes: Mapping[str, Any]) -> Facts:
        """Write the HDF5 file, with room for the values."""
        metadata = log.metadata_bytes + _BYTES_PER_DATASET * log.totals.sentences
        values = log.data[1] if self._layout.copies_values else 0
        check_space(file, log.data[1] + metadata, values + metadata)
        tally = Tally()
        with new_hdf5(file, self._layout) as new:
            stored = tally.counted(log.without_values(tally.token_digests))
            facts = self._layout.write(new, stored, self._spec, log.totals)
            everything = tally.attributes(self._spec, self._layout, facts, attributes)
            write_attributes(new, everything)
        return facts


def write_embeddings(
    path: StrPath,
    spec: FileSpec,
    sentences: Iterable[tuple[Sentence, np.ndarray]],
    attributes: Mapping[str, Any],
    *,
    totals: Totals,
    overwrite: bool = False,
) -> list[str]:
    """Write a file that cannot be resumed, by way of OUT.tmp, which the next run replaces.

    Args:
        path: OUT.
        spec: its settings.
        sentences: with their arrays, in order.
        attributes: facts besides the settings.
        totals: of the sentences that the file gets.
        overwrite: replace OUT.
    Returns:
        what the file lacks.
    Raises:
        InputError, UsageError, OutputError: as `EmbeddingsWriter`; nothing is left of the file.
    """
    check_output_path(path, overwrite=overwrite, regular=True)
    layout, tally = layout_of_spec(spec), Tally()
    names = UniqueNames(layout)

    def stored() -> Iterator[StoredSentence]:
        for sentence, values in sentences:
            tally.token_digests += tokens_digest(sentence.tokens)
            if names.add(sentence):
                yield layout.store(sentence, values, spec)

    with output_errors(path), temporary_file(path) as (temporary, lock):
        with new_hdf5(temporary, layout) as file:
            facts = layout.write(file, tally.counted(stored()), spec, totals)
            write_attributes(file, tally.attributes(spec, layout, facts, attributes))
        os.fsync(lock.descriptor)
        publish(temporary, path, overwrite=overwrite, hint="`overwrite=True` replaces it")
        sync_folder(resolve(path).parent)
    return facts.warnings


def finished_attributes(path: StrPath, opened: IO[bytes] | None = None) -> dict[str, Any]:
    """The attributes of OUT.

    Args:
        opened: OUT itself, where it is not a file of this machine.
    Raises:
        ResumeError: OUT is not a finished embeddings file of ours.
        OutputError: the system cannot read it, so nobody knows what it is.
    """
    name, facts = os.fspath(path), dict[str, Any]()
    try:
        with open_hdf5(opened or path) as file, suppress(ResumeError), reading(name, ResumeError):
            facts = read_attributes(file)
    except OSError as error:
        if error.errno is not None:
            raise OutputError(
                f"{name}: exists and cannot be read ({os.strerror(error.errno)})",
                "check the disk and the permissions of the file, then run the same command again",
            ) from None
    counts = (facts.get("sentences"), facts.get("tokens"), facts.get("duplicate_sentences", 0))
    is_ours = facts.get("complete") is True and facts.get("elmo_schema") == SCHEMA
    try:
        FileSpec.from_attributes(facts)
    except (KeyError, TypeError, ValueError):
        is_ours = False
    if not is_ours or not all(isinstance(count, int) for count in counts):
        raise ResumeError(
            f"{name}: exists and is not an embeddings file that elmo finished",
            "`overwrite=True` replaces it; or choose another output path",
        )
    return facts


def progress_of(facts: Mapping[str, Any]) -> Progress:
    """What a finished file says of itself, as if it were all committed."""
    n_sentences, duplicates = facts["sentences"], facts.get("duplicate_sentences", 0)
    text_sha256 = facts.get("text_sha256", "")
    return Progress(1, n_sentences + duplicates, facts["tokens"], duplicates, text_sha256)


def refuse_committed(path: StrPath, progress: Progress) -> None:
    """Refuse to discard what another run committed of OUT.

    Raises:
        OutputError: there are sentences.
    """
    if progress.sentences:
        raise OutputError(
            f"{os.fspath(path)}.part: unfinished, {progress.sentences} sentences",
            "`resume=True` continues it, `overwrite=True` starts over",
            resumable=True,
        )


def check_same_settings(where: str, old: FileSpec, new: FileSpec) -> None:
    """Refuse to resume a file that was made with other settings.

    Args:
        where: the file and its state, for the message.
    Raises:
        ResumeError: names the first setting that differs, with both values.
    """
    if what := difference(old, new):
        raise ResumeError(
            f"{where}, {what}", "`overwrite=True` starts over; or give the settings of the file"
        )
