"""InlineFigure: a Matplotlib figure that notebooks show, without pyplot or a magic command."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from elmo_cli.caller_warnings import warn_caller
from elmo_cli.messages import plural

_MISSING_GLYPH = re.compile(r"Glyph (\d+) .*missing from")  # a warning of matplotlib
_MOST_GLYPHS = 5  # in a warning


class InlineFigure(Figure):
    """A figure that measures texts as in a .png file, and that a notebook shows as one.

    Args:
        kwargs: as of `Figure`.
    Attributes:
        missing: the characters that the font lacks, each once, as far as they were measured.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.missing: list[str] = []
        FigureCanvasAgg(self)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Add the characters that matplotlib warns of to `missing`; repeat other warnings.

        Matplotlib warns of a character only when it first measures the text.
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for warning in caught:
            glyph = _MISSING_GLYPH.match(str(warning.message))
            if glyph is None:
                warnings.warn_explicit(
                    warning.message, warning.category, warning.filename, warning.lineno
                )
            elif chr(int(glyph[1])) not in self.missing:
                self.missing.append(chr(int(glyph[1])))

    def warn_of_missing(self, where: str = "") -> None:
        """Issue one UserWarning about all `missing` characters, if there are any."""
        if self.missing:
            shown = " ".join(self.missing[:_MOST_GLYPHS])
            n_missing = plural(len(self.missing), "character")
            problem = f"the font lacks {n_missing} ({shown}), drawn as boxes"
            hint = "`font.family` in a matplotlibrc file names a font that has them"
            warn_caller(f"{where}: {problem}; {hint}" if where else f"{problem}; {hint}")

    def _repr_png_(self) -> bytes:
        """The picture, which IPython asks for."""
        content = io.BytesIO()
        with self.collecting():
            self.savefig(content, format="png")
        self.warn_of_missing()
        return content.getvalue()
