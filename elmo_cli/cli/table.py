"""print_table: rows for people, aligned on a terminal and tab-separated in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elmo_cli.cli import console
from elmo_cli.cli.printable import printable

if TYPE_CHECKING:
    from rich.console import JustifyMethod
    from rich.table import Table

COLUMN_GAP = 2  # spaces between two columns
_LONGEST_WHOLE_WORD = 12  # characters; a longer word of a cell is broken where space is short


@dataclass(frozen=True)
class _ShownColumn:
    """A column of a table on a terminal; widths are those of characters on a screen.

    Attributes:
        width: width of the widest cell, the heading included.
        least_width: width in which no word is broken, except for long words of cells.
    """

    heading: str
    cells: list[str]
    is_right: bool
    width: int
    least_width: int


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: str = "") -> None:
    """Print rows on stdout: tab-separated in a pipe, aligned on a terminal.

    Columns for which the terminal is too narrow follow in further tables below the first one, each
    of which begins with the same column. The column named `right` is right-aligned.
    """
    if not console.is_terminal(sys.stdout):
        for row in (columns, *rows):
            console.print_row(row)
        return
    from rich.console import Console

    terminal = Console(highlight=False)
    cells_by_column = zip(*([printable(cell) for cell in row] for row in rows), strict=True)
    cells = list(cells_by_column) or [()] * len(columns)
    described = [
        _describe(heading, list(column_cells), is_right=heading == right)
        for heading, column_cells in zip(columns, cells, strict=True)
    ]
    for n_table, group in enumerate(_groups(described, terminal.width)):
        if n_table > 0:
            terminal.print()
        terminal.print(_aligned(group, terminal.width))


def _describe(heading: str, cells: list[str], *, is_right: bool) -> _ShownColumn:
    from rich.cells import cell_len

    word_widths = [cell_len(word) for cell in cells for word in cell.split()]
    heading_widths = [cell_len(word) for word in heading.split()]
    longest_word = min(_LONGEST_WHOLE_WORD, max(word_widths, default=0))
    return _ShownColumn(
        heading=heading,
        cells=cells,
        is_right=is_right,
        width=max(map(cell_len, (heading, *cells))),
        least_width=max(longest_word, *heading_widths),
    )


def _total_width(widths: Sequence[int]) -> int:
    return sum(widths) + COLUMN_GAP * (len(widths) - 1)


def _groups(columns: list[_ShownColumn], width: int) -> list[list[_ShownColumn]]:
    """The columns of each table; the first column is in all of them."""
    if _total_width([column.width for column in columns]) <= width:
        return [columns]
    first, *others = columns
    groups = [[first]]
    for column in others:
        widths = [member.least_width for member in (*groups[-1], column)]
        if _total_width(widths) > width and len(groups[-1]) > 1:
            groups.append([first])
        groups[-1].append(column)
    return groups


def _aligned(columns: list[_ShownColumn], width: int) -> Table:
    """The table of columns; where space is short, the widest ones become narrower."""
    from rich.table import Table
    from rich.text import Text

    widths = [min(column.width, width) for column in columns]
    while _total_width(widths) > width:
        wide = [n for n, column in enumerate(columns) if widths[n] > column.least_width]
        if not wide:
            break  # rich breaks words
        widest = max(wide, key=widths.__getitem__)
        widths[widest] -= 1
    table = Table(box=None, pad_edge=False)
    for column, column_width in zip(columns, widths, strict=True):
        side: JustifyMethod = "right" if column.is_right else "left"
        table.add_column(column.heading, overflow="fold", justify=side, width=column_width)
    for cells in zip(*(column.cells for column in columns), strict=True):
        # Text objects: rich would interpret a token such as [b] as markup.
        table.add_row(*map(Text, cells))
    return table
