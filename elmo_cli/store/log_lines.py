"""The lines of the log of an unfinished embeddings file: the settings, then one per block.

A line is JSON, a space, and the CRC-32 of the JSON in hexadecimal.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import ResumeError
from elmo_cli.files import StrPath
from elmo_cli.store.digests import DIGEST_BYTES
from elmo_cli.store.layouts import StoredSentence
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.unfinished import log_path
from elmo_cli.text.sentence import Sentence

MAGIC = b'{"elmo_block_log":1,'
# Where the values begin in OUT.part, by layout, if the first line of its log does not record it.
_DEFAULT_DATA_STARTS = {"flat": 12288, "bilm-types": 12288}  # at 0 in all other layouts
_MAX_DATA_START = 1 << 20
# What reading a corrupt line may raise.
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
        n_left_out = n_all - len(lengths)
        return CommittedProgress(
            blocks=self.blocks + 1,
            sentences=self.sentences + n_all,
            tokens=self.tokens + sum(lengths),
            duplicates=self.duplicates + n_left_out,
            text_sha256=text_sha256,
            state=state,
        )


class LoggedSentence(NamedTuple):
    """A sentence without its values, as a line of the log lists it."""

    key: int
    tokens: Sequence[str]
    text: str | None  # None if it is the tokens joined by spaces
    document: str | None
    place: int
    offset: int
    shape: Sequence[int]  # of the values
    crc32: int
    scales: str | None  # float32 in base64

    @classmethod
    def pack(cls, stored: StoredSentence) -> LoggedSentence:
        """The entry of a sentence."""
        sentence = stored.sentence
        scales = stored.scales
        is_joined = sentence.text == " ".join(sentence.tokens)
        return cls(
            key=sentence.key,
            tokens=sentence.tokens,
            text=None if is_joined else sentence.text,
            document=sentence.document,
            place=sentence.place,
            offset=sentence.offset,
            shape=stored.values.shape,
            crc32=stored.crc32,
            scales=None if scales is None else _to_base64(scales.tobytes()),
        )

    def unpack(self, dtype: np.dtype[Any]) -> StoredSentence:
        """The sentence; its values only have the right shape and dtype."""
        sentence = Sentence(
            tuple(self.tokens),
            self.key,
            text=" ".join(self.tokens) if self.text is None else self.text,
            document=self.document,
            place=self.place,
            offset=self.offset,
        )
        scales = None
        if self.scales is not None:
            scales = np.frombuffer(b64decode(self.scales), "<f4").reshape(self.shape[:-1])
        values = _zeros(tuple(self.shape), dtype)
        return StoredSentence(sentence, values, scales, self.crc32)


@dataclass(frozen=True, slots=True)
class LoggedBlock:
    """A line of the log: the sentences of a block, and what is committed with it."""

    sentences: Sequence[LoggedSentence]
    token_digests: bytes  # of all sentences handed over, including those that are not stored
    progress: CommittedProgress
    line_end: int

    def stored(self, dtype: np.dtype[Any]) -> Iterator[StoredSentence]:
        """The sentences; their values only have the right shape and dtype."""
        for sentence in self.sentences:
            yield sentence.unpack(dtype)


@dataclass(frozen=True, slots=True)
class LogHeader:
    """The first line of a log."""

    spec: FileSpec
    overwrite: bool  # whether OUT may be replaced
    data_start: int  # the position of the first value in OUT.part, in bytes
    line_end: int


@dataclass(frozen=True, slots=True)
class LogSummary:
    """What a log says of an unfinished output."""

    spec: FileSpec
    progress: CommittedProgress


def read_log(part: StrPath) -> LogSummary:
    """Read the settings of an unfinished file and what is committed; values are not verified.

    Raises:
        ResumeError: the settings are corrupt.
    """
    log = log_path(part)
    header = read_header(log)
    progress = CommittedProgress()
    with suppress(*INVALID):
        for block in read_blocks(log):
            progress = block.progress
    return LogSummary(header.spec, progress)


def read_header(log: Path) -> LogHeader:
    """Read the first line; a ResumeError if it is corrupt."""
    try:
        record, line_end = next(_lines(log))
        spec = FileSpec.from_attributes(record["settings"])
        data_start = int(record.get("data_start", _DEFAULT_DATA_STARTS.get(spec.layout, 0)))
        if not 0 <= data_start <= _MAX_DATA_START:
            raise ValueError("no layout has its first value there")
        return LogHeader(
            spec=spec,
            overwrite=bool(record["overwrite"]),
            data_start=data_start,
            line_end=line_end,
        )
    except (*INVALID, StopIteration):
        raise ResumeError(
            "corrupt, its settings cannot be read",
            "start over: repeat its `elmo embed` command and overwrite it",
            where=log,
        ) from None


def read_blocks(log: Path) -> Iterator[LoggedBlock]:
    """The blocks of a log; an error of `INVALID` for a complete line that is corrupt."""
    lines = _lines(log)
    next(lines, None)  # the header
    progress = CommittedProgress()
    for record, line_end in lines:
        sentences = [LoggedSentence._make(entry) for entry in record["sentences"]]
        token_digests = b64decode(record["token_digests"])
        progress = progress.after(
            len(token_digests) // DIGEST_BYTES,
            [len(sentence.tokens) for sentence in sentences],
            str(record["text_sha256"]),
            b64decode(record["state"]),
        )
        yield LoggedBlock(
            sentences=sentences,
            token_digests=token_digests,
            progress=progress,
            line_end=line_end,
        )


def count_blocks(log: Path) -> int:
    """The number of blocks before the first line that is corrupt, whose content is not read."""
    n_lines = 0
    with open(log, "rb") as file:
        for line in file:
            if _content_of_line(line) is None:
                break
            n_lines += 1
    return max(0, n_lines - 1)  # without the header


def encode_header(spec: FileSpec, *, overwrite: bool, data_start: int) -> bytes:
    """The first line, which begins with `MAGIC`."""
    record = {
        "elmo_block_log": 1,
        "overwrite": overwrite,
        "data_start": data_start,
        "settings": spec.to_attributes(),
    }
    return _encode_line(record)


def encode_block(
    sentences: Sequence[LoggedSentence], token_digests: bytes, text_sha256: str, state: bytes
) -> bytes:
    """The line of a block; `text_sha256` and `state` are those of `CommittedProgress` after it."""
    record = {
        "sentences": list(map(list, sentences)),
        "token_digests": _to_base64(token_digests),
        "text_sha256": text_sha256,
        "state": _to_base64(state),
    }
    try:
        return _with_crc32(orjson.dumps(record))
    except TypeError:  # half a surrogate pair, which UTF-8 cannot represent
        return _encode_line(record)


def _encode_line(record: Mapping[str, Any]) -> bytes:
    return _with_crc32(json.dumps(record, separators=(",", ":")).encode("ascii"))


def _with_crc32(content: bytes) -> bytes:
    return b"%s %08x\n" % (content, zlib.crc32(content))


def _decode_line(line: bytes) -> Any:
    """The record of a line; None if the line is corrupt."""
    content = _content_of_line(line)
    if content is None:
        return None
    with suppress(ValueError, RecursionError):
        return json.loads(content)
    return None


def _content_of_line(line: bytes) -> bytes | None:
    """The JSON of a line; None if the line is corrupt."""
    content, _, crc32 = line.rpartition(b" ")
    return content if crc32 == b"%08x\n" % zlib.crc32(content) else None


def _lines(log: Path) -> Iterator[tuple[Any, int]]:
    """Each complete line as `_decode_line` reads it, and where it ends."""
    line_end = 0
    with open(log, "rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return  # a kill cut the last line
            line_end += len(line)
            yield _decode_line(line), line_end


def _to_base64(content: bytes) -> str:
    return b64encode(content).decode("ascii")


@lru_cache(maxsize=4096)
def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> AnyArray:
    """An array of zeros that takes no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)
