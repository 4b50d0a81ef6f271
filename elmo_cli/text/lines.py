"""From a file, a pipe or standard input to decoded lines; what is not text is refused."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from elmo_cli.errors import InputError
from elmo_cli.filetypes import FASTA, FileType, identify_lines
from elmo_cli.messages import plural, shortened
from elmo_cli.text.chunks import read_chunks
from elmo_cli.text.control_characters import describe, is_refused_in_utf8, pattern_for_lines
from elmo_cli.text.encodings import (
    ENCODING_HINT,
    extends_ascii,
    hint_for_bytes,
    hint_for_character,
    is_one_byte,
    utf8_characters,
)
from elmo_cli.text.input_report import InputReport, SkippedLine
from elmo_cli.text.input_settings import MAX_TOKENS, InputSettings

_MAX_LINE_BYTES = 64 << 20  # a file without line ends must not fill the memory
_LONG_LINE_HINT = "`fold -s` breaks long lines"


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
        settings, report: those of `read_sentences`.
        expected: what the file may be besides text; any other known data are refused.
    """

    def __init__(self, path: str, settings: InputSettings, report: InputReport) -> None:
        self.path = path
        self.settings = settings
        self.report = report
        self.expected: FileType | None = None
        self._decoded: Iterator[str | None] = self._read_lines()
        self._lines: Iterator[str | None] = self._without_other_data()

    def where(self, line: int) -> str:
        """The file and a line of it, from 1, for messages."""
        return f"{self.path}, line {line}"

    def lines(self) -> Iterator[str | None]:
        """Yield the lines without their ends; None for a line that was refused.

        Lines end at a line feed, with or without a carriage return before it, and nowhere else, not
        at U+2028, U+0085 or a form feed. Byte order marks at the start of a line are removed.

        Raises:
            InputError: a file that can't be read, a line of more than 64 MiB, or a file whose first
                lines are of another program; unless `on_error` is "skip" also a line that can't be
                decoded, or contains a character of `control_characters`.
        """
        return self._lines

    def is_fasta(self) -> bool:
        """Whether the first two lines are those of FASTA; call it before `lines`, which has both.

        Nothing is read after a blank first line: a pipe may keep the next one waiting.
        """
        head = list(islice(self._decoded, 1))
        if head:
            head += self._second_line(head[0])
        self._decoded = chain(head, self._decoded)
        return _kind_of_lines(head) is FASTA

    def peek(self) -> str:
        """The first line, which `lines` yields nevertheless; "" if it is missing or refused."""
        first = list(islice(self._lines, 1))
        if not first:
            return ""
        self._lines = chain(first, self._lines)
        return first[0] or ""

    def _read_lines(self) -> Iterator[str | None]:
        chunks = read_chunks(self.path, self.report)
        encoding = self.settings.encoding
        refused = pattern_for_lines(is_one_byte=is_one_byte(encoding))
        if not extends_ascii(encoding):
            chunks = self._recoded(chunks, encoding)
            encoding = "utf-8"
        blocks = _whole_lines(self._without_bom(chunks, encoding))
        if is_one_byte(encoding):
            raw_lines = chain.from_iterable(block.split(b"\n") for block in blocks)
            blocks = self._compared_with_utf8(raw_lines, encoding)
        n_read = 0
        for block in blocks:
            lines = _decode_together(block) if encoding == "utf-8" else None
            if lines is not None:  # nearly always, and much faster
                yield from lines
                n_read += len(lines)
            else:
                raw_lines_of_block = block.split(b"\n")
                yield from self._decode_each(raw_lines_of_block, n_read + 1, encoding, refused)
                n_read += len(raw_lines_of_block)
        if n_read == 0:
            self.report.warn("empty", f"{self.path}: empty, without any line")

    def _decode_each(
        self, raw_lines: Sequence[bytes], first: int, encoding: str, refused: re.Pattern[str]
    ) -> Iterator[str | None]:
        """Yield lines as `lines` does, of which the first has the number `first`."""
        for number, line in enumerate(raw_lines, first):
            if len(line) > _MAX_LINE_BYTES:
                problem = f"no line end within {_MAX_LINE_BYTES} bytes"
                raise InputError(
                    problem, f"give a text; {_LONG_LINE_HINT}", where=self.where(number)
                )
            try:
                text = line.decode(encoding).lstrip("\ufeff")  # `cat` keeps all marks
            except UnicodeDecodeError as error:
                byte = f"0x{line[error.start]:02X} at byte {error.start + 1}"
                problem = f"{byte} is not {encoding.upper()}"
                hint = hint_for_bytes(line, encoding)
                self.reject(number, problem, hint.text, hint.parameters)
                yield None
                continue
            # Nearly all lines are printable, apart from tabs; this is much faster than the search.
            if text.isprintable() or text.replace("\t", " ").isprintable():
                yield text
                continue
            text = text.removesuffix("\r")
            found = refused.search(text)
            if found is None:
                yield text
                continue
            problem = f"{describe(found[0])} at character {found.start() + 1}"
            hint = hint_for_character(found[0], text, encoding)
            self.reject(number, problem, hint.text, hint.parameters)
            yield None

    def admit(self, n_tokens: int, line: int) -> bool:
        """Whether a sentence of `n_tokens` tokens, which begins at `line`, is to be yielded.

        A sentence longer than `max_tokens` is rejected, and so is a blank one if `blank` is
        "error".
        """
        max_tokens = self.settings.max_tokens
        if 0 < n_tokens <= max_tokens:
            return True
        if n_tokens > max_tokens:
            problem = f"more than {plural(max_tokens, 'token')}"
            if max_tokens == MAX_TOKENS:
                self.reject(line, problem, f"split the sentence: {_LONG_LINE_HINT}")
            else:
                hint = "split the sentence, or raise the limit (`max_tokens`)"
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
        self.report.skipped.append(SkippedLine(self.path, line, problem))

    def _without_other_data(self) -> Iterator[str | None]:
        """Yield the decoded lines; an InputError if the first nonblank one is of other data."""
        for number, line in enumerate(self._decoded, 1):
            if line is None or not line.strip():
                yield line
                continue
            following = self._second_line(line)
            kind = _kind_of_lines([line, *following])
            if kind is not None and kind is not self.expected:
                problem = f"{kind.name}, not a text"
                raise InputError(problem, kind.hint, where=self.where(number))
            yield line
            yield from following
            break
        yield from self._decoded

    def _second_line(self, first: str | None) -> list[str | None]:
        """The line after the first one; none at the end, or if nothing is recognized by it.

        Only FASTA is recognized by two lines, and a pipe may keep the second one waiting.
        """
        is_needed = first is not None and first.startswith(">")
        return list(islice(self._decoded, 1)) if is_needed else []

    def _compared_with_utf8(self, lines: Iterator[bytes], encoding: str) -> Iterator[bytes]:
        """Yield the same lines; warn of the first one outside ASCII that is valid UTF-8.

        In an encoding with one byte per character, two bytes can be one character of UTF-8 by
        chance. After a line that is not valid UTF-8, a line therefore needs two such characters.
        """
        n_needed = 1  # characters of UTF-8 outside ASCII
        for number, line in enumerate(lines, 1):
            if not line.isascii():
                characters = utf8_characters(line)
                if len(characters) >= n_needed:
                    shown = shortened(characters, 10)
                    problem = f"read as {encoding}, but its bytes are valid UTF-8 (`{shown}`)"
                    hint = "`encoding='utf-8'` reads them"
                    self.report.warn("utf-8", f"{self.where(number)}: {problem}; {hint}")
                    yield line
                    break
                n_needed = 2
            yield line
        yield from lines

    def _recoded(self, chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
        """The same text in UTF-8."""
        try:
            for piece in codecs.iterdecode(chunks, encoding):
                yield piece.encode()
        except UnicodeError as error:
            problem = f"not {encoding.upper()} ({error})"
            hint = ENCODING_HINT
            raise InputError(
                problem, hint.text, where=self.path, parameters=hint.parameters
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
            raise InputError(problem, hint, where=self.path, parameters=("encoding",))
        yield head.removeprefix(codecs.BOM_UTF8)
        yield from chunks


def _kind_of_lines(head: Sequence[str | None]) -> FileType | None:
    """The type of other data that begin with these one or two lines; None for text."""
    texts = [line or "" for line in head]
    return identify_lines(*texts) if texts else None


def _decode_together(block: bytes) -> list[str] | None:
    """The lines of a block of UTF-8 without their ends; None if they have to be read one by one.

    They have to be if one may be refused, or contains a byte order mark.
    """
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").removesuffix(b"\r")
    if len(block) > _MAX_LINE_BYTES or is_refused_in_utf8(block):
        return None
    try:
        return block.decode().split("\n")
    except UnicodeDecodeError:
        return None


def _whole_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the text in blocks of whole lines, each without the end of its last line.

    A line that is too long ends the text.
    """
    rest = bytearray()
    for chunk in chunks:
        complete, line_end, last = chunk.rpartition(b"\n")
        if line_end:
            yield bytes(rest) + complete
            rest.clear()
        rest += last
        if len(rest) > _MAX_LINE_BYTES:
            break
    if rest:
        yield bytes(rest)
