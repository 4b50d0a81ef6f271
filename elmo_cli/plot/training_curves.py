"""Training curves: loss, held-out perplexity and scores on dev, from the logs of runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from elmo_cli.errors import InputError, UsageError
from elmo_cli.model_folder import RECORD_FILE
from elmo_cli.plot.figure import as_label, color_of, new_figure, plain
from elmo_cli.plot.finite_number import finite_number
from elmo_cli.regular_files import INVALID_JSON, check_regular, read_json
from elmo_cli.training.run_folder import LOG_FILE, SCORES_FILE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from elmo_cli.plot.inline_figure import InlineFigure

_HINT = "give the log.jsonl of a run"
_DASHES: dict[str, Any] = {"before": (0, (6, 3)), "after": (0, (6, 3, 1, 3))}
# The values that are drawn, if a log has them: "average" of a language model, the others of tasks.
_MEASURES = ("average", "f1", "accuracy", "pearson")


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
    reason: str  # "chosen", or "lowest" or "highest" if no choice is recorded


class ReportedPerplexity(NamedTuple):
    """A perplexity before or after fine-tuning, from the results of the run."""

    perplexity: float
    text: str  # name of the text on which it was measured


@dataclass
class TrainingCurve:
    """The log of a run.

    Attributes:
        name: of its folder, or of the file.
        is_task_run: whether the run trains a task model; otherwise it trains a language model.
        measure: what was evaluated, the title of its panel; "" without evaluations.
        is_sampled: whether losses are those of the sampled softmax.
        reported_perplexities: those "before" and "after" fine-tuning.
        chosen_step: of the weights that were kept, or their epoch; 0 for the weights before
            training, None if not recorded.
    """

    name: str
    is_task_run: bool
    losses: list[LossPoint] = field(default_factory=list)
    evaluations: list[EvaluationPoint] = field(default_factory=list)
    measure: str = ""
    is_sampled: bool = False
    reported_perplexities: dict[str, ReportedPerplexity] = field(default_factory=dict)
    chosen_step: int | None = None

    @property
    def x_label(self) -> str:
        """What the horizontal axis counts."""
        return "epoch" if self.is_task_run else "tokens"

    @property
    def best(self) -> BestEvaluation:
        """The evaluation of the weights that were kept; or the best one, if none is known."""
        values = [evaluation.value for evaluation in self.evaluations]
        steps = [evaluation.step for evaluation in self.evaluations]
        if self.chosen_step is not None and self.chosen_step in steps:
            return BestEvaluation(steps.index(self.chosen_step), "chosen")
        if self.is_task_run:
            return BestEvaluation(values.index(max(values)), "highest")
        return BestEvaluation(values.index(min(values)), "lowest")

    def add(self, line: Any) -> None:
        """Add a line of the log; raise an error that is not an ElmoError if it is invalid."""
        if self.is_task_run:
            x = finite_number(line["epoch"])
            step = finite_number(line["epoch"])
            values = line["dev"]
        else:
            x = finite_number(line["tokens"])
            step = finite_number(line["step"])
            values = line.get("heldout")
        if "loss" in line:
            self.losses.append(LossPoint(x, float(line["loss"])))
            if line.get("sampled_softmax"):
                self.is_sampled = True
        if values is not None:
            measure = _measure_of(values)
            self.measure = f"{measure} on dev" if self.is_task_run else "held-out perplexity"
            self.evaluations.append(EvaluationPoint(x, int(step), float(values[measure])))

    def add_record(self, record: Any) -> None:
        """Add what finetune.json states; before a run ends there is no result."""
        with suppress(*INVALID_JSON):
            result = record["result"]
            self.reported_perplexities["before"] = _reported_perplexity(record["before"])
            self.reported_perplexities["after"] = _reported_perplexity(result["after"])
            self.chosen_step = int(result["chosen"]["step"])

    def add_scores(self, scores: Any) -> None:
        """Add what scores.json states of a task model."""
        with suppress(*INVALID_JSON):
            self.chosen_step = int(scores["best_epoch"])


def _measure_of(values: Any) -> str:
    """Return the name of the value that is drawn: a known measure, otherwise the first."""
    names = list(values)
    for measure in _MEASURES:
        if measure in names:
            return measure
    return str(names[0])


def _reported_perplexity(evaluation: Any) -> ReportedPerplexity:
    perplexity = float(evaluation["perplexity"]["average"])
    return ReportedPerplexity(perplexity, str(evaluation.get("text", "held-out text")))


def log_of(path: Path) -> Path:
    """Return the log of a run, given the folder of the run or its log."""
    return path / LOG_FILE if path.is_dir() else path


def read_run(log: Path) -> TrainingCurve:
    """Read the log of `elmo pretrain`, `elmo finetune` or `elmo train`.

    If it has the name of a log in the folder of a run, the other files of this folder state which
    evaluation was chosen. A copy of another name may be in the folder of another run.

    Raises:
        InputError: there is no such file, it is empty, or a line is not of a log.
    """
    is_in_run_folder = log.name == LOG_FILE
    check_regular(log, InputError)
    try:
        lines = log.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read as a log ({reason})", _HINT, where=log) from None
    name = log.resolve().parent.name if is_in_run_folder else log.stem
    run = TrainingCurve(name, is_task_run=False)
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
            if number == 1:
                run.is_task_run = "tokens" not in line
            run.add(line)
        except INVALID_JSON:
            where = f"{log}, line {number}"
            raise InputError("not a line of a training log", _HINT, where=where) from None
    if not run.losses and not run.evaluations:
        raise InputError("has no loss yet", "wait for the first line of the run", where=log)
    if is_in_run_folder:
        _add_results(run, log.parent)
    return run


def _add_results(run: TrainingCurve, folder: Path) -> None:
    """Add what the folder of a run states of its end, or of its best evaluation so far."""
    hint = "give the folder of another run"
    with suppress(FileNotFoundError):  # before a run ends, or for one of another kind
        if run.is_task_run:
            run.add_scores(read_json(folder / SCORES_FILE, InputError, hint))
        else:
            run.add_record(read_json(folder / RECORD_FILE, InputError, hint))


@dataclass(frozen=True)
class _Panel:
    """A part of the figure: the losses of all runs, or their evaluations by one measure."""

    title: str
    has_losses: bool


def draw_training_curves(runs: Sequence[TrainingCurve]) -> InlineFigure:
    """Draw losses, and perplexities or scores, of some runs.

    All losses share one panel, and all scores of the same kind share another one.

    Raises:
        UsageError: some runs are of language models, others of task models.
        ElmoError: as `new_figure`.
    """
    first_run = runs[0]
    if any(run.is_task_run != first_run.is_task_run for run in runs):
        names = ", ".join(plain(run.name) for run in runs)
        problem = "some are runs of language models, others of task models"
        raise UsageError(problem, "plot them separately", where=names)
    panels = _panels(runs)
    end = _last_x(runs)
    with new_figure(max(5.5, 4.2 * len(panels)), 3.8) as figure:
        from matplotlib.ticker import EngFormatter

        for number, panel in enumerate(panels, 1):
            axes = figure.add_subplot(1, len(panels), number, title=as_label(panel.title))
            for run_number, run in enumerate(runs):
                label = _label(run) if number == 1 else None  # the legend is shared
                color = color_of(run_number)
                if panel.has_losses:
                    _draw_losses(axes, run, label, color)
                else:
                    _draw_evaluations(axes, run, panel.title, label, color)
            axes.set(xlabel=first_run.x_label, xlim=(-0.03 * end, 1.03 * end))
            axes.xaxis.set_major_formatter(EngFormatter())  # shows 20000000 as 20 M
            axes.locator_params(axis="x", integer=True)
            axes.grid(alpha=0.3)
            axes.margins(y=0.15)
            if first_run.is_task_run and not panel.has_losses:
                axes.set_ylim(bottom=_bottom_of_scores(runs))
        figure.legend(ncols=2, loc="outside lower center")
    return figure


def _panels(runs: Sequence[TrainingCurve]) -> list[_Panel]:
    """Return the panels: the loss, and each measure once."""
    panels = []
    if any(run.losses for run in runs):
        panels.append(_Panel("training loss", has_losses=True))
    measures = dict.fromkeys(run.measure for run in runs if run.evaluations)
    panels += [_Panel(measure, has_losses=False) for measure in measures]
    return panels


def _last_x(runs: Sequence[TrainingCurve]) -> float:
    """Return the greatest position of a point; 1 if it is 0, because an axis has a length."""
    positions = [point.x for run in runs for point in run.losses]
    positions += [point.x for run in runs for point in run.evaluations]
    end = max(positions)
    return end if end else 1.0


def _bottom_of_scores(runs: Sequence[TrainingCurve]) -> float:
    """Return where an axis of scores begins: at 0, or lower if there is a negative correlation."""
    scores = [evaluation.value for run in runs for evaluation in run.evaluations]
    return min(0.0, 1.1 * min(filter(isfinite, scores), default=0.0))


def _label(run: TrainingCurve) -> str:
    name = as_label(run.name)
    return f"{name} (loss of the sampled softmax)" if run.is_sampled else name


def _draw_losses(axes: Axes, run: TrainingCurve, label: str | None, color: str) -> None:
    x = [point.x for point in run.losses]
    y = [point.loss for point in run.losses]
    _draw_curve(axes, x, y, label, color)


def _draw_evaluations(
    axes: Axes, run: TrainingCurve, measure: str, label: str | None, color: str
) -> None:
    """Draw the evaluations of a run; an empty curve if it has none by this measure."""
    evaluations = run.evaluations if run.measure == measure else []
    x = [point.x for point in evaluations]
    y = [point.value for point in evaluations]
    _draw_curve(axes, x, y, label, color)
    if evaluations:
        _mark_best(axes, run, color)
        _draw_reported_perplexities(axes, run, color)
        if not run.is_task_run:
            _choose_scale(axes, y)


def _draw_curve(
    axes: Axes, x: Sequence[float], y: Sequence[float], label: str | None, color: str
) -> None:
    """Draw one curve; an empty one adds its label to the legend too."""
    axes.plot(x, y, color=color, label=label, marker=".", markersize=4)


def _mark_best(axes: Axes, run: TrainingCurve, color: str) -> None:
    """Mark the evaluation of the weights that were kept, or the lowest one, with a star."""
    best = run.evaluations[run.best.number]
    step_label = f"epoch {best.step:,}" if run.is_task_run else f"step {best.step:,}"
    axes.plot(
        best.x,
        best.value,
        color=color,
        zorder=3,
        label=f"{run.best.reason}, {step_label}: {best.value:,.2f}",
        marker="*",
        markersize=13,
        markeredgecolor="white",
        linestyle="",
    )


def _draw_reported_perplexities(axes: Axes, run: TrainingCurve, color: str) -> None:
    """Draw a dashed line at the perplexity before fine-tuning, and one at that after it."""
    for when, reported in run.reported_perplexities.items():
        label = f"{when}, on {reported.text}: {reported.perplexity:,.2f}"
        axes.axhline(
            reported.perplexity, color=color, linewidth=0.9, label=label, linestyle=_DASHES[when]
        )


def _choose_scale(axes: Axes, perplexities: Sequence[float]) -> None:
    """Make the vertical axis logarithmic if the perplexity falls to less than a quarter."""
    if 0 < 4 * min(perplexities) < max(perplexities) < inf:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:,g}")
