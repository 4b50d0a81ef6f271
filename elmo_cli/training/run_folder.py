"""RunFolder: the output folder of a training run, locked until the run ends."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from elmo_cli.errors import OutputError, ResumeError, UsageError
from elmo_cli.files import TEMPORARY_SUFFIX, FileLock, output_errors
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, WEIGHTS_FILE
from elmo_cli.pretrained.model_files import (
    CARD_FILE,
    CHECKPOINT_FILE,
    PARTS_FILE,
    SOFTMAX_FILE,
    STATE_FILE,
    VOCABULARY_FILE,
)

LOG_FILE = "log.jsonl"
LOCK_FILE = ".elmo-lock"
RECIPE_FILE = "recipe.json"  # of `elmo pretrain`
TEXT_FILE = "text.npz"
RECORD_FILE = "finetune.json"  # of `elmo finetune`
FITTED_FILE = "fitted_softmax.hdf5"
TASK_FILE = "task.json"  # of `elmo train`
VECTORS_FOLDER = "vectors"


@dataclass(frozen=True)
class _RunFiles:
    """The files that a kind of run writes to its folder.

    Attributes:
        others: in the order in which an earlier run is removed.
        marker: a folder with this file contains such a run; removed last.
    """

    others: tuple[str, ...]
    marker: str

    @property
    def all(self) -> tuple[str, ...]:
        """The marker and the others."""
        return (*self.others, self.marker)


_MODEL_FILES = (
    PARTS_FILE,
    STATE_FILE,
    OPTIONS_FILE,
    WEIGHTS_FILE,
    SOFTMAX_FILE,
    VOCABULARY_FILE,
)
_PROGRESS_FILES = (CHECKPOINT_FILE, LOG_FILE)
_FILES_OF_KIND = {
    "pretrain": _RunFiles(
        others=(*_MODEL_FILES, *_PROGRESS_FILES, TEXT_FILE),
        marker=RECIPE_FILE,
    ),
    "finetune": _RunFiles(
        others=(*_MODEL_FILES, *_PROGRESS_FILES, FITTED_FILE, CARD_FILE),
        marker=RECORD_FILE,
    ),
    "train": _RunFiles(
        others=("model.pt", "scores.json", "word_vectors.npz", *_PROGRESS_FILES),
        marker=TASK_FILE,
    ),
}
_OTHER_FOLDER = "choose another folder with `output`"
_NEW_FOLDER = "choose a new or empty folder with `output`"


class RunFolder:
    """The output folder of a run, as a context manager that unlocks it at the end.

    Args:
        kind: "pretrain", "finetune" or "train" (of a task model).
    """

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        self.kind = kind
        self._files = _FILES_OF_KIND[kind]
        self._lock = FileLock(path / LOCK_FILE)
        self._is_new = False

    def open(self, mode: str = "new", *, reads: Sequence[Path] = ()) -> None:
        """Create and lock the folder before any work.

        Args:
            mode: "new" for a new or empty folder, "resume" for a folder with a run of this kind,
                "overwrite" for either.
            reads: files of the model that the run starts from, which must not be in the folder.
        Raises:
            UsageError: one of `reads` would be replaced.
            OutputError: the folder cannot be created, has other content, or another process is
                training there.
            ResumeError: there is no run to resume.
        """
        self._check_not_replaced(reads)
        with output_errors(self.path):
            self._is_new = not self.path.exists()
            self.path.mkdir(parents=mode != "resume", exist_ok=True)
            self._acquire_lock()
            self._check_content(mode)
            self._remove_partial_files()

    def _check_not_replaced(self, reads: Sequence[Path]) -> None:
        """Refuse to replace a file that the run starts from, under whatever name of its folder."""
        for file in reads:
            if file.name in self._files.all and file.parent.resolve() == self.path.resolve():
                problem = f"contains {file.name}, which the run starts from"
                raise UsageError(problem, _OTHER_FOLDER, where=self.path)

    def _acquire_lock(self) -> None:
        if not self._lock.acquire():
            problem = "another process is training there"
            raise OutputError(problem, f"wait for it, or {_OTHER_FOLDER}", where=self.path)

    def _check_content(self, mode: str) -> None:
        """Refuse what `mode` does not allow in the folder."""
        marker = self._files.marker
        is_run = (self.path / marker).exists()
        content = sorted({*os.listdir(self.path)} - {LOCK_FILE, VECTORS_FOLDER})
        if content and not is_run:
            problem = f"contains {content[0]}, but no {self.kind} run ({marker})"
            raise OutputError(problem, _NEW_FOLDER, where=self.path)
        if mode == "resume" and not is_run:
            hint = "leave out `resume` to start one"
            raise ResumeError("contains no run to resume", hint, where=self.path)
        if mode == "new" and is_run:
            hint = "`resume=True` continues it, `overwrite=True` starts over"
            raise OutputError(f"contains a {self.kind} run already", hint, where=self.path)

    def _remove_partial_files(self) -> None:
        """Remove what a run left behind that was killed while it wrote a file."""
        random_part = "[0-9a-f]" * 8
        for name in self._files.all:
            for partial_file in self.path.glob(f"{name}.{random_part}{TEMPORARY_SUFFIX}"):
                partial_file.unlink()

    def clear(self) -> None:
        """Remove the files of an earlier run; raises OutputError."""
        with output_errors(self.path):
            for name in self._files.all:
                (self.path / name).unlink(missing_ok=True)

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *error: object) -> None:
        if self._lock.descriptor < 0:
            return
        with suppress(OSError):
            (self.path / LOCK_FILE).unlink()  # later it may be the lock of another run
        self._lock.release()
        if self._is_new:
            with suppress(OSError):  # not empty
                self.path.rmdir()
