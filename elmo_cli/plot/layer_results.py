"""Plots of results by layer: accuracies of probes, and learned layer weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

from elmo_cli.errors import InputError, UsageError
from elmo_cli.files import StrPath
from elmo_cli.plot.figure import COLORS, GRAY, as_label, layer_name, new_figure
from elmo_cli.regular_files import read_json
from elmo_cli.store.layers import LayerSelection

_N_LAYERS = 3  # of a mix: string
_TEXT_COLORS = ("white", "black", "white", "white", "black", "black")  # on COLORS
_BASELINES = ("majority_label_per_word", "majority_label")
_STYLES: dict[str, Any] = {
    "unseen words": {"marker": "^", "linestyle": "--", "color": COLORS[1]},
    "control labels": {"marker": "s", "linestyle": ":", "color": COLORS[2]},
}
_WRONG = (OSError, LookupError, TypeError, ValueError, AttributeError, StopIteration)


class LayerWeights(NamedTuple):
    """The weights of a mix, which sum to 1, and its name."""

    name: str
    weights: tuple[float, ...]


class ProbeAccuracy(NamedTuple):
    """The accuracies of a probe on test, in percent."""

    name: str  # of the file
    layers: list[str]
    series: dict[str, list[float]]  # of the layers for "all words", …; NaN where there is none
    baseline: tuple[str, float]  # name and accuracy; it needs no vectors


def parse_mix(mix: str) -> LayerWeights:
    """Return the weights of "mix:W0,W1,W2[,GAMMA]", divided by their sum.

    Raises:
        UsageError: the number of weights is wrong, or one is negative.
    """
    weights = LayerSelection.parse(mix, range(_N_LAYERS), _N_LAYERS).weights
    if min(weights) < 0:
        hint = "give the weights of a mix, such as those of `ElmoMix.spec()`"
        raise UsageError(f"`{mix}`: a weight is negative", hint)
    return LayerWeights(mix, tuple(weight / sum(weights) for weight in weights))


def read_mixes(scores_file: Path) -> list[LayerWeights]:
    """Return the weights of all mixes of a task model, given the file with its scores.

    Raises:
        InputError: the file is not that of a task model with a mix of all layers.
    """
    folder, hint = scores_file.parent, "give the folder that `elmo train` wrote"
    try:
        mixes = read_json(scores_file, InputError, hint)["mix"]
        found = {where: tuple(map(float, mix["weights"])) for where, mix in mixes.items()}
    except _WRONG:
        raise InputError(f"{folder}: not a folder with a trained task model", hint) from None
    if not found or min(map(len, found.values())) < 2:
        what = f"{folder}: the task model has no mix of layers"
        raise InputError(what, "train one with ELMo and `elmo.layers=all`")
    name = folder.resolve().name
    names = [name if len(found) == 1 else f"{name}, {where}" for where in found]
    return list(map(LayerWeights, names, found.values()))


def draw_layer_weights(mixes: Sequence[LayerWeights], path: StrPath) -> None:
    """Draw a bar per mix, as in Peters et al. 2018, figure 2; errors as of `new_figure`."""
    rows = range(len(mixes))
    with new_figure(path, 7, 1.1 + 0.34 * max(1, len(mixes))) as figure:
        axes = figure.subplots()
        n_layers = max((len(weights) for _, weights in mixes), default=0)
        colors = zip(cycle(COLORS), cycle(_TEXT_COLORS), range(n_layers))
        for color, text_color, layer in colors:
            left = [sum(weights[:layer]) for _, weights in mixes]
            widths = [sum(weights[layer : layer + 1]) for _, weights in mixes]
            style: Any = {"left": left, "label": layer_name(layer), "color": color}
            bars: Any = axes.barh(rows, widths, 0.72, **style)
            # Narrower bars have no room for their weight.
            texts = [f"{width:.2f}" if width >= 0.07 else "" for width in widths]
            axes.bar_label(bars, texts, label_type="center", fontsize=8, color=text_color)
        axes.set_yticks(rows, [as_label(name, 40) for name, _ in mixes], fontsize=9)
        axes.invert_yaxis()
        axes.set(xlim=(0, 1), xlabel="softmax-normalized weight")
        figure.legend(ncols=4, loc="outside upper center")


def read_probe(path: StrPath) -> ProbeAccuracy:
    """Read what `elmo probe --json` printed.

    Raises:
        InputError: there is no such file, or it has other contents.
    """
    hint = f"write it with `elmo probe … --json > {path}`"
    try:
        content = read_json(path, InputError, hint)
        layers = [(layer_name(layer["name"]), layer) for layer in content["layers"]]
        series = {
            "all words": [float(layer["test"]) for _, layer in layers],
            "unseen words": [layer.get("unseen_words") for _, layer in layers],
            "control labels": [(layer.get("control") or {}).get("test") for _, layer in layers],
        }
        shown = {
            name: [nan if value is None else float(value) for value in values]
            for name, values in series.items()
            if any(value is not None for value in values)
        }
        name = next(name for name in _BASELINES if shown and content[name] is not None)
        baseline = name.replace("_", " "), float(content[name]["test"])
        return ProbeAccuracy(Path(path).stem, [name for name, _ in layers], shown, baseline)
    except _WRONG:
        raise InputError(f"{path}: not a file with the result of a probe", hint) from None


def draw_probes(probes: Sequence[ProbeAccuracy], path: StrPath) -> None:
    """Draw accuracies by layer, of several probes only on all words; errors as of `new_figure`."""
    layers = list(dict.fromkeys(layer for one in probes for layer in one.layers))
    is_alone = len(probes) == 1
    with new_figure(path, 6.4, 4.4) as figure:
        axes = figure.subplots()
        for one, color, marker in zip(probes, cycle(COLORS), cycle("os^DvP")):
            for name, values in list(one.series.items())[: None if is_alone else 1]:
                style: Any = {"label": name if is_alone else as_label(one.name)}
                style |= {"marker": marker, "color": color, **_STYLES.get(name, {})}
                axes.plot([layers.index(layer) for layer in one.layers], values, **style)
        text: Any = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center", "size": 9}
        for n, value in enumerate(probes[0].series["all words"] if is_alone else ()):
            axes.annotate(f"{value:.1f}", (n, value), **text)
        baselines = dict.fromkeys(one.baseline for one in probes)
        for (name, value), dashes in zip(baselines, cycle([(0, (6, 3)), (0, (1, 2))])):
            label = f"{name}: {value:.1f}"
            axes.axhline(value, color=GRAY, linewidth=1, linestyle=dashes, label=label)
        axes.set_xticks(range(len(layers)), layers)
        axes.set(ylabel="accuracy on test, %", xlim=(-0.5, len(layers) - 0.5))
        axes.margins(y=0.12)
        axes.grid(axis="y", alpha=0.3)
        figure.legend(ncols=2, loc="outside lower center")
