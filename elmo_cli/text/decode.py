"""Source: one file, FIFO or standard input as lines of text, and what is refused of them."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from itertools import chain

from elmo_cli.errors import InputError
from elmo_cli.text.notes import Notes
from elmo_cli.text.opening import raw_bytes
from elmo_cli.text.settings import InputSettings
from elmo_cli.text.unpack import peek, unpack

MAX_LINE_BYTES = 64 << 20  # of a line, so that a file without line ends can't fill the memory

_UTF8_BOM = codecs.BOM_UTF8
# The longer mark first: that of UTF-32 begins with that of UTF-16.
_WIDE_BOMS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_TURNED_BOM = "\ufffe".encode()
_NO_TEXT = "give a text file; if it is UTF-16 without a mark, `--encoding utf-16-le`"
# A carriage return at the very end is none yet: a line feed may follow in the next piece.
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")


class Source:
    """One input as lines, each refused or given out, and the place where refusals are decided.

    Args:
        name: path of a file or a FIFO, or "-" for standard input.
        settings: how it is to be read.
        notes: takes bytes read, blank lines, skipped lines, a byte order mark.
    """

    def __init__(self, name: str, settings: InputSettings, notes: Notes) -> None:
        self.name = name
        self.settings = settings
        self.notes = notes
        self.max_line_bytes = max(MAX_LINE_BYTES, 64 * settings.max_tokens)
        self._received = 0  # bytes of text, counted after decompression

    def lines(self) -> Iterator[str | None]:
        """The lines without their ends; None for one that was refused.

        Lines end at a line feed, a carriage return or both, and nowhere else: U+2028, U+0085, form
        feeds and the like stay in their lines. A byte order mark at the start is left out. Memory
        holds one line, or one piece of `PIECE` bytes.

        Raises:
            InputError: a file that can't be opened or decompressed, or an encoding not based on
                ASCII that does not fit; at a line that can't be decoded, has a NUL or is longer
                than `max_line_bytes`, unless `on_error` is "skip".
        """
        encoding = self.settings.encoding
        recode = not _based_on_ascii(encoding)
        chunks = self._text_bytes(recode)
        if recode:
            encoding = "utf-8"
        number = 0
        for offset, block in self._blocks(chunks):
            if block is None:
                number += 1
                self._refuse_overlong(number)
                yield None
                continue
            for line in block.splitlines(keepends=True):
                number += 1
                yield self._decoded(line.rstrip(b"\r\n"), encoding, number, offset)
                offset += len(line)
        if number == 0:
            self.notes.warn("empty", f"{self.name}: empty, without any line")

    def admits(self, n_tokens: int, line: int) -> bool:
        """Whether a sentence of so many tokens, which begins at `line`, is to be given out.

        Raises:
            InputError: it has no tokens and `blank` is "error", or more than `max_tokens`; unless
                `on_error` is "skip".
        """
        if n_tokens == 0:
            return self._admits_blank(line)
        if n_tokens > self.settings.max_tokens:
            limit = self.settings.max_tokens
            self.refuse(
                line,
                f"{n_tokens} tokens, more than the limit of {limit}",
                f"split the line, or `--max-sentence-length {n_tokens}` if memory allows it",
            )
            return False
        return True

    def refuse(self, line: int, what: str, hint: str, place: str = "") -> None:
        """Raise an InputError that names the line (from 1), or note it with `on_error` "skip"."""
        if self.settings.on_error == "stop":
            raise InputError(f"{self.name}, line {line}{place}: {what}", hint)
        self.notes.skipped.append((self.name, line, what))

    def _admits_blank(self, line: int) -> bool:
        self.notes.blank_lines += 1
        if self.settings.blank == "error":
            self.refuse(
                line,
                "blank, a sentence without tokens",
                "`--blank-lines keep` gives it an empty array, `--blank-lines skip` leaves it out",
            )
        return self.settings.blank == "keep"

    def _decoded(self, line: bytes, encoding: str, number: int, offset: int) -> str | None:
        """A line as text; None if it is refused. `offset` is that of its first byte."""
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError as error:
            self.refuse(
                number,
                f"0x{line[error.start]:02X} is not {encoding.upper()}",
                _NO_TEXT if b"\0" in line else _encoding_hint(encoding),
                f", byte {offset + error.start}",
            )
            return None
        if "\0" in text:
            self.refuse(
                number,
                f"a NUL at character {text.index(chr(0)) + 1}; this is not a text",
                _NO_TEXT,
            )
            return None
        return text

    def _refuse_overlong(self, number: int) -> None:
        self.refuse(
            number,
            f"no line end within {self.max_line_bytes} bytes",
            "put one sentence on a line; `fold -s` breaks long lines",
        )

    def _blocks(self, chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes | None]]:
        """(offset, some whole lines), or (offset, None) in the place of a line over the limit."""
        pending = bytearray()
        chunk = next(chunks, b"")
        while chunk:
            start = self._received - len(chunk)
            if pending.endswith(b"\r") and not chunk.startswith(b"\n"):
                yield start - len(pending), bytes(pending)
                pending.clear()
            end = _whole_lines(chunk)
            if end:
                yield start - len(pending), bytes(pending + chunk[:end])
                pending.clear()
            pending += chunk[end:]
            if len(pending) > self.max_line_bytes:
                yield self._received - len(pending), None
                chunk = _after_line_end(chunks, held=_final_return(pending))
                pending.clear()
            else:
                chunk = b""
            chunk = chunk or next(chunks, b"")
        if pending:
            yield self._received - len(pending), bytes(pending)

    def _text_bytes(self, recode: bool) -> Iterator[bytes]:
        """The bytes of the text, of an encoding in which line ends are what they are in ASCII."""
        chunks = unpack(raw_bytes(self.name, self.notes), self.name)
        if recode:
            chunks = self._recoded(chunks)
        head, chunks = peek(chunks)
        for mark, encoding in () if recode else _WIDE_BOMS:
            if head.startswith(mark):
                raise InputError(
                    f"{self.name}: the byte order mark of {encoding}, read as "
                    f"{self.settings.encoding.upper()}",
                    f"add `--encoding {encoding.lower()}`",
                )
        self._check_mark(head, recode)
        if head.startswith(_UTF8_BOM) and (recode or self.settings.encoding == "utf-8"):
            self.notes.warn("mark", f"{self.name}: begins with a byte order mark, left out")
            self._received += len(_UTF8_BOM)
            chunks = chain([next(chunks)[len(_UTF8_BOM) :]], chunks)
        for chunk in filter(None, chunks):
            self._received += len(chunk)
            yield chunk

    def _check_mark(self, head: bytes, recode: bool) -> None:
        """Refuse a byte order mark that contradicts the encoding, and would be read as letters."""
        encoding = self.settings.encoding
        if recode and head.startswith(_TURNED_BOM):
            width = 32 if head.startswith(b"\0", len(_TURNED_BOM)) else 16
            raise InputError(
                f"{self.name}: a byte order mark with its bytes turned, read as {encoding.upper()}",
                f"give `--encoding utf-{width}`, which goes by the mark",
            )
        if not recode and encoding != "utf-8" and head.startswith(_UTF8_BOM):
            raise InputError(
                f"{self.name}: the byte order mark of UTF-8, read as {encoding.upper()}",
                "give `--encoding utf-8`",
            )

    def _recoded(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """A text of any encoding in UTF-8, so that what follows knows one kind of line end."""
        encoding = self.settings.encoding
        decoder = codecs.getincrementaldecoder(encoding)()
        n_bytes = 0
        try:
            for chunk in chain(chunks, [b""]):
                text = decoder.decode(chunk, not chunk)
                n_bytes += len(chunk)
                if text:
                    yield text.encode()
        except UnicodeError as error:
            raise InputError(
                f"{self.name}, after byte {n_bytes}: not {encoding.upper()} ({error})",
                _encoding_hint(encoding),
            ) from None


def _whole_lines(chunk: bytes) -> int:
    """Bytes of a chunk up to its last line end; a carriage return as last byte has to wait."""
    return max(chunk.rfind(b"\n"), chunk.rfind(b"\r", 0, len(chunk) - 1)) + 1


def _after_line_end(chunks: Iterator[bytes], held: bytes) -> bytes:
    """What follows the next line end, within the chunk that holds it.

    Args:
        held: a carriage return at which the chunk before ended; else nothing.
    """
    for chunk in chunks:
        chunk = held + chunk
        if found := _LINE_END.search(chunk):
            return chunk[found.end() :]
        held = _final_return(chunk)
    return b""


def _final_return(chunk: bytes | bytearray) -> bytes:
    return b"\r" if chunk.endswith(b"\r") else b""


def _based_on_ascii(encoding: str) -> bool:
    """Whether ASCII bytes always mean ASCII, so that lines may be cut before they are decoded."""
    if encoding.startswith(("iso2022", "hz")):  # escapes change what the bytes after them mean
        return False
    ascii_bytes = bytes(range(1, 128))
    try:
        return ascii_bytes.decode(encoding) == ascii_bytes.decode("ascii")
    except UnicodeError:
        return False


def _encoding_hint(encoding: str) -> str:
    if encoding == "utf-8":
        return "if the file is Latin-1, add `--encoding latin-1`"
    return f"`--encoding {encoding}` does not fit; without it the file is read as UTF-8"
