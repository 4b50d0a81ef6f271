"""Shard folders, local and behind URLs: a file is complete or it does not exist."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.core import url_to_fs
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry, known_implementations
from stores import Bucket, Store

from elmo_cli.cluster.shard_folder import open_shard_folder, without_secrets
from elmo_cli.errors import OutputError

A, B = "part-00001-of-00002-aaa.hdf5", "part-00002-of-00002-aaa.hdf5"
URLS = ["memory://far/a/", "store://user:secret@far/a/", "s3://b/a/"]


@pytest.fixture(autouse=True)
def stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Empty stores, which fsspec knows by their protocols."""
    for kind in (Store, Bucket, MemoryFileSystem):
        monkeypatch.setattr(kind, "store", {})
        monkeypatch.setattr(kind, "pseudo_dirs", [""])
        monkeypatch.setitem(_registry, str(kind.protocol), kind)
    yield
    Store.clear_instance_cache()
    Bucket.clear_instance_cache()


@pytest.fixture(params=["{}/near/", "file://{}/far/", *URLS])
def output(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder that exists."""
    path = str(request.param.format(tmp_path))
    open_shard_folder(path).check_writable()
    return path


def write(output: str, name: str, content: bytes = b"") -> None:
    with open_shard_folder(output).writing(name) as path:
        path.write_bytes(content)


def read(output: str, name: str) -> bytes:
    fs, root = url_to_fs(output)
    return bytes(fs.cat_file(f"{root}/{name}"))


def fail(monkeypatch: pytest.MonkeyPatch, error: BaseException, *operations: str) -> None:
    """Let stores fail in these operations."""

    def before(operation: str) -> None:
        if operation in operations:
            raise error

    monkeypatch.setattr(Store, "before", staticmethod(before))


def test_files_are_written_listed_and_replaced(output: str) -> None:
    """And nothing else is in the folder."""
    folder = open_shard_folder(output)
    assert folder.names() == set()
    for name, content in ((A, b"one"), (B, b"two"), (A, b"three")):
        write(output, name, content)
    assert folder.names() == {A, B}
    assert (read(output, A), read(output, B)) == (b"three", b"two")


def test_a_failure_leaves_nothing(output: str) -> None:
    folder = open_shard_folder(output)

    def write_half() -> None:
        with folder.writing(A) as path:
            path.write_bytes(b"half")
            assert A not in folder.names()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert folder.names() == set()


def test_partial_files_of_these_shards_are_removed(output: str) -> None:
    """Those of another run, which may still be at work, are kept."""
    other = f".{A.replace('aaa', 'bbb')}.7"
    for name in (A, f".{A}.123", f".{A}.123.part.log", f".{B}.5", other):
        write(output, name)
    open_shard_folder(output).remove_partial({A, B})
    assert open_shard_folder(output).names() == {A, other}


def test_the_list_of_skipped_lines_is_replaced(output: str) -> None:
    folder = open_shard_folder(output)
    assert (folder.write_skipped([]), folder.names()) == ("", set())
    assert folder.write_skipped([("a\tb.txt", 3, "not UTF-8")]) == "skipped.tsv"
    assert read(output, "skipped.tsv") == b"a\\tb.txt\t3\tnot UTF-8\n"
    assert folder.write_skipped([]) == ""
    assert read(output, "skipped.tsv") == b""  # and not what is no longer true


@pytest.mark.parametrize("operations", [("put",), ("put", "remove")])
def test_an_upload_that_breaks_leaves_nothing_under_the_name(
    monkeypatch: pytest.MonkeyPatch, operations: tuple[str, ...]
) -> None:
    """Nor does its message contain the password."""
    url = URLS[1]
    with monkeypatch.context() as patch:
        fail(patch, ConnectionResetError(104, "reset by user:secret,\nsecret"), *operations)
        with pytest.raises(OutputError) as caught:
            write(url, A, bytes(1000))
    message = f"store://***@far/a/{A}: reset by ***, *** (ConnectionResetError)"
    assert caught.value.message == message
    left = open_shard_folder(url).names()
    assert [name[: len(A) + 2] for name in left] == [f".{A}."] * operations.count("remove")


@pytest.mark.parametrize("url", URLS[1:])
@pytest.mark.parametrize("operation", ["put", "list"])
def test_a_store_that_cannot_be_used_is_found_before_work(
    monkeypatch: pytest.MonkeyPatch, url: str, operation: str
) -> None:
    fail(monkeypatch, PermissionError(13, "Forbidden"), operation)
    with pytest.raises(OutputError, match=r": Forbidden \(PermissionError\)") as error:
        open_shard_folder(url).check_writable()
    assert "keys" in error.value.hint


@pytest.mark.parametrize(
    ("output", "says", "hint"),
    [
        ("file/shards/", "file/shards", "another output path"),
        ("nope://k:s/e@b/", "nope://***@b/: ", "the URL"),
        ("gone://b/", "gone://b/: get it (ImportError)", "elmo-cli[stores]"),
    ],
)
def test_folders_that_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, says: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    monkeypatch.setitem(known_implementations, "gone", {"class": "gone_fs.Gone", "err": "get it"})
    with pytest.raises(OutputError) as error:
        open_shard_folder(output).check_writable()
    assert error.value.message.startswith(says)
    assert hint in error.value.hint


def test_a_local_folder_needs_no_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra."""
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    open_shard_folder(f"{tmp_path}/near").check_writable()
    with pytest.raises(OutputError) as error:
        open_shard_folder("memory://b/")
    assert "elmo-cli[stores]" in error.value.hint


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("shards/a:b@c", "shards/a:b@c"),
        ("s3://bucket/a@b/", "s3://bucket/a@b/"),
        ("sftp://user:password@host/a/", "sftp://***@host/a/"),
        ("s3://key:s/e@c@bucket/", "s3://***@bucket/"),
        ("https://host/a?token=secret", "https://host/a?***"),
    ],
)
def test_urls_are_shown_without_secrets(output: str, shown: str) -> None:
    assert without_secrets(output) == shown


def test_a_driver_names_parts_of_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes a `/` in it for the end of the host, or decodes it."""
    folder = open_shard_folder("store://user:pass%2Fword/tail@far/a/")
    fail(monkeypatch, OSError("user pass/word tail pass%2Fword far"), "list")
    with pytest.raises(OutputError, match=r"^store://\*\*\*@far/a/: \W* far \(OSError\)"):
        folder.names()
