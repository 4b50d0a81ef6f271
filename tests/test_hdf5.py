"""hdf5: only values that are in the file and as they were written, and one kind of error."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

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


def chunked(**more: object) -> Make:
    """Half of the chunks of `x` are written."""

    def make(file: h5py.File) -> None:
        dataset = file.create_dataset("x", VALUES.shape, "f4", chunks=(2, 6), **more)
        dataset[:2] = VALUES[:2]

    return make


def linked(kind: Callable[[], object]) -> Make:
    return lambda file: file.update({"x": kind()})


def external(file: h5py.File) -> None:
    place = Path(file.filename).with_name("secret")
    place.write_bytes(VALUES.tobytes())
    file.create_dataset("x", VALUES.shape, "f4", external=[(os.fspath(place), 0, VALUES.nbytes)])


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout(VALUES.shape, "f4")
    layout[:] = h5py.VirtualSource("missing.hdf5", "y", VALUES.shape)
    file.create_virtual_dataset("x", layout)


def lossy(file: h5py.File) -> None:
    file.create_dataset("x", data=VALUES, scaleoffset=2)


def nbit(file: h5py.File) -> None:
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((2, 6))
    properties.set_shuffle()  # the first of two filters is lossless
    properties.set_filter(h5py.h5z.FILTER_NBIT)
    space = h5py.h5s.create_simple(VALUES.shape)
    identifier = h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, space, properties)
    h5py.Dataset(identifier)[:] = VALUES


def compact(file: h5py.File) -> None:
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple(VALUES.shape)
    identifier = h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, space, properties)
    h5py.Dataset(identifier)[:] = VALUES


def soft_ring(file: h5py.File) -> None:
    file["x"], file["y"] = h5py.SoftLink("/y"), h5py.SoftLink("/x")


def through_external(file: h5py.File) -> None:
    with h5py.File(Path(file.filename).with_name("other.hdf5"), "w") as other:
        other["group/x"] = VALUES
    file["out"] = h5py.ExternalLink("other.hdf5", "/group")
    file["x"] = h5py.SoftLink("/out/x")


REFUSED: dict[str, tuple[Make, str]] = {
    "external storage": (external, "external storage"),
    "external link": (linked(lambda: h5py.ExternalLink("other.hdf5", "y")), "external link"),
    "soft link through an external one": (through_external, "external link"),
    "virtual": (virtual, "virtual storage"),
    "contiguous, never written": (lambda f: f.create_dataset("x", (4, 6), "f4"), "never written"),
    "chunked, partly written": (chunked(), "1 of 2"),
    "compressed, partly written": (chunked(compression="gzip"), "1 of 2"),
    "chunked, never written": (
        lambda f: f.create_dataset("x", (5, 6), "f4", chunks=(2, 4)),
        "0 of 6",
    ),
    "scale-offset": (lossy, "lossless"),
    "n-bit": (nbit, "lossless"),
    "dangling": (linked(lambda: h5py.SoftLink("/nowhere")), "does not exist"),
    "ring of soft links": (soft_ring, "too many"),
}

READ: dict[str, Make] = {
    "contiguous": lambda f: f.create_dataset("x", data=VALUES),
    "chunked": lambda f: f.create_dataset("x", data=VALUES, chunks=(3, 4)),
    "gzip, shuffle, fletcher32": lambda f: f.create_dataset(
        "x", data=VALUES, compression="gzip", shuffle=True, fletcher32=True
    ),
    "lzf": lambda f: f.create_dataset("x", data=VALUES, compression="lzf"),
    "compact": compact,
    "soft link": lambda f: f.update(
        {"a/y": VALUES, "a/link": h5py.SoftLink("y"), "x": h5py.SoftLink("a/link")}
    ),
    "hard link": lambda f: (f.update({"y": VALUES}), f.update({"x": f["y"]})),
}


def open_made(tmp_path: Path, make: Make) -> h5py.File:
    path = tmp_path / "in.hdf5"
    with h5py.File(path, "w") as file:
        make(file)
    return open_hdf5(path)


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
            assert raised.value.message.startswith(f"{file.filename}: ")
            assert "x'" in raised.value.message
            assert raised.value.hint


@pytest.mark.parametrize("case", READ)
def test_values_that_are_in_the_file_are_read(case: str, tmp_path: Path) -> None:
    with open_made(tmp_path, READ[case]) as file:
        np.testing.assert_array_equal(read_dataset(open_dataset(file, "x")), VALUES)
        np.testing.assert_array_equal(read_dataset(open_dataset(file, "//./x"), 1), VALUES[1])


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), None])
@pytest.mark.parametrize("chunks", [None, True])
def test_an_empty_array_is_read(
    shape: tuple[int, ...] | None, chunks: bool | None, tmp_path: Path
) -> None:
    """Nothing is written for it, and nothing is missing."""
    more = {} if shape is None or not chunks else {"chunks": (1, 1), "maxshape": (None, None)}
    empty = h5py.Empty("f4") if shape is None else None
    with open_made(
        tmp_path, lambda f: f.create_dataset("x", shape, data=empty, dtype="f4", **more)
    ) as file:
        assert open_dataset(file, "x").shape == shape


@pytest.mark.parametrize("component", ["out/x", "/out/x", "out/deeper/x"])
def test_an_external_link_in_a_path_is_not_followed(component: str, tmp_path: Path) -> None:
    """To follow it may open a device that never answers: it is refused although it exists."""
    with open_made(tmp_path, through_external) as file:
        for opener in (open_dataset, open_group):
            with pytest.raises(OSError, match="external link"):
                opener(file, component)


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
    shape = (1000, 2048)

    def make(file: h5py.File) -> None:
        file.create_dataset("x", data=np.zeros(shape, "f4"), compression="gzip", chunks=(500, 2048))

    with open_made(tmp_path, make) as file:
        most = hdf5.max_plausible_bytes(file)
        assert most == (1 << 20) + 16 * os.path.getsize(file.filename) < 8000 * 1000
        dataset = open_dataset(file, "x")
        n = most // 8192
        for whole in ((), slice(None), ..., slice(0, n + 1), (slice(0, n + 1), 0)):
            with pytest.raises(OSError, match=r"claims \d+ bytes, the file has"):
                read_dataset(dataset, whole)
        for rows, shape in ((slice(5, 5 + n), (n, 2048)), (7, (2048,)), ([1, 4], (2, 2048))):
            assert read_dataset(dataset, rows).shape == shape


def test_names_are_in_natural_order_or_that_of_creation(tmp_path: Path) -> None:
    for tracked, first in ((False, ["a/s2", "a/s10", "b"]), (True, ["b", "a/s10", "a/s2"])):
        path = tmp_path / f"{tracked}.hdf5"
        with h5py.File(path, "w", track_order=tracked) as file:
            file["b"] = VALUES
            group = file.create_group("a", track_order=tracked)
            group["s10"], group["s2"] = VALUES, VALUES
            group["type"] = np.dtype("f4")
        with open_hdf5(path) as file:
            assert list(dataset_names(file)) == first
            assert tracks_creation_order(file) == tracked
    in_order = ["9", "10", "s", "s02", "s2", "s10"]
    assert natural_order(in_order[::-1]) == in_order


def test_listing_survives_cycles_and_a_thousand_nested_groups(tmp_path: Path) -> None:
    deep = "/".join("g" * 1000) + "/x"

    def make(file: h5py.File) -> None:
        file[deep] = VALUES
        file["ring"] = file["g/g"]
        file["g/g/up"] = file["/"]
        file["g/soft"] = h5py.SoftLink("/g/g")

    with open_made(tmp_path, make) as file:
        assert list(dataset_names(file)) == [deep]
        assert [name for name, _ in sample_datasets(file, 5)] == [deep]
        np.testing.assert_array_equal(open_dataset(file, deep)[:], VALUES)


@pytest.mark.parametrize("case", ["external link", "dangling"])
def test_listing_refuses_links_that_leave_the_file(case: str, tmp_path: Path) -> None:
    with open_made(tmp_path, REFUSED[case][0]) as file:
        for listing in (dataset_names, lambda file: sample_datasets(file, 3)):
            with pytest.raises(OSError, match=REFUSED[case][1]):
                list(listing(file))


def test_listing_refuses_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    def make(file: h5py.File) -> None:
        file["x"] = VALUES
        file.id.links.create_hard(b"\xff", file.id, b"x")

    with (
        open_made(tmp_path, make) as file,
        pytest.raises(EmbeddingsFileError, match="utf-8"),
        reading(file.filename, EmbeddingsFileError),
    ):
        list(dataset_names(file))


def test_a_sample_is_taken_from_several_groups(tmp_path: Path) -> None:
    """What is told by a few sentences must not rest on one document of many."""

    def make(file: h5py.File) -> None:
        file.update({f"doc{i}/{k}": VALUES for i in range(20) for k in range(30)})

    with open_made(tmp_path, make) as file:
        names = [name for name, _ in sample_datasets(file, 48)]
        assert len(set(names)) == 48
        assert len({name.partition("/")[0] for name in names}) >= 8


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_opening_refuses_what_is_not_a_regular_file(kind: str, tmp_path: Path) -> None:
    """A pipe would be waited for, a device may never end."""
    path = tmp_path / "in.hdf5"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(OSError, match="not a regular file"):
        open_hdf5(path)


@pytest.mark.parametrize(
    ("content", "part"),
    [(b"", "not an HDF5 file|truncated"), (b"text" * 200, "not an HDF5 file"), (None, "No such")],
)
def test_errors_of_h5py_become_the_error_of_the_caller(
    content: bytes | None, part: str, tmp_path: Path
) -> None:
    path = tmp_path / "in.hdf5"
    if content is not None:
        path.write_bytes(content)
    with (
        pytest.raises(InputError, match=f"^{path}: .*({part})") as raised,
        reading(path, InputError, "try again"),
    ):
        open_hdf5(path)
    assert raised.value.hint == "try again"


def test_a_truncated_file_says_how_much_is_left(tmp_path: Path) -> None:
    open_made(tmp_path, READ["contiguous"]).close()
    path = tmp_path / "in.hdf5"
    size = path.stat().st_size
    os.truncate(path, size - 5)
    with pytest.raises(InputError, match=f"{size - 5} of {size}"), reading(path, InputError):
        open_hdf5(path)


def test_other_errors_pass() -> None:
    for error in (MemoryError, NoSuchNameError, KeyboardInterrupt, InputError):
        with pytest.raises(error), reading("a.hdf5", EmbeddingsFileError):
            raise error("a")


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_made(tmp_path, READ["contiguous"]).close()
    opened = h5py.File

    def refuse(path: Path, mode: str, **more: object) -> h5py.File:
        if more.get("locking") is not False:
            raise OSError(hdf5._NO_LOCKS[0], "unable to lock file")
        return opened(path, mode, locking=False)

    monkeypatch.setattr(h5py, "File", refuse)
    with open_hdf5(tmp_path / "in.hdf5") as file:
        assert "x" in file
