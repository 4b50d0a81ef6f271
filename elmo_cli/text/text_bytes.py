"""The bytes of a text: opened, decompressed, and refused if they are another kind of file."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import TYPE_CHECKING, cast

from elmo_cli.errors import InputError
from elmo_cli.filetypes import GZIP, XZ, identify
from elmo_cli.text.input_settings import InputReport

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STDIN = "-"
CHUNK_BYTES = 1 << 18  # that are read or decompressed at a time
_HEAD_BYTES = 16  # that are waited for before a file is identified


def open_text(name: str, report: InputReport) -> io.BufferedReader:
    """A stream of the chunks that `read_chunks` yields."""
    return _stream(read_chunks(name, report))


def read_chunks(name: str, report: InputReport) -> Iterator[bytes]:
    """Yield the bytes of a text, decompressed if its first bytes say gzip or xz.

    Raises:
        InputError: a file that can't be opened or read, a known kind of file that is not text, or
            corrupt or incomplete compressed data, which shows only when it is reached.
    """
    head, chunks = _peek(_raw_chunks(name, report))
    packed = identify(head)
    if packed in (GZIP, XZ):
        kind, decompress = ("gzip", _gunzip) if packed == GZIP else ("xz", _unxz)
        head, chunks = _peek(_decompressed(decompress(chunks), kind, name))
    if (found := identify(head)) is not None:
        twice = " compressed twice" if found in (GZIP, XZ) else ""
        hint = found.hint.replace("FILE", name, 1)
        raise InputError(f"{name}: {found.name}{twice}, not a text", hint)
    return chunks


def unreadable(path: str, error: OSError | ValueError) -> InputError:
    """The error for a file that can't be opened or read."""
    if isinstance(error, FileNotFoundError):
        if os.path.islink(path):
            target = os.readlink(path)
            return InputError(f"{path}: a link to {target}, which is missing", f"`ls -l {path}`")
        hint = f"check the name; the working directory is {_working_directory()}"
        return InputError(f"{path}: no such file", hint)
    reason = getattr(error, "strerror", None) or error
    return InputError(f"{path}: can't be read ({reason})", "check the name and the disk")


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "gone"


def _raw_chunks(name: str, report: InputReport) -> Iterator[bytes]:
    """The bytes of a file or a stream as they come, counted in the report."""
    try:
        with _opened(name) as stream:
            while chunk := stream.read1(CHUNK_BYTES) or _read_again(stream):
                report.bytes_read += len(chunk)
                yield chunk
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise unreadable(name, error) from None


def _opened(name: str) -> AbstractContextManager[io.BufferedReader]:
    if name != STDIN:
        return open(name, "rb")
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise InputError("-: standard input is closed", "name a file, or pipe the text in")
    return nullcontext(cast(io.BufferedReader, stream))  # not ours to close


def _read_again(stream: io.BufferedReader) -> bytes:
    """The next bytes if the stream was non-blocking, where an empty read is not the end.

    Other processes share standard input and may have set O_NONBLOCK.
    """
    try:
        if os.get_blocking(stream.fileno()):
            return b""
        os.set_blocking(stream.fileno(), True)
    except OSError:  # not a stream of the system
        return b""
    return stream.read1(CHUNK_BYTES)


def _peek(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes (16 or more, if there are as many), and all chunks nevertheless."""
    head = b""
    while len(head) < _HEAD_BYTES and (chunk := next(chunks, b"")):
        head += chunk
    return head, chain([head] if head else [], chunks)


class _ChunkStream(io.RawIOBase):
    """Chunks of bytes as a stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        target = memoryview(buffer).cast("B")
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        n_bytes = min(len(target), len(self._rest))
        target[:n_bytes] = self._rest[:n_bytes]
        self._rest = self._rest[n_bytes:]
        return n_bytes


def _stream(chunks: Iterator[bytes]) -> io.BufferedReader:
    return io.BufferedReader(_ChunkStream(chunks), CHUNK_BYTES)


def _decompressed(pieces: Iterator[bytes], kind: str, name: str) -> Iterator[bytes]:
    """The same pieces; errors of the decompressor become ours."""
    n_bytes = 0
    try:
        for piece in pieces:
            n_bytes += len(piece)
            yield piece
    except (zlib.error, lzma.LZMAError, gzip.BadGzipFile, EOFError) as error:
        what = "ends too early" if isinstance(error, EOFError) else f"is corrupt ({error})"
        raise InputError(
            f"{name}: the {kind} data {what} after {n_bytes} bytes of text",
            f"`{kind} -t {name}` checks it; fetch or compress the file again",
        ) from None


def _gunzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=_stream(chunks)) as file:
        while piece := file.read1(CHUNK_BYTES):
            yield piece


def _unxz(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Pieces of xz data, also in several streams with padding between them.

    `lzma.LZMAFile` drops what follows padding and ignores trailing garbage, both without an error.
    """
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    for chunk in chunks:
        while chunk or not (decompressor.eof or decompressor.needs_input):
            if decompressor.eof:
                chunk = chunk.lstrip(b"\0")
                if not chunk:
                    break
                decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ)
            if piece := decompressor.decompress(chunk, CHUNK_BYTES):
                yield piece
            chunk = decompressor.unused_data if decompressor.eof else b""
    if not decompressor.eof:
        raise EOFError
