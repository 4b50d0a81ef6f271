"""SentenceMap: AllenNLP's `sentence_to_index`, one JSON string for the whole file.

The string is as long as the text and has to be a single element of a dataset. Written through HDF5
it would stand in memory several times; so entries wait in a database on the disk, and the string
goes from there to the file piece by piece, as an object of a global heap that HDF5 finds when it
reads the element.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterator

import h5py
from h5py import h5d, h5p, h5s, h5t

from elmo_cli.errors import KeptError
from elmo_cli.store.journaled_file import JournaledFile
from elmo_cli.store.schema import MAP

MAX_BYTES = (1 << 32) - 1  # the length of a string is stored in 32 bits
_MIN_COLLECTION = 4096
_COLLECTION = struct.Struct("<4sB3xQ")  # mark, version, size
_OBJECT = struct.Struct("<HH4xQ")  # number, references, size
_ELEMENT = struct.Struct("<IQI")  # length, address of the collection, number of the object
_SUPERBLOCK_BYTES = 48
_END_OF_FILE_AT = 28
_MASK = 0xFFFFFFFF


class SentenceMap:
    """Text of each line -> name of its dataset; of equal lines the last one's.

    Memory does not grow with it. Nothing of it outlives the process; a run that goes on adds the
    sentences again.
    """

    def __init__(self) -> None:
        # The empty name is a database on the disk without a name, gone with its connection.
        self._entries = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._entries.execute("PRAGMA journal_mode = OFF")
        self._entries.execute("PRAGMA synchronous = OFF")
        self._entries.execute("PRAGMA cache_size = -8192")
        self._entries.execute("CREATE TABLE entry (id INTEGER PRIMARY KEY, text UNIQUE, name)")
        self._entries.execute("BEGIN")
        self._n_bytes: int | None = None

    def add(self, text: str, name: str) -> None:
        """Add a line.

        Raises:
            KeptError: no space left for temporary files.
        """
        self._n_bytes = None
        try:
            self._entries.execute(
                "INSERT INTO entry (text, name) VALUES (?, ?) "
                "ON CONFLICT (text) DO UPDATE SET name = excluded.name",
                (json.dumps(text), json.dumps(name)),
            )
        except sqlite3.OperationalError as error:
            raise KeptError(
                f"no space for the sentence map in the folder for temporary files ({error})",
                "set TMPDIR to a folder with more, then `--resume`; or `--forget-sentences`",
                anew="set TMPDIR to a folder with more, then give the same command again",
            ) from None

    def pieces(self) -> Iterator[bytes]:
        """The JSON object as `json.dumps` writes the dict, in pieces."""
        before = "{"
        for text, name in self._entries.execute("SELECT text, name FROM entry ORDER BY id"):
            yield f"{before}{text}: {name}".encode("ascii")
            before = ", "
        yield b"}" if before == ", " else b"{}"

    @property
    def n_bytes(self) -> int:
        """Length of the JSON object; counts all entries."""
        if self._n_bytes is None:
            self._n_bytes = sum(map(len, self.pieces()))
        return self._n_bytes

    def close(self) -> None:
        """Forget all."""
        self._entries.close()


def make_dataset(file: h5py.File) -> int:
    """Make `sentence_to_index`, shape (1,), a UTF-8 string; where its element lies in the file."""
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_layout(h5d.CONTIGUOUS)
    properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    properties.set_obj_track_times(False)
    kind = h5t.py_create(h5py.string_dtype("utf-8"), logical=True)
    dataset = h5d.create(file.id, MAP.encode("ascii"), kind, h5s.create_simple((1,)), properties)
    offset: int = dataset.get_offset()
    return offset


def write_element(raw: JournaledFile, element: int, sentences: SentenceMap) -> None:
    """Write the string of the dataset that `make_dataset` made.

    Args:
        raw: the file, which HDF5 has closed.
        element: where the element lies.
        sentences: the map, of `MAX_BYTES` at most.
    Source: HDF5 file format specification 3.0, III.E "Global Heap" and II.A "Superblock".
    """
    length = sentences.n_bytes
    address = _aligned(raw.size)
    start = address + _COLLECTION.size + _OBJECT.size
    used = _COLLECTION.size + _OBJECT.size + _aligned(length)
    size = max(_MIN_COLLECTION, used)
    _write(raw, address, _COLLECTION.pack(b"GCOL", 1, size) + _OBJECT.pack(1, 1, length))
    _write_pieces(raw, start, sentences.pieces())
    if size - used:  # object 0 is the free space
        _write(raw, address + used, _OBJECT.pack(0, 0, size - used))
    raw.truncate(address + size)
    _write(raw, element, _ELEMENT.pack(length, address, 1))
    _set_end_of_file(raw)


def _write_pieces(raw: JournaledFile, offset: int, pieces: Iterator[bytes]) -> None:
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= 1 << 20:
            _write(raw, offset, bytes(held))
            offset += len(held)
            held.clear()
    _write(raw, offset, bytes(held))


def _set_end_of_file(raw: JournaledFile) -> None:
    """Tell the superblock the new size; else HDF5 takes the file to end where it closed it."""
    raw.seek(0)
    block = bytearray(raw.read(_SUPERBLOCK_BYTES))
    if bytes(block[:9]) != b"\x89HDF\r\n\x1a\n\x02":
        raise OSError("its superblock is not of version 2")
    struct.pack_into("<Q", block, _END_OF_FILE_AT, raw.size)
    struct.pack_into("<I", block, len(block) - 4, lookup3(bytes(block[:-4])))
    _write(raw, 0, bytes(block))


def _write(raw: JournaledFile, offset: int, content: bytes) -> None:
    raw.write_at(offset, memoryview(content))


def _aligned(size: int) -> int:
    return -(-size // 8) * 8


def lookup3(content: bytes) -> int:
    """Check sum of HDF5 metadata: Bob Jenkins' lookup3 (2006, `hashlittle`), initial value 0.

    Args:
        content: at least one byte.
    """
    a = b = c = (0xDEADBEEF + len(content)) & _MASK
    *blocks, last = (content[start : start + 12] for start in range(0, len(content), 12))
    for block in blocks:
        x, y, z = struct.unpack("<III", block)
        a, b, c = _mix((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)
    x, y, z = struct.unpack("<III", last.ljust(12, b"\0"))
    return _final((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for turn in (4, 6, 8, 16, 19, 4):
        a = ((a - c) & _MASK) ^ _turned(c, turn)
        c = (c + b) & _MASK
        a, b, c = b, c, a
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    for turn in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - _turned(b, turn)) & _MASK
        a, b, c = b, c, a
    return b


def _turned(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK
