"""Checksums of stored sentences, digests of texts."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence

from elmo_cli.arrays import AnyArray

try:  # the same values in a third of the time
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

DIGEST_BYTES = 8  # of the tokens of one sentence


def checksum(identity: bytes, values: AnyArray, scales: AnyArray | None = None) -> int:
    """CRC-32 of the identity of a sentence, its values and its scales, as the file holds them."""
    checksum_so_far: int = crc32(identity)
    for array in (values, scales):
        if array is not None and array.size:
            checksum_so_far = crc32(array.data, checksum_so_far)
    return checksum_so_far


def tokens_digest(tokens: Sequence[str]) -> bytes:
    """Bytes that identify a sequence of tokens, wherever they come from; see SCHEMA.md."""
    lengths = struct.pack(f"<{len(tokens) + 1}Q", len(tokens), *map(len, tokens))
    text = "".join(tokens).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(lengths + text, digest_size=DIGEST_BYTES).digest()


def tokens_sha256(digests: bytes | memoryview) -> str:
    """The digest of a text, from the `tokens_digest` of all its sentences, joined."""
    return tokens_sha256_of_parts([digests])


def tokens_sha256_of_parts(parts: Iterable[bytes | memoryview]) -> str:
    """`tokens_sha256` of digests that are joined in several parts."""
    sha256 = hashlib.sha256()
    for part in parts:
        sha256.update(part)
    return sha256.hexdigest()
