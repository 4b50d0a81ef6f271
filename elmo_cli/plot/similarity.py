"""Similarity: cosines between the tokens of two sentences, layer by layer."""

from __future__ import annotations

from typing import NamedTuple

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
_CELL, _MAX_WIDTH = 0.2, 15  # inches, of a token, and of panels side by side


class Similarity(NamedTuple):
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
        (rows, a), (columns, b) = (_sentence(embeddings, name) for name in (first, second))
        # Without BLAS, whose threads may fail to start in a process with limited memory.
        cosines = np.einsum("lad,lbd->lab", a, b)
        return Similarity(list(map(layer_name, embeddings.layers)), rows, columns, cosines)


def _sentence(embeddings: Embeddings, name: str) -> tuple[list[str], Float64Array]:
    """Return the names of the tokens of a sentence, and unit vectors, (layer, token, dim)."""
    views = [LayerView(embeddings, layer) for layer in embeddings.layers]
    view = views[0]
    view.check_per_token()
    if (key := view.find_key(name)) is None:
        raise no_sentence(view, name, f"`elmo kwic {view.path} WORD` lists sentences with keys")
    vectors = unit_vectors(np.stack([one.vectors(key) for one in views]))
    if not 0 < (n := vectors.shape[1]) <= _MAX_TOKENS:
        what = f"{view.path}: sentence {name} has {n:,} tokens"
        raise UsageError(what, f"name a sentence of 1 to {_MAX_TOKENS} tokens")
    return list(view.tokens(key) or map(str, range(n))), vectors


def draw_similarity(shown: Similarity, path: StrPath) -> None:
    """Draw a matrix of cosines per layer, on one color scale; raises the errors of `new_figure`."""
    n_layers, n_rows, n_columns = shown.cosines.shape
    width, height = max(1.8, _CELL * n_columns), max(1.8, _CELL * n_rows)
    n_wide = n_layers if n_layers * width <= _MAX_WIDTH else 1
    n_high = n_layers // n_wide
    rows, columns = ([as_label(one, 16) for one in names] for names in (shown.rows, shown.columns))
    lowest = min(0.0, float(shown.cosines.min()))
    with new_figure(path, n_wide * width + 2.2, n_high * (height + 0.4) + 1) as figure:
        grid = figure.subplots(n_high, n_wide, squeeze=False, sharex=True, sharey=True)
        for layer, cosines, axes in zip(shown.layers, shown.cosines, grid.flat, strict=True):
            image = axes.imshow(cosines, vmin=lowest, vmax=1, cmap="Blues", aspect="auto")
            axes.set_title(layer)
            axes.set_xticks(range(n_columns), columns, rotation=90, fontsize=8)
            axes.set_yticks(range(n_rows), rows, fontsize=8)
            axes.tick_params(length=0)
        figure.colorbar(image, ax=grid, label="cosine", aspect=25)
