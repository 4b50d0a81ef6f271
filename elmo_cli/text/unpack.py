"""Bytes to the bytes of a text: gz and xz decompressed, what is no text refused by its name."""

from __future__ import annotations

import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

from elmo_cli.errors import InputError

_PIECE = 1 << 18  # bytes that are decompressed at a time
_HEAD = 16  # bytes that tell what a file is

_GZIP = b"\x1f\x8b"
_XZ = b"\xfd7zXZ\x00"

# First bytes -> what the file is, what to do. gz and xz stand here for what is compressed twice.
_NO_TEXT: tuple[tuple[bytes, str, str], ...] = (
    (_GZIP, "compressed twice (gzip)", "decompress it once: `gzip -dc {name} > FILE`"),
    (_XZ, "compressed twice (xz)", "decompress it once: `xz -dc {name} > FILE`"),
    (b"BZh", "bzip2 data", "decompress it and pipe it in: `bzip2 -dc {name} | elmo embed -`"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data", "decompress it: `zstd -dc {name} | elmo embed -`"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it and name the files inside"),
    (b"Rar!\x1a\x07", "a RAR archive", "unpack it and name the files inside"),
    (
        b"PK\x03\x04",
        "a zip archive (or docx, odt, xlsx)",
        "unpack it and name the files inside; save a document as plain text",
    ),
    (b"%PDF-", "a PDF document", "take the text out first: `pdftotext FILE.pdf - | elmo embed -`"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document", "save it as plain text"),
    (b"{\\rtf", "an RTF document", "save it as plain text"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "`elmo inspect {name}` tells what it holds"),
    (b"\x93NUMPY", "a numpy array", "give the text that it was made from"),
    (b"SQLite format 3\0", "an SQLite database", "write the text out, one sentence a line"),
    (b"PAR1", "a Parquet file", "write the text out, one sentence a line, or as jsonl"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture", "give a text file"),
    (b"\xff\xd8\xff", "a JPEG picture", "give a text file"),
    (b"\x7fELF", "a program", "give a text file"),
)


_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f]")  # which no text has near its beginning


class _Member(Protocol):
    """One gzip member or xz stream; zlib and lzma agree so far."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def unpack(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The bytes of a text, decompressed if they are gz or xz by their first bytes.

    Args:
        chunks: the bytes of a file, in pieces of any size.
        name: of the file, for messages.
    Raises:
        InputError: a known kind of file that is no text; compressed data that is damaged or
            ends too early, which shows only when reading gets there.
    """
    head, chunks = peek(chunks)
    if head.startswith(_GZIP):
        head, chunks = peek(_decompress(chunks, _gzip_member, "gzip", name))
    elif head.startswith(_XZ):
        head, chunks = peek(_decompress(chunks, _xz_member, "xz", name))
    _refuse_no_text(head, name)
    return chunks


def peek(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes (16 or more, if there are as many) and all the chunks nevertheless."""
    head = b""
    while len(head) < _HEAD and (chunk := next(chunks, b"")):
        head += chunk
    return head, chain([head] if head else [], chunks)


def _gzip_member() -> _Member:
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)


def _xz_member() -> _Member:
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ)


def _decompress(
    chunks: Iterator[bytes], new_member: Callable[[], _Member], kind: str, name: str
) -> Iterator[bytes]:
    """Decompressed pieces of at most _PIECE bytes, so that a small file can't fill the memory."""
    n_bytes = 0
    try:
        for piece in _members(chunks, new_member):
            n_bytes += len(piece)
            yield piece
    except (zlib.error, lzma.LZMAError, EOFError) as error:
        what = "ends too early" if isinstance(error, EOFError) else f"is damaged ({error})"
        raise InputError(
            f"{name}: the {kind} data {what} after {n_bytes} bytes of text",
            f"`{kind} -t {name}` checks it; fetch or compress the file again",
        ) from None


def _members(chunks: Iterator[bytes], new_member: Callable[[], _Member]) -> Iterator[bytes]:
    member = new_member()
    for chunk in chunks:
        while True:
            if member.eof:
                chunk = chunk.lstrip(b"\0")  # padding between members is legal in both formats
                if not chunk:
                    break
                member = new_member()
            piece = member.decompress(chunk, _PIECE)
            # zlib hands back what it has not looked at yet, lzma keeps it inside.
            chunk = member.unused_data if member.eof else getattr(member, "unconsumed_tail", b"")
            if piece:
                yield piece
            if not chunk and not member.eof and len(piece) < _PIECE:
                break
    if not member.eof:
        raise EOFError


def _refuse_no_text(head: bytes, name: str) -> None:
    what, hint = _no_text(head)
    if what:
        raise InputError(f"{name}: {what}, not a text", hint.format(name=name))


def _no_text(head: bytes) -> tuple[str, str]:
    if head[257:262] == b"ustar":
        return "a tar archive", "unpack it and name the files inside: `tar -xf {name}`"
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "a Python pickle", "write the text out, one sentence a line"
    # These begin as a word may, the latter as a gene is called.
    if head.startswith(b"BZh") and head[4:10] != b"1AY&SY":
        return "", ""
    if head.startswith(b"PAR1") and not _CONTROL.search(head, 4, _HEAD):
        return "", ""
    return next(
        ((what, hint) for magic, what, hint in _NO_TEXT if head.startswith(magic)), ("", "")
    )
