"""What a file records of a sentence, and the checksums over it."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_cli.text.sentence import Sentence

Array = NDArray[Any]
Key = int | str | tuple[str, int] | tuple[str, ...]
Handle = int | str


@dataclass(frozen=True, slots=True)
class SentenceInfo:
    """What a file records of a sentence; None where it does not.

    Attributes:
        position: number of the sentence in the file, from 0.
        key: its key in the file: a number, or its name where the file is keyed by names.
        tokens: its tokens.
        text: its line.
        document: key of its document.
        place: number of the sentence within its document.
        offset: number of sentences in the parts of the document before this one (LSGN).
    """

    position: int
    key: int | str
    tokens: tuple[str, ...] | None = None
    text: str | None = None
    document: str | None = None
    place: int = 0
    offset: int | None = None

    def sentence(
        self,
        *,
        key: int | None = None,
        tokens: tuple[str, ...] | None = None,
        text: str | None = None,
        source: str = "-",
    ) -> Sentence:
        """The sentence as it was written, as far as the file records it.

        Args:
            key: its number in the text, for files keyed by names; None: its position.
            tokens, text: in place of those of the file.
            source: the file, for messages.
        """
        number = self.key if isinstance(self.key, int) else self.position
        return Sentence(
            tokens=(self.tokens if tokens is None else tokens) or (),
            key=number if key is None else key,
            text=(self.text if text is None else text) or "",
            source=source,
            document=self.document,
            place=self.place,
            offset=self.offset or 0,
        )


@dataclass(frozen=True, slots=True)
class StoredSentence:
    """One sentence on its way into, or out of, a file.

    Attributes:
        sentence: its key, tokens, text and document.
        values: C-contiguous, with the dtype and the axes of the file.
        scales: of int8 values, one float32 for each vector; otherwise None.
        crc32: `checksum` of its identity, values and scales.
    """

    sentence: Sentence
    values: Array
    scales: NDArray[np.float32] | None
    crc32: int


@dataclass(frozen=True)
class Totals:
    """What is known of a file before it is written.

    Attributes:
        sentences: how many.
        rows: sum of the first axis of `StoredSentence.values`, for layouts with one large data set.
        row_shape: the other axes of these, None without sentences.
        dtype: of the values.
    """

    sentences: int
    rows: int
    row_shape: tuple[int, ...] | None
    dtype: np.dtype[Any]


@dataclass
class Facts:
    """What `Layout.write` found out: attributes for the root of the file, and warnings."""

    attributes: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def checksum(identity: bytes, values: Array, scales: NDArray[np.float32] | None = None) -> int:
    """CRC-32 of the identity of a sentence, its values and its scales, as the file holds them."""
    crc32 = zlib.crc32(values.data, zlib.crc32(identity)) if values.size else zlib.crc32(identity)
    return zlib.crc32(scales.data, crc32) if scales is not None and scales.size else crc32


def tokens_digest(tokens: Iterable[str]) -> bytes:
    """8 bytes that identify a sequence of tokens, wherever they come from."""
    digest = hashlib.blake2b(digest_size=8)
    for token in tokens:
        encoded = token.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.digest()


def tokens_sha256(digests: bytes) -> str:
    """The digest of a text, from the `tokens_digest` of all its sentences, joined."""
    return hashlib.sha256(digests).hexdigest()
