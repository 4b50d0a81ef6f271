"""Plots of results by layer: accuracies of probes, and learned layer weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from elmo_cli.errors import InputError, UsageError
from elmo_cli.files import StrPath
from elmo_cli.plot.figure import COLORS, GRAY, as_label, color_of, layer_name, new_figure
from elmo_cli.plot.finite_number import finite_number, finite_or_nan
from elmo_cli.regular_files import INVALID_JSON, read_json
from elmo_cli.store.layers import LayerSelection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from elmo_cli.plot.inline_figure import InlineFigure

_N_LAYERS = 3  # of a mix: string
_TEXT_COLORS = ("white", "black", "white", "white", "black", "black")  # on COLORS
_NARROWEST_WITH_TEXT = 0.07  # a bar of a smaller weight has no room for it
_BASELINES = ("majority_label_per_word", "majority_label")  # the first that was computed is drawn
_SERIES_STYLES: dict[str, Any] = {  # of a single probe
    "all words": {"marker": "o", "linestyle": "-", "color": COLORS[0]},
    "unseen words": {"marker": "^", "linestyle": "--", "color": COLORS[1]},
    "control labels": {"marker": "s", "linestyle": ":", "color": COLORS[2]},
}
_PROBE_MARKERS = "os^DvP"  # of several probes
_BASELINE_DASHES: Any = ((0, (6, 3)), (0, (1, 2)))


class LayerWeights(NamedTuple):
    """The weights of a mix, which sum to 1, and its name."""

    name: str
    weights: tuple[float, ...]


class Baseline(NamedTuple):
    """A classifier that needs no vectors, and its accuracy on test, in percent."""

    name: str
    accuracy: float


@dataclass(frozen=True)
class ProbeAccuracy:
    """The accuracies of a probe on test, in percent."""

    name: str  # of the file
    layers: list[str]
    series: dict[str, list[float]]  # of the layers for "all words", …; NaN where there is none
    baseline: Baseline


def parse_mix(mix: str) -> LayerWeights:
    """Return the weights of "mix:W0,W1,W2[,GAMMA]", divided by their sum.

    Raises:
        UsageError: the number of weights is wrong, or one is negative.
    """
    weights = LayerSelection.parse(mix, range(_N_LAYERS), _N_LAYERS).weights
    if min(weights) < 0:
        hint = "give the weights of a mix, such as those of `ElmoMix.spec()`"
        raise UsageError("a weight is negative", hint, where=f"`{mix}`")
    total = sum(weights)
    return LayerWeights(mix, tuple(weight / total for weight in weights))


def read_mixes(scores_file: Path) -> list[LayerWeights]:
    """Return the weights of all mixes of a task model, given the file with its scores.

    Raises:
        InputError: the file is not that of a task model with a mix of all layers.
    """
    folder = scores_file.parent
    hint = "give the folder that `elmo train` wrote"
    try:
        mixes = read_json(scores_file, InputError, hint)["mix"]
        weights_by_position: dict[str, tuple[float, ...]] = {}
        for position, mix in mixes.items():  # input, output or both
            weights = tuple(finite_number(weight) for weight in mix["weights"])
            if min(weights, default=0) < 0:
                raise ValueError("a weight is negative")
            weights_by_position[position] = weights
    except (OSError, *INVALID_JSON):
        problem = "not a folder with a trained task model"
        raise InputError(problem, hint, where=folder) from None
    has_layers = all(len(weights) >= 2 for weights in weights_by_position.values())
    if not weights_by_position or not has_layers:
        hint = "`elmo train --elmo all` trains one"
        raise InputError("the task model has no mix of layers", hint, where=folder)
    name = folder.resolve().name
    if len(weights_by_position) == 1:
        return [LayerWeights(name, weights) for weights in weights_by_position.values()]
    return [
        LayerWeights(f"{name}, {position}", weights)
        for position, weights in weights_by_position.items()
    ]


def draw_layer_weights(mixes: Sequence[LayerWeights]) -> InlineFigure:
    """Draw a bar per mix, as in Peters et al. 2018, figure 2; errors as of `new_figure`."""
    rows = range(len(mixes))
    n_layers = max((len(mix.weights) for mix in mixes), default=0)
    with new_figure(7, 1.1 + 0.34 * max(1, len(mixes))) as figure:
        axes = figure.subplots()
        for layer in range(n_layers):
            left = [sum(mix.weights[:layer]) for mix in mixes]
            widths = [mix.weights[layer] if layer < len(mix.weights) else 0.0 for mix in mixes]
            texts = [f"{width:.2f}" if width >= _NARROWEST_WITH_TEXT else "" for width in widths]
            style: Any = {"left": left, "label": layer_name(layer), "color": color_of(layer)}
            bars: Any = axes.barh(rows, widths, 0.72, **style)
            text_color = _TEXT_COLORS[layer % len(_TEXT_COLORS)]
            axes.bar_label(bars, texts, label_type="center", fontsize=9, color=text_color)
        axes.set_yticks(rows, [as_label(mix.name, 40) for mix in mixes])
        axes.invert_yaxis()
        axes.set(xlim=(0, 1), xlabel="softmax-normalized weight")
        figure.legend(ncols=4, loc="outside upper center")
    return figure


def read_probe(path: StrPath) -> ProbeAccuracy:
    """Read what `elmo probe --json` printed.

    Raises:
        InputError: there is no such file, or it has other contents.
    """
    hint = f"write it with `elmo probe … --json > {path}`"
    try:
        content = read_json(path, InputError, hint)
        is_structural = "structural" in content
        probe = None if is_structural else _probe_accuracy(Path(path).stem, content)
    except (OSError, *INVALID_JSON):
        raise InputError("not a file with the result of a probe", hint, where=path) from None
    if probe is None:
        problem = "the result of a structural probe, which has no accuracy"
        hint = "`elmo plot tree` draws predictions, from the file of `elmo probe … --trees FILE`"
        raise InputError(problem, hint, where=path)
    return probe


def _probe_accuracy(name: str, content: Any) -> ProbeAccuracy:
    """Return the accuracies in the content of a file; raise one of `INVALID_JSON` otherwise."""
    layers = content["layers"]
    controls = [layer.get("control") or {} for layer in layers]
    accuracies: dict[str, list[Any]] = {
        "all words": [finite_number(layer["test"]) for layer in layers],
        "unseen words": [layer.get("unseen_words") for layer in layers],
        "control labels": [control.get("test") for control in controls],
    }
    series: dict[str, list[float]] = {}
    for series_name, values in accuracies.items():
        if any(value is not None for value in values):
            series[series_name] = [finite_or_nan(value) for value in values]
    if not series:
        raise LookupError("no layers")
    return ProbeAccuracy(
        name=name,
        layers=[layer_name(layer["name"]) for layer in layers],
        series=series,
        baseline=_baseline(content),
    )


def _baseline(content: Any) -> Baseline:
    for key in _BASELINES:
        if content[key] is not None:
            return Baseline(key.replace("_", " "), finite_number(content[key]["test"]))
    raise LookupError("no baseline")


def draw_probes(probes: Sequence[ProbeAccuracy]) -> InlineFigure:
    """Draw accuracies by layer, of several probes only on all words; errors as of `new_figure`."""
    layers = list(dict.fromkeys(layer for probe in probes for layer in probe.layers))
    with new_figure(6.4, 4.4) as figure:
        axes = figure.subplots()
        if len(probes) == 1:
            _draw_series(axes, probes[0], layers)
        else:
            _compare_probes(axes, probes, layers)
        _draw_baselines(axes, probes)
        axes.set_xticks(range(len(layers)), layers)
        axes.set(ylabel="accuracy on test, %", xlim=(-0.5, len(layers) - 0.5))
        axes.margins(y=0.12)
        axes.set_ylim(bottom=0)  # otherwise small differences look large
        axes.grid(axis="y", alpha=0.3)
        figure.legend(ncols=2, loc="outside lower center")
    return figure


def _draw_series(axes: Axes, probe: ProbeAccuracy, layers: list[str]) -> None:
    """Draw all series of one probe, and the values of the first."""
    x = [layers.index(layer) for layer in probe.layers]
    for name, values in probe.series.items():
        axes.plot(x, values, label=name, **_SERIES_STYLES[name])
    style: Any = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center", "size": 9}
    for layer, value in enumerate(probe.series["all words"]):
        axes.annotate(f"{value:.1f}", (layer, value), **style)


def _compare_probes(axes: Axes, probes: Sequence[ProbeAccuracy], layers: list[str]) -> None:
    for number, probe in enumerate(probes):
        x = [layers.index(layer) for layer in probe.layers]
        marker = _PROBE_MARKERS[number % len(_PROBE_MARKERS)]
        style: Any = {"marker": marker, "color": color_of(number)}
        axes.plot(x, probe.series["all words"], label=as_label(probe.name), **style)


def _draw_baselines(axes: Axes, probes: Sequence[ProbeAccuracy]) -> None:
    """Draw a line for each baseline; probes of the same data have the same one."""
    baselines = dict.fromkeys(probe.baseline for probe in probes)
    for number, baseline in enumerate(baselines):
        label = f"{baseline.name}: {baseline.accuracy:.1f}"
        dashes = _BASELINE_DASHES[number % len(_BASELINE_DASHES)]
        axes.axhline(baseline.accuracy, color=GRAY, linewidth=1, linestyle=dashes, label=label)
