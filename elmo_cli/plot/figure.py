"""Matplotlib figures, in notebooks and in files; their colors; labels that are shown unchanged."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_cli.errors import OutputError
from elmo_cli.files import StrPath, new_file
from elmo_cli.requirements import import_program

if TYPE_CHECKING:
    from elmo_cli.plot.inline_figure import InlineFigure

# Okabe and Ito's colors, which color-blind readers can distinguish, without yellow and black.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
GRAY = "#777777"
EXTRA = "plot"  # which installs the libraries that draw
_DPI = 150
_SETTINGS: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "elmo",  # else identifiers are random
}
_METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def check_format(path: StrPath, *, of_tokens: bool = False) -> str:
    """Return the format of a plot by the suffix of its file.

    Args:
        of_tokens: the plot shows tokens in two dimensions. It may also be a page (.html), and
            requires scikit-learn.

    Raises:
        OutputError: the suffix is not that of a supported format.
        ElmoError: a library that the plot requires is not installed.
    """
    suffixes = [".html", ".png", ".svg"] if of_tokens else [".png", ".svg"]
    suffix = Path(path).suffix.lower()
    if suffix not in (*suffixes, ".pdf"):
        hint = f"end the name in {', '.join(suffixes)} or .pdf"
        raise OutputError("its suffix is not a supported plot format", hint, where=path)
    if suffix == ".html":
        import_program("bokeh", EXTRA, where=path)
    else:
        import_program("matplotlib", EXTRA, where=path)
    if of_tokens:
        import_program("sklearn", EXTRA, where=path)
    return suffix[1:]


@contextmanager
def new_figure(width: float, height: float) -> Iterator[InlineFigure]:
    """Make a figure, its size in inches, to be drawn in the body of the `with`.

    A notebook shows it where it is the value of a cell; pyplot need not be imported.

    Raises:
        ElmoError: matplotlib is not installed.
    """
    import_program("matplotlib", EXTRA)
    from matplotlib import rc_context

    from elmo_cli.plot.inline_figure import InlineFigure

    with rc_context(_SETTINGS):
        figure = InlineFigure(figsize=(width, height), layout="constrained")
        with figure.collecting():
            yield figure


def write_figure(figure: InlineFigure, path: StrPath) -> None:
    """Write a figure to a file; equal figures give equal bytes.

    If the font lacks characters, matplotlib draws a box for each, and a UserWarning names them.

    Raises:
        OutputError, ElmoError: the file cannot be written; or as `check_format`.
    """
    suffix = check_format(path)
    from matplotlib import rc_context

    content = io.BytesIO()
    with rc_context(_SETTINGS), figure.collecting():
        figure.savefig(content, dpi=_DPI, format=suffix, metadata=_METADATA.get(suffix))
    with new_file(path) as file:
        file.write(content.getbuffer())
    figure.warn_of_missing(str(path))


def color_of(number: int) -> str:
    """Return the color of a curve or a bar by its number; colors repeat."""
    return COLORS[number % len(COLORS)]


def layer_name(layer: int | str) -> str:
    """Return the name of a layer, given its number or a name such as "top"."""
    if not str(layer).isdecimal():
        return as_label(layer)
    return f"LSTM layer {layer}" if int(layer) else "token layer"


def plain(text: object, most: int = 60) -> str:
    """Return text without control characters; keep both ends if it exceeds `most` characters."""
    printable = "".join(letter if letter.isprintable() else " " for letter in str(text))
    if len(printable) <= most:
        return printable
    n_kept = most // 2  # at each end
    return f"{printable[:n_kept]}…{printable[-n_kept:]}"


def as_label(text: object, most: int = 60) -> str:
    """Return `plain` text, escaped so that matplotlib shows it unchanged.

    `$` would start a formula, and a leading `_` would hide a label of a legend.
    """
    label = plain(text, most).replace("$", r"\$")
    return f" {label}" if label.startswith("_") else label
