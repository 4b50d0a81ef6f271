"""Shard folders, local and behind URLs: a file is complete or it does not exist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fsspec.core import url_to_fs
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry, known_implementations

from elmo_cli.cluster.shard_folder import open_shard_folder
from elmo_cli.errors import OutputError

A = "part-00001-of-00002-aaa.hdf5"
B = "part-00002-of-00002-aaa.hdf5"


class Store(MemoryFileSystem):
    """A store in memory under `store://user:secret@host/` and s3://; `errors` by operation."""

    protocol = ("store", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az")
    store: ClassVar[dict[str, Any]] = {}
    errors: ClassVar[dict[str, Exception]] = {}

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.rpartition("@")[2].rpartition("://")[2])

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        assert not path.startswith("/bucket"), "this would create a mistyped bucket"

    def check(self, operation: str) -> None:
        if operation in self.errors:
            raise self.errors[operation]

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        """As remote stores do it: a reader may see part of the file."""
        content = Path(lpath).read_bytes()
        self.pipe_file(rpath, content[:1])
        self.check("put")
        self.pipe_file(rpath, content)

    def rm_file(self, path: str) -> None:
        self.check("remove")
        super().rm_file(path)

    def ls(self, path: str, **options: Any) -> Any:
        self.check("list")
        return super().ls(path, **options)


@pytest.fixture(autouse=True)
def errors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, Exception]]:
    """Of empty stores, which fsspec knows by their protocols; nothing fails at first."""
    monkeypatch.chdir(tmp_path)
    for kind in (Store, MemoryFileSystem):
        monkeypatch.setattr(kind, "store", {})
        monkeypatch.setattr(kind, "pseudo_dirs", [""])
    for protocol in Store.protocol:
        monkeypatch.setitem(_registry, protocol, Store)
    monkeypatch.setitem(known_implementations, "gone", {"class": "gone_fs.Gone", "err": "get it"})
    monkeypatch.setattr(Store, "errors", {})
    yield Store.errors
    Store.clear_instance_cache()


def write(output: str, name: str, content: bytes = b"") -> None:
    with open_shard_folder(output).writing(name) as path:
        path.write_bytes(content)


def read(output: str, name: str) -> bytes:
    fs, root = url_to_fs(output)
    return bytes(fs.cat_file(f"{root}/{name}"))


all_kinds = pytest.mark.parametrize(
    "output",
    ["near/", "file://{}/far/", "memory://far/a/", "store://user:secret@far/a/", "s3://bucket/a/"],
)


@all_kinds
def test_files_are_written_listed_and_replaced(output: str, tmp_path: Path) -> None:
    """And nothing else is in the folder."""
    output = output.format(tmp_path)
    folder = open_shard_folder(output)
    folder.check_writable()
    folder.write_skipped([])
    assert folder.names() == set()
    for name, content in ((A, b"one"), (B, b"two"), (A, b"three")):
        write(output, name, content)
    assert (read(output, A), read(output, B)) == (b"three", b"two")
    for skipped, listed in (([("a\tb", 3, "why")], b"a\\tb\t3\twhy\n"), ([], b"")):
        folder.write_skipped(skipped)
        assert read(output, "skipped.tsv") == listed
    assert folder.names() == {A, B, "skipped.tsv"}


@pytest.mark.parametrize("protocol", Store.protocol[1:])
def test_no_bucket_is_made_and_no_object_is_renamed(protocol: str) -> None:
    """An object of these stores appears when it is complete, and to rename it is to copy it."""
    url = f"{protocol}://bucket/a/"
    write(url, A, b"one")
    assert read(url, A) == b"one"


@all_kinds
def test_failures_and_killed_workers(output: str, tmp_path: Path) -> None:
    """An error leaves nothing, a kill a partial file, which does not belong to another run."""
    output = output.format(tmp_path)
    folder = open_shard_folder(output)
    other = f".{A.replace('aaa', 'bbb')}.7"

    def fail() -> None:
        with folder.writing(B) as path:
            path.write_bytes(b"half")
            assert B not in folder.names()
            raise ZeroDivisionError

    for name in (A, f".{A}.123", f".{A}.123.part.log", f".{B}.5", other):
        write(output, name)
    with pytest.raises(ZeroDivisionError):
        fail()
    folder.remove_partial({A, B})
    assert folder.names() == {A, other}


@pytest.mark.parametrize("operations", [["put"], ["put", "remove"]])
def test_an_upload_that_breaks_leaves_nothing_under_the_name(
    errors: dict[str, Exception], operations: list[str]
) -> None:
    """Nor does its message contain the password."""
    url = "store://user:secret@far/a/"
    errors |= dict.fromkeys(operations, ConnectionResetError(1, "reset by user:secret,\nsecret"))
    with pytest.raises(OutputError) as caught:
        write(url, A, bytes(1000))
    message = f"store://***@far/a/{A}: ConnectionResetError"
    assert caught.value.message == message
    left = open_shard_folder(url).names()
    assert [name[: len(A) + 2] for name in left] == [f".{A}."] * operations.count("remove")


FORBIDDEN = PermissionError(13, "Forbidden")
DECODED = OSError("user pass/word")  # of a driver that decodes the password


@pytest.mark.parametrize(
    ("output", "failing", "says", "hint"),
    [
        ("file/shards/", {}, "file/shards/.elmo-trial: ", "another output path"),
        ("nope://user:x/y@b/", {}, "nope://***@b/: ValueError", "the URL"),
        ("gone://b/", {}, "gone://b/: get it (ImportError)", "install fsspec's driver"),
        ("s3://bucket/", {"put": FORBIDDEN}, "s3://bucket/.elmo-trial: Forbidden (", "keys"),
        ("s3://bucket/", {"list": FORBIDDEN}, "s3://bucket/: Forbidden (PermissionE", "keys"),
        ("store://user:pass%2Fword@b/", {"list": DECODED}, "store://***@b/: OSError", "keys"),
        ("store://user:80 pass/word@b/", {"list": DECODED}, "store://***@b/: OSError", "keys"),
    ],
)
def test_folders_that_are_refused_before_work(
    errors: dict[str, Exception], output: str, failing: dict[str, Exception], says: str, hint: str
) -> None:
    Path("file").touch()
    errors |= failing
    with pytest.raises(OutputError) as error:
        open_shard_folder(output).check_writable()
    assert error.value.message.startswith(says)
    assert hint in error.value.hint
    assert not any(secret in error.value.message for secret in ("user", "pass", "word"))
