"""EmbeddingsWriter: blocks of sentences in; an embeddings file out, when it is complete.

The file is written once, at the end, from the block log; so its bytes do not depend on how often
the run was killed and resumed. See SCHEMA.md.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from elmo_cli.errors import EmbeddingsFileError, OutputError, ResumeError
from elmo_cli.files import StrPath, check_output_path, output_errors
from elmo_cli.messages import plural
from elmo_cli.store.block_log import BlockLog
from elmo_cli.store.digests import tokens_digest
from elmo_cli.store.file_formats import format_of_output
from elmo_cli.store.layouts import UniqueNames, layout_of_spec
from elmo_cli.store.log_lines import CommittedProgress, read_log
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.spec import FileSpec, difference
from elmo_cli.store.unfinished import check_new_output, is_finished, log_path, part_path
from elmo_cli.text.sentence import Sentence


def _do_nothing() -> None:
    """Ignore that a block is committed: the default of `on_commit`."""


class EmbeddingsWriter:
    """Writes one embeddings file; made by `open`, used in a `with`.

    A writer that leaves its `with` before `finish` keeps what is committed for `resume=True`.

    Attributes:
        finished: whether OUT is complete; a resumed file may be so at once.
        warnings: what was wrong with an unfinished output.
        lacks_equal_lines: after `finish`, whether the sentence map of the file has one entry for
            several sentences.
        line_warning: after `finish`, which tokens no reader recovers from the file; "" for none.
    """

    def __init__(self, path: StrPath, spec: FileSpec) -> None:
        self.finished = False
        self.warnings: list[str] = []
        self.lacks_equal_lines = False
        self.line_warning = ""
        self._out = path
        self._spec = spec
        self._layout = layout_of_spec(spec)
        self._names = UniqueNames(self._layout)
        self._is_stored: deque[bool] = deque()  # of sentences checked, but not yet appended
        self._log: BlockLog | None = None
        self._progress = CommittedProgress()  # of a file without an open log

    @property
    def progress(self) -> CommittedProgress:
        """What is committed."""
        return self._progress if self._log is None else self._log.progress

    @classmethod
    def open(
        cls, path: StrPath, spec: FileSpec, *, resume: bool = False, overwrite: bool = False
    ) -> EmbeddingsWriter:
        """Begin a file, or resume it; an OUT that exists stays until the new one is complete.

        Args:
            resume: continue an unfinished output after its last good block; start it if there is
                none; accept OUT if it is finished with these settings.
            overwrite: replace OUT, also if it appears later, and discard an unfinished output.
        Raises:
            ResumeError: the output was made with other settings, or is not one of ours.
            OutputError: the path is taken or cannot be written to, or its suffix is one of a format
                that is not written.
            UsageError: the format does not store the dtype.
            ElmoError: the program that the format needs is not installed.
        """
        format_of_output(path).check(spec.dtype)
        writer = cls(path, spec)
        check_new_output(path, overwrite=overwrite, resume=resume)
        if resume and is_finished(path):
            writer._adopt_finished()
            _remove_leftovers(path)
            return writer
        log = BlockLog(path)
        writer._log = log
        try:
            if resume and log.exists:
                writer._resume(log)
            else:
                writer._start(log, overwrite=overwrite)
        except BaseException:
            log.close(remove=not log.exists)
            raise
        return writer

    def check_names(self, sentences: Iterable[Sentence]) -> None:
        """Check the names of the next sentences before computing anything; an InputError."""
        self._is_stored.extend(map(self._names.add, sentences))

    def append_block(
        self,
        sentences: Sequence[Sentence],
        arrays: Sequence[np.ndarray],
        *,
        text_sha256: str,
        state: bytes = b"",
        on_commit: Callable[[], None] = _do_nothing,
    ) -> Future[None]:
        """Hand a block to the writer thread, which commits it after all blocks before it.

        Once it is committed, whatever happens to the process, `resume=True` continues after it.
        The arrays must not be changed until then.

        Args:
            arrays: (layer, token, dim) or (token, dim); pooled (layer, dim) or (dim,).
            text_sha256: the caller's running hash of the text up to here.
            state: what the caller needs to continue after these sentences.
            on_commit: called by the writer thread when the block is committed.
        Returns:
            A future that is done when the block is committed. If no space is left, it raises an
            OutputError; then no later block is committed, and `finish` raises the same error.
        Raises:
            InputError: as `check_names`, which need not be called.
            OutputError: a value that the dtype cannot hold.
        """
        log = self._open_log()
        n_checked = len(self._is_stored)
        self.check_names(sentences[n_checked:])
        token_digests = (tokens_digest(sentence.tokens) for sentence in sentences)
        stored_sentences = []
        stored_arrays = []
        for sentence, array in zip(sentences, arrays, strict=True):
            if self._is_stored.popleft():
                stored_sentences.append(sentence)
                stored_arrays.append(array)
        return log.append(
            stored_sentences,
            stored_arrays,
            token_digests=token_digests,
            text_sha256=text_sha256,
            state=state,
            on_commit=on_commit,
        )

    def finish(self, attributes: Mapping[str, Any]) -> None:
        """Write the complete file, give it its name and remove the unfinished output.

        Args:
            attributes: facts besides the settings: versions, sources, ….
        Raises:
            OutputError: no space left; OUT was created meanwhile and may not be overwritten.
        """
        log = self._open_log()
        with output_errors(self._out, resumable=log.progress.blocks > 0):
            log.publish(attributes)
        if log.line_check is not None:
            self.lacks_equal_lines = log.line_check.lacks_equal_lines
        if log.line_check is not None and log.line_check.n_lost:
            self.line_warning = f"{os.fspath(self._out)}: {log.line_check.warning()}"
        self._forget_log(log)
        self.finished = True

    def close(self) -> None:
        """Commit the blocks handed over, and keep what is committed for `resume=True`."""
        log = self._log
        if log is not None:
            log.end_thread()
            self._forget_log(log)
            log.close(remove=not log.progress.blocks)

    def __enter__(self) -> EmbeddingsWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, log: BlockLog, *, overwrite: bool) -> None:
        """Begin the output, unless this would destroy a finished or an unfinished one."""
        if not overwrite:
            check_output_path(self._out)
            n_committed = read_log(log.part).progress.sentences if log.exists else 0
            if n_committed:
                raise OutputError(
                    f"unfinished, {plural(n_committed, 'sentence')}",
                    "`resume=True` continues it, `overwrite=True` starts over",
                    where=log.name,
                    resumable=True,
                )
        log.create(self._spec, overwrite=overwrite)

    def _resume(self, log: BlockLog) -> None:
        """Continue an unfinished output after its last valid block."""
        log.open()
        self._check_settings(log.spec, log.name, "unfinished")
        if not log.overwrite and os.path.exists(self._out):
            self._resume_named(log)
            return
        for sentence in log.verified_sentences():
            self._names.add(sentence)
        if log.is_corrupt:
            corrupt_block = f"block {log.progress.blocks + 1} is corrupt (checksum)"
            self.warnings.append(
                f"{log.name}: {corrupt_block}; computing it and the following ones again"
            )

    def _resume_named(self, log: BlockLog) -> None:
        """Continue an unfinished output whose OUT did not exist when the run began, but now does.

        Either the run was killed after the renaming to OUT and before the removal of OUT.part, or
        OUT is another file, which is kept.
        """
        self._adopt_finished()
        if self._progress.text_sha256 != read_log(log.part).progress.text_sha256:
            check_output_path(self._out)
        log.close(remove=True)
        self._log = None

    def _adopt_finished(self) -> None:
        """Accept OUT if it is a finished file with the same settings."""
        try:
            with Embeddings(self._out) as finished:
                self._check_settings(finished.spec, self._out, "finished")
                n_tokens = finished.count("tokens")
                n_left_out = finished.count("duplicate_sentences")
                n_stored = finished.count("sentences")
                text_sha256 = finished.attributes.get("text_sha256", "")
        except EmbeddingsFileError as error:
            hint = "if the disk can be read, `overwrite=True` replaces it; or choose another path"
            raise ResumeError(error.problem, hint, where=error.where) from None
        self._progress = CommittedProgress(
            blocks=1,
            sentences=n_stored + n_left_out,
            tokens=n_tokens,
            duplicates=n_left_out,
            text_sha256=text_sha256,
        )
        self.finished = True

    def _check_settings(self, old: FileSpec, path: StrPath, condition: str) -> None:
        """Refuse, with both values, to resume a file that was made with other settings."""
        setting = difference(old, self._spec)
        if setting:
            hint = "repeat the settings of the file, or start over with `overwrite=True`"
            raise ResumeError(f"{condition}, {setting}", hint, where=path)

    def _open_log(self) -> BlockLog:
        if self._log is None:
            raise ValueError(f"the writer of {os.fspath(self._out)} is closed")
        return self._log

    def _forget_log(self, log: BlockLog) -> None:
        """Keep only the progress of a log that is about to be closed, or is closed."""
        self._progress = log.progress
        self._log = None


def _remove_leftovers(out: StrPath) -> None:
    """Remove the log of a finished file, whose run was killed before it could do so."""
    if log_path(part_path(out)).exists():
        BlockLog(out).close(remove=is_finished(out))
