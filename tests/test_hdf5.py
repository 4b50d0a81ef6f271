"""hdf5: only values that are in the file and as they were written, and one kind of error."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmo_cli import hdf5
from elmo_cli.errors import EmbeddingsFileError, InputError
from elmo_cli.hdf5 import NoSuchNameError, open_dataset, open_hdf5, read_dataset, reading
from elmo_cli.messages import CORRUPT_HINT

VALUES = np.arange(24, dtype=np.float32).reshape(4, 6)
Make = Callable[[h5py.File], object]


def created(n_rows: int = 0, **more: Any) -> Make:
    """A data set `x` of which `n_rows` are written."""

    def make(file: h5py.File) -> None:
        dataset = file.create_dataset("x", **({"shape": VALUES.shape, "dtype": "f4"} | more))
        if n_rows:
            dataset[:n_rows] = VALUES[:n_rows]

    return make


def with_properties(change: Callable[[Any], object]) -> Make:
    def make(file: h5py.File) -> None:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        change(properties)
        space = h5py.h5s.create_simple(VALUES.shape)
        dataset = h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, space, properties)
        h5py.Dataset(dataset)[:] = VALUES

    return make


def compact(properties: Any) -> None:
    properties.set_layout(h5py.h5d.COMPACT)


def nbit(properties: Any) -> None:
    properties.set_chunk((2, 6))
    properties.set_shuffle()  # the first of two filters is lossless
    properties.set_filter(h5py.h5z.FILTER_NBIT)


def external(file: h5py.File) -> None:
    path = Path(file.filename).with_name("secret")
    path.write_bytes(VALUES.tobytes())
    created(external=[(os.fspath(path), 0, VALUES.nbytes)])(file)


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout(VALUES.shape, "f4")
    layout[:] = h5py.VirtualSource("missing.hdf5", "y", VALUES.shape)
    file.create_virtual_dataset("x", layout)


def hard_link(file: h5py.File) -> None:
    file["y"] = VALUES
    file["x"] = file["y"]


def links(file: h5py.File) -> None:
    with h5py.File(Path(file.filename).with_name("other.hdf5"), "w") as other:
        other["group/x"] = VALUES
    file["out"] = h5py.ExternalLink("other.hdf5", "/group")
    file["x"] = h5py.SoftLink("/out/x")


REFUSED: dict[str, tuple[Make, str]] = {
    "external storage": (external, "external or virtual storage"),
    "virtual": (virtual, "external or virtual storage"),
    "contiguous, never written": (created(), "not written in full"),
    "compressed, partly written": (created(2, chunks=(2, 6), compression=9), "not written in full"),
    "chunked, never written": (created(chunks=(3, 4)), "not written in full"),
    "last chunk missing": (created(3, shape=(4, 6), chunks=(3, 6)), "not written in full"),
    "scale-offset": (created(data=VALUES, scaleoffset=2), "lossless"),
    "n-bit": (with_properties(nbit), "lossless"),
    "soft link": (links, "external link or a soft link"),
}
READ: dict[str, Make] = {
    "empty": created(shape=(0, 6)),  # nothing is written for it, and nothing is missing
    "empty chunks": created(shape=(0, 6), chunks=(1, 1), maxshape=(None, None)),
    "contiguous": created(data=VALUES),
    "chunked": created(data=VALUES, chunks=(3, 4)),
    "gzip and more": created(data=VALUES, compression="gzip", shuffle=True, fletcher32=True),
    "lzf": created(data=VALUES, compression="lzf"),
    "compact": with_properties(compact),
    "hard link": hard_link,
}


def open_made(tmp_path: Path, make: Make) -> h5py.File:
    with h5py.File(tmp_path / "in.hdf5", "w") as file:
        make(file)
    return open_hdf5(tmp_path / "in.hdf5")


@pytest.mark.parametrize("case", REFUSED)
def test_values_that_are_not_in_the_file_are_refused(case: str, tmp_path: Path) -> None:
    """HDF5 reads them as zeros, or from any file that the user may read."""
    make, part = REFUSED[case]
    with open_made(tmp_path, make) as file:
        # To follow an external link in a path may open a device that never answers.
        names = ["x", "/x"]
        if make is links:
            names += ["out/x", "/out/deeper/x"]
        for name in names:
            with (
                pytest.raises(EmbeddingsFileError, match=part) as raised,
                reading(file.filename, EmbeddingsFileError),
            ):
                open_dataset(file, name)
            assert raised.value.message.startswith(f"{file.filename}: {name!r} ")
            assert raised.value.hint


@pytest.mark.parametrize("case", READ)
def test_values_that_are_in_the_file_are_read(case: str, tmp_path: Path) -> None:
    with open_made(tmp_path, READ[case]) as file:
        expected = VALUES[:0] if case.startswith("empty") else VALUES
        np.testing.assert_array_equal(read_dataset(open_dataset(file, "x")), expected)
        values = read_dataset(open_dataset(file, "//x"), slice(1, 2))
        np.testing.assert_array_equal(values, expected[1:2])


@pytest.mark.parametrize("name", ["", "/", "y", "x/y", "group/y", "a\0b", "\ud800", "group"])
def test_a_name_that_does_not_exist_is_a_key_error(name: str, tmp_path: Path) -> None:
    """Callers try several names for a key; `reading` lets it pass."""

    def make(file: h5py.File) -> None:
        file["x"] = VALUES
        file["group/x"] = VALUES

    with (
        open_made(tmp_path, make) as file,
        pytest.raises(NoSuchNameError),
        reading(file.filename, InputError),
    ):
        open_dataset(file, name)


def test_a_claim_beyond_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressed zeros of gigabytes fit into a file of some kilobytes."""
    monkeypatch.setattr(hdf5, "MIN_MEMORY", 1 << 20)
    zeros = np.zeros((1000, 2048), "f4")
    with open_made(tmp_path, created(shape=None, data=zeros, compression=9)) as file:
        assert (1 << 20) + 16 * os.path.getsize(file.filename) < zeros.nbytes
        with pytest.raises(OSError, match=r"claims \d+ bytes"):
            read_dataset(open_dataset(file, "x"))
        monkeypatch.setattr(hdf5, "MIN_MEMORY", 8 << 20)
        assert read_dataset(open_dataset(file, "x")).shape == zeros.shape


@pytest.mark.parametrize("is_tracked", [False, True])
def test_names_are_in_natural_order_or_that_of_creation(is_tracked: bool, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.hdf5", "w", track_order=is_tracked) as file:
        file["b"] = VALUES
        group = file.create_group("a", track_order=is_tracked)
        for name in ("s10", "s2", "s"):
            group[name] = VALUES
        group["type"] = np.dtype("f4")
    with open_hdf5(tmp_path / "in.hdf5") as file:
        natural = ["a/s", "a/s2", "a/s10", "b"]
        expected = ["b", "a/s10", "a/s2", "a/s"] if is_tracked else natural
        assert list(hdf5.dataset_names(file)) == expected
        assert len(hdf5.sample_datasets(file, 2)) == 2


def test_listing_survives_cycles_and_a_hundred_nested_groups(tmp_path: Path) -> None:
    deep = "/".join("g" * 100) + "/x"

    def make(file: h5py.File) -> None:
        file[deep] = VALUES
        file["ring"] = file["g/g"]
        file["g/g/up"] = file["/"]

    with open_made(tmp_path, make) as file:
        assert list(islice(hdf5.dataset_names(file), 9)) == [deep]
        assert [name for name, _ in hdf5.sample_datasets(file, 5)] == [deep]


def test_listing_refuses_links_and_names(tmp_path: Path) -> None:
    def bad_name(file: h5py.File) -> None:
        file.create_group("x")
        file.id.links.create_hard(b"\xff", file.id, b"x")

    def unsorted_names(file: h5py.File) -> None:
        file.update({"a" * 8: VALUES, "b" * 8: VALUES})
        file.flush()
        path = Path(file.filename)
        path.write_bytes(path.read_bytes().replace(b"a" * 8, b"z" * 8))

    for make, part in (
        (links, "external link"),
        (bad_name, "utf-8"),
        (unsorted_names, "'zzzzzzzz' is listed in a group that does not have it"),
    ):
        with (
            open_made(tmp_path, make) as file,
            pytest.raises(InputError, match=part),
            reading(file.filename, InputError),
        ):
            list(hdf5.dataset_names(file))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"text" * 200, "not an HDF5 file"),
        (b"cut", "truncated"),
        (None, "no such file"),
        ("folder", "Is a directory"),
        ("/dev/zero", "not a regular file"),
        ("pipe", "not a regular file"),
    ],
)
def test_a_file_that_is_not_hdf5(content: bytes | str | None, part: str, tmp_path: Path) -> None:
    """A pipe would be waited for, a device may never end."""
    path = tmp_path / "in.hdf5"
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    if content == b"cut":
        open_made(tmp_path, READ["contiguous"]).close()
        os.truncate(path, path.stat().st_size - 5)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        path.symlink_to(content)
    with pytest.raises(InputError) as raised, reading(path, InputError):
        open_hdf5(path)
    assert raised.value.message == f"{path}: {part}"
    assert raised.value.hint == ("check the name" if content is None else CORRUPT_HINT)
    for error in (MemoryError, NoSuchNameError, KeyboardInterrupt, InputError):  # others pass
        with pytest.raises(error), reading(path, EmbeddingsFileError):
            raise error("a")


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_made(tmp_path, READ["contiguous"]).close()
    opened = h5py.File

    def refuse(path: Path, mode: str, **more: object) -> h5py.File:
        if more.get("locking") is not False:
            raise OSError(hdf5.NO_LOCKS[0], "unable to lock file")
        return opened(path, mode, locking=False)

    monkeypatch.setattr(h5py, "File", refuse)
    with open_hdf5(tmp_path / "in.hdf5") as file:
        assert "x" in file


def test_a_file_that_this_process_reads_without_a_lock(tmp_path: Path) -> None:
    """HDF5 refuses a second handle that would lock it."""
    open_made(tmp_path, READ["contiguous"]).close()
    with (
        h5py.File(tmp_path / "in.hdf5", "r", locking=False),
        open_hdf5(tmp_path / "in.hdf5") as file,
    ):
        assert "x" in file


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.EIO, "errno = 5, in 20 words"), os.strerror(errno.EIO)),
        (OSError(errno.EAGAIN, "unable to lock file"), "another program has it open for writing"),
        (RuntimeError("first line\nsecond line"), "first line"),
        (ValueError(), "ValueError"),
    ],
)
def test_an_error_is_one_line_that_says_what_was_read(error: Exception, reason: str) -> None:
    assert hdf5.reason_of(error) == reason
    with pytest.raises(InputError) as raised, reading("a", InputError, "data set 'x'"):
        raise error
    assert raised.value.message == f"a: data set 'x': {reason}"
