"""FolderLock: one training run at a time in a folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from elmo_cli.errors import OutputError
from elmo_cli.files import TEMPORARY_SUFFIX, FileLock
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, WEIGHTS_FILE
from elmo_cli.pretrained.model_files import CARD_FILE, SOFTMAX_FILE, STATE_FILE, VOCABULARY_FILE
from elmo_cli.pretrained.parts import PARTS_FILE

FILE_NAME = ".lock"
# Files of a run, of which a kill may leave beginnings; another program's are not among them.
_WRITTEN = (
    *("checkpoint.pt", "best-*.pt", "text.npz", "recipe.json", "finetune.json", CARD_FILE),
    *(OPTIONS_FILE, VOCABULARY_FILE, f"*{WEIGHTS_FILE}", f"*{SOFTMAX_FILE}", STATE_FILE),
    PARTS_FILE,
)


class FolderLock:
    """Held from the first `take` on until it is left; entered again within, it is left once more.

    The lock is the system's: a file that a kill leaves, or that is copied with the folder, locks
    nothing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / FILE_NAME
        self._lock = FileLock(self._path)
        self._depth = 0

    def take(self) -> None:
        """Take the lock, unless there is no folder yet or it is held already.

        Raises:
            OutputError: another process is training there, or the folder can't be written to.
        """
        if self._lock.descriptor >= 0 or not self._folder.is_dir():
            return
        taken = OutputError(
            f"{self._folder}: another process is training there",
            "wait for it, or name another folder with `-o`",
        )
        try:
            if not self._lock.acquire():
                raise taken
            for name in _WRITTEN:
                for left in self._folder.glob(f"{name}.{'[0-9a-f]' * 8}{TEMPORARY_SUFFIX}"):
                    left.unlink(missing_ok=True)
        except OutputError:
            raise
        except OSError as error:
            raise OutputError(
                f"{self._folder}: can't be written to ({error.strerror})", "name another with `-o`"
            ) from None

    def __enter__(self) -> FolderLock:
        self._depth += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if self._depth == 0 and self._lock.descriptor >= 0:
            with suppress(OSError):
                if not os.fstat(self._lock.descriptor).st_size:  # a user's own of this name stays
                    self._path.unlink()  # while it is locked, so that it is no other run's
            self._lock.release()
