"""SentenceMap: the JSON map from the lines of a file to the names of their data sets.

The lines are kept on the disk until it is known which of them occur again. The memory that grows
with the text is therefore only 16 bytes per sentence, and then the JSON itself.
"""

from __future__ import annotations

import hashlib
import io
import json
from typing import NamedTuple

import numpy as np

from elmo_cli.arrays import BoolArray, Int64Array
from elmo_cli.files import StrPath
from elmo_cli.store.layouts.spool import Spool

_DIGEST_BYTES = 16  # so that two different lines never have the same digest
_MAX_PENDING = 1 << 18  # bytes of lines in memory


class _MappedLine(NamedTuple):
    """The entry of the map for equal lines."""

    position: int  # of the first of them in the text
    last_key: bytes  # the key of the last of them


class SentenceMap:
    """The lines of the sentences of a file, in their order.

    Args:
        folder: the folder of temporary files; its disk needs space for the lines.
    """

    def __init__(self, folder: StrPath) -> None:
        self._entries = Spool(folder, "u1")  # key, tab, line as a JSON string, line end
        self._digests = Spool(folder, "<u8")  # the first 8 bytes of the digest of each line

    def add(self, line: str, key: int) -> None:
        """Add the line of the next sentence."""
        encoded = json.dumps(line).encode("ascii")
        self._digests.pending.frombytes(_digest(encoded)[:8])
        self._entries.pending.frombytes(b"%d\t%b\n" % (key, encoded))
        if len(self._entries.pending) > _MAX_PENDING:
            self._entries.move_to_disk()
            self._digests.move_to_disk()

    def to_json(self, max_bytes: int) -> tuple[bytes, list[list[int]]] | None:
        """The map, and the sentences that it does not name; None if it has over `max_bytes`.

        For equal lines, the map has one entry, at the position of the first and with the name of
        the last.

        Returns:
            The JSON in ASCII; and for each sentence whose line occurs again, its key and the key of
            the last sentence with this line.
        """
        may_repeat = self._may_repeat()
        mapped: dict[bytes, _MappedLine] = {}  # by digest, of lines that may occur again
        repeats: list[tuple[int, bytes]] = []  # key and digest of each sentence before the last
        for position, entry in enumerate(self._entries.lines()):
            if not may_repeat[position]:
                continue
            key, line = _split_entry(entry)
            digest = _digest(line)
            if digest in mapped:
                repeats.append((int(mapped[digest].last_key), digest))
                mapped[digest] = mapped[digest]._replace(last_key=key)
            else:
                mapped[digest] = _MappedLine(position=position, last_key=key)
        content = io.BytesIO()
        content.write(b"{")
        separator = b""
        for position, entry in enumerate(self._entries.lines()):
            key, line = _split_entry(entry)
            if may_repeat[position]:
                mapped_line = mapped[_digest(line)]
                if mapped_line.position != position:
                    continue
                key = mapped_line.last_key
            content.write(b'%b%b: "%b"' % (separator, line, key))
            separator = b", "
            if content.tell() > max_bytes:
                return None
        content.write(b"}")
        repeated = sorted([key, int(mapped[digest].last_key)] for key, digest in repeats)
        return content.getvalue(), repeated

    def _may_repeat(self) -> BoolArray:
        """Whether another line has a digest with the same first 8 bytes, (line,)."""
        digests = self._digests.array()
        order: Int64Array = np.argsort(digests, kind="stable")
        digests = digests[order]
        equals_previous = digests[1:] == digests[:-1]
        may_repeat = np.zeros(len(order), np.bool_)
        may_repeat[order[1:][equals_previous]] = True
        may_repeat[order[:-1][equals_previous]] = True
        return may_repeat

    def close(self) -> None:
        """Remove the temporary files."""
        self._entries.close()
        self._digests.close()


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=_DIGEST_BYTES).digest()


def _split_entry(entry: bytes) -> tuple[bytes, bytes]:
    """The key and the JSON string of an entry."""
    key, _, line = entry.rstrip(b"\n").partition(b"\t")
    return key, line
