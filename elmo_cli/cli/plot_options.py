"""Options shared by the commands that plot: `elmo plot` and `elmo neighbors`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from elmo_cli.cli import console
from elmo_cli.cli.click_options import FILE, Option, output_option, together
from elmo_cli.cli.options import overwrite_option, quiet_option
from elmo_cli.files import StrPath


def plot_output(formats: str = ".png, .svg or .pdf", *, required: bool = True) -> Option:
    """The options of a command that plots: the output file, and whether to replace it."""
    path = output_option("FILE", f"Plot to write: {formats}.", required=required, type=FILE)
    return together(path, overwrite_option, quiet_option)


@dataclass(frozen=True)
class PlotOptions:
    """The values of `plot_output(required=True)`."""

    output: str
    overwrite: bool


def check_plot(
    output: str, inputs: Iterable[StrPath], *, overwrite: bool, of_tokens: bool = False
) -> None:
    """Refuse, before any work, an output file that cannot be written."""
    from elmo_cli.plot.figure import check_format

    console.check_output(output, inputs, overwrite=overwrite)
    check_format(output, of_tokens=of_tokens)


@contextmanager
def plot_warnings() -> Iterator[None]:
    """Print the warnings of the body of the `with`, which draws a plot.

    An example is a character that the font lacks.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    console.warn(*(str(warning.message) for warning in caught))
