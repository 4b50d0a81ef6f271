"""Bytes to decoded lines; lines that are not text are refused."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator

from elmo_cli.errors import InputError
from elmo_cli.text.input_settings import InputReport, InputSettings
from elmo_cli.text.text_bytes import CHUNK_BYTES, open_text

# A file without line ends must not fill the memory; `max_tokens` may ask for longer lines.
MAX_LINE_BYTES = 64 << 20
_MAX_LINE_BYTES_ASKED = 256 << 20
_MAX_SKIPPED_BYTES = 1 << 30  # of one line; an endless one must come to an end

# The longer mark first: that of UTF-32 begins with that of UTF-16.
_WIDE_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_REVERSED_BOM = "\ufffe".encode()
_NOT_TEXT = "give a text file; for UTF-16 without a byte order mark add `encoding='utf-16-le'`"

ReadLine = Callable[[int], bytes]


class LineReader:
    """The lines of one file, pipe or standard input, each yielded or refused.

    Args:
        name: path of a file or a pipe, or "-" for standard input.
        settings: how it is to be read.
        report: receives bytes read, blank lines, skipped lines, a byte order mark.
    """

    def __init__(self, name: str, settings: InputSettings, report: InputReport) -> None:
        self.name = name
        self.settings = settings
        self.report = report
        asked = min(64 * settings.max_tokens, _MAX_LINE_BYTES_ASKED)
        self.max_line_bytes = max(MAX_LINE_BYTES, asked)
        self._number = 0

    def lines(self) -> Iterator[str | None]:
        """Yield the lines without their ends; None for a line that was refused.

        Lines end at a line feed, with or without a carriage return before it, and nowhere else:
        U+2028, U+0085, form feeds and the like are characters of their lines. A byte order mark at
        the start is removed. One line at a time is in memory.

        Raises:
            InputError: a file that can't be opened or decompressed, or an encoding not based on
                ASCII that does not fit; unless `on_error` is "skip" also a line that can't be
                decoded, contains a NUL or a carriage return, or is longer than `max_line_bytes`.
        """
        readline, encoding = self._open()
        limit = self.max_line_bytes + 1
        first = readline(limit)
        line = self._without_bom(first, encoding)
        offset = len(first) - len(line)  # of the line, in bytes after decompression
        while line:
            self._number += 1
            n_bytes = len(line)
            if n_bytes >= limit and not line.endswith(b"\n"):
                n_bytes += self._skip_line(readline)
                yield None
            else:
                try:
                    text = line.decode(encoding).rstrip("\n")
                except UnicodeDecodeError as error:
                    self._reject_bytes(line, error, offset)
                    yield None
                else:
                    yield self._checked(text) if "\r" in text or "\0" in text else text
            offset += n_bytes
            line = readline(limit)
        if not self._number:
            self.report.warn("empty", f"{self.name}: empty, without any line")

    def admit(self, n_tokens: int, line: int) -> bool:
        """Whether a sentence of `n_tokens` tokens, which begins at `line`, is to be yielded.

        Raises:
            InputError: it has no tokens and `blank` is "error", or more than `max_tokens`; unless
                `on_error` is "skip".
        """
        limit = self.settings.max_tokens
        if 0 < n_tokens <= limit:
            return True
        if n_tokens == 0:
            return self._admit_blank(line)
        self.reject(
            line,
            f"{n_tokens} tokens, more than `max_tokens={limit}`",
            f"split the sentence, or `max_tokens={n_tokens}` if there is enough memory",
        )
        return False

    def reject(self, line: int, what: str, hint: str, position: str = "") -> None:
        """Raise an InputError that names the line, from 1; with `on_error` "skip" report it."""
        if self.settings.on_error == "stop":
            raise InputError(f"{self.name}, line {line}{position}: {what}", hint)
        self.report.skipped.append((self.name, line, what))

    def _admit_blank(self, line: int) -> bool:
        self.report.blank_lines += 1
        if self.settings.blank == "error":
            self.reject(
                line,
                "blank, a sentence without tokens",
                "`blank='keep'` gives it an empty array, `blank='skip'` leaves it out",
            )
        return self.settings.blank == "keep"

    def _open(self) -> tuple[ReadLine, str]:
        """A function that reads a line with its end as bytes, and the encoding of these bytes."""
        encoding = self.settings.encoding
        stream = open_text(self.name, self.report)
        if _extends_ascii(encoding):
            return stream.readline, encoding
        text = io.TextIOWrapper(stream, encoding, newline="\n")

        def readline(limit: int) -> bytes:
            try:
                return text.readline(limit).encode()
            except UnicodeError as error:
                raise InputError(
                    f"{self.name}, after line {self._number}: not {encoding.upper()} ({error})",
                    _encoding_hint(encoding),
                ) from None

        return readline, "utf-8"

    def _without_bom(self, line: bytes, encoding: str) -> bytes:
        """The first line without a byte order mark; a mark that contradicts `encoding` is refused.

        It would be read as letters otherwise.
        """
        given = self.settings.encoding
        for mark, other in _WIDE_BOMS:
            if line.startswith(mark):
                raise self._bom_error(f"of {other.upper()}", other)
        if given != encoding and line.startswith(_REVERSED_BOM):
            raise self._bom_error("in the other byte order", given.rpartition("-")[0])
        if not line.startswith(codecs.BOM_UTF8):
            return line
        if encoding != "utf-8":
            raise self._bom_error("of UTF-8", "utf-8")
        self.report.warn("mark", f"{self.name}: begins with a byte order mark, which is removed")
        return line.removeprefix(codecs.BOM_UTF8)

    def _bom_error(self, which: str, encoding: str) -> InputError:
        return InputError(
            f"{self.name}: a byte order mark {which}, read as {self.settings.encoding.upper()}",
            f"add `encoding={encoding!r}`",
        )

    def _reject_bytes(self, line: bytes, error: UnicodeDecodeError, offset: int) -> None:
        self.reject(
            self._number,
            f"0x{line[error.start]:02X} is not {self.settings.encoding.upper()}",
            _NOT_TEXT if b"\0" in line else _encoding_hint(self.settings.encoding),
            f", byte {offset + error.start}",
        )

    def _checked(self, text: str) -> str | None:
        """A line without a carriage return at its end; None if it is refused."""
        text = text.removesuffix("\r")
        if "\0" in text:
            what = f"a NUL at character {text.index(chr(0)) + 1}; this is not text"
            self.reject(self._number, what, _NOT_TEXT)
            return None
        if "\r" in text:
            self.reject(
                self._number,
                f"a carriage return at character {text.index(chr(13)) + 1}, inside the line",
                "if it ends a line, as in old Mac files: `tr '\\r' '\\n' < FILE > NEW_FILE`",
            )
            return None
        return text

    def _skip_line(self, readline: ReadLine) -> int:
        """Refuse a line over the limit and read on to its end; return the bytes read."""
        self.reject(
            self._number,
            f"no line end within {self.max_line_bytes} bytes",
            "put one sentence on each line; `fold -s` breaks long lines",
        )
        n_bytes = 0
        while rest := readline(CHUNK_BYTES):
            n_bytes += len(rest)
            if rest.endswith(b"\n"):
                break
            if n_bytes > _MAX_SKIPPED_BYTES:
                raise InputError(
                    f"{self.name}, line {self._number}: no line end within {n_bytes} bytes",
                    "give a text file",
                )
        return n_bytes


def _extends_ascii(encoding: str) -> bool:
    """Whether ASCII bytes always mean ASCII, so that lines may be split before decoding."""
    if encoding.startswith(("iso2022", "hz")):  # escapes change the meaning of the bytes after them
        return False
    ascii_bytes = bytes(range(1, 128))
    try:
        return ascii_bytes.decode(encoding) == ascii_bytes.decode("ascii")
    except UnicodeError:
        return False


def _encoding_hint(encoding: str) -> str:
    if encoding == "utf-8":
        return "if the file is Latin-1, add `encoding='latin-1'`"
    return f"`encoding={encoding!r}` does not fit; without it the file is read as UTF-8"
