"""SentenceMap: the JSON map from the lines of a file to the names of their data sets.

The lines are kept on the disk until it is known which of them occur again, and the JSON until HDF5
takes it. The memory that grows with the text is 16 bytes per sentence, and 32 for each line that
occurs again, or 36 if its occurrences are numbered; then twice the JSON, while h5py and HDF5 copy
it.
"""

from __future__ import annotations

import hashlib
import json
import re
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
_NUMBERED = re.compile(rb' \(Occurrence \d+\)"')  # the end of a JSON string
_MOST_SUFFIX_BYTES = 40  # of such an end; a number of occurrences has far fewer digits


class SentenceMap:
    """The lines of the sentences of a file, in their order.

    Args:
        folder: the folder of temporary files; its disk needs space for the lines and the JSON.
        numbers_occurrences: whether each of several equal lines has an entry: the first one as
            `LINE`, the next ones as `LINE (Occurrence 2)` and so on, as NeuroX names them. Numbers
            whose name is itself a line of the text are passed over, so that every line is found.
    Attributes:
        json: after `make_json`, the map as JSON in ASCII. Unless occurrences are numbered, it has
            one entry for equal lines, at the position of the first and with the name of the last.
        repeated_lines: after `make_json`, the sentences that the map does not name by their line
            alone, as JSON: for each, its key and that of the sentence which it names so.
    """

    def __init__(self, folder: StrPath, *, numbers_occurrences: bool = False) -> None:
        self._numbers_occurrences = numbers_occurrences
        self._numbered_lines: set[bytes] = set()  # digests of lines that end as numbered names do
        self.json = Spool(folder, "u1")
        self.repeated_lines = Spool(folder, "u1")
        self._lines = Spool(folder, "u1")  # each as a JSON string, and a line end
        self._sentences = Spool(folder, "u1")  # records of the type `_SENTENCE`

    def add(self, line: str, key: int) -> None:
        """Add the line of the next sentence, whose key is larger than those before it."""
        encoded = json.dumps(line).encode("ascii")
        digest = _digest(encoded)
        if self._numbers_occurrences and _is_numbered(encoded):
            self._numbered_lines.add(digest)
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
        numbered_names = _NumberedNames(len(repeated.digests), self._numbered_lines)
        lines = self._lines.lines()
        for sentences in self._sentence_chunks():
            keys = sentences["key"]
            numbers = repeated.numbers(sentences["digest"])
            first_keys = repeated.keys_of(numbers, repeated.first_keys, keys)
            named_keys = first_keys  # of the sentences that the map names by the line alone
            if not self._numbers_occurrences:
                named_keys = repeated.keys_of(numbers, repeated.last_keys, keys)
            # `lines` comes last: at the end of a chunk, `zip` must not have taken one more line.
            columns = (keys.tolist(), numbers.tolist(), first_keys.tolist(), named_keys.tolist())
            for key, number, first_key, named_key, line in zip(*columns, lines, strict=False):
                if key == first_key:
                    map_entries.add(b'%b: "%d"' % (line[:-1], named_key))
                elif self._numbers_occurrences:
                    name = numbered_names.next_name(number, line[:-1])
                    map_entries.add(b'%b: "%d"' % (name, key))
                if key != named_key:
                    repeated_entries.add(b"[%d, %d]" % (key, named_key))
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

    def numbers(self, digests: AnyArray) -> Int64Array:
        """The number of the line of each sentence, -1 for one that occurs once, (sentence,)."""
        if not len(self.digests):
            return np.full(len(digests), -1)
        numbers, is_repeated = self._find(digests)
        return np.where(is_repeated, numbers, -1)

    def keys_of(self, numbers: Int64Array, keys: Int64Array, own_keys: Int64Array) -> Int64Array:
        """The key of a sentence for each number of `numbers`; its own for -1, (sentence,).

        Args:
            keys: `first_keys` or `last_keys`.
        """
        if not len(self.digests):
            return own_keys
        return np.where(numbers < 0, own_keys, keys[numbers])

    def _find(self, digests: AnyArray) -> tuple[Int64Array, AnyArray]:
        """The number of the line with each digest, and whether there is such a line, (digest,)."""
        numbers = np.searchsorted(self.digests, digests)
        numbers = np.minimum(numbers, len(self.digests) - 1)
        return numbers, self.digests[numbers] == digests


class _NumberedNames:
    """The names of the second and later occurrences of lines, as JSON strings.

    Args:
        n_lines: the number of lines that occur more than once.
        numbered_lines: the digests of the lines of the text that look like such names.
    """

    def __init__(self, n_lines: int, numbered_lines: set[bytes]) -> None:
        self._last_numbers = np.ones(n_lines, np.int32)  # by the number of the line
        self._numbered_lines = numbered_lines

    def next_name(self, number: int, line: bytes) -> bytes:
        """The name of the next occurrence of a line, which is a JSON string."""
        occurrence = int(self._last_numbers[number]) + 1
        name = _numbered_name(line, occurrence)
        while self._numbered_lines and _digest(name) in self._numbered_lines:
            occurrence += 1
            name = _numbered_name(line, occurrence)
        self._last_numbers[number] = occurrence
        return name


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


def _digest(encoded_line: bytes) -> bytes:
    return hashlib.blake2b(encoded_line, digest_size=_DIGEST_BYTES).digest()


def _is_numbered(encoded_line: bytes) -> bool:
    """Whether a JSON string ends as the names of later occurrences do."""
    is_candidate = encoded_line.endswith(b')"')
    suffix_start = len(encoded_line) - _MOST_SUFFIX_BYTES
    return is_candidate and _NUMBERED.search(encoded_line, suffix_start) is not None


def _numbered_name(line: bytes, occurrence: int) -> bytes:
    return b'%b (Occurrence %d)"' % (line[:-1], occurrence)
