"""Bundles of tensors: those that TensorFlow wrote, bit for bit; and what nothing has written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from families.checkpoint_files import (
    DATA,
    GOLDEN,
    INDEX,
    PREFIX,
    checkpoint,
    entry_message,
    message,
    table_bytes,
    write_bundle,
)

from elmo_cli.errors import WeightFileError
from elmo_cli.families.bundle_entries import Extent, parse_entry, slice_key
from elmo_cli.families.tensor_bundle import TensorBundle

TENSORS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "tensors.json").read_text())
ARRAY = np.arange(6, dtype="<f4").reshape(2, 3)


def refused(index: Path, name: str = "a") -> str:
    with pytest.raises(WeightFileError) as caught:
        TensorBundle(index).read(name)
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize("name", ["full", "sharded", "partitioned", "snappy", "onelayer"])
def test_tensors_of_tensorflow(name: str, tmp_path: Path) -> None:
    """Also in shards, in slices, and with a compressed index: every bit, by the SHA-256."""
    folder = checkpoint(name, tmp_path / name)
    bundle = TensorBundle(folder / INDEX)
    expected = TENSORS["onelayer" if name == "onelayer" else "full"]
    assert sorted(bundle.names) == sorted(expected)
    for tensor, (_, shape, digest) in expected.items():
        array = bundle.read(tensor)
        assert bundle.shape(tensor) == array.shape == tuple(shape)
        assert hashlib.sha256(array.tobytes()).hexdigest()[:16] == digest


def test_other_floats_are_converted(tmp_path: Path) -> None:
    arrays = {"half": ARRAY.astype("<f2"), "double": ARRAY.astype("<f8"), "scalar": ARRAY[1, 2]}
    bundle = TensorBundle(write_bundle(tmp_path / PREFIX, arrays))
    for name, array in arrays.items():
        read = bundle.read(name)
        assert read.dtype == np.float32
        np.testing.assert_array_equal(read, array)
    assert bundle.shape("no such name") is None


@pytest.mark.parametrize(
    ("number", "key"),
    [
        (0, "80"),
        (63, "bf"),
        (-64, "40"),
        (-1, "7f"),
        (64, "c040"),
        (8191, "dfff"),
        (8192, "e02000"),
        (-65, "3fbf"),
        (1 << 20, "f0100000"),
    ],
)
def test_keys_of_slices(number: int, key: str) -> None:
    """TensorFlow, `ordered_code_test.cc`: numbers in the order of their bytes."""
    encoded = slice_key("a", [Extent(number, 1)])
    assert encoded.hex() == f"0061{'0001'}{'0101'}{key}81"


def test_a_changed_value_is_refused(tmp_path: Path) -> None:
    """Only the checksum of the tensor can show it; other tensors are read."""
    folder = checkpoint("full", tmp_path / "full")
    content = bytearray((folder / DATA).read_bytes())
    content[100] ^= 1
    (folder / DATA).write_bytes(content)
    bundle = TensorBundle(folder / INDEX)
    problems = []
    for name in bundle.names:
        try:
            bundle.read(name)
        except WeightFileError as error:
            problems.append(error.problem.replace(name, "NAME"))
    assert problems == ["the checksum of NAME is wrong: its values have changed"]
    unverified = TensorBundle(folder / INDEX, verify=False)
    assert all(unverified.read(name).size for name in unverified.names)


def test_values_that_no_weights_have_are_refused(tmp_path: Path) -> None:
    for value in (np.nan, np.inf, 2e6, 1e300):
        index = write_bundle(tmp_path / PREFIX, {"a": np.array([1, value])})
        assert "a has a value of" in refused(index)


def test_missing_and_short_data_files(tmp_path: Path) -> None:
    index = write_bundle(tmp_path / PREFIX, {"a": ARRAY})
    (tmp_path / DATA).write_bytes(ARRAY.tobytes()[:-1])
    assert refused(index).startswith(f"{tmp_path / DATA}: ends before a, which is at bytes 0 to 24")
    (tmp_path / DATA).unlink()
    assert refused(index).startswith(f"{tmp_path / DATA}: cannot be read (No such file")
    index.unlink()
    assert refused(index).startswith(f"{index}: cannot be read (No such file")


# -- indexes that no program writes ---------------------------------------------------------------


def written(folder: Path, entries: dict[bytes, bytes], header: bytes | None = None) -> Path:
    """A checkpoint with these entries after the header, and 24 bytes of data."""
    (folder / DATA).write_bytes(ARRAY.tobytes())
    first = message({1: 1}) if header is None else header
    index = folder / INDEX
    index.write_bytes(table_bytes({b"": first, **entries}))
    return index


def sliced(*extents: tuple[int, int], shape: tuple[int, ...] = (6,)) -> bytes:
    """The entry of a vector in slices, each (start, length)."""
    sizes = b"".join(message({2: message({1: size})}) for size in shape)
    content = message({1: 1, 2: sizes})
    for start, length in extents:
        content += message({7: message({1: message({1: start, 2: length})})})
    return content


def part(start: int, length: int, *, offset: int) -> tuple[bytes, bytes]:
    """The key and the entry of a slice of the vector "a"."""
    array = ARRAY.reshape(-1)[start : start + length]
    return slice_key("a", [Extent(start, length)]), entry_message(array, offset=offset)


HALVES = dict([part(0, 3, offset=0), part(3, 3, offset=12)])
WHOLE = entry_message(ARRAY, offset=0)
LYING: dict[str, tuple[dict[bytes, bytes], str]] = {
    "an offset beyond the end": ({b"a": entry_message(ARRAY, offset=8)}, "ends before a"),
    "a size of terabytes": ({b"a": entry_message(ARRAY, offset=0, f5=1 << 42)}, "bytes, shape"),
    "a negative offset": ({b"a": entry_message(ARRAY, offset=2**64 - 8)}, "negative or too large"),
    "another shard": ({b"a": entry_message(ARRAY, offset=0, f3=7)}, "a is in data file 7 of 1"),
    "another shape": (
        {b"a": entry_message(ARRAY, offset=0, f2=message({2: message({1: 1 << 40})}))},
        "a has 24 bytes, shape (1099511627776,) needs",
    ),
    "integers": ({b"a": entry_message(ARRAY, offset=0, f1=3)}, "a is of type 3 of TensorFlow"),
    "an unknown type": ({b"a": entry_message(ARRAY, offset=0, f1=99)}, "a is of type 99 of"),
    "keys out of order": ({b"b": WHOLE, b"a": WHOLE}, "its keys are not in order"),
    "the same bytes twice": ({b"a": WHOLE, b"b": WHOLE}, "two of its tensors are in the same"),
    "an entry that is cut off": ({b"a": WHOLE[:-1]}, "is cut off"),
    "a group": ({b"a": b"\x0b\x0c"}, "an entry is no protocol buffer"),
    "many axes": ({b"a": message({2: message({2: b""}) * 9})}, "a shape has 9 axes"),
    "a slice that is missing": (
        {**dict([part(0, 3, offset=0)]), b"a": sliced((0, 3), (3, 3))},
        "a slice of a is missing",
    ),
    "a slice of another type": (
        {
            **dict([part(0, 3, offset=0)]),
            slice_key("a", [Extent(3, 3)]): entry_message(np.ones(3, "<f2"), offset=12),
            b"a": sliced((0, 3), (3, 3)),
        },
        "a slice of a is missing or has another shape or type",
    ),
    "slices with a gap": ({**HALVES, b"a": sliced((0, 3), (4, 2))}, "do not cover each of its"),
    "slices that overlap": ({**HALVES, b"a": sliced((0, 3), (0, 3))}, "do not cover each of its"),
    "a slice beyond the end": (
        {**HALVES, b"a": sliced((0, 3), (3, 3), shape=(5,))},
        "do not cover each of its values",
    ),
    "slices of terabytes": (
        {**HALVES, b"a": sliced((0, 1 << 41), (1 << 41, 1 << 41), shape=(1 << 42,))},
        "a slice of a is missing or has another shape",
    ),
    "slices with other axes": (
        {**HALVES, b"a": sliced((0, 3), (3, 3), shape=(3, 2))},
        "a slice of a has another number of axes",
    ),
}


@pytest.mark.parametrize(("entries", "problem"), LYING.values(), ids=LYING)
def test_an_index_that_lies_is_refused(
    entries: dict[bytes, bytes], problem: str, tmp_path: Path
) -> None:
    """Before memory is taken: some claim terabytes."""
    assert problem in refused(written(tmp_path, entries))


def test_fields_that_nothing_reads_are_passed_over() -> None:
    """A later TensorFlow may write more, of each type of a protocol buffer."""
    more = {0: b"\x85\x01", 1: b"\7\0\0\0\xff\xff\0\0", 2: b"\x03abc", 5: bytes(range(4))}
    expected = parse_entry(WHOLE)
    assert (expected.shape, expected.size) == ((2, 3), 24)
    for wire_type, content in more.items():
        field = bytes([15 << 3 | wire_type]) + content
        assert parse_entry(field + WHOLE) == parse_entry(WHOLE + field) == expected


def test_the_slices_of_the_cases_above_are_right(tmp_path: Path) -> None:
    index = written(tmp_path, {**HALVES, b"a": sliced((0, 3), (3, 3))})
    np.testing.assert_array_equal(TensorBundle(index).read("a"), ARRAY.reshape(-1))


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (message({1: 0}), "it states 0 data files"),
        (message({1: 1 << 40}), "it states 1099511627776 data files"),
        (message({1: 1, 2: 1}), "its numbers are big-endian"),
        (b"\x08", "a number is cut off"),
    ],
)
def test_a_header_that_lies_is_refused(header: bytes, problem: str, tmp_path: Path) -> None:
    assert problem in refused(written(tmp_path, {b"a": WHOLE}, header))


def cut_at_the_end(content: bytes) -> bytes:
    return content[:-1]


def cut_at_the_beginning(content: bytes) -> bytes:
    return content[8:]


def with_a_flipped_bit(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


def with_another_key(content: bytes) -> bytes:
    footer = content[-48:]
    return content[:-48].replace(b"a", b"b") + footer


def with_a_block_beyond_the_end(content: bytes) -> bytes:
    footer = content[-48:]
    return content[:-48] + b"\0\0\xff\xff\xff\x7f\x01".ljust(40, b"\0") + footer[40:]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (cut_at_the_end, "it does not end like a table"),
        (cut_at_the_beginning, "the checksum of the block"),
        (with_a_flipped_bit, "the checksum of the block at 0 is wrong"),
        (with_another_key, "the checksum of the block"),
        (with_a_block_beyond_the_end, "is beyond the end"),
    ],
)
def test_a_damaged_table_is_refused(
    damage: Callable[[bytes], bytes], problem: str, tmp_path: Path
) -> None:
    index = write_bundle(tmp_path / PREFIX, {"a": ARRAY})
    index.write_bytes(damage(index.read_bytes()))
    assert problem in refused(index)


def test_keys_that_could_fill_the_memory_are_refused(tmp_path: Path) -> None:
    """A thousand keys may share a prefix of a megabyte, which is in the file once."""
    key = b"a" * 1025
    assert "a key has 1025 bytes" in refused(written(tmp_path, {key: WHOLE}))
    assert TensorBundle(written(tmp_path, {key[1:]: WHOLE})).names == [key[1:].decode()]
