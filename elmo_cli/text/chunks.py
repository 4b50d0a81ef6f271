"""From a file, a pipe or standard input to chunks of bytes, decompressed; other data is refused."""

from __future__ import annotations

import io
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from itertools import chain
from typing import Any, cast

from elmo_cli.errors import InputError
from elmo_cli.filetypes import GZIP, XZ, identify
from elmo_cli.text.input_report import InputReport

STDIN = "-"
_CHUNK_BYTES = 1 << 14  # read at a time; progress is measured in such chunks
_PACKED_BYTES = 1 << 12  # decompressed at a time; xz can expand them to 40 MB
_HEAD_BYTES = 16  # waited for before a file is identified

_DECOMPRESSORS: dict[object, Callable[[], Any]] = {
    GZIP: partial(zlib.decompressobj, 16 + zlib.MAX_WBITS),
    XZ: partial(lzma.LZMADecompressor, lzma.FORMAT_XZ),
}


def read_chunks(name: str, report: InputReport) -> Iterator[bytes]:
    """The bytes of a text, decompressed if its first bytes are those of gzip or xz.

    Raises:
        InputError: the text can't be opened, is a known kind of file other than text, or is
            corrupt compressed data.
    """
    head, chunks = _peek(_raw_chunks(name, report))
    new_decompressor = _DECOMPRESSORS.get(identify(head))
    if new_decompressor is not None:
        head, chunks = _peek(_decompressed(chunks, new_decompressor, name))
    other_kind = identify(head)
    if other_kind is not None:
        within = " in compressed data" if new_decompressor else ""
        problem = f"{other_kind.name}{within}, not a text"
        raise InputError(problem, other_kind.hint_for(name), where=name)
    return chunks


def check_input_file(path: str) -> None:
    """Raise an InputError for a path that is missing, a folder, or without permission to read."""
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if stat.S_ISDIR(status.st_mode):
        hint = f"name the files in it: `{os.path.join(path, '*')}`"
        raise InputError("a folder, not a file", hint, where=path)
    if not os.access(path, os.R_OK):
        hint = f"`ls -l {path}` shows who may read it"
        raise InputError("no permission to read it", hint, where=path)


def unreadable(path: str, error: OSError | ValueError) -> InputError:
    """The error for a file that can't be opened or read."""
    if isinstance(error, FileNotFoundError):
        return InputError("no such file", "check the name and the working directory", where=path)
    if "\0" in path:  # its message differs between versions of Python
        reason: object = "a null byte in its name"
    else:
        reason = getattr(error, "strerror", None) or error
    return InputError(f"can't be read ({reason})", "check the name and the disk", where=path)


def _raw_chunks(name: str, report: InputReport) -> Iterator[bytes]:
    """The bytes of a file or a stream as they come, counted in the report."""
    if name == STDIN and sys.stdin is None:
        hint = "name a file, or pipe the text in"
        raise InputError("standard input is closed", hint, where=STDIN)
    try:
        # Standard input is not ours to close.
        with nullcontext(sys.stdin.buffer) if name == STDIN else open(name, "rb") as stream:
            while chunk := _read(cast(io.BufferedReader, stream)):
                report.bytes_read += len(chunk)
                yield chunk
    except (OSError, ValueError) as error:
        raise unreadable(name, error) from None


def _read(stream: io.BufferedReader) -> bytes:
    """The next bytes of a stream; b"" at its end."""
    # Another process may have made it non-blocking, where an empty read is not the end.
    with suppress(OSError):  # not a stream of the system
        os.set_blocking(stream.fileno(), True)
    return stream.read1(_CHUNK_BYTES)


def _peek(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, and all chunks including them.

    After the first line, no more bytes are waited for: the program that writes to a pipe may itself
    wait for the result of this line.
    """
    head = b""
    while len(head) < _HEAD_BYTES and b"\n" not in head:
        chunk = next(chunks, b"")
        if not chunk:
            break
        head += chunk
    if not head:
        return head, chunks
    return head, chain([head], chunks)


def _decompressed(
    chunks: Iterator[bytes], new_decompressor: Callable[[], Any], name: str
) -> Iterator[bytes]:
    """The content of gzip or xz data in one or more members, with padding between them.

    `lzma.LZMAFile` drops what follows padding and ignores trailing garbage, both without an error.
    """
    decompressor = new_decompressor()
    try:
        for chunk in chunks:
            for packed in _cut(chunk, _PACKED_BYTES):
                rest = packed
                while rest:
                    if decompressor.eof:  # another member, or padding
                        rest = rest.lstrip(b"\0")
                        if not rest:
                            break
                        decompressor = new_decompressor()
                    yield from _cut(decompressor.decompress(rest), _CHUNK_BYTES)
                    rest = decompressor.unused_data
        if not decompressor.eof:
            raise EOFError
    except (zlib.error, lzma.LZMAError, EOFError) as error:
        reason = "ends too early" if isinstance(error, EOFError) else f"is corrupt ({error})"
        hint = "fetch or compress the file again"
        raise InputError(f"the compressed data {reason}", hint, where=name) from None


def _cut(content: bytes, n_bytes: int) -> Iterator[bytes]:
    """Content in pieces of `n_bytes` bytes."""
    for start in range(0, len(content), n_bytes):
        yield content[start : start + n_bytes]
