"""SentenceMap: the JSON map from the lines of a file to the names of their data sets.

The lines are kept on the disk until it is known which of them occur again, and the JSON until HDF5
takes it. The memory that grows with the text is 16 bytes per sentence, and 32 for each line that
occurs again; then twice the JSON, while h5py and HDF5 copy it.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from elmo_cli.arrays import AnyArray, Int64Array
from elmo_cli.files import StrPath
from elmo_cli.store.layouts.spool import Spool

_DIGEST_BYTES = 16  # so that two different lines never have the same digest
_DIGEST = np.dtype(f"S{_DIGEST_BYTES}")
_SENTENCE = np.dtype([("key", "<i8"), ("digest", _DIGEST)])  # the digest is that of its line
_MAX_PENDING = 1 << 18  # bytes in memory, before they are moved to the disk


class SentenceMap:
    """The lines of the sentences of a file, in their order.

    Args:
        folder: the folder of temporary files; its disk needs space for the lines and the JSON.
    Attributes:
        json: after `make_json`, the map as JSON in ASCII. For equal lines, it has one entry, at the
            position of the first and with the name of the last.
        repeated_lines: after `make_json`, the sentences that the map does not name, as JSON: for
            each sentence whose line occurs again, its key and that of the last one with this line.
    """

    def __init__(self, folder: StrPath) -> None:
        self.json = Spool(folder, "u1")
        self.repeated_lines = Spool(folder, "u1")
        self._lines = Spool(folder, "u1")  # each as a JSON string, and a line end
        self._sentences = Spool(folder, "u1")  # records of the type `_SENTENCE`

    def add(self, line: str, key: int) -> None:
        """Add the line of the next sentence, whose key is larger than those before it."""
        encoded = json.dumps(line).encode("ascii")
        digest = hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).digest()
        self._sentences.pending.frombytes(key.to_bytes(8, "little") + digest)
        self._lines.pending.frombytes(encoded + b"\n")
        if len(self._lines.pending) + len(self._sentences.pending) > _MAX_PENDING:
            self._lines.move_to_disk()
            self._sentences.move_to_disk()

    def make_json(self, max_bytes: int) -> bool:
        """Make `json` and `repeated_lines`; False if the map would have more than `max_bytes`."""
        map_entries = _JsonEntries(self.json, b"{}")
        repeated_entries = _JsonEntries(self.repeated_lines, b"[]")
        repeated = self._find_repeated()
        lines = self._lines.lines()
        for sentences in self._sentence_chunks():
            keys = sentences["key"]
            first_keys, last_keys = repeated.first_and_last_keys(keys, sentences["digest"])
            # `lines` comes last: at the end of a chunk, `zip` must not have taken one more line.
            rows = zip(keys.tolist(), first_keys.tolist(), last_keys.tolist(), lines, strict=False)
            for key, first_key, last_key, line in rows:
                if key == first_key:
                    map_entries.add(b'%b: "%d"' % (line[:-1], last_key))
                if key != last_key:
                    repeated_entries.add(b"[%d, %d]" % (key, last_key))
            if len(self.json) > max_bytes:
                return False
        map_entries.end()
        repeated_entries.end()
        return len(self.json) <= max_bytes

    def json_crc32(self) -> int:
        """The CRC-32 of `json`."""
        crc32 = 0
        for chunk in self.json.chunks():
            crc32 = zlib.crc32(chunk.data, crc32)
        return crc32

    def close(self) -> None:
        """Remove the temporary files."""
        for spool in (self.json, self.repeated_lines, self._lines, self._sentences):
            spool.close()

    def _sentence_chunks(self) -> Iterator[AnyArray]:
        """Yield the key and the digest of each sentence in chunks, (sentence,) of `_SENTENCE`."""
        for chunk in self._sentences.chunks(_SENTENCE.itemsize):
            yield chunk.view(_SENTENCE)

    def _repeated_digests(self) -> AnyArray:
        """The digests that occur more than once, each once and in ascending order, (digest,)."""
        digests = np.empty(len(self._sentences) // _SENTENCE.itemsize, _DIGEST)
        begin = 0
        for sentences in self._sentence_chunks():
            digests[begin : begin + len(sentences)] = sentences["digest"]
            begin += len(sentences)
        digests.sort()
        equals_previous = digests[1:] == digests[:-1]
        is_second = equals_previous.copy()  # among equal digests
        is_second[1:] &= ~equals_previous[:-1]
        repeated: AnyArray = digests[1:][is_second]
        return repeated

    def _find_repeated(self) -> _RepeatedLines:
        """Find the lines that occur more than once."""
        repeated = _RepeatedLines.of_digests(self._repeated_digests())
        if len(repeated.digests):
            for sentences in self._sentence_chunks():
                repeated.add(sentences["key"], sentences["digest"])
        return repeated


@dataclass(frozen=True)
class _RepeatedLines:
    """The lines that occur more than once, each with the first and the last of its sentences.

    Attributes:
        digests: those of the lines in ascending order, (line,).
        first_keys, last_keys: the smallest and the largest key of a sentence, (line,).
    """

    digests: AnyArray
    first_keys: Int64Array
    last_keys: Int64Array

    @classmethod
    def of_digests(cls, digests: AnyArray) -> _RepeatedLines:
        """The lines of some digests, still without sentences."""
        return cls(
            digests=digests,
            first_keys=np.full(len(digests), np.iinfo(np.int64).max),
            last_keys=np.full(len(digests), -1),
        )

    def add(self, keys: Int64Array, digests: AnyArray) -> None:
        """Add the sentences with these keys and digests of lines, (sentence,)."""
        numbers, is_repeated = self._find(digests)
        np.minimum.at(self.first_keys, numbers[is_repeated], keys[is_repeated])
        np.maximum.at(self.last_keys, numbers[is_repeated], keys[is_repeated])

    def first_and_last_keys(
        self, keys: Int64Array, digests: AnyArray
    ) -> tuple[Int64Array, Int64Array]:
        """The keys of the first and the last sentence with the line of each sentence, (sentence,).

        Args:
            keys, digests: those of the sentences and of their lines, (sentence,).
        """
        if not len(self.digests):
            return keys, keys
        numbers, is_repeated = self._find(digests)
        first_keys = np.where(is_repeated, self.first_keys[numbers], keys)
        last_keys = np.where(is_repeated, self.last_keys[numbers], keys)
        return first_keys, last_keys

    def _find(self, digests: AnyArray) -> tuple[Int64Array, AnyArray]:
        """The number of the line with each digest, and whether there is such a line, (digest,)."""
        numbers = np.searchsorted(self.digests, digests)
        numbers = np.minimum(numbers, len(self.digests) - 1)
        return numbers, self.digests[numbers] == digests


class _JsonEntries:
    """Writes the entries of a JSON object or list into a spool, as `json.dumps` does."""

    def __init__(self, spool: Spool, brackets: bytes) -> None:
        self._spool = spool
        self._closing = brackets[1:]
        self._separator = b""
        spool.pending.frombytes(brackets[:1])

    def add(self, entry: bytes) -> None:
        """Write the next entry."""
        self._spool.pending.frombytes(self._separator + entry)
        self._separator = b", "
        if len(self._spool.pending) > _MAX_PENDING:
            self._spool.move_to_disk()

    def end(self) -> None:
        """Write the closing bracket."""
        self._spool.pending.frombytes(self._closing)
