"""A line of a table whose cells stand between tabs."""

from __future__ import annotations

_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def tsv_line(*cells: object) -> str:
    r"""Cells as one line, with its end.

    A name of a file may hold a tab or a line end; in a cell they are \t, \n and \r, and a backslash
    is two.
    """
    return "\t".join(str(cell).translate(_ESCAPES) for cell in cells) + "\n"
