"""The progress bar of a terminal, drawn by rich; `console` imports it when it is shown."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, RenderableColumn
from rich.table import Column
from rich.text import Text

from elmo_cli.messages import duration

_WIDTH = 40  # columns of a wide terminal
_MIN_WIDTH = 10  # columns of a narrow one
_REDRAWS_PER_S = 4


class ProgressBar:
    """A bar with a text on the last line of a terminal, which disappears at the end.

    Args:
        text: called with the number of columns that are free, returns a text that fits if it can be
            shortened that far; without characters that control a terminal.
        total: as in `update`.
    """

    def __init__(self, text: Callable[[int], str], total: float | None) -> None:
        self._text = text
        self._start_s = time.monotonic()
        self._console = Console(stderr=True)
        bar_column = BarColumn(bar_width=None, table_column=Column(max_width=_WIDTH))
        text_column = RenderableColumn(
            self,  # rendered each time the line is drawn: see `__rich__`
            table_column=Column(no_wrap=True, overflow="ellipsis"),
        )
        self._progress = Progress(
            bar_column,
            text_column,
            console=self._console,
            refresh_per_second=_REDRAWS_PER_S,
            transient=True,
        )
        self._progress.add_task("", total=total)
        self._progress.start()

    def update(self, done: float, total: float | None) -> None:
        """Set the completed and the total number of units; None if the total is unknown."""
        (task,) = self._progress.tasks
        task.completed = done
        task.total = total  # `Progress.update` cannot make it unknown again

    def stop(self) -> None:
        """Draw the bar for the last time and remove it."""
        self._progress.stop()

    def __rich__(self) -> Text:
        elapsed = f", {duration(time.monotonic() - self._start_s)} elapsed"
        width = self._console.width - _MIN_WIDTH - 1 - len(elapsed)
        # A Text object: rich would interpret a label such as [b] as markup.
        return Text(self._text(width) + elapsed)
