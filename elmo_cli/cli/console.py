"""What a person sees: progress on stderr if it is a terminal, plain lines when it is not."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

import click

from elmo_cli.errors import ElmoError, OutputError

if TYPE_CHECKING:
    from rich.console import Console

_LINE_EVERY_S, _LOADING_S = 15.0, 0.5
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


def duration(seconds: float) -> str:
    """Seconds as a person reads them: "12 s", "3 min 20 s", "2 h 5 min"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


class Bar:
    """How far some work is, its rate and the time left.

    Args:
        total: units in all; None if unknown.
        unit: "tokens", "bytes", ….
        done: units that were done before.
        rate: units per second that are expected until the first ones are done.
        is_estimate: whether the total is one.
    """

    def __init__(
        self, total: float | None, unit: str, done: float, rate: float, is_estimate: bool
    ) -> None:
        self.total, self.done, self._unit = total, done, unit
        self._before, self._expected, self._is_estimate = done, rate, is_estimate
        self._start_s = self._updated_s = time.monotonic()

    def advance(self, n: float) -> None:
        """Count units that are done."""
        self.update(self.done + n, self.total)

    def update(self, done: float, total: float | None) -> None:
        """Set how many units are done, of how many."""
        self.done, self.total, self._updated_s = done, total, time.monotonic()

    def rate(self) -> float:
        """Units per second; 0 if unknown."""
        n_done = self.done - self._before
        return n_done / max(1e-9, self._updated_s - self._start_s) if n_done else self._expected

    def text(self) -> str:
        """The state in words: counts, rate, time left."""
        rate, of, left = self.rate(), "", ""
        if self.total:
            about = "about " * self._is_estimate
            of = f" of {about}{self.total:,.0f} ({min(1.0, self.done / self.total):.0%})"
            if rate:
                waited_s = time.monotonic() - self._updated_s
                left = f", {duration((self.total - self.done) / rate - waited_s)} left"
        speed = f", {rate:,.0f} {self._unit}/s" if rate else ""
        return f"{self.done:,.0f} {self._unit}{of}{speed}{left}"


@contextmanager
def bar(
    total: float | None,
    unit: str,
    *,
    done: float = 0,
    rate: float = 0.0,
    is_estimate: bool = False,
    quiet: bool = False,
) -> Iterator[Bar]:
    """A moving bar on a terminal, a line every 15 s elsewhere, nothing if `quiet`; see `Bar`."""
    state = Bar(total, unit, done, rate, is_estimate)
    if quiet:
        yield state
    elif is_terminal(sys.stderr):
        from elmo_cli.cli.live import live_bar

        with live_bar(state.text, lambda: (state.done, state.total), console=err()):
            yield state
    else:
        with _every(_LINE_EVERY_S, lambda: note(state.text())):
            yield state


@contextmanager
def loading(*, quiet: bool) -> Iterator[None]:
    """Print "loading" if what is inside takes more than half a second."""
    with _every(_LOADING_S, lambda: note("loading", quiet=quiet), times=1):
        yield


@contextmanager
def _every(seconds: float, call: Callable[[], None], *, times: int = 1 << 62) -> Iterator[None]:
    """Call something at intervals, in a thread."""
    is_over = threading.Event()

    def repeat() -> None:
        for _ in range(times):
            if is_over.wait(seconds):
                return
            call()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


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
