"""The moving bar of a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.text import Text


class _Text(ProgressColumn):
    """What `text` returns, as often as it is drawn."""

    def __init__(self, text: Callable[[], str]) -> None:
        super().__init__()
        self._text = text

    def render(self, task: Task) -> Text:
        return Text(self._text())


class _Bar(BarColumn):
    """A bar of the counts that a function returns, as often as it is drawn."""

    def __init__(self, counts: Callable[[], tuple[float, float | None]]) -> None:
        super().__init__()
        self._counts = counts

    def render(self, task: Task) -> ProgressBar:
        task.completed, task.total = self._counts()
        return super().render(task)


@contextmanager
def live_bar(
    text: Callable[[], str],
    counts: Callable[[], tuple[float, float | None]],
    *,
    console: Console,
) -> Iterator[None]:
    """Draw a bar ten times per second until the work is over.

    Args:
        text: what stands next to the bar.
        counts: units that are done, and in all if that is known.
    """
    columns = (_Bar(counts), _Text(text), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task("", total=None)
        yield
