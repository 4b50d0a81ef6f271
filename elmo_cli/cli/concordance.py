"""A concordance: tokens among their neighbours in the sentence, one below the other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from elmo_cli.cli.console import is_terminal, out, print_row, printable


class Line(NamedTuple):
    """A token in its sentence.

    Attributes:
        cosine: or what the line is.
        position: in the file.
        before, token, after: the text.
    """

    cosine: str
    position: str
    before: str
    token: str
    after: str


def print_concordance(groups: Sequence[Sequence[Line]], *, with_cosine: bool) -> None:
    """Lines on stdout, group after group: ruled on a terminal, tab-separated in a pipe."""
    first = 0 if with_cosine else 1
    names = Line._fields[first:]
    if not is_terminal(sys.stdout):
        for line in (names, *(line[first:] for group in groups for line in group)):
            print_row(line)
        return
    from rich.table import Table
    from rich.text import Text

    for group in groups:
        ruled = Table(box=None, pad_edge=False)
        for name in names:
            ruled.add_column(name, justify="right" if name == "before" else "left", overflow="fold")
        for line in group:
            # Text, or a token like [b] would be taken for rich's own.
            cells = [Text(printable(cell)) for cell in line]
            cells[Line._fields.index("token")].stylize("bold")
            ruled.add_row(*cells[first:])
        out().print(ruled)
