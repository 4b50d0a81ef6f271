"""Matplotlib figures in files, their colors, and labels that are shown unchanged."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_cli.errors import ElmoError, OutputError
from elmo_cli.files import StrPath, new_file
from elmo_cli.messages import plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colors, which color-blind readers can distinguish, without yellow and black.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
GRAY = "#777777"
_DPI = 150
_MISSING_GLYPH = re.compile(r"Glyph (\d+) .*missing from")  # a warning of matplotlib
_MOST_GLYPHS = 5  # in a warning
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
        _check_installed("bokeh", "bokeh", path)
    else:
        _check_installed("matplotlib", "matplotlib", path)
    if of_tokens:
        _check_installed("scikit-learn", "sklearn", path)
    return suffix[1:]


def _check_installed(library: str, module: str, path: StrPath) -> None:
    try:
        import_module(module)
    except ImportError:
        hint = "`pip install '.[plot]'` in a clone"
        raise ElmoError(f"{library} is not installed", hint, where=path) from None


@contextmanager
def new_figure(path: StrPath, width: float, height: float) -> Iterator[Figure]:
    """Open a figure, its size in inches, and write it to a file at the end.

    Equal figures give equal bytes. If the font lacks characters, matplotlib draws a box for each,
    and a UserWarning names them.

    Raises:
        OutputError, ElmoError: the file cannot be written; or as `check_format`.
    """
    suffix = check_format(path)
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_SETTINGS), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)  # it measures texts, for all formats
        yield figure
        with new_file(path) as file:
            figure.savefig(file, dpi=_DPI, format=suffix, metadata=_METADATA.get(suffix))
    _warn_again(caught, path)


def _warn_again(caught: Iterable[warnings.WarningMessage], path: StrPath) -> None:
    """Repeat the warnings, but join those about characters that the font lacks."""
    missing: list[str] = []
    for warning in caught:
        glyph = _MISSING_GLYPH.match(str(warning.message))
        if glyph is not None:
            character = chr(int(glyph[1]))
            if character not in missing:
                missing.append(character)
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    if missing:
        shown = " ".join(missing[:_MOST_GLYPHS])
        problem = f"the font lacks {plural(len(missing), 'character')} ({shown}), drawn as boxes"
        hint = "`font.family` in a matplotlibrc file names a font that has them"
        warnings.warn(f"{path}: {problem}; {hint}", UserWarning, stacklevel=2)


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
