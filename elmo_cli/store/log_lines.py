"""The lines of the log of an unfinished embeddings file: settings, blocks, and an end mark.

A line is JSON in ASCII, a space, and the CRC-32 of the JSON in hexadecimal.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_cli.errors import ElmoError, ResumeError
from elmo_cli.files import StrPath, resolve
from elmo_cli.store.layouts import StoredSentence
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence

MAGIC = b'{"elmo_block_log":1,'
_MAX_END_MARK = 200  # bytes
_INVALID = (KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class Progress:
    """What is committed.

    Attributes:
        blocks: number of commits.
        sentences: handed over, with those that the layout left out.
        tokens: stored.
        duplicates: sentences that were left out because an equal one was stored.
        text_sha256: the caller's running hash of the text up to here.
        state: the caller's state after these sentences, opaque.
    """

    blocks: int = 0
    sentences: int = 0
    tokens: int = 0
    duplicates: int = 0
    text_sha256: str = ""
    state: bytes = b""

    def after(
        self, n_sentences: int, lengths: Sequence[int], text_sha256: str, state: bytes
    ) -> Progress:
        """The progress after one more block.

        Args:
            n_sentences: handed over.
            lengths: numbers of tokens of those that are stored.
        """
        return Progress(
            self.blocks + 1,
            self.sentences + n_sentences,
            self.tokens + sum(lengths),
            self.duplicates + n_sentences - len(lengths),
            text_sha256,
            state,
        )


class LoggedSentence(NamedTuple):
    """A stored sentence without its values; the fields in the order of the log.

    Attributes:
        text: None if it is the tokens joined by a space.
        shape: of the values.
        crc32, packed_scales: those of the `StoredSentence`, the scales as base64.
    """

    key: int
    tokens: Sequence[str]
    text: str | None
    document: str | None
    place: int
    offset: int
    shape: Sequence[int]
    crc32: int
    packed_scales: str = ""

    @property
    def n_values(self) -> int:
        return math.prod(self.shape)

    def sentence(self) -> Sentence:
        """The sentence; of its source nothing is recorded."""
        return Sentence(
            tuple(self.tokens),
            self.key,
            " ".join(self.tokens) if self.text is None else self.text,
            document=self.document,
            place=self.place,
            offset=self.offset,
        )

    def stored(self, values: np.ndarray) -> StoredSentence:
        """The sentence with its values."""
        scales = None
        if self.packed_scales:
            scales = np.frombuffer(base64.b64decode(self.packed_scales), "<f4")
            scales = scales.reshape(self.shape[:-1])
        return StoredSentence(self.sentence(), values, scales, self.crc32)


@dataclass(frozen=True, slots=True)
class Block:
    """A line of the log.

    Attributes:
        sentences: those that the file gets.
        token_digests: of all sentences handed over, 8 bytes each.
        start: of the values in OUT.part.
        line_end: of the line in the log.
        progress: after this block.
    """

    sentences: Sequence[LoggedSentence]
    token_digests: bytes
    start: int
    line_end: int
    progress: Progress


def part_path(out: StrPath) -> Path:
    """The unfinished file of OUT."""
    return Path(f"{resolve(out)}.part")


def log_path(part: Path) -> Path:
    """The log of an unfinished file."""
    return Path(f"{part}.log")


def is_finished(out: StrPath) -> bool:
    """Whether OUT exists, and there is no unfinished output that is to replace it."""
    file, log = resolve(out), log_path(part_path(out))
    return file.exists() and (not log.exists() or _end_mark(log) == file_identity(file))


def read_log(part: StrPath) -> tuple[FileSpec, bool, Progress]:
    """Read a log without locking, verifying values or cutting anything.

    Args:
        part: the unfinished file, OUT.part.
    Returns:
        the settings, whether OUT may be replaced, and what is committed.
    Raises:
        ResumeError: the settings are corrupt.
        OSError: it cannot be read.
    """
    spec, overwrite, _ = read_header(Path(part))
    progress = Progress()
    for block in read_blocks(Path(part)):
        progress = progress if block is None else block.progress
    return spec, overwrite, progress


def read_header(part: Path) -> tuple[FileSpec, bool, int]:
    """Settings, whether OUT may be replaced, and where the first line ends.

    Raises:
        ResumeError: it is corrupt.
    """
    empty: tuple[Any, int, bool] = (None, 0, False)
    record, end, _ = next(_lines(part), empty)
    try:
        return FileSpec.from_attributes(record["settings"]), bool(record["overwrite"]), end
    except (*_INVALID, ElmoError):
        raise ResumeError(
            f"{log_path(part)}: corrupt, its settings cannot be read",
            "`overwrite=True` starts over",
        ) from None


def read_blocks(part: Path) -> Iterator[Block | None]:
    """The blocks of a log; None, and nothing more, for a complete line that is invalid."""
    lines = _lines(part)
    next(lines, None)
    progress = Progress()
    for record, end, is_complete in lines:
        if not is_complete or (isinstance(record, dict) and "finished" in record):
            return
        block = _block(record, progress, end)
        yield block
        if block is None:
            return
        progress = block.progress


def block_record(
    stored: Sequence[StoredSentence], token_digests: bytes, start: int, progress: Progress
) -> dict[str, Any]:
    """What the log holds of a block; the arguments are as in `Block`."""
    return {
        "block": progress.blocks,
        "start": start,
        "sentences": [_packed(one) for one in stored],
        "token_digests": base64.b64encode(token_digests).decode("ascii"),
        "text_sha256": progress.text_sha256,
        "state": base64.b64encode(progress.state).decode("ascii"),
    }


def encode_line(record: Mapping[str, Any]) -> bytes:
    """A record as a line with its checksum."""
    content = json.dumps(record, separators=(",", ":")).encode("ascii")
    return b"%s %08x\n" % (content, zlib.crc32(content))


def file_identity(file: Path) -> list[int]:
    """What a file keeps when it is renamed."""
    status = file.stat()
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _packed(stored: StoredSentence) -> list[Any]:
    """The fields of a `LoggedSentence`."""
    one, scales, shape = stored.sentence, stored.scales, stored.values.shape
    text = None if one.text == " ".join(one.tokens) else one.text
    row = [one.key, one.tokens, text, one.document, one.place, one.offset, shape, stored.crc32]
    return row if scales is None else [*row, base64.b64encode(scales.tobytes()).decode("ascii")]


def _block(record: Any, before: Progress, line_end: int) -> Block | None:
    """The block of a line; None if it is not the one after `before`."""
    try:
        sentences = [LoggedSentence(*row) for row in record["sentences"]]
        digests, state = map(base64.b64decode, (record["token_digests"], record["state"]))
        lengths = [len(one.tokens) for one in sentences]
        progress = before.after(len(digests) // 8, lengths, str(record["text_sha256"]), state)
        if record["block"] != progress.blocks or any(min(one.shape) < 0 for one in sentences):
            return None
        return Block(sentences, digests, int(record["start"]), line_end, progress)
    except _INVALID:
        return None


def _lines(part: Path) -> Iterator[tuple[Any, int, bool]]:
    """The lines of a log: content (None if invalid), where it ends, whether it is complete."""
    end = 0
    with open(log_path(part), "rb") as file:
        for line in file:
            end += len(line)
            yield _decoded(line), end, line.endswith(b"\n")


def _decoded(line: bytes) -> Any:
    """The record of a line; None if it is incomplete or its checksum is wrong."""
    content, _, crc32 = line.rpartition(b" ")
    with suppress(ValueError, RecursionError):
        if crc32 == b"%08x\n" % zlib.crc32(content):
            return json.loads(content)
    return None


def _end_mark(log: Path) -> Any:
    """The identity of the finished file, in the last line of a log; None if it has none."""
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - _MAX_END_MARK))
        record = _decoded((file.read().splitlines(keepends=True) or [b""])[-1])
    return record.get("finished") if isinstance(record, dict) else None
