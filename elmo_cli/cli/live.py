"""The moving bar of a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class _Rate(ProgressColumn):
    """Units a second, over the last while."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        rate = task.finished_speed or task.speed
        return Text(f"{rate:,.0f} {self._unit}/s" if rate else f"- {self._unit}/s")


@dataclass
class LiveBar:
    """A bar that `advance` moves."""

    progress: Progress
    task: TaskID

    def advance(self, n: float) -> None:
        """So much further."""
        self.progress.advance(self.task, n)


@contextmanager
def live_bar(total: float | None, unit: str, done: float, *, console: Console) -> Iterator[LiveBar]:
    """A bar on a console with rate, elapsed time and time left."""
    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%" if total else "{task.completed:,.0f}"),
        _Rate(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(unit, total=total, completed=int(done))
        yield LiveBar(progress, task)
