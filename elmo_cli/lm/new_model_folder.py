"""new_model_folder: a folder that a command fills with the files of a model, or leaves as it was.

A command may be killed at any moment, and the same command must then end as if nothing had
happened. So the first file that is written is a lock file with content, and it is removed at the
end. A folder with such a file, whose lock no process holds, therefore contains an incomplete model,
and its files are removed. The lock file of a training run is empty.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elmo_cli.errors import OutputError
from elmo_cli.file_locks import FileLock
from elmo_cli.files import is_temporary, output_errors
from elmo_cli.model.options import CHARACTERS_FILE, WORDS_FILE
from elmo_cli.model_folder import (
    OPTIMIZER_FILE,
    OPTIONS_FILE,
    SOFTMAX_FILE,
    STATE_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
)
from elmo_cli.pretrained.model_files import CARD_FILE
from elmo_cli.pretrained.parts_file import PARTS_FILE
from elmo_cli.training.run_folder import LOCK_FILE, NEW_FOLDER_HINT, OTHER_FOLDER_HINT

_LOCK_CONTENT = b"an incomplete model\n"
_MODEL_FILES = (
    OPTIONS_FILE,
    CHARACTERS_FILE,
    WORDS_FILE,
    SOFTMAX_FILE,
    VOCABULARY_FILE,
    CARD_FILE,
    STATE_FILE,
    OPTIMIZER_FILE,
    WEIGHTS_FILE,
    PARTS_FILE,
)


@contextmanager
def new_model_folder(output: Path, *, reads: Path) -> Iterator[None]:
    """Create a folder for a model, and lock it within; an error leaves the folder as it was.

    Args:
        output: a folder that is new or empty, or that a killed process was filling.
        reads: the folder of a model that is read, of which no file is removed.
    Raises:
        OutputError: the folder has other content, cannot be written to, or another process is
            writing there.
    """
    lock = FileLock(output / LOCK_FILE)
    is_new = not output.exists()
    with output_errors(output):
        output.mkdir(parents=True, exist_ok=True)
        _refuse_content(output, reads)  # before a lock file makes it look like ours
        if not lock.acquire():
            problem = "another process is writing there"
            raise OutputError(problem, f"wait for it, or {OTHER_FOLDER_HINT}", where=output)
    is_ours = False
    is_complete = False
    try:
        with output_errors(output):
            _refuse_content(output, reads)  # another process may have completed a model meanwhile
            is_ours = True
            os.pwrite(lock.descriptor, _LOCK_CONTENT, 0)
            _remove_model(output)
        yield
        is_complete = True
    finally:
        with suppress(OSError):
            if is_ours and not is_complete:
                _remove_model(output)
            # Before the release: after it, the file may be the lock of another process.
            (output / LOCK_FILE).unlink()
        lock.release()
        if is_new and not is_complete:
            with suppress(OSError):  # not empty
                output.rmdir()


def _refuse_content(output: Path, reads: Path) -> None:
    """Raise an OutputError for a folder with other content than an incomplete model."""
    is_incomplete = False
    with suppress(FileNotFoundError):
        is_incomplete = (output / LOCK_FILE).stat().st_size > 0
    has_own_files = is_incomplete and not os.path.samefile(output, reads)
    for name in sorted(os.listdir(output)):
        is_own = has_own_files and _is_of_model(name)
        if name != LOCK_FILE and not is_own:
            raise OutputError(f"contains {name}", NEW_FOLDER_HINT, where=output)


def _remove_model(output: Path) -> None:
    """Remove all files of an incomplete model except the lock file."""
    for name in os.listdir(output):
        if _is_of_model(name):
            (output / name).unlink()


def _is_of_model(name: str) -> bool:
    """Whether a file has the name of one of a model, or of one that was not completely written."""
    return name in _MODEL_FILES or any(is_temporary(name, file) for file in _MODEL_FILES)
