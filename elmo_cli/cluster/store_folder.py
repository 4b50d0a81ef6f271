"""StoreFolder: the folder of the shards behind a URL."""

from __future__ import annotations

import fnmatch
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from elmo_cli.cluster.unfinished import SHARDS, UNFINISHED, is_left, unfinished_name
from elmo_cli.cluster.url import has_secret, shown, without_secrets
from elmo_cli.errors import ElmoError, OutputError, ResumeError, UsageError
from elmo_cli.store.writer import finished_attributes

# Where an object is there when all of it has arrived, and not before. Elsewhere half an upload may
# be seen under its name, so that it gets another name first.
_WHOLE_PUTS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"}
_READ_AHEAD = 16_384  # bytes; the attributes of a shard are a small part of it
_LONGEST = 300  # characters of what a driver says


class StoreFolder:
    """A folder behind a URL, in an object store or wherever else fsspec leads; see `Folder`.

    A shard is written on the worker's own disk ($TMPDIR) and uploaded when it is whole. Its
    methods raise an OutputError instead of an OSError.

    Args:
        url: of the folder; no message shows the password in it.
        mark: what the names of a run's unfinished files begin with.
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
        """See `Folder.make`: hours of work should not end in a refusal."""
        trial = f"{self._unfinished}/trial"
        with self._errors():
            self._make_unfinished()
            self._fs.pipe_file(trial, b"elmo\n")
            self.absent([])
        with suppress(Exception):  # it may be allowed to write there, and not to remove
            self._fs.rm_file(trial)

    def has(self, name: str) -> bool:
        """See `Folder.has`."""
        with self._errors(name):
            return self._is_there(self._place(name))

    def absent(self, names: Iterable[str]) -> set[str]:
        """See `Folder.absent`; by one listing."""
        return set(names) - self._listed()

    def others(self, names: Iterable[str]) -> list[str]:
        """See `Folder.others`."""
        return sorted(set(fnmatch.filter(self._listed(), SHARDS)) - set(names))

    def _listed(self) -> set[str]:
        with self._errors():
            self._fs.invalidate_cache()
            try:
                listed = self._fs.ls(self._root, detail=False)
            except FileNotFoundError:  # a folder without objects is none
                listed = []
        return {str(path).rpartition("/")[2] for path in listed}

    def facts(self, name: str) -> dict[str, Any]:
        """See `Folder.facts`; of the shard, only what holds the attributes is read."""
        place = self._place(name)
        with self._errors(name), self._fs.open(place, "rb", block_size=_READ_AHEAD) as opened:
            try:
                return finished_attributes(self._shown(name), opened)
            except ResumeError:
                self._fs.cat_file(place, start=0, end=1)  # HDF5 hides a store that is silent
                raise

    @contextmanager
    def working(self) -> Iterator[Path]:
        """See `Folder.working`; elsewhere, on this machine's own disk."""
        with tempfile.TemporaryDirectory(prefix="elmo-", ignore_cleanup_errors=True) as folder:
            yield Path(folder) / unfinished_name(self._mark)

    def fetch(self, name: str, copy: Path) -> None:
        """See `Folder.fetch`."""
        with self._errors(name):
            self._fs.get_file(self._place(name), str(copy))

    def put(self, working: Path, name: str) -> None:
        """See `Folder.put`."""
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
        """See `Folder.clean_up`."""
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
            return is_left(self._fs.modified(place).timestamp())
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
