"""Console output: messages, results, tables and progress, without control characters."""

from __future__ import annotations

import json
import math
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self, TextIO

import click

from elmo_cli.cli.printable import printable as printable
from elmo_cli.cli.printable import printable_rows
from elmo_cli.cli.running_command import RunningCommand
from elmo_cli.errors import OutputError, SkippedError, UsageError
from elmo_cli.files import StrPath, check_distinct, check_output_path, write_text
from elmo_cli.messages import duration, plural, without_secrets

if TYPE_CHECKING:
    from elmo_cli.cli.progress_bar import ProgressBar
    from elmo_cli.text.input import InputReport

_LINE_EVERY_S = 15.0  # lines of progress in a log
_LOADING_S = 0.5  # a shorter time is not announced on a terminal
_LOADING_IN_LOG_S = 15.0  # a shorter time is not announced elsewhere
_SHORTEST_S = 1e-9  # of the time between two updates, which may be zero
_ENCODING_ERRORS = "surrogateescape"  # for file names, which are written byte for byte


running = RunningCommand()  # set where the command starts


def with_options(text: str) -> str:
    """Name options of the running command in a message, as `RunningCommand.with_options`."""
    return running.with_options(text)


def option_names() -> dict[str, str]:
    """The longest name of each option of the running command, by the name of its parameter."""
    return running.option_names()


def alert(*lines: str) -> None:
    """Print lines of text on stderr, also if `--quiet` is given.

    URLs are printed without user names, passwords and queries.
    If the reader of a pipe has ended (`elmo … 2>&1 | head`), the run continues without them.
    """
    with suppress(BrokenPipeError):
        for line in lines:
            shown = without_secrets(running.without_typed_secrets(line))
            click.echo(printable(shown), err=True)


def note(*lines: str) -> None:
    """Print lines of text on stderr, unless `--quiet` is given."""
    if not running.quiet:
        alert(*lines)


def warn(*messages: str) -> None:
    """Print warnings on stderr, unless `--quiet` is given."""
    note(*(f"warning: {with_options(message)}" for message in messages))


def say(*lines: str) -> None:
    """Print lines of text for people on stdout."""
    for line in lines:
        _print(printable(line))


def print_result(facts: Any, show: Callable[[], None] = lambda: None) -> None:
    """Print the result of a command: one line of JSON for `--json`, else what `show` prints.

    In JSON, a number that is not finite becomes null, and a value of a type that JSON lacks becomes
    a string, because attributes that other programs wrote may have any type.
    """
    if running.as_json:
        _print(json.dumps(_finite(facts), allow_nan=False, default=str))
    else:
        show()


def _print(line: str) -> None:
    check_stdout()
    click.echo(line)


def check_stdout() -> None:
    """Raise an OutputError if standard output is closed, where click would print nothing."""
    if sys.stdout is None:
        hint = "`> FILE` saves the result in a file"
        raise OutputError("is closed", hint, where="standard output")


def _finite(fact: Any) -> Any:
    """Replace the numbers that are not finite, also within lists and dicts, by None."""
    if isinstance(fact, Mapping):
        return {name: _finite(value) for name, value in fact.items()}
    if isinstance(fact, (list, tuple)):
        return [_finite(value) for value in fact]
    if isinstance(fact, float) and not math.isfinite(fact):
        return None
    return fact


def print_row(cells: Iterable[object]) -> None:
    """Print tab-separated cells as a line on stdout."""
    _print("\t".join(map(printable, cells)))


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; None is one that was closed at startup."""
    return stream is not None and stream.isatty()


def has_piped_input() -> bool:
    """Return whether standard input is a pipe or a file."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # closed, or not a file of the system
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


@contextmanager
def binary_stdout() -> Iterator[BinaryIO]:
    """Open standard output for binary data and flush it at the end."""
    check_stdout()
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def check_output(output: str, inputs: Iterable[StrPath], *, overwrite: bool) -> None:
    """Refuse, before any work, an output that is one of the inputs or cannot be written."""
    if output == "-" and overwrite:
        raise UsageError("has no effect for standard output", "leave it out", where="--overwrite")
    check_distinct(output, inputs)
    if output != "-":
        check_output_path(output, overwrite=overwrite)


def write_lines(output: str, lines: Iterable[str], *, overwrite: bool) -> str:
    """Write lines (with ends) in UTF-8 to a file or, for "-", to stdout; return its name.

    Control characters are escaped only if stdout is a terminal.
    """
    return write_parts(output, [lines], overwrite=overwrite)


def write_parts(output: str, parts: Iterable[Iterable[str]], *, overwrite: bool) -> str:
    """Write the lines of all parts like `write_lines`; stdout is flushed after each part."""
    if output == "-":
        to_terminal = is_terminal(sys.stdout)
        with binary_stdout() as stdout:
            for lines in parts:
                shown = map(printable_rows, lines) if to_terminal else lines
                stdout.writelines(line.encode(errors=_ENCODING_ERRORS) for line in shown)
                stdout.flush()
        return "standard output"
    lines = chain.from_iterable(parts)
    write_text(output, lines, overwrite=overwrite, errors=_ENCODING_ERRORS)
    return output


def print_truncated(report: InputReport) -> None:
    """Print how many tokens the model truncates."""
    first = report.first_truncated
    if first is None:
        return
    n_cut = plural(report.truncated_tokens, "token")
    warn(
        f"cut {n_cut} to the length that the model reads; the first is {first.token!r} "
        f"({first.source}, line {first.line})"
    )


def exit_if_skipped(*reports: InputReport, lists: Sequence[str] = ()) -> None:
    """Raise a SkippedError (exit code 3) if lines were skipped; the files `lists` list them."""
    skipped = [line for report in reports for line in report.skipped]
    if not skipped:
        return
    first = skipped[0]
    count = "1 line was" if len(skipped) == 1 else f"{len(skipped):,} lines were"
    advice = f"listed in {', '.join(lists)}" if lists else "`--on-error stop` stops at the first"
    raise SkippedError(
        f"{count} left out, the first {first.source}, line {first.line}: {first.reason}",
        f"all others are done; {advice}",
    )


class _Reading(NamedTuple):
    """The number of completed units at a time of `time.monotonic`, in seconds."""

    done: float
    time_s: float


class ProgressDisplay:
    """Show progress: a bar on a terminal, elsewhere a line every 15 s.

    Args:
        total: total number of units; if None, nothing is shown before the first `update`.
        unit: "tokens", "bytes", …; "" shows the label alone.
        rate, is_estimate: expected units per second at first; whether totals are estimates.
    Attributes:
        label, unit: what is done in the present phase, and in what it is counted.
        done, total: completed units of the phase, and all of them; None if unknown.
        is_shown: whether there has been an update.
        poll: returns the completed units of a phase, for one that nobody updates.
    """

    def __init__(
        self, total: float | None, unit: str, *, rate: float = 0.0, is_estimate: bool = False
    ) -> None:
        self.is_shown = False
        self._expected_rate = rate
        self._is_estimate = is_estimate
        self._stack = ExitStack()
        self._bar: ProgressBar | None = None
        self.begin("", unit, total)

    def __enter__(self) -> Self:
        if self.total is not None:
            self.update(0, self.total)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def advance(self, n: float) -> None:
        """Add completed units."""
        self.update(self.done + n, self.total)

    def begin(self, label: str, unit: str, total: float | None = None) -> None:
        """Begin to show another phase of the same run."""
        self.label = label
        self.done = 0.0
        self.total = total
        self.poll: Callable[[], float] | None = None
        self.unit = unit
        self._detail = ""
        self._first: _Reading | None = None  # of this phase
        self._last: _Reading | None = None
        if self._bar is not None:
            self._bar.update(0, total)

    def update(self, done: float, total: float | None, detail: str = "") -> None:
        """Set the completed and the total number of units; None if the total is unknown."""
        self.done = done
        self.total = total
        self._detail = detail
        self._last = _Reading(done, time.monotonic())
        if self._first is None:
            self._first = self._last
        if not self.is_shown:
            self.is_shown = True
            if not running.quiet and is_terminal(sys.stderr):
                self._show_bar()
            elif not running.quiet:
                self._start_lines()
        if self._bar is not None:
            self._bar.update(done, total)

    def text(self, width: float = math.inf) -> str:
        """Return label, counts, rate, time left and detail, shortened to `width` if possible."""
        poll = self.poll  # once: another thread may remove it
        if poll is not None:
            self.update(poll(), self.total)
        if not self.unit:
            versions = [[self.label, self._detail], [self.label]]
        else:
            rate = self._rate()
            speed = f"{rate:,.0f} {self.unit}/s" if rate else ""
            time_left = self._time_left(rate)
            counts = self._counts()
            brief = self._percentage() or counts
            versions = [
                [self.label, counts, speed, time_left, self._detail],
                [self.label, brief, speed, time_left, self._detail],
                [self.label, brief, speed, time_left],
                [brief, speed, time_left],
            ]
        for parts in versions:
            text = ", ".join(part for part in parts if part)
            if len(text) <= width:
                break
        return text

    def _counts(self) -> str:
        counts = f"{self.done:,.0f} {self.unit}"
        if not self.total:
            return counts
        about = "about " if self._is_estimate else ""
        return f"{counts} of {about}{self.total:,.0f} ({self._percentage()})"

    def _percentage(self) -> str:
        if not self.total:
            return ""
        return f"{min(1.0, self.done / self.total):.0%}"

    def _rate(self) -> float:
        """Units per second since the first update; the expected rate until there is a second."""
        first = self._first
        last = self._last
        if first is None or last is None or last.done == first.done:
            return self._expected_rate
        return (last.done - first.done) / max(_SHORTEST_S, last.time_s - first.time_s)

    def _time_left(self, rate: float) -> str:
        last = self._last
        if last is None or not self.total or not rate:
            return ""
        since_update_s = time.monotonic() - last.time_s
        left_s = (self.total - self.done) / rate - since_update_s
        return f"{duration(left_s)} left" if left_s >= 1 else ""

    def _has_news(self) -> bool:
        """Whether a line would say more than that a phase has begun: a count, or a long wait."""
        if self._first is None:  # no update so far
            return False
        age_s = time.monotonic() - self._first.time_s
        return self.done > 0 or not self.unit or age_s >= _LINE_EVERY_S

    def _show_bar(self) -> None:
        from elmo_cli.cli.progress_bar import ProgressBar

        def printable_text(width: int) -> str:
            return printable(self.text(width))

        self._bar = ProgressBar(printable_text, self.total)
        self._stack.callback(self._bar.stop)

    def _start_lines(self) -> None:
        is_over = threading.Event()

        def print_lines() -> None:
            while not is_over.wait(_LINE_EVERY_S):
                text = self.text()
                if self._has_news():
                    note(text)

        thread = threading.Thread(target=print_lines, daemon=True)
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(is_over.set)  # before the other


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Print "loading" and `what` if the body of the `with` takes long.

    On a terminal, half a second is long. In a log, where the line stays, only a time is long after
    which the command seems to hang.
    """
    seconds = _LOADING_S if is_terminal(sys.stderr) else _LOADING_IN_LOG_S
    timer = threading.Timer(seconds, note, [f"loading {what}"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
