"""RunFolder: the output folder of a training run, locked until the run ends.

A run may be killed at any moment, and the same command must then end as if nothing had happened:

- The marker is the first file that a run writes. It replaces the marker of an earlier run, which is
  not removed before. A folder without a marker therefore contains no run. A run that was killed
  before its marker existed has left a lock file and temporary files at most. If a marker was lost,
  a lock file and the other files of the run remain.
- The last file is the last one that a run writes. While it is missing, the run is unfinished.
- A run that is resumed before its first checkpoint starts from its beginning.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from elmo_cli.errors import OutputError, ResumeError, UsageError
from elmo_cli.file_locks import FileLock
from elmo_cli.files import is_temporary, output_errors
from elmo_cli.model_folder import (
    OPTIONS_FILE,
    RECIPE_FILE,
    RECORD_FILE,
    SOFTMAX_FILE,
    STATE_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
)
from elmo_cli.pretrained.model_files import CARD_FILE, CHECKPOINT_FILE
from elmo_cli.pretrained.parts_file import PARTS_FILE

LOG_FILE = "log.jsonl"
LOCK_FILE = ".elmo-lock"
TEXT_FILE = "text.npz"  # of `elmo pretrain`
FITTED_FILE = "fitted_softmax.hdf5"  # of `elmo finetune`
TASK_FILE = "task.json"  # of `elmo train`
MODEL_FILE = "model.pt"
WORDS_FILE = "word_vectors.npz"
SCORES_FILE = "scores.json"
VECTORS_FOLDER = "vectors"


@dataclass(frozen=True)
class _RunFiles:
    """The files that a kind of run writes to its folder.

    Attributes:
        marker: a folder with this file contains such a run.
        last: written at the end, and removed first.
        others: in the order in which an earlier run is removed. The checkpoint is the first, since
            a run is resumed from it only together with the weights that it has written.
    """

    marker: str
    last: str
    others: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """Marker, last and the others."""
        return (self.marker, self.last, *self.others)


_SHARED_FILES = (CHECKPOINT_FILE, PARTS_FILE, LOG_FILE)
_MODEL_FILES = (OPTIONS_FILE, WEIGHTS_FILE, SOFTMAX_FILE, VOCABULARY_FILE)
_FILES_OF_KIND = {
    "pretrain": _RunFiles(
        marker=RECIPE_FILE,
        last=STATE_FILE,
        others=(*_SHARED_FILES, *_MODEL_FILES, TEXT_FILE),
    ),
    "finetune": _RunFiles(
        marker=RECORD_FILE,
        last=CARD_FILE,
        others=(*_SHARED_FILES, STATE_FILE, *_MODEL_FILES, FITTED_FILE),
    ),
    "train": _RunFiles(
        marker=TASK_FILE,
        last=SCORES_FILE,
        others=(*_SHARED_FILES, MODEL_FILE, WORDS_FILE),
    ),
}
OTHER_FOLDER_HINT = "choose another folder with `output`"
NEW_FOLDER_HINT = "choose a new or empty folder with `output`"
_UNFINISHED_HINT = "`resume=True` continues it, `overwrite=True` starts over"
_FINISHED_HINT = "`resume=True` with a higher limit continues it, `overwrite=True` starts over"


def contains_run(folder: Path, kind: str) -> bool:
    """Whether a folder contains a run of a kind, which can be resumed."""
    return os.path.exists(folder / _FILES_OF_KIND[kind].marker)  # also if the name is too long


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
            has_lock = (self.path / LOCK_FILE).exists()
            self._refuse_foreign(has_lock=has_lock)  # before a lock file makes it look like ours
            self._acquire_lock()
            self._refuse_foreign(has_lock=has_lock)
            self._remove_temporary_files()
            if not self._is_run():
                self.clear()
            self._check_mode(mode)

    def _check_not_replaced(self, reads: Sequence[Path]) -> None:
        """Refuse to replace a file that the run starts from, under whatever name of its folder."""
        for file in reads:
            if file.name in self._files.all and file.parent.resolve() == self.path.resolve():
                problem = f"contains {file.name}, which the run starts from"
                raise UsageError(problem, OTHER_FOLDER_HINT, where=self.path)

    def _acquire_lock(self) -> None:
        if not self._lock.acquire():
            problem = "another process is training there"
            raise OutputError(problem, f"wait for it, or {OTHER_FOLDER_HINT}", where=self.path)

    def _is_run(self) -> bool:
        return contains_run(self.path, self.kind)

    def _refuse_foreign(self, *, has_lock: bool) -> None:
        """Raise an OutputError for a folder with other content than a run of this kind.

        A run that was killed before its marker existed has left temporary files at most, and one
        whose marker was lost files of its own and a lock file.

        Args:
            has_lock: a run has left a lock file. Without one, weights may be a model of the user.
        """
        if self._is_run():
            return
        own_names = {LOCK_FILE, VECTORS_FOLDER}
        if has_lock:
            own_names.update(self._files.all)
        for name in sorted(os.listdir(self.path)):
            if name not in own_names and not self._is_temporary(name):
                problem = f"contains {name}, but no {self.kind} run ({self._files.marker})"
                raise OutputError(problem, NEW_FOLDER_HINT, where=self.path)

    def _is_temporary(self, name: str) -> bool:
        return any(is_temporary(name, of_run) for of_run in self._files.all)

    def _remove_temporary_files(self) -> None:
        """Remove what a run left that was killed while it wrote a file."""
        for name in os.listdir(self.path):
            if self._is_temporary(name):
                (self.path / name).unlink()

    def _check_mode(self, mode: str) -> None:
        """Refuse to resume what does not exist, and to replace what does."""
        is_run = self._is_run()
        if mode == "resume" and not is_run:
            hint = "leave out `resume` to start one"
            raise ResumeError("contains no run to resume", hint, where=self.path)
        if mode == "new" and is_run:
            is_finished = (self.path / self._files.last).exists()
            condition = "a finished" if is_finished else "an unfinished"
            hint = _FINISHED_HINT if is_finished else _UNFINISHED_HINT
            raise OutputError(f"contains {condition} {self.kind} run", hint, where=self.path)

    @property
    def has_progress(self) -> bool:
        """Whether a run has saved a checkpoint, or weights, which must not be overwritten."""
        names = (CHECKPOINT_FILE, WEIGHTS_FILE)
        return any((self.path / name).exists() for name in names)

    def clear(self) -> None:
        """Remove the files of an earlier run except its marker, which the new one replaces.

        Without a marker, the other files that the user keeps in the folder would be all that is
        left of a run that is killed now, and no run would be found there. Raises OutputError.
        """
        with output_errors(self.path):
            for name in (self._files.last, *self._files.others):
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
