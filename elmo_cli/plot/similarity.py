"""Similarity: cosines between the tokens of two sentences, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elmo_cli.analysis.query import no_sentence
from elmo_cli.analysis.vectors import LayerView
from elmo_cli.arrays import Float64Array
from elmo_cli.errors import UsageError
from elmo_cli.files import StrPath
from elmo_cli.plot.figure import as_label, layer_name, new_figure
from elmo_cli.plot.plane import unit_vectors
from elmo_cli.store.reader import Embeddings, open_embeddings

_MAX_TOKENS = 80  # of a sentence, so that each has room for its name
_MAX_NAME = 16  # characters of a token
_CELL = 0.2  # inches, of a token
_MAX_WIDTH = 15  # inches, of panels side by side


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


def draw_similarity(shown: Similarity, path: StrPath) -> None:
    """Draw a matrix of cosines per layer, on one color scale; raises the errors of `new_figure`."""
    n_layers, n_rows, n_columns = shown.cosines.shape
    panel_width = max(1.8, _CELL * n_columns)
    panel_height = max(1.8, _CELL * n_rows)
    is_side_by_side = n_layers * panel_width <= _MAX_WIDTH
    n_wide = n_layers if is_side_by_side else 1
    n_high = 1 if is_side_by_side else n_layers
    width = n_wide * panel_width + 2.2
    height = n_high * (panel_height + 0.4) + 1
    rows = [as_label(name, _MAX_NAME) for name in shown.rows]
    columns = [as_label(name, _MAX_NAME) for name in shown.columns]
    lowest = min(0.0, float(shown.cosines.min()))
    with new_figure(path, width, height) as figure:
        grid = figure.subplots(n_high, n_wide, squeeze=False, sharex=True, sharey=True)
        for layer, cosines, axes in zip(shown.layers, shown.cosines, grid.flat, strict=True):
            image = axes.imshow(cosines, vmin=lowest, vmax=1, cmap="Blues", aspect="auto")
            axes.set_title(layer)
            axes.set_xticks(range(n_columns), columns, rotation=90, fontsize=8)
            axes.set_yticks(range(n_rows), rows, fontsize=8)
            axes.tick_params(length=0)
        figure.colorbar(image, ax=grid, label="cosine", aspect=25)
