"""ShardFolder: where the shards of a run are stored, a local folder or an object store."""

from __future__ import annotations

import os
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from elmo_cli.errors import OutputError
from elmo_cli.files import is_url, output_errors, write_text
from elmo_cli.messages import tsv_line, url_without_secrets

SKIPPED_LIST = "skipped.tsv"
_TRIAL = ".elmo-trial"  # a file that is written to see whether the folder is writable
# Stores in which an object appears when its upload is complete. In any other, part of a file may be
# visible, so it is uploaded under another name and then renamed.
_ATOMIC_UPLOADS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"}
_MAX_REASON = 300  # characters of a driver's message


class ShardFolder(ABC):
    """A folder in which a file gets its name when it is complete.

    Its methods raise an OutputError, without the password of a URL.
    """

    @abstractmethod
    def names(self) -> set[str]:
        """Names of all files, partial ones included."""

    @abstractmethod
    def writing(self, name: str) -> AbstractContextManager[Path]:
        """A path for the content of a file, which gets its name when the `with` ends.

        It replaces an existing file. After an error nothing is left.
        """

    @abstractmethod
    def _remove(self, name: str) -> None:
        """Remove a file, if that is possible."""

    def check_writable(self) -> None:
        """Create the folder if necessary, write a small file and list it, before any work."""
        with self.writing(_TRIAL) as path:
            path.write_bytes(b"elmo\n")
        self.names()
        self._remove(_TRIAL)

    def write_skipped(self, skipped: Sequence[tuple[str, int, str]]) -> None:
        """Write the list of skipped lines, or empty that of an earlier run."""
        if skipped or SKIPPED_LIST in self.names():
            with self.writing(SKIPPED_LIST) as path:
                lines = (tsv_line(*line) for line in skipped)
                write_text(path, lines, errors="surrogateescape")

    def remove_partial(self, names: Collection[str]) -> None:
        """Remove what killed workers left of these shards, not that of other runs."""
        for name in self.names():
            shard_stem, _, _ = name.removeprefix(".").partition(".hdf5.")
            if name.startswith(".") and f"{shard_stem}.hdf5" in names:
                self._remove(name)


def open_shard_folder(output: str) -> ShardFolder:
    """The folder at a path or URL; an OutputError if fsspec has no driver that takes the URL."""
    return ObjectStoreFolder(output) if is_url(output) else LocalFolder(output)


class LocalFolder(ShardFolder):
    """A folder on a disk that all machines of the cluster share."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def names(self) -> set[str]:
        with output_errors(self._path):
            return set(os.listdir(self._path))

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        partial = _partial_name(name)
        try:
            with output_errors(self._path / name):
                self._path.mkdir(parents=True, exist_ok=True)
                yield self._path / partial
                os.replace(self._path / partial, self._path / name)
        except BaseException:
            for path in self._path.glob(f"{partial}*"):
                self._remove(path.name)
            raise

    def _remove(self, name: str) -> None:
        with suppress(OSError):
            (self._path / name).unlink()


class ObjectStoreFolder(ShardFolder):
    """A folder in any file system of fsspec; files are written in $TMPDIR and then uploaded."""

    def __init__(self, url: str) -> None:
        self._url = url if url.endswith("/") else f"{url}/"
        self._is_atomic = url.partition("://")[0] in _ATOMIC_UPLOADS
        with self._errors():
            from fsspec.core import url_to_fs

            self._fs, root = url_to_fs(url)
        self._root = root.rstrip("/")

    def names(self) -> set[str]:
        with self._errors():
            self._fs.invalidate_cache()
            try:
                paths = self._fs.ls(self._root, detail=False)
            except FileNotFoundError:  # without objects there is no folder
                paths = []
        return {str(path).rpartition("/")[2] for path in paths}

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="elmo-", ignore_cleanup_errors=True) as folder:
            path = Path(folder) / name
            yield path
            with self._errors(name):
                self._upload(path, name)

    def _upload(self, path: Path, name: str) -> None:
        if self._is_atomic:  # where a missing folder, or bucket, must not be created either
            self._fs.put_file(str(path), f"{self._root}/{name}")
            return
        partial = _partial_name(name)
        self._fs.makedirs(self._root, exist_ok=True)
        try:
            self._fs.put_file(str(path), f"{self._root}/{partial}")
            self._fs.mv(f"{self._root}/{partial}", f"{self._root}/{name}")
        except BaseException:
            self._remove(partial)
            raise

    def _remove(self, name: str) -> None:
        with suppress(Exception):
            self._fs.rm_file(f"{self._root}/{name}")

    @contextmanager
    def _errors(self, name: str = "") -> Iterator[None]:
        try:
            yield
        except Exception as error:  # each driver has classes of its own
            hint = "check the URL, the network, and the keys that may list, read and write there"
            if isinstance(error, ImportError):
                hint = "install fsspec's driver for such URLs on every machine, such as s3fs"
            url = url_without_secrets(self._url)
            problem = type(error).__name__
            if url == self._url:  # otherwise the message may contain parts of the secret
                reason = getattr(error, "strerror", None) or str(error)
                words = " ".join(reason.split())
                problem = f"{words[:_MAX_REASON]} ({problem})"
            raise OutputError(problem, hint, where=f"{url}{name}") from None


def _partial_name(name: str) -> str:
    """A hidden name that no other process uses."""
    return f".{name}.{uuid.uuid4().hex}"
