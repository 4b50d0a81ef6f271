"""Checkpoints of TensorFlow for tests: those in `golden/tf_checkpoint`, and made-up ones.

Of some checkpoints only the index is in the repository: their data files hold the tensors of `full`
in another order, or are never read.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_cli.families.bundle_entries import BundleEntry, parse_entry, parse_header, slice_key
from elmo_cli.families.crc32c import crc32c, masked
from elmo_cli.families.sorted_table import TABLE_MAGIC, read_table
from elmo_cli.families.tensor_bundle import TensorBundle

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tf_checkpoint"
PREFIX = "model.ckpt-60"
INDEX = f"{PREFIX}.index"
DATA = f"{PREFIX}.data-00000-of-00001"
_DTYPE_NUMBERS = {"<f4": 1, "<f8": 2, "<i4": 3, "<i8": 9, "<f2": 19}


def checkpoint(name: str, folder: Path) -> Path:
    """Copy a checkpoint into a new folder, with its vocabulary, and complete its data files."""
    shutil.copytree(GOLDEN / name, folder)
    for path in folder.rglob("*"):
        path.chmod(0o644 if path.is_file() else 0o755)
    shutil.copy(GOLDEN / "vocab.txt", folder)
    if not list(folder.glob("*.data-*")):
        _write_data(folder)
    return folder


def _write_data(folder: Path) -> None:
    """Write the data files of an index: the tensors of `full` if it has them, otherwise zeros."""
    entries, n_shards = entries_of(folder / INDEX)
    shards = [bytearray() for _ in range(n_shards)]
    full = TensorBundle(GOLDEN / "full" / INDEX)
    contents = {}
    for key, entry in entries.items():
        name = key.decode("latin-1")
        if entry.slices:
            whole = full.read(name)
            for extents in entry.slices:
                resolved = [e.within(size) for e, size in zip(extents, whole.shape, strict=True)]
                region = tuple(slice(extent.start, extent.end) for extent in resolved)
                contents[slice_key(name, extents)] = np.ascontiguousarray(whole[region])
        elif full.shape(name) == entry.shape:
            contents[key] = full.read(name)
    for key, entry in entries.items():
        shard = shards[entry.shard]
        end = entry.offset + entry.size
        shard.extend(bytes(max(0, end - len(shard))))
        if key in contents and entry.size:
            shard[entry.offset : end] = contents[key].tobytes()
    for number, content in enumerate(shards):
        (folder / f"{PREFIX}.data-{number:05d}-of-{n_shards:05d}").write_bytes(content)


def entries_of(index: Path) -> tuple[dict[bytes, BundleEntry], int]:
    """The entries of an index by their keys, and the number of data files."""
    table = read_table(index.read_bytes())
    n_shards = parse_header(table.pop(b""))
    return {key: parse_entry(value) for key, value in table.items()}, n_shards


# -- writing --------------------------------------------------------------------------------------


def write_bundle(prefix: Path, arrays: Mapping[str, NDArray[Any]]) -> Path:
    """Write arrays as a checkpoint with one data file; returns the path of the index."""
    content = bytearray()
    entries = {b"": message({1: 1, 3: message({1: 1})})}
    for name, array in sorted(arrays.items()):
        stored = array.tobytes()
        entries[name.encode()] = entry_message(array, offset=len(content))
        content += stored
    prefix.with_name(f"{prefix.name}.data-00000-of-00001").write_bytes(content)
    index = prefix.with_name(f"{prefix.name}.index")
    index.write_bytes(table_bytes(entries))
    return index


def entry_message(array: NDArray[Any], *, offset: int, **changes: Any) -> bytes:
    """The entry of an array in data file 0; `changes` replaces fields, such as `f5=3`."""
    shape = [message({1: size}) for size in array.shape]
    fields: dict[int, Any] = {
        1: _DTYPE_NUMBERS[array.dtype.str],
        2: b"".join(_field(2, size) for size in shape),
        4: offset,
        5: array.nbytes,
    }
    fields.update({int(name[1:]): value for name, value in changes.items()})
    checksum = masked(crc32c(memoryview(array.tobytes())))
    return message(fields) + varint(6 * 8 + 5) + checksum.to_bytes(4, "little")


def message(fields: Mapping[int, int | bytes]) -> bytes:
    """A protocol buffer."""
    return b"".join(_field(number, value) for number, value in sorted(fields.items()))


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number * 8) + varint(value)
    return varint(number * 8 + 2) + varint(len(value)) + value


def varint(number: int) -> bytes:
    """A number, seven bits in each byte."""
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def table_bytes(entries: Mapping[bytes, bytes]) -> bytes:
    """A table with one block of entries, in the order given."""
    content = bytearray()
    handles = []
    for block in (_block(entries), _block({})):  # entries, and what nothing uses
        handles.append(varint(len(content)) + varint(len(block)))
        content += _with_trailer(block)
    index_block = _block({b"\xff": handles[0]})
    footer = handles[1] + varint(len(content)) + varint(len(index_block))
    content += _with_trailer(index_block)
    return bytes(content + footer.ljust(40, b"\0") + TABLE_MAGIC)


def _block(entries: Mapping[bytes, bytes]) -> bytes:
    content = bytearray()
    for key, value in entries.items():
        content += varint(0) + varint(len(key)) + varint(len(value)) + key + value
    return bytes(content) + bytes(4) + (1).to_bytes(4, "little")


def _with_trailer(block: bytes, compression: int = 0) -> bytes:
    stored = block + bytes([compression])
    return stored + masked(crc32c(memoryview(stored))).to_bytes(4, "little")
