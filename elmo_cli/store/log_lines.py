"""The lines of the log of an unfinished embeddings file: the settings, then one per block.

A line is JSON in ASCII, a space, and the CRC-32 of the JSON in hexadecimal.
"""

from __future__ import annotations

import json
import os
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import ResumeError
from elmo_cli.files import StrPath, resolve
from elmo_cli.store.layouts import StoredSentence
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence

MAGIC = b'{"elmo_block_log":1,'
INVALID = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class CommittedProgress:
    """What an unfinished output has committed."""

    blocks: int = 0
    sentences: int = 0  # handed over, including those that the layout left out as `duplicates`
    tokens: int = 0  # stored
    duplicates: int = 0
    text_sha256: str = ""  # the caller's running hash of the text up to here
    state: bytes = b""  # the caller's, after these sentences

    def after(
        self, n_all: int, lengths: Sequence[int], text_sha256: str, state: bytes
    ) -> CommittedProgress:
        """The progress after a block of `n_all` sentences; those of these lengths are stored."""
        return CommittedProgress(
            self.blocks + 1,
            self.sentences + n_all,
            self.tokens + sum(lengths),
            self.duplicates + n_all - len(lengths),
            text_sha256,
            state,
        )


class LoggedBlock(NamedTuple):
    """A line of the log: sentences, digests of all handed over, and what is committed with it."""

    rows: Sequence[Sequence[Any]]
    token_digests: bytes
    progress: CommittedProgress
    line_end: int

    def stored(self, dtype: np.dtype[Any]) -> Iterator[StoredSentence]:
        """The sentences; their values only have the right shape and dtype."""
        for key, tokens, text, document, place, offset, shape, crc32, base64 in self.rows:
            text = " ".join(tokens) if text is None else text
            scales = None
            if base64 is not None:
                scales = np.frombuffer(b64decode(base64), "<f4").reshape(shape[:-1])
            one = Sentence(tuple(tokens), key, text, document=document, place=place, offset=offset)
            yield StoredSentence(one, _zeros(tuple(shape), dtype), scales, crc32)


def part_path(out: StrPath) -> Path:
    """The unfinished file of OUT."""
    return Path(f"{resolve(out)}.part")


def log_path(part: StrPath) -> Path:
    """The log of an unfinished file."""
    return Path(f"{part}.log")


def is_unfinished(path: StrPath) -> bool:
    """Whether a file is the partial file of an unfinished output."""
    return os.fspath(path).endswith(".part") and log_path(path).exists()


def is_finished(out: StrPath) -> bool:
    """Whether OUT exists, and there is no unfinished output that is to replace it."""
    return resolve(out).exists() and not part_path(out).exists()


def read_log(part: StrPath) -> tuple[FileSpec, bool, CommittedProgress]:
    """Settings, whether OUT may be replaced, and what is committed; values are not verified.

    Raises:
        ResumeError: the settings are corrupt.
    """
    spec, overwrite, _ = read_header(log_path(part))
    progress = CommittedProgress()
    with suppress(*INVALID):
        for block in read_blocks(log_path(part)):
            progress = block.progress
    return spec, overwrite, progress


def read_header(log: Path) -> tuple[FileSpec, bool, int]:
    """Settings, whether OUT may be replaced, and where the first line ends."""
    try:
        record, end = next(_lines(log))
        return FileSpec.from_attributes(record["settings"]), bool(record["overwrite"]), end
    except (*INVALID, StopIteration):
        raise ResumeError(
            f"{log}: corrupt, its settings cannot be read",
            "start over: repeat its `elmo embed` command and overwrite it",
        ) from None


def read_blocks(log: Path) -> Iterator[LoggedBlock]:
    """The blocks of a log; an error of `INVALID` for a complete line that is corrupt."""
    lines = _lines(log)
    next(lines, None)
    progress = CommittedProgress()
    for record, end in lines:
        rows, digests = record["sentences"], b64decode(record["token_digests"])
        text_sha256, state = str(record["text_sha256"]), b64decode(record["state"])
        lengths = [len(row[1]) for row in rows]
        progress = progress.after(len(digests) // 8, lengths, text_sha256, state)
        yield LoggedBlock(rows, digests, progress, end)


def encode_line(record: Mapping[str, Any]) -> bytes:
    """The line of a record."""
    content = json.dumps(record, separators=(",", ":")).encode("ascii")
    return b"%s %08x\n" % (content, zlib.crc32(content))


def encode_block(
    rows: Sequence[object], token_digests: bytes, progress: CommittedProgress
) -> bytes:
    """The line of a block of `packed` sentences."""
    record = {
        "sentences": rows,
        "token_digests": b64encode(token_digests).decode("ascii"),
        "text_sha256": progress.text_sha256,
        "state": b64encode(progress.state).decode("ascii"),
    }
    return encode_line(record)


def packed(stored: StoredSentence) -> Sequence[object]:
    """A sentence without its values, as a line holds it; a text of None is the joined tokens."""
    one, scales, shape = stored.sentence, stored.scales, stored.values.shape
    text = None if one.text == " ".join(one.tokens) else one.text
    base64 = None if scales is None else b64encode(scales.tobytes()).decode("ascii")
    place = one.document, one.place, one.offset
    return (one.key, one.tokens, text, *place, shape, stored.crc32, base64)


@lru_cache(maxsize=4096)
def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> AnyArray:
    return np.broadcast_to(np.zeros((), dtype), shape)


def _lines(log: Path) -> Iterator[tuple[Any, int]]:
    """Each line, None if its checksum is wrong, and where it ends; without one cut by a kill."""
    end = 0
    with open(log, "rb") as file:
        for line in file:
            end += len(line)
            content, _, crc32 = line.rpartition(b" ")
            record = None
            with suppress(ValueError, RecursionError):
                if crc32 == b"%08x\n" % zlib.crc32(content):
                    record = json.loads(content)
            if line.endswith(b"\n"):
                yield record, end
