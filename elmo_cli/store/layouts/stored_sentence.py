"""What a file records of a sentence, and the checksums over it."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_cli.text.sentence import Sentence

Array = NDArray[Any]
Scales = NDArray[np.float32]
Key = int | str | tuple[str, int] | tuple[str, ...]
Handle = int | str  # position, or name of the data set
ArrayType = tuple[tuple[int, ...], np.dtype[Any]]  # shape, stored dtype


@dataclass(frozen=True, slots=True)
class SentenceInfo:
    """What a file records of a sentence besides its key; None where it does not."""

    tokens: tuple[str, ...] | None = None
    text: str | None = None
    document: str | None = None
    place: int = 0
    offset: int | None = None

    def sentence(self, key: int, n_tokens: int = 0, source: str = "-") -> Sentence:
        """The sentence as it was written; tokens that are not recorded are empty ones."""
        tokens = ("",) * n_tokens if self.tokens is None else self.tokens
        place = self.document, self.place, self.offset or 0
        return Sentence(tokens, key, self.text or "", source, 0, *place)


@dataclass(frozen=True, slots=True)
class StoredSentence:
    """One sentence as a file holds it."""

    sentence: Sentence
    values: Array  # C-contiguous, with the dtype and the axes of the file
    scales: Scales | None  # of int8 values, one per vector
    crc32: int  # `checksum` of its identity, values and scales


@dataclass(frozen=True)
class ValueSink:
    """Takes the values of a file, which HDF5 only makes room for.

    Attributes:
        n_rows: sum of the first axis of all `StoredSentence.values`.
        put: takes the values that belong at an address of the file.
    """

    n_rows: int
    put: Callable[[int, Array], None]


Stored = Iterable[StoredSentence]
Facts = dict[str, Any]  # for the root of the file


def checksum(identity: bytes, values: Array, scales: Scales | None = None) -> int:
    """CRC-32 of the identity of a sentence, its values and its scales, as the file holds them."""
    crc32 = zlib.crc32(identity)
    for array in (values, scales):
        if array is not None and array.size:
            crc32 = zlib.crc32(array.data, crc32)
    return crc32


def tokens_digest(tokens: Sequence[str]) -> bytes:
    """8 bytes that identify a sequence of tokens, wherever they come from; see SCHEMA.md."""
    lengths = struct.pack(f"<{len(tokens) + 1}Q", len(tokens), *map(len, tokens))
    text = "".join(tokens).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(lengths + text, digest_size=8).digest()


def tokens_sha256(digests: bytes) -> str:
    """The digest of a text, from the `tokens_digest` of all its sentences, joined."""
    return hashlib.sha256(digests).hexdigest()
