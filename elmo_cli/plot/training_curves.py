"""Training curves: loss, held-out perplexity and scores on dev, from the logs of runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from elmo_cli.errors import InputError, UsageError
from elmo_cli.files import StrPath
from elmo_cli.plot.figure import as_label, color_of, new_figure, plain
from elmo_cli.regular_files import check_regular, read_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HINT = "give the log.jsonl of a run"
_DASHES: dict[str, Any] = {"before": (0, (6, 3)), "after": (0, (6, 3, 1, 3))}
_LOSS = "training loss"  # title of the panel
_MEASURES = ("average", "f1", "accuracy", "pearson")  # of `elmo pretrain` and of tasks


class LossPoint(NamedTuple):
    """A training loss."""

    x: float  # tokens, or the epoch
    loss: float


class EvaluationPoint(NamedTuple):
    """An evaluation on held-out text or dev."""

    x: float  # tokens, or the epoch
    step: int  # or the epoch
    value: float  # perplexity or score


class BestEvaluation(NamedTuple):
    """Which evaluation is marked, and why."""

    number: int  # from 0
    reason: str  # "chosen", or "lowest" if no choice is recorded


class EndPerplexity(NamedTuple):
    """A perplexity before or after fine-tuning."""

    perplexity: float
    text: str  # that it was measured on


@dataclass
class TrainingCurve:
    """The log of a run."""

    name: str  # of its folder, or of the file
    unit: str  # "tokens" for a language model, "epoch" for a task model
    losses: list[LossPoint] = field(default_factory=list)
    evaluations: list[EvaluationPoint] = field(default_factory=list)
    measure: str = ""  # what was evaluated
    is_sampled: bool = False  # whether losses are those of the sampled softmax
    ends: dict[str, EndPerplexity] = field(default_factory=dict)  # "before" and "after"
    chosen_step: int | None = None  # 0 for the weights before training, None if not recorded

    @property
    def is_of_task(self) -> bool:
        """Whether the run trains a task model, not a language model."""
        return self.unit == "epoch"

    @property
    def best(self) -> BestEvaluation:
        """The evaluation of the weights that were kept; or the lowest one, if none is known."""
        values = [evaluation.value for evaluation in self.evaluations]
        steps = [evaluation.step for evaluation in self.evaluations]
        if self.is_of_task:
            return BestEvaluation(values.index(max(values)), "chosen")
        if self.chosen_step is not None and self.chosen_step in steps:
            return BestEvaluation(steps.index(self.chosen_step), "chosen")
        return BestEvaluation(values.index(min(values)), "lowest")

    def add(self, line: Any) -> None:
        """Add a line of the log; raise an error that is not an ElmoError if it is invalid."""
        x = float(line[self.unit])
        step = float(line["epoch" if self.is_of_task else "step"])
        if "loss" in line:
            self.losses.append(LossPoint(x, float(line["loss"])))
            if line.get("sampled_softmax"):
                self.is_sampled = True
        values = line["dev"] if self.is_of_task else line.get("heldout")
        if values is not None:
            measure = _measure_of(values)
            self.measure = f"{measure} on dev" if self.is_of_task else "held-out perplexity"
            self.evaluations.append(EvaluationPoint(x, int(step), float(values[measure])))

    def add_record(self, record: Any) -> None:
        """Add what finetune.json states; before a run ends there is no result."""
        with suppress(LookupError, TypeError, ValueError, AttributeError):
            result = record["result"]
            self.ends["before"] = _end_perplexity(record["before"])
            self.ends["after"] = _end_perplexity(result["after"])
            self.chosen_step = int(result["chosen"]["step"])


def _measure_of(values: Any) -> str:
    """Return the name of the value that is drawn: a known measure, otherwise the first."""
    names = list(values)
    for measure in _MEASURES:
        if measure in names:
            return measure
    return str(names[0])


def _end_perplexity(state: Any) -> EndPerplexity:
    perplexity = float(state["perplexity"]["average"])
    return EndPerplexity(perplexity, str(state.get("text", "held-out text")))


def read_run(path: Path, record: Path | None = None) -> TrainingCurve:
    """Read the log of `elmo pretrain`, `elmo finetune` or `elmo train`.

    Args:
        record: the file in the folder of a run that has the results of fine-tuning, if it exists;
            None if the log is not in such a folder.
    Raises:
        InputError: there is no such file, it is empty, or a line is not of a log.
    """
    check_regular(path, InputError)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read as a log ({reason})", _HINT, where=path) from None
    name = path.stem if record is None else record.resolve().parent.name
    counts_tokens = not lines or '"tokens"' in lines[0]
    run = TrainingCurve(name, "tokens" if counts_tokens else "epoch")
    for number, line in enumerate(lines, 1):
        try:
            run.add(json.loads(line))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            where = f"{path}, line {number}"
            raise InputError("not a line of a training log", _HINT, where=where) from None
    if not run.losses and not run.evaluations:
        raise InputError("has no loss yet", "wait for the first line of the run", where=path)
    if not run.is_of_task and record is not None and record.exists():
        run.add_record(read_json(record, InputError, "give the folder of another run"))
    return run


def draw_training_curves(runs: Sequence[TrainingCurve], path: StrPath) -> None:
    """Draw losses, and perplexities or scores, of some runs into one .png, .svg or .pdf file.

    All losses share one panel, and all scores of the same kind share another one.

    Raises:
        UsageError: some runs are of language models, others of task models.
        OutputError, ElmoError: as `new_figure`.
    """
    if len({run.unit for run in runs}) > 1:
        names = ", ".join(plain(run.name) for run in runs)
        problem = "some are runs of language models, others of task models"
        raise UsageError(problem, "plot them separately", where=names)
    unit = runs[0].unit
    panels = _panels(runs)
    end = _last_x(runs)
    with new_figure(path, 5.5 * len(panels), 4.4) as figure:
        from matplotlib.ticker import EngFormatter

        for number, panel in enumerate(panels, 1):
            axes = figure.add_subplot(1, len(panels), number, title=as_label(panel))
            for run_number, run in enumerate(runs):
                label = _label(run) if number == 1 else None  # the legend is shared
                _draw_curve(axes, run, panel, label, color_of(run_number))
            axes.set(xlabel=unit, xlim=(-0.03 * end, 1.03 * end))
            axes.xaxis.set_major_formatter(EngFormatter())  # shows 20000000 as 20 M
            axes.locator_params(axis="x", integer=True)
            axes.grid(alpha=0.3)
            axes.margins(y=0.15)
        figure.legend(ncols=2, loc="outside lower center")


def _panels(runs: Sequence[TrainingCurve]) -> list[str]:
    """Return the titles of the panels: the loss, and each measure once."""
    measures = dict.fromkeys(run.measure for run in runs if run.evaluations)
    has_losses = any(run.losses for run in runs)
    return [_LOSS, *measures] if has_losses else list(measures)


def _last_x(runs: Sequence[TrainingCurve]) -> float:
    """Return the greatest position of a point; 1 if it is 0, because an axis has a length."""
    positions = [point.x for run in runs for point in run.losses]
    positions += [point.x for run in runs for point in run.evaluations]
    end = max(positions)
    return end if end else 1.0


def _label(run: TrainingCurve) -> str:
    name = as_label(run.name)
    return f"{name} (loss of the sampled softmax)" if run.is_sampled else name


def _draw_curve(axes: Axes, run: TrainingCurve, panel: str, label: str | None, color: str) -> None:
    """Draw the losses or evaluations of a run; an empty curve has its label too."""
    x: list[float] = []
    y: list[float] = []
    if panel == _LOSS:
        x = [point.x for point in run.losses]
        y = [point.loss for point in run.losses]
    elif panel == run.measure:
        x = [point.x for point in run.evaluations]
        y = [point.value for point in run.evaluations]
    axes.plot(x, y, color=color, label=label, marker=".", markersize=4)
    if panel == run.measure and run.evaluations:
        _mark_best(axes, run, color)


def _mark_best(axes: Axes, run: TrainingCurve, color: str) -> None:
    """Mark the evaluation of the weights that were kept, and `run.ends`."""
    best = run.evaluations[run.best.number]
    at = f"{'epoch' if run.is_of_task else 'step'} {best.step:,}"
    axes.plot(
        best.x,
        best.value,
        color=color,
        zorder=3,
        label=f"{run.best.reason}, {at}: {best.value:,.2f}",
        marker="*",
        markersize=13,
        markeredgecolor="white",
        linestyle="",
    )
    for when, end in run.ends.items():
        label = f"{when}, on {end.text}: {end.perplexity:,.2f}"
        axes.axhline(
            end.perplexity, color=color, linewidth=0.9, label=label, linestyle=_DASHES[when]
        )
    values = [evaluation.value for evaluation in run.evaluations]
    falls_far = 0 < 4 * min(values) < max(values) < inf
    if falls_far and not run.is_of_task:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:,g}")
