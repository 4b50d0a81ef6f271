"""What a person sees: progress on stderr if it is a terminal, plain lines when it is not."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TextIO, cast

import click

from elmo_cli.errors import ElmoError, OutputError

if TYPE_CHECKING:
    from rich.console import Console

_LINE_EVERY_S = 15.0
_PRINTED = "`> FILE` takes what is printed"
_ELSEWHERE = "`> FILE` on a disk with space left takes what is printed"


def err() -> Console:
    """The console on stderr: progress, messages, warnings."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def out() -> Console:
    """The console on stdout: tables and other answers."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not is_terminal(sys.stdout))


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person is at the other end; a stream that was closed before is None."""
    return stream is not None and stream.isatty()


@contextmanager
def binary_stdout(option: str = "-o FILE") -> Iterator[BinaryIO]:
    """Standard output for bytes, flushed at the end.

    Args:
        option: what writes a file instead.
    Raises:
        OutputError: it is closed, or its disk is full.
        BrokenPipeError: its reader has gone.
    """
    hint = f"`{option}` writes a file"
    check_stdout(hint)
    with _writing_stdout(hint):
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()


def check_stdout(hint: str = _PRINTED) -> None:
    """Refuse, before any work, to print a result where nobody can read it.

    Raises:
        OutputError: standard output is closed; what is printed would be lost without a word.
    """
    if sys.stdout is None:
        raise OutputError("standard output: is closed", hint)


class _Stdout:
    """Standard output, whose errors say so: those of the system do not name what has failed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with _writing_stdout(_ELSEWHERE):
            return self._stream.write(text)

    def flush(self) -> None:
        with _writing_stdout(_ELSEWHERE):
            self._stream.flush()


@contextmanager
def named_stdout() -> Iterator[None]:
    """Within it an error of standard output names it, whoever prints: click and rich do too.

    Names of files go out byte for byte; they need not be UTF-8.
    """
    if sys.stdout is None:
        yield
        return
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="surrogateescape")
    with redirect_stdout(cast(TextIO, _Stdout(sys.stdout))):
        yield


@contextmanager
def _writing_stdout(hint: str) -> Iterator[None]:
    """Say of what the system says about a stream that it is standard output."""
    try:
        yield
    except (ElmoError, BrokenPipeError):
        raise
    except OSError as error:
        if error.filename is not None:
            raise
        raise OutputError(
            f"standard output: can't be written ({error.strerror or error})", hint
        ) from None


def in_plain_words(message: str) -> str:
    """What click says of a value, without its words for types and its last full stop."""
    for types, word in (("integer range", "whole number"), ("float range", "number")):
        message = message.replace(f"a valid {types}", f"a {word}")
    return message.rstrip(".")


def note(message: str, *, quiet: bool = False) -> None:
    """One line on stderr."""
    if not quiet:
        click.echo(message, err=True)


def counted(n: int, what: str) -> str:
    """So many of something: "1 sentence", "1,200 sentences"."""
    return f"{n:,} {what}" + "s" * (n != 1)


class Bar(Protocol):
    """Something that moves."""

    def advance(self, n: float) -> None:
        """So much further."""


class _Line:
    """A line every so often, for logs and pipes."""

    def __init__(self, total: float | None, unit: str, done: float) -> None:
        self._total, self._unit, self._done = total, unit, done
        self._before, self._begun = done, time.monotonic()
        self._said = self._begun

    def advance(self, n: float) -> None:
        self._done += n
        now = time.monotonic()
        if now - self._said < _LINE_EVERY_S:
            return
        self._said = now
        rate = (self._done - self._before) / (now - self._begun)
        of = ""
        if self._total:
            left_s = max(0.0, self._total - self._done) / rate if rate else 0.0
            of = f" of {self._total:,.0f} ({self._done / self._total:.0%}), {left_s:,.0f} s left"
        note(f"{self._done:,.0f} {self._unit}{of}, {rate:,.0f} {self._unit}/s")


class _Silence:
    def advance(self, n: float) -> None:
        return


@contextmanager
def bar(total: float | None, unit: str, *, done: float = 0, quiet: bool = False) -> Iterator[Bar]:
    """A moving bar on a terminal, plain lines elsewhere, nothing when `quiet`.

    Args:
        total: units in all; None if unknown.
        unit: "tokens", "bytes", ….
        done: units that were done before.
    """
    if quiet:
        yield _Silence()
    elif not is_terminal(sys.stderr):
        yield _Line(total, unit, done)
    else:
        from elmo_cli.cli.live import live_bar

        with live_bar(total, unit, done, console=err()) as moving:
            yield moving


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout: ruled on a terminal, tab-separated in a pipe."""
    if not is_terminal(sys.stdout):
        for row in (columns, *rows):
            click.echo("\t".join(row))
        return
    from rich.table import Table

    ruled = Table(title=title or None, box=None, pad_edge=False)
    for column in columns:
        ruled.add_column(column, overflow="fold")
    for row in rows:
        ruled.add_row(*row)
    out().print(ruled)
