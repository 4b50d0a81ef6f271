"""Similarity: cosines between the tokens of two sentences, layer by layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elmo_cli.analysis.query import no_sentence
from elmo_cli.analysis.vectors import LayerView
from elmo_cli.arrays import Float64Array
from elmo_cli.errors import UsageError
from elmo_cli.files import StrPath
from elmo_cli.plot.figure import as_label, layer_name, new_figure
from elmo_cli.plot.plane import unit_vectors
from elmo_cli.store.reader import Embeddings, open_embeddings

if TYPE_CHECKING:
    from elmo_cli.plot.inline_figure import InlineFigure

_MAX_TOKENS = 80  # of a sentence, so that each has room for its name
_MAX_NAME = 16  # characters of a token
# Sizes in inches; the largest figure is about that of a screen.
_LARGEST_CELL = 0.2  # of a token
_SMALLEST_PANEL = 1.8
_MAX_WIDTH = 16.0
_MAX_HEIGHT = 9.0
_MARGINS_WIDTH = 2.2  # of names and the color bar
_MARGINS_HEIGHT = 1.0
_TITLE_HEIGHT = 0.4  # of a panel
_LARGEST_FONT = 10.0  # points, of a name
_SMALLEST_FONT = 3.5
_FONT_PER_CELL = 61.0  # points per inch: 72, less the space between lines


@dataclass(frozen=True)
class Similarity:
    """Cosines of two sentences: (layer, row, column) float64; 0 where a vector is zero."""

    layers: list[str]
    rows: list[str]  # tokens of the first sentence, or their numbers
    columns: list[str]
    cosines: Float64Array


def read_similarity(path: StrPath, first: str, second: str) -> Similarity:
    """Compare the tokens of two sentences of a file, given their keys as a user writes them.

    Raises:
        UsageError: there is no such sentence, or it has no tokens or too many.
        EmbeddingsFileError: an array cannot be read.
    """
    with open_embeddings(path) as embeddings:
        rows, row_vectors = _sentence(embeddings, first)
        columns, column_vectors = _sentence(embeddings, second)
        return Similarity(
            layers=[layer_name(layer) for layer in embeddings.layers],
            rows=rows,
            columns=columns,
            # Without BLAS, whose threads may fail to start in a process with limited memory.
            cosines=np.einsum("lrd,lcd->lrc", row_vectors, column_vectors),
        )


def _sentence(embeddings: Embeddings, name: str) -> tuple[list[str], Float64Array]:
    """Return the names of the tokens of a sentence, and unit vectors, (layer, token, dim)."""
    views = [LayerView(embeddings, layer) for layer in embeddings.layers]
    first_view = views[0]
    first_view.check_per_token()
    key = first_view.find_key(name)
    if key is None:
        hint = f"`elmo kwic {first_view.path} WORD` lists sentences with keys"
        raise no_sentence(first_view, name, hint)
    vectors = unit_vectors(np.stack([view.vectors(key) for view in views]))
    n_tokens = vectors.shape[1]
    if not 0 < n_tokens <= _MAX_TOKENS:
        problem = f"sentence {name} has {n_tokens:,} tokens"
        hint = f"name a sentence of 1 to {_MAX_TOKENS} tokens"
        raise UsageError(problem, hint, where=first_view.path)
    tokens = first_view.tokens(key)
    if not tokens:  # they are not stored
        return [str(number) for number in range(n_tokens)], vectors
    return list(tokens), vectors


def draw_similarity(shown: Similarity) -> InlineFigure:
    """Draw a matrix of cosines per layer, on one color scale; raises the errors of `new_figure`."""
    n_layers, n_rows, n_columns = shown.cosines.shape
    panel_grid = _largest_grid(n_layers, n_rows, n_columns)
    panel_width = max(_SMALLEST_PANEL, panel_grid.cell_width * n_columns)
    panel_height = max(_SMALLEST_PANEL, panel_grid.cell_height * n_rows)
    panels_width = panel_grid.n_wide * panel_width
    panels_height = panel_grid.n_high * (panel_height + _TITLE_HEIGHT)
    width = min(_MAX_WIDTH, panels_width + _MARGINS_WIDTH)
    height = min(_MAX_HEIGHT, panels_height + _MARGINS_HEIGHT)
    rows = [as_label(name, _MAX_NAME) for name in shown.rows]
    columns = [as_label(name, _MAX_NAME) for name in shown.columns]
    lowest = min(0.0, float(shown.cosines.min()))
    with new_figure(width, height) as figure:
        panels = figure.subplots(
            panel_grid.n_high, panel_grid.n_wide, squeeze=False, sharex=True, sharey=True
        )
        for axes in panels.flat[n_layers:]:
            axes.set_visible(False)
        for number, axes in enumerate(panels.flat[:n_layers]):
            cosines = shown.cosines[number]
            is_lowest = number + panel_grid.n_wide >= n_layers
            image = axes.imshow(cosines, vmin=lowest, vmax=1, cmap="Blues", aspect="auto")
            axes.set_title(shown.layers[number])
            axes.set_xticks(range(n_columns), columns, rotation=90)
            axes.set_yticks(range(n_rows), rows)
            column_size = _font_size(panel_grid.cell_width)
            axes.tick_params(axis="x", labelsize=column_size, labelbottom=is_lowest)
            axes.tick_params(axis="y", labelsize=_font_size(panel_grid.cell_height))
            axes.tick_params(length=0)
        figure.colorbar(image, ax=panels, label="cosine", aspect=25)
    return figure


class _PanelGrid(NamedTuple):
    """How the panels of the layers are arranged, and the size of a cell of a panel in inches."""

    n_wide: int
    n_high: int
    cell_width: float
    cell_height: float


def _largest_grid(n_layers: int, n_rows: int, n_columns: int) -> _PanelGrid:
    """The arrangement with the largest cells; of equal ones, that with the most panels in a row."""
    grids = []
    for n_wide in range(n_layers, 0, -1):
        n_high = math.ceil(n_layers / n_wide)
        room_width = (_MAX_WIDTH - _MARGINS_WIDTH) / n_wide
        room_height = (_MAX_HEIGHT - _MARGINS_HEIGHT) / n_high - _TITLE_HEIGHT
        grid = _PanelGrid(
            n_wide=n_wide,
            n_high=n_high,
            cell_width=min(_LARGEST_CELL, room_width / n_columns),
            cell_height=min(_LARGEST_CELL, room_height / n_rows),
        )
        grids.append(grid)
    return max(grids, key=lambda grid: min(grid.cell_width, grid.cell_height))


def _font_size(cell: float) -> float:
    """The size in points of names that are `cell` inches apart."""
    return max(_SMALLEST_FONT, min(_LARGEST_FONT, _FONT_PER_CELL * cell))
