"""The folder of the shards: on a disk that all machines see, or behind a URL."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from elmo_cli.cluster.url import has_secret, is_url, shown, without_secrets
from elmo_cli.embed.job import EmbedJob
from elmo_cli.errors import ElmoError, OutputError, ResumeError, UsageError
from elmo_cli.store.finished import finished_facts

_SHARDS = "part-*.hdf5"
UNFINISHED = ".unfinished"  # a folder in the output; a shard is moved out of it when it is whole

# Where an object is there when all of it has arrived, and not before. Elsewhere half an upload may
# be seen under its name, so that it gets another name first.
_WHOLE_PUTS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"}
_READ_AHEAD = 16_384  # bytes; the attributes of a shard are a small part of it
_LONGEST = 300  # characters of what a driver says
_LEFT_S = 24 * 3600.0  # no shard takes so long; what is older was left by a run that is dead


class DiskFolder:
    """A folder of this machine, or one that is mounted on all.

    Its methods may raise an OSError.

    Args:
        mark: what the names of a run's unfinished files begin with.
    """

    def __init__(self, path: str, mark: str) -> None:
        self._path, self._mark = Path(path), mark
        self._unfinished = self._path / UNFINISHED

    def make(self) -> None:
        """See to it that shards can be put there."""
        self._path.mkdir(parents=True, exist_ok=True)

    def has(self, name: str) -> bool:
        """Whether a shard is there; it gets its name when it is whole."""
        return (self._path / name).is_file()

    def absent(self, names: Iterable[str]) -> set[str]:
        """Which of these shards are not there."""
        return {name for name in names if not self.has(name)}

    def others(self, names: Iterable[str]) -> list[str]:
        """Shards that are there beside these."""
        return sorted({path.name for path in self._path.glob(_SHARDS)} - set(names))

    def facts(self, name: str) -> dict[str, Any]:
        """The attributes of a shard.

        Raises:
            ResumeError: the file is no finished shard.
            OutputError: the system can't read it.
        """
        return finished_facts(str(self._path / name))

    @contextmanager
    def working(self) -> Iterator[Path]:
        """A path to write a shard at; what is still there at the end is removed."""
        self._unfinished.mkdir(parents=True, exist_ok=True)
        working = self._unfinished / _unfinished_name(self._mark)
        try:
            yield working
        finally:
            working.unlink(missing_ok=True)

    def fetch(self, name: str, copy: Path) -> None:
        """Copy a shard to a path of `working`."""
        shutil.copyfile(self._path / name, copy)

    def put(self, working: Path, name: str) -> None:
        """Give a whole shard its name, whether there is one or not."""
        os.replace(working, self._path / name)

    def clean_up(self) -> None:
        """Remove what workers that died have left, and nothing of another run that is at work."""
        for path in self._unfinished.glob("*"):
            with suppress(OSError):  # it may have got its name meanwhile
                if path.name.startswith(self._mark) or _is_left(path.stat().st_mtime):
                    path.unlink()
        with suppress(OSError):  # refused while there is something in it
            self._unfinished.rmdir()


class StoreFolder:
    """The same behind a URL, in an object store or wherever else fsspec leads.

    A shard is written on the worker's own disk ($TMPDIR) and uploaded when it is whole. Its
    methods raise an OutputError instead of an OSError.

    Args:
        url: of the folder; no message shows the password in it.
        mark: as for a disk.
    Raises:
        UsageError: a URL that fsspec does not know, or takes for a pattern or a chain.
        OutputError: fsspec or its driver is not installed, or the store does not answer.
    """

    def __init__(self, url: str, mark: str) -> None:
        self._mark = mark
        self._url = url if url.endswith("/") else f"{url}/"
        _check_driver(url)
        from fsspec.core import url_to_fs

        with self._errors():
            self._fs, root = url_to_fs(url)
        self._root = root.rstrip("/")
        if set("*?[") & set(self._root):
            raise UsageError(
                f"{shown(url)}: `*`, `?` and `[` stand for other names there",
                "name a folder without them",
            )
        self._puts_whole = url.partition("://")[0] in _WHOLE_PUTS
        self._unfinished = f"{self._root}/{UNFINISHED}"

    def make(self) -> None:
        """See to it that shards can be put there: hours of work should not end in a refusal."""
        trial = f"{self._unfinished}/trial"
        with self._errors():
            self._make_unfinished()
            self._fs.pipe_file(trial, b"elmo\n")
            self.absent([])
        with suppress(Exception):  # it may be allowed to write there, and not to remove
            self._fs.rm_file(trial)

    def has(self, name: str) -> bool:
        """As for a disk."""
        with self._errors(name):
            return self._is_there(self._place(name))

    def absent(self, names: Iterable[str]) -> set[str]:
        """As for a disk, by one listing."""
        return set(names) - self._listed()

    def others(self, names: Iterable[str]) -> list[str]:
        """As for a disk."""
        return sorted(set(fnmatch.filter(self._listed(), _SHARDS)) - set(names))

    def _listed(self) -> set[str]:
        with self._errors():
            self._fs.invalidate_cache()
            try:
                listed = self._fs.ls(self._root, detail=False)
            except FileNotFoundError:  # a folder without objects is none
                listed = []
        return {str(path).rpartition("/")[2] for path in listed}

    def facts(self, name: str) -> dict[str, Any]:
        """As for a disk; of the shard, only what holds the attributes is read."""
        place = self._place(name)
        with self._errors(name), self._fs.open(place, "rb", block_size=_READ_AHEAD) as opened:
            try:
                return finished_facts(self._shown(name), opened)
            except ResumeError:
                self._fs.cat_file(place, start=0, end=1)  # HDF5 hides a store that is silent
                raise

    @contextmanager
    def working(self) -> Iterator[Path]:
        """As for a disk, elsewhere."""
        with tempfile.TemporaryDirectory(prefix="elmo-", ignore_cleanup_errors=True) as folder:
            yield Path(folder) / _unfinished_name(self._mark)

    def fetch(self, name: str, copy: Path) -> None:
        """As for a disk."""
        with self._errors(name):
            self._fs.get_file(self._place(name), str(copy))

    def put(self, working: Path, name: str) -> None:
        """As for a disk."""
        with self._errors(name):
            if self._puts_whole:
                self._fs.put_file(str(working), self._place(name))
                return
            self._make_unfinished()
            temporary = f"{self._unfinished}/{working.name}"
            try:
                self._fs.put_file(str(working), temporary)
                self._fs.mv(temporary, self._place(name))
                if self._is_there(temporary):  # some drivers don't say that they could not
                    raise OSError("was not moved to its name")
            except BaseException:
                with suppress(Exception):
                    self._fs.rm_file(temporary)
                raise

    def clean_up(self) -> None:
        """As for a disk."""
        with suppress(Exception):
            self._fs.invalidate_cache()
            places = self._fs.ls(self._unfinished, detail=False)
            gone = [place for place in places if self._is_to_go(place)]
            for place in gone:
                self._fs.rm_file(place)
            if gone == places and not self._puts_whole:  # some drivers remove a full one
                self._fs.rmdir(self._unfinished)

    def _is_to_go(self, place: str) -> bool:
        if place.rpartition("/")[2].startswith(self._mark):
            return True
        with suppress(Exception):  # not every driver knows how old a file is
            return _is_left(self._fs.modified(place).timestamp())
        return False

    def _make_unfinished(self) -> None:
        """Object stores need no folders, and their drivers would make a bucket of a wrong name."""
        if not self._puts_whole:
            self._fs.makedirs(self._unfinished, exist_ok=True)

    def _is_there(self, place: str) -> bool:
        try:  # fsspec's own `exists` takes every error for a no
            return bool(self._fs.info(place)["type"] == "file")
        except FileNotFoundError:
            return False

    def _place(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _shown(self, name: str) -> str:
        return f"{shown(self._url)}{name}"

    @contextmanager
    def _errors(self, name: str = "") -> Iterator[None]:
        """Turn what a driver raises into an OutputError; each has classes of its own."""
        try:
            yield
        except ElmoError:
            raise
        except Exception as error:
            raise self._error(self._shown(name), error) from None

    def _error(self, where: str, error: Exception) -> OutputError:
        kind = type(error).__name__
        said = getattr(error, "strerror", None) or str(error) or kind
        said = " ".join(without_secrets(said, self._url).split())[:_LONGEST]
        if isinstance(error, FileNotFoundError):
            return OutputError(
                f"{where}: there is no such bucket or folder ({said})", "make it, or mend the name"
            )
        if isinstance(error, PermissionError) or "Credential" in kind:
            return OutputError(
                f"{where}: no permission ({said})",
                "every machine needs keys that may list, read and write there",
            )
        return OutputError(f"{where}: {said} ({kind})", "see to the store and the network")


Folder = DiskFolder | StoreFolder


def folder_of(job: EmbedJob, home: str) -> Folder:
    """The folder that a job puts its shards into, as another job may at the same time.

    Args:
        home: the folder that names of files are relative to.
    Raises:
        UsageError, OutputError: as `StoreFolder`.
    """
    # The same for all workers of a run, and for the same command when it is given again.
    mark = hashlib.sha256(repr((replace(job, output=""), home)).encode()).hexdigest()[:12]
    return StoreFolder(job.output, mark) if is_url(job.output) else DiskFolder(job.output, mark)


def _unfinished_name(mark: str) -> str:
    return f"{mark}-{uuid.uuid4().hex}.hdf5"


def _is_left(modified_s: float) -> bool:
    """Whether an unfinished file is too old to be somebody's."""
    return time.time() - modified_s > _LEFT_S


def _check_driver(url: str) -> None:
    """Refuse a URL that no installed driver of fsspec takes."""
    protocol = url.partition("://")[0]
    if "::" in url:
        raise UsageError(
            f"{shown(url)}: `::` leads through another file system, and shards can't be put there",
            "name the store alone, such as `-o s3://BUCKET/shards/`",
        )
    if protocol in _WHOLE_PUTS and has_secret(url):
        raise UsageError(
            f"{shown(url)}: {protocol}:// takes no keys in the URL",
            "its driver finds them in the environment of each machine, or in files of its own",
        )
    try:
        import fsspec
    except ImportError:
        raise OutputError(
            f"{shown(url)}: fsspec is not installed", "`pip install 'elmo-cli[stores]'`"
        ) from None
    try:
        fsspec.get_filesystem_class(protocol)
    except ImportError as error:
        raise OutputError(
            f"{shown(url)}: the driver of {protocol}:// is not installed ({error})",
            "install it beside elmo, on every machine of the cluster",
        ) from None
    except ValueError:
        raise UsageError(
            f"{shown(url)}: fsspec knows no {protocol}://",
            "`-o s3://BUCKET/shards/`, `gs://` and `abfs://` are some that it knows",
        ) from None
