"""What a file records of a sentence: its values, quantized to int8 or not, and checksums."""

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
Key = int | str | tuple[str, int] | tuple[str, ...]
Handle = int | str  # position, or name of the data set

INT8 = np.dtype("i1")
_MOST = 127
_SCALE_BITS = 16
# The largest scale of 16 bits that, times 127, is still a finite float32; and the smallest.
_SCALES = np.float32(float.fromhex("0x1.0204p121")), np.finfo(np.float32).tiny


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
    scales: Array | None  # float32, of int8 values, one per vector
    crc32: int  # `checksum` of its identity, values and scales


@dataclass(frozen=True)
class ValueSink:
    """Receives the values of a file, for which HDF5 only reserves space."""

    n_rows: int  # sum of the first axis of all `StoredSentence.values`
    put: Callable[[int, Array], None]  # takes the values that belong at an address of the file


Stored = Iterable[StoredSentence]
Facts = dict[str, Any]  # for the root of the file


def checksum(identity: bytes, values: Array, scales: Array | None = None) -> int:
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


def quantize(vectors: Array) -> tuple[Array, Array]:
    """Quantize vectors to 255 levels, with one scale per vector.

    A scale has 16 significant bits, rounded up, so that its products with integers up to 127 are
    float32 without rounding: what `dequantize` gives is quantized to the same bytes again.

    Args:
        vectors: (…, dim) float32, finite.
    Returns:
        (…, dim) int8 from -127 to 127, and (…,) float32. No value is off by more than half a scale.
        Vectors without a value beyond 1.5e-36 become zeros.
    """
    greatest = np.abs(vectors).max(axis=-1, initial=0)
    mantissa, exponent = np.frexp(greatest / np.float32(_MOST))
    steps = np.ceil(np.ldexp(mantissa, _SCALE_BITS))
    scales = np.ldexp(steps, exponent - _SCALE_BITS).astype(np.float32)
    scales = np.where(scales < _SCALES[1], np.float32(0), np.minimum(scales, _SCALES[0]))
    divisors = np.where(scales == 0, np.float32(np.inf), scales)
    values = np.rint(vectors / divisors[..., np.newaxis]).clip(-_MOST, _MOST)
    return values.astype(np.int8), scales


def dequantize(values: Array, scales: Array) -> Array:
    """Reverse `quantize`: (…, dim) int8 and scales (…,) to (…, dim) float32."""
    with np.errstate(over="ignore", invalid="ignore"):  # in a corrupt file
        return np.asarray(values * scales[..., np.newaxis])
