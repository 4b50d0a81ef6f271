"""open_finished: an embeddings file of any format, if its run has completed it; and OpenHdf5."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from elmo_cli.errors import EmbeddingsFileError, UnfinishedError
from elmo_cli.hdf5 import hint_of, open_hdf5, reading, reason_of
from elmo_cli.messages import CORRUPT_HINT
from elmo_cli.regular_files import is_regular
from elmo_cli.store.file_formats import HDF5, format_of_file
from elmo_cli.store.layouts import SentenceReader, layout_of_file
from elmo_cli.store.open_file import OpenFile
from elmo_cli.store.spec import read_attributes
from elmo_cli.store.unfinished import is_unfinished, part_path


class OpenHdf5(OpenFile):
    """An open HDF5 file."""

    def __init__(self, path: Path) -> None:
        """Open a file; an EmbeddingsFileError if it is not one of embeddings."""
        self._path = path
        try:
            self._file = open_hdf5(path)
        except OSError as error:
            reason = reason_of(error)
            not_embeddings = "give an embeddings file, as `elmo embed` writes it"
            hint = hint_of(error, CORRUPT_HINT if reason == "truncated" else not_embeddings)
            if isinstance(error, FileNotFoundError):
                hint = "check the name"
            raise EmbeddingsFileError(reason, hint, where=path) from None
        try:
            with reading(path, EmbeddingsFileError):
                self.attributes = read_attributes(self._file)
            self.layout = layout_of_file(self._file, self.attributes)
        except BaseException:
            with suppress(RuntimeError):  # HDF5 may not even close a corrupt file
                self._file.close()
            raise

    def reader(self) -> SentenceReader:
        with reading(self._path, EmbeddingsFileError):
            return self.layout.reader(self.layout, self._file, self.attributes)

    def close(self) -> None:
        with reading(self._path, EmbeddingsFileError):
            self._file.close()


def open_finished(path: Path) -> OpenFile:
    """Open an embeddings file of any format.

    Raises:
        UnfinishedError: it is OUT.part, or only OUT.part exists.
        EmbeddingsFileError: it is missing, corrupt, or not one of embeddings.
    """
    only_part_exists = part_path(path).exists() and not path.exists()
    if is_unfinished(path) or only_part_exists:
        raise unfinished(path)
    file_format = HDF5
    if is_regular(path):
        with suppress(OSError):  # which HDF5 reports
            file_format = format_of_file(path)
    return file_format.load().open_file(path) if file_format.module else OpenHdf5(path)


def unfinished(path: Path) -> UnfinishedError:
    """The error for a file that its run has not completed."""
    hint = "finish the run first: resume the `elmo embed` command that writes the file"
    return UnfinishedError("the run that writes it has not finished", hint, where=path)
