"""RunFolder: the output folder of a training run, locked until the run ends."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

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
_MODEL = (PARTS_FILE, STATE_FILE, OPTIONS_FILE, WEIGHTS_FILE, SOFTMAX_FILE, VOCABULARY_FILE)
_RUN = (CHECKPOINT_FILE, LOG_FILE)
_FILES = {  # files that a run writes; the last one marks its folder
    "pretrain": (*_MODEL, *_RUN, TEXT_FILE, RECIPE_FILE),
    "finetune": (*_MODEL, *_RUN, FITTED_FILE, CARD_FILE, RECORD_FILE),
    "train": ("model.pt", "scores.json", "word_vectors.npz", *_RUN, TASK_FILE),
}


class RunFolder:
    """The output folder of a run, as a context manager that unlocks it at the end.

    Args:
        kind: "pretrain", "finetune" or "train" (of a task model).
    """

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = path, kind
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
        path = self.path
        for file in reads:
            if file.name in _FILES[self.kind] and file.parent.resolve() == path.resolve():
                what = f"{path}: contains {file.name}, which the run starts from"
                raise UsageError(what, "choose another folder with `output`")
        with output_errors(path):
            self._is_new = not path.exists()
            path.mkdir(parents=mode != "resume", exist_ok=True)
            if not self._lock.acquire():
                what = f"{path}: another process is training there"
                raise OutputError(what, "wait for it, or choose another folder with `output`")
            self._check_content(mode)
            for name in _FILES[self.kind]:  # partial files of a killed run
                for left in path.glob(f"{name}.{'[0-9a-f]' * 8}{TEMPORARY_SUFFIX}"):
                    left.unlink()

    def _check_content(self, mode: str) -> None:
        path, marker = self.path, _FILES[self.kind][-1]
        is_run = (path / marker).exists()
        content = sorted({*os.listdir(path)} - {LOCK_FILE, VECTORS_FOLDER})
        if content and not is_run:
            what = f"{path}: contains {content[0]}, but no {self.kind} run ({marker})"
            raise OutputError(what, "choose a new or empty folder with `output`")
        if mode == "resume" and not is_run:
            hint = "leave out `resume` to start one"
            raise ResumeError(f"{path}: contains no run to resume", hint)
        if mode == "new" and is_run:
            hint = "`resume=True` continues it, `overwrite=True` starts over"
            raise OutputError(f"{path}: contains a {self.kind} run already", hint)

    def start(self) -> None:
        """Remove the files of an earlier run; raises OutputError."""
        with output_errors(self.path):
            for name in _FILES[self.kind]:
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


class TrainingLog:
    """The log file of a run, created with its first line, truncated on resume.

    Each method raises an OutputError if the file cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG_FILE

    def append(self, line: dict[str, Any]) -> None:
        """Write one line at the end."""
        with output_errors(self._path, resumable=True), self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def synced_size(self) -> int:
        """The size of the file in bytes, all of which are on the disk; 0 without a file."""
        if not self._path.exists():
            return 0
        with output_errors(self._path, resumable=True), self._path.open("rb+") as file:
            os.fsync(file.fileno())
            return file.seek(0, os.SEEK_END)

    def truncate(self, size: int) -> None:
        """Remove what follows the first `size` bytes."""
        with output_errors(self._path):
            if self._path.exists() and self._path.stat().st_size > size:
                os.truncate(self._path, size)
