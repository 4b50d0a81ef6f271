"""hdf5: only values that are in the file and as they were written, and one kind of error."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmo_cli import hdf5
from elmo_cli.errors import EmbeddingsFileError, InputError
from elmo_cli.hdf5 import (
    NoSuchNameError,
    dataset_names,
    natural_order,
    open_dataset,
    open_group,
    open_hdf5,
    read_dataset,
    reading,
    sample_datasets,
    tracks_creation_order,
)

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
        h5py.Dataset(h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, space, properties))[:] = (
            VALUES
        )

    return make


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


def links(file: h5py.File) -> None:
    with h5py.File(Path(file.filename).with_name("other.hdf5"), "w") as other:
        other["group/x"] = VALUES
    file["out"] = h5py.ExternalLink("other.hdf5", "/group")
    file["x"] = h5py.SoftLink("/out/x")


REFUSED: dict[str, tuple[Make, str]] = {
    "external storage": (external, "external or virtual storage"),
    "virtual": (virtual, "external or virtual storage"),
    "contiguous, never written": (created(), "not written in full"),
    "chunked, partly written": (created(2, chunks=(2, 6)), "not written in full"),
    "compressed, partly written": (created(2, chunks=(2, 6), compression=9), "not written in full"),
    "chunked, never written": (created(chunks=(3, 4)), "not written in full"),
    "last chunk missing": (created(3, shape=(4, 6), chunks=(3, 6)), "not written in full"),
    "scale-offset": (created(data=VALUES, scaleoffset=2), "lossless"),
    "n-bit": (with_properties(nbit), "lossless"),
    "soft link": (links, "external link or a soft link"),
}
READ: dict[str, Make] = {
    "contiguous": created(data=VALUES),
    "chunked": created(data=VALUES, chunks=(3, 4)),
    "gzip and more": created(data=VALUES, compression="gzip", shuffle=True, fletcher32=True),
    "lzf": created(data=VALUES, compression="lzf"),
    "compact": with_properties(lambda properties: properties.set_layout(h5py.h5d.COMPACT)),
    "hard link": lambda file: (file.update({"y": VALUES}), file.update({"x": file["y"]})),
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
        for name in ("x", "/x"):
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
        np.testing.assert_array_equal(read_dataset(open_dataset(file, "x")), VALUES)
        np.testing.assert_array_equal(read_dataset(open_dataset(file, "//x"), 1), VALUES[1])


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), None])
@pytest.mark.parametrize("chunks", [None, True])
def test_an_empty_array_is_read(
    shape: tuple[int, ...] | None, chunks: bool | None, tmp_path: Path
) -> None:
    """Nothing is written for it, and nothing is missing."""
    more = {} if shape is None or not chunks else {"chunks": (1, 1), "maxshape": (None, None)}
    empty = h5py.Empty("f4") if shape is None else None
    with open_made(tmp_path, created(shape=shape, data=empty, **more)) as file:
        assert open_dataset(file, "x").shape == shape


@pytest.mark.parametrize("name", ["out/x", "/out/x", "out/deeper/x"])
def test_an_external_link_in_a_path_is_not_followed(name: str, tmp_path: Path) -> None:
    """To follow it may open a device that never answers: it is refused although it exists."""
    with open_made(tmp_path, links) as file:
        for opener in (open_dataset, open_group):
            with pytest.raises(OSError, match="external link or a soft link"):
                opener(file, name)


@pytest.mark.parametrize("name", ["", "/", ".", "y", "x/y", "group/y", "a\0b", "\ud800", "group"])
def test_a_name_that_does_not_exist_is_a_key_error(name: str, tmp_path: Path) -> None:
    """Callers try several names for a key; `reading` lets it pass."""
    with open_made(tmp_path, lambda f: f.update({"x": VALUES, "group/x": VALUES})) as file:
        with pytest.raises(NoSuchNameError), reading(file.filename, InputError):
            open_dataset(file, name)
        assert open_group(file, "group").name == "/group"
        for other in ("x", "y", "x/y"):
            with pytest.raises(KeyError):
                open_group(file, other)


def test_a_claim_beyond_what_the_file_can_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compressed zeros of gigabytes fit into a file of some kilobytes."""
    monkeypatch.setattr(hdf5, "MIN_MEMORY", 1 << 20)
    for n_rows, is_refused in ((100, False), (1000, True)):
        zeros = np.zeros((n_rows, 2048), "f4")
        with open_made(tmp_path, created(shape=None, data=zeros, compression=9)) as file:
            most = hdf5.max_plausible_bytes(file)
            assert most == (1 << 20) + 16 * os.path.getsize(file.filename)
            assert (zeros.nbytes > most) == is_refused
            if not is_refused:
                read_dataset(open_dataset(file, "x"))
                continue
            with pytest.raises(OSError, match=r"claims \d+ bytes"):
                read_dataset(open_dataset(file, "x"))


@pytest.mark.parametrize("is_tracked", [False, True])
def test_names_are_in_natural_order_or_that_of_creation(is_tracked: bool, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.hdf5", "w", track_order=is_tracked) as file:
        file["b"] = VALUES
        group = file.create_group("a", track_order=is_tracked)
        group["s10"], group["s2"], group["type"] = VALUES, VALUES, np.dtype("f4")
    with open_hdf5(tmp_path / "in.hdf5") as file:
        expected = ["b", "a/s10", "a/s2"] if is_tracked else ["a/s2", "a/s10", "b"]
        assert list(dataset_names(file)) == expected
        assert tracks_creation_order(file) == is_tracked
        assert len(sample_datasets(file, 2)) == 2
    in_order = ["9", "10", "s", "s02", "s2", "s10"]
    assert natural_order(in_order[::-1]) == in_order


def test_listing_survives_cycles_and_a_thousand_nested_groups(tmp_path: Path) -> None:
    deep = "/".join("g" * 1000) + "/x"

    def make(file: h5py.File) -> None:
        file[deep] = VALUES
        file["ring"] = file["g/g"]
        file["g/g/up"] = file["/"]

    with open_made(tmp_path, make) as file:
        assert list(dataset_names(file)) == [deep]
        assert [name for name, _ in sample_datasets(file, 5)] == [deep]


def bad_name(file: h5py.File) -> None:
    file["x"] = VALUES
    file.id.links.create_hard(b"\xff", file.id, b"x")


@pytest.mark.parametrize(("make", "part"), [(links, "soft link"), (bad_name, "utf-8")])
def test_listing_refuses_links_and_names(make: Make, part: str, tmp_path: Path) -> None:
    with open_made(tmp_path, make) as file:
        for listing in (dataset_names, lambda file: sample_datasets(file, 3)):
            with pytest.raises(InputError, match=part), reading(file.filename, InputError):
                list(listing(file))


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
    with pytest.raises(InputError) as raised, reading(path, InputError, "try again"):
        open_hdf5(path)
    assert raised.value.message == f"{path}: {part}"
    assert raised.value.hint == ("check the name" if content is None else "try again")


def test_other_errors_pass() -> None:
    for error in (MemoryError, NoSuchNameError, KeyboardInterrupt, InputError):
        with pytest.raises(error), reading("a.hdf5", EmbeddingsFileError):
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
