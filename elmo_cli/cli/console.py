"""Console output: messages, results, tables and progress, without control characters."""

from __future__ import annotations

import json
import math
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, TypeVar

import click

from elmo_cli.errors import OutputError, SkippedError
from elmo_cli.files import StrPath
from elmo_cli.messages import duration, plural

if TYPE_CHECKING:
    from rich.console import JustifyMethod, RenderableType

    from elmo_cli.text.input import InputReport

_Self = TypeVar("_Self", bound="ProgressDisplay")
_LINE_EVERY_S, _LOADING_S = 15.0, 0.5
_BAR_WIDTH, _MIN_BAR_WIDTH = 40, 10
_LINE_END = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
_PARAMETER = re.compile(r"`([a-z_]+)(?:=([^`]*))?`")
# C0 and C1 controls, which also start escape sequences; invalid UTF-8; bidi overrides.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


@dataclass
class Mode:
    """The output mode of a command, `--quiet` and `--json`, and its click context."""

    quiet: bool = False
    as_json: bool = False
    context: click.Context | None = None


mode = Mode()  # set where the command starts


def printable(text: object) -> str:
    r"""Return text on one line, without characters that control a terminal.

    File names, tokens, keys and attributes may contain any character. A line end is replaced by a
    space, and another control character by its Python escape, such as `\x1b`.
    """
    return _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], _LINE_END.sub(" ", str(text)))


def with_options(text: str) -> str:
    """Name options of the running command in a message: `overwrite=True` is `--overwrite`."""
    parameters = mode.context.command.params if mode.context else ()
    options = {one.name: max(one.opts, key=len) for one in parameters}

    def as_option(found: re.Match[str]) -> str:
        name, value = found[1], (found[2] or "").strip("'\"")
        option = options.get(name, options.get(f"label_{name}", ""))
        if not option.startswith("-"):
            return found[0]
        return f"`{option}`" if value in ("", "True") else f"`{option} {value}`"

    return _PARAMETER.sub(as_option, text)


def alert(*lines: str) -> None:
    """Print lines of text on stderr, also if `--quiet` is given."""
    for line in lines:
        click.echo(printable(line), err=True)


def note(*lines: str) -> None:
    """Print lines of text on stderr, unless `--quiet` is given."""
    if not mode.quiet:
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
    if mode.as_json:
        _print(json.dumps(_finite(facts), allow_nan=False, default=str))
    else:
        show()


def _print(line: str) -> None:
    check_stdout()
    click.echo(line)


def check_stdout() -> None:
    """Raise an OutputError if standard output is closed, where click would print nothing."""
    if sys.stdout is None:
        raise OutputError("standard output: is closed", "`> FILE` saves the result in a file")


def _finite(fact: Any) -> Any:
    if isinstance(fact, Mapping):
        return {name: _finite(value) for name, value in fact.items()}
    if isinstance(fact, (list, tuple)):
        return [_finite(value) for value in fact]
    return None if isinstance(fact, float) and not math.isfinite(fact) else fact


def print_row(cells: Iterable[object]) -> None:
    """Print tab-separated cells as a line on stdout."""
    _print("\t".join(map(printable, cells)))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: str = "") -> None:
    """Print rows on stdout: tab-separated in a pipe, aligned on a terminal.

    The column named `right` is right-aligned.
    """
    if not is_terminal(sys.stdout):
        for row in (columns, *rows):
            print_row(row)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    aligned = Table(box=None, pad_edge=False)
    for name in columns:
        side: JustifyMethod = "right" if name == right else "left"
        aligned.add_column(name, overflow="fold", justify=side)
    for row in rows:
        # A Text object: rich would interpret a token such as [b] as markup.
        aligned.add_row(*(Text(printable(cell)) for cell in row))
    Console(highlight=False).print(aligned)


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; None is one that was closed at startup."""
    return stream is not None and stream.isatty()


@contextmanager
def binary_stdout() -> Iterator[BinaryIO]:
    """Open standard output for binary data and flush it at the end."""
    check_stdout()
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def check_output(output: str, inputs: Iterable[StrPath], *, overwrite: bool) -> None:
    """Refuse, before any work, an output that is one of the inputs or cannot be written."""
    from elmo_cli.files import check_distinct, check_output_path

    check_distinct(output, inputs)
    if output != "-":
        check_output_path(output, overwrite=overwrite)


def write_lines(output: str, lines: Iterable[str], *, overwrite: bool) -> str:
    """Write lines (with ends) in UTF-8 to a file or, for "-", to stdout; return its name."""
    from elmo_cli.files import write_text

    errors = "surrogateescape"  # for file names, which are written byte for byte
    if output == "-":
        with binary_stdout() as stdout:
            stdout.writelines(line.encode(errors=errors) for line in lines)
        return "standard output"
    write_text(output, lines, overwrite=overwrite, errors=errors)
    return output


def print_truncated(report: InputReport) -> None:
    """Print how many tokens the model truncates."""
    if report.first_truncated is not None:
        token, source, line = report.first_truncated
        n_cut = plural(report.truncated_tokens, "token")
        what = f"cut {n_cut} to the length that the model reads; the first is"
        warn(f"{what} `{token}` ({source}, line {line})")


def exit_if_skipped(*reports: InputReport, lists: Sequence[str] = ()) -> None:
    """Raise a SkippedError (exit code 3) if lines were skipped; the files `lists` list them."""
    if skipped := [line for report in reports for line in report.skipped]:
        source, line, why = skipped[0]
        what = "1 line was" if len(skipped) == 1 else f"{len(skipped):,} lines were"
        message = f"{what} left out, the first {source}, line {line}: {why}"
        more = f"listed in {', '.join(lists)}" if lists else "`--on-error stop` stops at the first"
        raise SkippedError(message, f"all others are done; {more}")


class ProgressDisplay:
    """Show progress: a bar on a terminal, elsewhere a line every 15 s.

    Args:
        total: total number of units; if None, nothing is shown before the first `update`.
        unit: "tokens", "bytes", …; "" shows the label alone.
        rate, is_estimate: expected units per second at first; whether totals are estimates.
    Attributes:
        poll: returns the completed units of a phase, for one that nobody updates.
    """

    def __init__(
        self, total: float | None, unit: str, *, rate: float = 0.0, is_estimate: bool = False
    ) -> None:
        self._expected, self._is_estimate = rate, is_estimate
        self.is_shown, self._stack = False, ExitStack()
        self.begin("", unit, total)

    def __enter__(self: _Self) -> _Self:
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
        self.label, self._unit = label, unit
        self.poll: Callable[[], float] | None = None
        self.done, self.total, self._before, self._detail = 0.0, total, -1.0, ""

    def update(self, done: float, total: float | None, detail: str = "") -> None:
        """Set the completed and the total number of units; None if the total is unknown."""
        self.done, self.total, self._updated_s = done, total, time.monotonic()
        self._detail = detail
        if self._before < 0:
            self._before, self._phase_s = done, self._updated_s
        if not self.is_shown:
            self.is_shown, self._start_s = True, self._updated_s
            if not mode.quiet and is_terminal(sys.stderr):
                self._show_bar()
            elif not mode.quiet:
                self._start_lines()

    def text(self, width: float = math.inf) -> str:
        """Return label, counts, rate, time left and detail, shortened to `width` if possible."""
        if (poll := self.poll) is not None:  # another thread may remove it
            self.update(poll(), self.total)
        n_done, left = self.done - self._before if self._before >= 0 else 0, ""
        rate = n_done / max(1e-9, self._updated_s - self._phase_s) if n_done else self._expected
        counts = brief = f"{self.done:,.0f} {self._unit}"
        if self.total:
            brief = f"{min(1.0, self.done / self.total):.0%}"
            counts += f" of {'about ' * self._is_estimate}{self.total:,.0f} ({brief})"
            if rate:
                left_s = (self.total - self.done) / rate - (time.monotonic() - self._updated_s)
                left = f", {duration(left_s)} left" if left_s >= 1 else ""
        speed = f", {rate:,.0f} {self._unit}/s" if rate else ""
        long, short = (f"{one}{speed}{left}" * bool(self._unit) for one in (counts, brief))
        label, detail = self.label, self._detail
        forms = ((label, long, detail), (label, short, detail), (label, short), (short or label,))
        texts = [", ".join(filter(None, form)) for form in forms]
        return next((text for text in texts if len(text) <= width), texts[-1])

    def _start_lines(self) -> None:
        is_over = threading.Event()

        def print_lines() -> None:
            while not is_over.wait(_LINE_EVERY_S):
                if self._before >= 0:  # this phase has been updated
                    note(self.text())

        thread = threading.Thread(target=print_lines, daemon=True)
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(is_over.set)  # before the other

    def _show_bar(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        console = Console(stderr=True)

        def row() -> RenderableType:
            since = f" {duration(time.monotonic() - self._start_s)}"
            text = self.text(console.width - _MIN_BAR_WIDTH - 1 - len(since))
            cells = Table.grid(padding=(0, 1))
            cells.add_column(max_width=_BAR_WIDTH)  # a narrow terminal shortens the bar
            cells.add_column(no_wrap=True, overflow="ellipsis")
            moving = ProgressBar(self.total, self.done, pulse=not self.total)
            cells.add_row(moving, Text(printable(text + since)))
            return cells

        live = Live(get_renderable=row, console=console, transient=True)
        self._stack.enter_context(live)


@contextmanager
def loading() -> Iterator[None]:
    """Print "loading" if the body of the `with` takes more than half a second."""
    timer = threading.Timer(_LOADING_S, note, ["loading"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
