"""From a file, a pipe or standard input to decoded lines; what is not text is refused."""

from __future__ import annotations

import codecs
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, cast

from elmo_cli.errors import InputError
from elmo_cli.filetypes import GZIP, XZ, identify
from elmo_cli.messages import plural
from elmo_cli.text.input_report import InputReport
from elmo_cli.text.input_settings import InputSettings

STDIN = "-"
_CHUNK_BYTES = 1 << 14  # that are read at a time: progress is measured by them
_PACKED_BYTES = 1 << 12  # that are decompressed at a time: xz can make 40 MB of them
_HEAD_BYTES = 16  # that are waited for before a file is identified
_MAX_LINE_BYTES = 64 << 20  # a file without line ends must not fill the memory

_DECOMPRESSORS: dict[object, Callable[[], Any]] = {
    GZIP: partial(zlib.decompressobj, 16 + zlib.MAX_WBITS),
    XZ: partial(lzma.LZMADecompressor, lzma.FORMAT_XZ),
}
_ENCODING_HINT = (
    "convert it to UTF-8, or give its encoding, such as `encoding='latin-1'` or `encoding='utf-16'`"
)
_MAC_HINT = "in old Mac files it ends lines: `tr '\\r' '\\n' < FILE > NEW_FILE`"


class LineError(Exception):
    """A line that does not fit its format, raised by the code that reads rows or objects.

    It is not an `ElmoError`, because it does not know the name of the file, and need not end the
    run: the reader of the format passes it on to `LineReader.reject`, which raises an InputError or
    skips the line, as `on_error` says.

    Attributes:
        problem: what is wrong, as in an `ElmoError`.
        hint: what to do; "" where the reader of the format adds its own.
        line: its number from 1; 0 where only the reader of the format knows it.
        parameters: settings that the hint says to change.
    """

    def __init__(
        self,
        problem: str,
        hint: str = "",
        *,
        line: int = 0,
        parameters: tuple[str, ...] = (),
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        self.line = line
        self.parameters = parameters


class LineReader:
    """The lines of a file, a pipe, or standard input ("-"), each yielded or refused.

    Attributes:
        path: of the file.
        name: what messages call the file, by default its path.
        settings, report: as of `read_sentences`.
        column_parameter: what messages call `settings.column`.
    """

    def __init__(
        self,
        path: str,
        settings: InputSettings,
        report: InputReport,
        *,
        name: str | None = None,
        column_parameter: str = "column",
    ) -> None:
        self.path = path
        self.name = path if name is None else name
        self.settings = settings
        self.report = report
        self.column_parameter = column_parameter
        self._lines = self._read_lines()

    def of_column(self, column: int | None, lines: Iterator[str | None]) -> LineReader:
        """A reader of another column of the file, from a copy of its lines."""
        settings = replace(self.settings, column=column)
        reader = LineReader(
            self.path,
            settings,
            InputReport(),
            name=self.name,
            column_parameter=self.column_parameter,
        )
        reader._lines = lines
        return reader

    def where(self, line: int) -> str:
        """The file and a line of it, from 1, for messages."""
        return f"{self.name}, line {line}"

    def lines(self) -> Iterator[str | None]:
        """Yield the lines without their ends; None for a line that was refused.

        Lines end at a line feed, with or without a carriage return before it, and nowhere else, not
        at U+2028, U+0085 or a form feed. A byte order mark at the start of a line is removed.

        Raises:
            InputError: a file that can't be read, a line of more than 64 MiB; unless `on_error` is
                "skip" also a line that can't be decoded, or contains a NUL or a carriage return.
        """
        return self._lines

    def _read_lines(self) -> Iterator[str | None]:
        chunks = read_chunks(self.path, self.report)
        encoding = self.settings.encoding
        if not _extends_ascii(encoding):
            chunks = self._recoded(chunks, encoding)
            encoding = "utf-8"
        number = 0
        for number, line in enumerate(_split(self._without_bom(chunks, encoding)), 1):
            if len(line) > _MAX_LINE_BYTES:
                problem = f"no line end within {_MAX_LINE_BYTES} bytes"
                hint = "give a text; `fold -s` breaks long lines"
                raise InputError(problem, hint, where=self.where(number))
            try:
                text = line.decode(encoding).removeprefix("\ufeff")  # `cat` keeps all marks
            except UnicodeDecodeError as error:
                byte = f"0x{line[error.start]:02X} at byte {error.start + 1}"
                problem = f"{byte} is not {encoding.upper()}"
                self.reject(number, problem, _ENCODING_HINT, ("encoding",))
                yield None
            else:
                yield self._checked(text, number) if "\r" in text or "\0" in text else text
        if number == 0:
            self.report.warn("empty", f"{self.name}: empty, without any line")

    def admit(self, n_tokens: int, line: int) -> bool:
        """Whether a sentence of `n_tokens` tokens, which begins at `line`, is to be yielded.

        If it is longer than `max_tokens`, or blank with `blank` "error", it is rejected.
        """
        max_tokens = self.settings.max_tokens
        if 0 < n_tokens <= max_tokens:
            return True
        if n_tokens > max_tokens:
            hint = "split the sentence, or raise the limit (`max_tokens`)"
            problem = f"more than {plural(max_tokens, 'token')}"
            self.reject(line, problem, hint, ("max_tokens",))
            return False
        self.report.blank_lines += 1
        if self.settings.blank == "error":
            hint = "`blank='keep'` gives it an empty array, `blank='skip'` leaves it out"
            self.reject(line, "blank, a sentence without tokens", hint, ("blank",))
        return self.settings.blank == "keep"

    def reject(self, line: int, problem: str, hint: str, parameters: tuple[str, ...] = ()) -> None:
        """Raise an InputError that names the line, from 1; with `on_error` "skip" report it.

        Args:
            parameters: settings that the hint says to change.
        """
        if self.settings.on_error == "stop":
            raise InputError(problem, hint, where=self.where(line), parameters=parameters)
        self.report.skipped.append((self.name, line, problem))

    def _recoded(self, chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
        """The same text in UTF-8."""
        try:
            for piece in codecs.iterdecode(chunks, encoding):
                yield piece.encode()
        except UnicodeError as error:
            problem = f"not {encoding.upper()} ({error})"
            raise InputError(
                problem, _ENCODING_HINT, where=self.name, parameters=("encoding",)
            ) from None

    def _without_bom(self, chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
        """The text without a byte order mark; one that contradicts `encoding` is refused."""
        head = next(chunks, b"")
        has_utf8_mark = head.startswith(codecs.BOM_UTF8)
        has_swapped_mark = head.startswith("\ufffe".encode())  # UTF-16 in the other byte order
        if has_swapped_mark or (has_utf8_mark and encoding != "utf-8"):
            problem = f"`encoding={self.settings.encoding!r}` contradicts the byte order mark"
            marked = "utf-8" if has_utf8_mark else "utf-16"
            hint = f"`encoding={marked!r}`"
            raise InputError(problem, hint, where=self.name, parameters=("encoding",))
        yield head.removeprefix(codecs.BOM_UTF8)
        yield from chunks

    def _checked(self, text: str, number: int) -> str | None:
        """A line without a carriage return at its end; None if it is refused."""
        text = text.removesuffix("\r")
        if "\0" in text:
            position = text.index("\0") + 1
            problem = f"a NUL at character {position}"
            self.reject(number, problem, _ENCODING_HINT, ("encoding",))
            return None
        if "\r" in text:
            position = text.index("\r") + 1
            self.reject(number, f"a carriage return at character {position}", _MAC_HINT)
            return None
        return text


def read_chunks(name: str, report: InputReport) -> Iterator[bytes]:
    """The bytes of a text, decompressed if its first bytes say gzip or xz.

    Raises:
        InputError: it can't be opened, is a known kind of file other than text, or its compressed
            data is corrupt.
    """
    head, chunks = _peek(_raw_chunks(name, report))
    new_decompressor = _DECOMPRESSORS.get(identify(head))
    if new_decompressor is not None:
        head, chunks = _peek(_decompressed(chunks, new_decompressor, name))
    other_kind = identify(head)
    if other_kind is not None:
        within = " in compressed data" if new_decompressor else ""
        hint = other_kind.hint.replace("FILE", name, 1)
        raise InputError(f"{other_kind.name}{within}, not a text", hint, where=name)
    return chunks


def unreadable(path: str, error: OSError | ValueError) -> InputError:
    """The error for a file that can't be opened or read."""
    if isinstance(error, FileNotFoundError):
        return InputError("no such file", "check the name and the working directory", where=path)
    reason = getattr(error, "strerror", None) or error
    return InputError(f"can't be read ({reason})", "check the name and the disk", where=path)


def _extends_ascii(encoding: str) -> bool:
    """Whether ASCII bytes always mean ASCII, so that lines may be split before decoding."""
    ascii_bytes = bytes(range(1, 128))
    if encoding.startswith(("iso2022", "hz")):  # escapes change the meaning of the bytes after them
        return False
    return ascii_bytes.decode(encoding, "replace") == ascii_bytes.decode("ascii")


def _split(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of a text without their ends; one that is too long is the last."""
    rest = bytearray()
    for chunk in chunks:
        *lines, last = chunk.split(b"\n")
        if lines:
            lines[0] = bytes(rest) + lines[0]
            rest.clear()
            yield from lines
        rest += last
        if len(rest) > _MAX_LINE_BYTES:
            break
    if rest:
        yield bytes(rest)


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
    # Another process may have made it non-blocking, where an empty read is not the end.
    with suppress(OSError):  # not a stream of the system
        os.set_blocking(stream.fileno(), True)
    return stream.read1(_CHUNK_BYTES)


def _peek(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes (16 or more, if there are as many), and all chunks nevertheless."""
    head = b""
    while len(head) < _HEAD_BYTES:
        chunk = next(chunks, b"")
        if not chunk:
            break
        head += chunk
    return head, chain([head], chunks) if head else chunks


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
