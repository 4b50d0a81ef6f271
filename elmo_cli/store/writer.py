"""EmbeddingsWriter: arrays in, one a sentence; an embeddings file out, when it is whole.

The file is written as OUT.part. At each commit the HDF5 file is closed, in undisturbed runs as
well: so the bytes at a commit determine all bytes after it, and a run that was killed and resumed
ends in the same file. See SCHEMA.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import numpy as np

from elmo_cli.errors import ElmoError, InputError, ResumeError, UsageError
from elmo_cli.store.block import Block
from elmo_cli.store.damage import is_from_hdf5
from elmo_cli.store.finished import finished_facts, holds_map
from elmo_cli.store.journal import Journal, Progress, check_settings
from elmo_cli.store.layouts import layout_class
from elmo_cli.store.part import Part
from elmo_cli.store.place import (
    check_free,
    check_place,
    is_finished,
    output_error,
    remove_leftovers,
)
from elmo_cli.store.sentence_map import MAX_BYTES, SentenceMap
from elmo_cli.store.settings import (
    DTYPES,
    FileForm,
    all_facts,
    checked_settings,
    is_pooled,
    settings_of,
)
from elmo_cli.store.values import as_stored, n_tokens
from elmo_cli.text.sentence import Sentence


@dataclass(slots=True)
class _Counts:
    """What was handed over since the input began, committed or not."""

    sentences: int = 0
    tokens: int = 0
    duplicates: int = 0


class EmbeddingsWriter:
    """Writes one embeddings file; made by `create` or `resume`, used in a `with`.

    A writer that leaves its `with` before `finish` keeps OUT.part for `resume`.

    Attributes:
        finished: whether OUT is whole; after `resume` it may be so at once.
        has_map: whether OUT gets a sentence map, or has got one.
        warnings: what OUT lacks, after `finish`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        form: FileForm,
        header: Mapping[str, object],
        first_sentence: int,
    ) -> None:
        """For `create` and `resume`."""
        self.finished = False
        self.warnings: list[str] = []
        self._out = os.fspath(path)
        self._settings = settings = checked_settings(form, header, first_sentence)
        check_place(self._out)
        self._layout = layout_class(form.layout, form.keys)
        self._dtype = DTYPES[form.dtype]
        self._pooled = is_pooled(settings)
        self.has_map = form.has_map
        self._map: SentenceMap | None = None
        self._n_to_remember = 0
        self._goes_on = False
        self._part: Part | None = None
        self._block: Block | None = None
        self._journal = Journal(settings)
        self._counts = _Counts()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        layout: str,
        header: Mapping[str, object],
        keys: str = "number",
        forget_sentences: bool = False,
        dtype: str = "float32",
        overwrite: bool = False,
        first_sentence: int = 0,
    ) -> EmbeddingsWriter:
        """Begin a file.

        Args:
            path: OUT. What is there stays until the new file is whole.
            layout, keys, forget_sentences, dtype: as in `FileForm`.
            header: settings that must agree for `resume`; they become attributes.
            overwrite: replace OUT, also one that appears later, and throw away an unfinished
                OUT.part.
            first_sentence: the key with which the input of this file begins.
        Raises:
            UsageError: settings that contradict each other.
            OutputError: the place is taken or can't be written to.
        """
        form = FileForm(layout, keys, forget_sentences, dtype)
        writer = cls(path, form, header, first_sentence)
        if not overwrite:
            check_free(writer._out)
        with writer._opening() as part:
            writer._journal = replace(writer._journal, overwrite=overwrite)
            part.begin(writer._journal)
        return writer

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        *,
        layout: str,
        header: Mapping[str, object],
        keys: str = "number",
        forget_sentences: bool = False,
        dtype: str = "float32",
        first_sentence: int = 0,
    ) -> EmbeddingsWriter:
        """Go on with a file at its last commit; begin it if nothing of it is there.

        The sentences that `progress` counts are to be handed to `remember`, the others to `append`.

        Args:
            path: OUT; the others as for `create`.
        Raises:
            UsageError: settings that contradict each other.
            ResumeError: the file was made with other settings, or it is damaged.
            OutputError: the place can't be written to.
        """
        form = FileForm(layout, keys, forget_sentences, dtype)
        writer = cls(path, form, header, first_sentence)
        if is_finished(writer._out):
            writer._take_finished(finished_facts(writer._out))
        else:
            writer._go_on()
        return writer

    @property
    def progress(self) -> Progress:
        """What is committed."""
        return self._journal.progress

    @property
    def duplicates(self) -> int:
        """Sentences left out because an equal one was there (manylangs)."""
        return self._counts.duplicates

    def append(self, sentence: Sentence, array: np.ndarray) -> None:
        """Store a sentence; it survives with the next commit.

        Args:
            sentence: sentences come in the order of the input.
            array: (layer, token, dim) or (token, dim); pooled (layer, dim) or (dim,).
        Raises:
            InputError: the file can't hold this sentence beside those before; it may be left out.
            UsageError: the layout is not for such input or arrays.
            OutputError: a value that float16 can't hold; no space left.
        """
        with self._writing():
            values = as_stored(sentence, array, self._dtype)
            if self._open_block().append(sentence, values):
                self._counts.tokens += n_tokens(sentence, values, pooled=self._pooled)
            else:
                self._counts.duplicates += 1
            self._counts.sentences += 1
            self._add_to_map(sentence)

    def remember(self, sentence: Sentence) -> None:
        """Take note of a committed sentence, in a run that goes on; its array is in the file."""
        self._n_to_remember -= 1
        self._add_to_map(sentence)

    def commit(self, text_sha256: str, state: bytes = b"") -> None:
        """Make what was appended survive whatever happens to the process.

        Args:
            text_sha256: the caller's running hash of the text up to here.
            state: what the caller needs to go on after these sentences.
        Raises:
            OutputError: no space left.
        """
        with self._writing():
            size = self._journal.size
            if self._block is not None:
                size = self._block.close()
                self._block = None
            journal = self._next_journal(size, text_sha256, state)
            self._open_part().commit(journal)
            self._journal = journal

    def finish(self, attributes: Mapping[str, object]) -> None:
        """Write facts and end mark, and give the file its name.

        Args:
            attributes: facts beside the settings: versions, sources, ….
        Raises:
            OutputError: no space left; OUT has been made meanwhile, and is not to be overwritten.
        """
        counts = self._counts
        facts = all_facts(
            self._settings,
            attributes,
            sentences=counts.sentences,
            tokens=counts.tokens,
            duplicates=counts.duplicates,
        )
        if self._map is not None and self._n_to_remember:
            raise ValueError(f"{self._n_to_remember} committed sentences were not remembered")
        if self._map is not None and (n_bytes := self._map.n_bytes) > MAX_BYTES:
            self.leave_out_map(f"which would have {n_bytes:,} bytes, and HDF5 takes {MAX_BYTES:,}")
        with self._writing():
            size = self._open_block().close_with(facts, self._map)
            self._block = None
            last = self._journal.progress
            journal = self._next_journal(size, last.text_sha256, last.state)
            self._open_part().publish(replace(journal, finished=True))
            self._journal = journal
        self._end()

    def leave_out_map(self, why: str) -> None:
        """Go on without a sentence map, and tell of it in `warnings`."""
        if self._map is not None:
            self.warnings.append(f"{self._out}: has no sentence_to_index, {why}")
            self._map.close()
            self._map, self.has_map = None, False

    def abandon(self) -> None:
        """Close and keep OUT.part as it was at the last commit, for `resume`."""
        self._give_up(ElmoError(f"{self._out}: abandoned"))

    def __enter__(self) -> EmbeddingsWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abandon()

    def _go_on(self) -> None:
        """Open the part file at its last commit; make it if there is none."""
        with self._opening() as part:
            goes_on = part.go_on(self._settings)
            self._journal = journal = part.begun if goes_on else part.to_begin(self._journal)
            if not (journal.overwrite or journal.finished):
                check_free(self._out)  # now rather than when all is computed
            if not goes_on:
                part.begin(journal)
                return
            self._goes_on = True
            progress = journal.progress
            self._counts = _Counts(progress.sentences, progress.tokens, journal.duplicates)
            self._n_to_remember = progress.sentences
            if journal.finished:
                part.publish(journal)
                self.has_map = holds_map(self._out)
                self._end()

    def _take_finished(self, facts: dict[str, Any]) -> None:
        """OUT is whole; only check that it is what was asked for."""
        check_settings(f"{self._out}: finished", settings_of(facts), self._settings)
        remove_leftovers(self._out)
        duplicates = facts.get("duplicates", 0)
        self._counts = _Counts(facts["sentences"] + duplicates, facts["tokens"], duplicates)
        self._journal = self._next_journal(0, facts.get("text_sha256", ""), b"")
        self.has_map = holds_map(self._out)
        self._end()

    @contextmanager
    def _opening(self) -> Iterator[Part]:
        """The part file and the map, kept open if all goes well."""
        self._part = Part(self._out)
        try:
            if self.has_map:
                self._map = SentenceMap()
            yield self._part
        except BaseException:
            self._release()
            raise

    def _open_part(self) -> Part:
        if self._part is None:
            raise ValueError(f"the writer of {self._out} is closed")
        return self._part

    def _open_block(self) -> Block:
        part = self._open_part()
        if self._block is None:
            raw = part.open_block()
            self._block = Block(raw, self._layout, dtype=self._dtype, pooled=self._pooled)
        return self._block

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Give up on all errors but those that leave the file as it was."""
        try:
            yield
        except (InputError, UsageError):
            raise
        except BaseException as error:
            damaged = isinstance(error, OverflowError) or is_from_hdf5(error)
            self._give_up(error)
            if self._goes_on and damaged:
                raise ResumeError(
                    f"{self._out}.part: damaged, HDF5 can't go on with it ({error})",
                    "`--overwrite` starts the run anew",
                ) from None
            if isinstance(error, OSError) and not isinstance(error, ElmoError):
                raise output_error(f"{self._out}.part", error) from None
            raise

    def _give_up(self, error: BaseException) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.abandon(error)
        self._release()

    def _end(self) -> None:
        self.finished = True
        self._release()

    def _release(self) -> None:
        """Close everything but the block."""
        if self._part is not None:
            self._part.close()
            self._part = None
        if self._map is not None:
            self._map.close()
            self._map = None

    def _add_to_map(self, sentence: Sentence) -> None:
        if self._map is not None:
            self._map.add(sentence.text, str(sentence.key))

    def _next_journal(self, size: int, text_sha256: str, state: bytes) -> Journal:
        counts = self._counts
        blocks = self._journal.blocks + 1
        progress = Progress(counts.sentences, counts.tokens, blocks, text_sha256, state)
        return replace(self._journal, progress=progress, duplicates=counts.duplicates, size=size)
