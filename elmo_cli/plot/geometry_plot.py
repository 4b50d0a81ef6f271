"""Plots of the measures of `elmo geometry` by layer, of one file or several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_cli.errors import InputError
from elmo_cli.files import StrPath
from elmo_cli.plot.figure import GRAY, as_label, color_of, layer_name, new_figure
from elmo_cli.plot.finite_number import finite_or_nan
from elmo_cli.regular_files import INVALID_JSON, read_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from elmo_cli.plot.inline_figure import InlineFigure

_PANELS = {  # field of a layer -> title
    "anisotropy": "anisotropy",
    "self_similarity": "self-similarity",
    "sentence_similarity": "similarity to the sentence",
    "mev_uncentered": "explained variance, uncentered",
    "mev_pca": "explained variance, PCA",
    "mev_truncated_svd": "explained variance, TruncatedSVD",
}
_MARKERS = "os^DvP"
_ADJUSTED_LINE: Any = {"linestyle": "--", "markerfacecolor": "white", "linewidth": 1}
_N_COLUMNS = 3
_LEAST_TOP = 0.1  # of an axis, so that small values do not look large


@dataclass(frozen=True)
class PlottedGeometry:
    """The measures of one embeddings file.

    Attributes:
        name: of the embeddings file.
        layers: their names.
        raw, adjusted: of each panel, the values by layer; NaN where there is none. The anisotropy
            is the baseline of others and has no adjusted values.
    """

    name: str
    layers: Sequence[str]
    raw: dict[str, list[float]]
    adjusted: dict[str, list[float]]


def read_geometry(path: StrPath) -> list[PlottedGeometry]:
    """Read what `elmo geometry --json` printed, one object per embeddings file.

    Raises:
        InputError: there is no such file, or it has other contents.
    """
    hint = f"write it with `elmo geometry … --json > {path}`"
    try:
        content = read_json(path, InputError, hint)
        measured = [_plotted(file) for file in content["files"]]
        if not measured:
            raise LookupError("no files")
    except (OSError, *INVALID_JSON):
        raise InputError("not a file with the geometry of layers", hint, where=path) from None
    return measured


def _plotted(file: Any) -> PlottedGeometry:
    """Return the measures of a file; raise one of `INVALID_JSON` if they are invalid."""
    layers = file["layers"]
    if not layers:
        raise LookupError("no layers")
    raw = {"anisotropy": [finite_or_nan(layer["anisotropy"]) for layer in layers]}
    adjusted = {}
    for name in _PANELS:
        if name != "anisotropy":
            raw[name] = [finite_or_nan(layer[name]["raw"]) for layer in layers]
            adjusted[name] = [finite_or_nan(layer[name]["adjusted"]) for layer in layers]
    return PlottedGeometry(
        name=str(file["file"]),
        layers=[str(layer["name"]) for layer in layers],
        raw=raw,
        adjusted=adjusted,
    )


def draw_geometry(files: Sequence[PlottedGeometry]) -> InlineFigure:
    """Draw one panel per measure, with a line per file.

    Dashed lines with open markers show the measures minus their baselines.

    Raises:
        ElmoError: as `new_figure`.
    """
    layers = list(dict.fromkeys(layer for file in files for layer in file.layers))
    labels = _labels(files)
    with new_figure(9, 6) as figure:
        panels = figure.subplots(2, _N_COLUMNS)
        for axes, (measure, title) in zip(panels.flat, _PANELS.items(), strict=True):
            for number, (file, label) in enumerate(zip(files, labels, strict=True)):
                x = [layers.index(layer) for layer in file.layers]
                color = color_of(number)
                marker = _MARKERS[number % len(_MARKERS)]
                axes.plot(x, file.raw[measure], label=label, color=color, marker=marker)
                if measure in file.adjusted:
                    adjusted = file.adjusted[measure]
                    axes.plot(x, adjusted, color=color, marker=marker, **_ADJUSTED_LINE)
            _finish_panel(axes, title, layers)
        first_panel = panels[0, 0]
        handles, names = first_panel.get_legend_handles_labels()
        handles += first_panel.plot([], [], color=GRAY, marker="o", **_ADJUSTED_LINE)
        names.append("minus that of random tokens")
        figure.legend(handles, names, ncols=3, loc="outside lower center")
    return figure


def _finish_panel(axes: Axes, title: str, layers: Sequence[str]) -> None:
    """Set the title, the names of the layers, and limits that include 0."""
    axes.set_title(title)
    names = [layer_name(layer).replace(" ", "\n", 1) for layer in layers]
    axes.set_xticks(range(len(layers)), names)
    axes.set_xlim(-0.4, len(layers) - 0.6)
    axes.margins(y=0.1)
    has_negative = axes.dataLim.ymin < 0
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom if has_negative else 0, max(_LEAST_TOP, top))
    if has_negative:
        axes.axhline(0, color=GRAY, linewidth=0.8)
    axes.locator_params(axis="y", nbins=5)
    axes.tick_params(labelsize=9)
    axes.grid(axis="y", alpha=0.3)


def _labels(files: Sequence[PlottedGeometry]) -> list[str]:
    """Return the names of files without folders and suffix, or the paths where these repeat."""
    stems = Counter(Path(file.name).stem for file in files)
    labels = []
    for file in files:
        stem = Path(file.name).stem
        labels.append(as_label(stem if stems[stem] == 1 else file.name))
    return labels
