"""Sorted tables of LevelDB, in which TensorFlow stores the index of a checkpoint.

A table is a list of blocks of entries, an index block with the position of each, and a footer. A
block is followed by one byte for its compression and four for its checksum. The format is described
in `doc/table_format.md` of LevelDB.
"""

from __future__ import annotations

from collections.abc import Iterator

from elmo_cli.families.crc32c import crc32c, masked
from elmo_cli.families.snappy import decompress, read_varint

FOOTER_BYTES = 48
TABLE_MAGIC = bytes.fromhex("57fb808b247547db")  # the last bytes of a table
_TRAILER_BYTES = 5  # of a block: its compression and its checksum
_PLAIN = 0
_SNAPPY = 1
_MAX_CONTENT = 1 << 25  # bytes of all blocks; the index of a checkpoint has a few thousand
_MAX_ENTRIES = 200_000
_MAX_KEY = 1 << 10  # bytes; keys share prefixes, so a small block may hold gigabytes of them


def read_table(content: bytes) -> dict[bytes, bytes]:
    """Read all entries of a table; ValueError if it is corrupt or larger than any index."""
    if len(content) < FOOTER_BYTES or not content.endswith(TABLE_MAGIC):
        raise ValueError("it does not end like a table of LevelDB; it may be cut off")
    footer = content[-FOOTER_BYTES:]
    position = 0
    for _ in range(2):  # the offset and the size of a block that nothing uses
        _, position = read_varint(footer, position)
    n_bytes = 0
    entries: dict[bytes, bytes] = {}
    last_key: bytes | None = None
    for _, handle in _entries_of(_block_at(content, footer[position:])):
        block = _block_at(content, handle)
        n_bytes += len(block)
        if n_bytes > _MAX_CONTENT:
            raise ValueError(f"its blocks have more than {_MAX_CONTENT} bytes")
        for key, value in _entries_of(block):
            if last_key is not None and key <= last_key:
                raise ValueError("its keys are not in order")
            last_key = key
            entries[key] = value
        if len(entries) > _MAX_ENTRIES:
            raise ValueError(f"it has more than {_MAX_ENTRIES} entries")
    return entries


def _block_at(content: bytes, handle: bytes) -> bytes:
    """The block at the position that a handle states: its offset and its size."""
    offset, position = read_varint(handle, 0)
    size, _ = read_varint(handle, position)
    end = offset + size
    if end + _TRAILER_BYTES > len(content):
        raise ValueError(f"a block of {size} bytes at {offset} is beyond the end")
    stored = memoryview(content)[offset : end + 1]  # with the byte of its compression
    checksum = int.from_bytes(content[end + 1 : end + _TRAILER_BYTES], "little")
    if masked(crc32c(stored)) != checksum:
        raise ValueError(f"the checksum of the block at {offset} is wrong")
    compression = content[end]
    if compression == _PLAIN:
        return content[offset:end]
    if compression == _SNAPPY:
        return decompress(content[offset:end])
    raise ValueError(f"a block is compressed by the unknown method {compression}")


def _entries_of(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block, whose keys share prefixes."""
    n_restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 - 4 * n_restarts
    if len(block) < 4 or end < 0:
        raise ValueError("a block is shorter than the list of its restarts")
    position = 0
    key = b""
    while position < end:
        n_shared, position = read_varint(block, position)
        n_unshared, position = read_varint(block, position)
        n_value, position = read_varint(block, position)
        end_of_key = position + n_unshared
        end_of_value = end_of_key + n_value
        if n_shared > len(key) or end_of_value > end:
            raise ValueError("an entry is longer than its block")
        if n_shared + n_unshared > _MAX_KEY:
            raise ValueError(f"a key has {n_shared + n_unshared} bytes, more than {_MAX_KEY}")
        key = key[:n_shared] + block[position:end_of_key]
        yield key, block[end_of_key:end_of_value]
        position = end_of_value
