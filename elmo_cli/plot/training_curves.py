"""Training curves: loss, held-out perplexity and scores on dev, from the logs of runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_cli.errors import InputError, UsageError
from elmo_cli.files import StrPath
from elmo_cli.plot.figure import COLORS, as_label, new_figure, plain
from elmo_cli.regular_files import check_regular, read_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HINT = "give the log.jsonl of a run"
_LINES: dict[str, Any] = {"before": (0, (6, 3)), "after": (0, (6, 3, 1, 3))}
_LOSS = "training loss"  # title of the panel
_MEASURES = ("average", "f1", "accuracy", "pearson")  # of `elmo pretrain` and of tasks


@dataclass
class TrainingCurve:
    """The log of a run."""

    name: str  # of its folder, or of the file
    unit: str  # "tokens" for a language model, "epoch" for a task model
    losses: list[tuple[float, float]] = field(default_factory=list)  # at tokens or epoch
    evaluations: list[tuple[float, float]] = field(default_factory=list)  # perplexity or score
    steps: list[int] = field(default_factory=list)  # or epochs, of the evaluations
    measure: str = ""  # what was evaluated
    is_sampled: bool = False  # whether losses are those of the sampled softmax
    ends: dict[str, tuple[float, str]] = field(default_factory=dict)  # perplexity and its text
    chosen_step: int | None = None  # 0 for the weights before training, None if not recorded

    @property
    def best(self) -> tuple[int, str]:
        """The index of the evaluation that was "chosen"; or of the "lowest", if none is known."""
        values = [value for _, value in self.evaluations]
        if self.unit == "epoch":
            return values.index(max(values)), "chosen"
        if self.chosen_step in self.steps:
            return self.steps.index(self.chosen_step or 0), "chosen"
        return values.index(min(values)), "lowest"

    def add(self, line: Any) -> None:
        """Add a line of the log; raise an error that is not an ElmoError if it is invalid."""
        is_task = self.unit == "epoch"
        x, step = (float(line[name]) for name in (self.unit, "epoch" if is_task else "step"))
        if "loss" in line:
            self.losses.append((x, float(line["loss"])))
            self.is_sampled |= bool(line.get("sampled_softmax"))
        if (values := line["dev"] if is_task else line.get("heldout")) is not None:
            name = next((one for one in _MEASURES if one in values), next(iter(values)))
            self.measure = f"{name} on dev" if is_task else "held-out perplexity"
            self.evaluations.append((x, float(values[name])))
            self.steps.append(int(step))

    def add_record(self, record: Any) -> None:
        """Add what finetune.json states; before a run ends there is no result."""
        with suppress(LookupError, TypeError, ValueError, AttributeError):
            for when, found in (("before", record), ("after", record["result"])):
                perplexity = float(found[when]["perplexity"]["average"])
                self.ends[when] = perplexity, str(found[when].get("text", "held-out text"))
            self.chosen_step = int(record["result"]["chosen"]["step"])


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
        raise InputError(f"{path}: cannot be read as a log ({reason})", _HINT) from None
    name = path.stem if record is None else record.resolve().parent.name
    run = TrainingCurve(name, "epoch" if lines and '"tokens"' not in lines[0] else "tokens")
    for number, line in enumerate(lines, 1):
        try:
            run.add(json.loads(line))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, StopIteration):
            what = f"{path}, line {number}: not a line of a training log"
            raise InputError(what, _HINT) from None
    if not run.losses and not run.evaluations:
        raise InputError(f"{path}: has no loss yet", "wait for the first line of the run")
    if run.unit == "tokens" and record is not None and record.exists():
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
        what = f"{names}: some are runs of language models, others of task models"
        raise UsageError(what, "plot them separately")
    largest = max(x for run in runs for x, _ in (*run.losses, *run.evaluations)) or 1
    panels = [_LOSS] * any(run.losses for run in runs)
    panels += dict.fromkeys(run.measure for run in runs if run.evaluations)
    with new_figure(path, 5.5 * len(panels), 4.4) as figure:
        from matplotlib.ticker import EngFormatter

        for number, panel in enumerate(panels, 1):
            axes = figure.add_subplot(1, len(panels), number, title=as_label(panel))
            for run, color in zip(runs, cycle(COLORS)):
                curves = {_LOSS: run.losses, run.measure: run.evaluations}
                points = curves.get(panel, [])
                label = as_label(run.name) + " (loss of the sampled softmax)" * run.is_sampled
                style: Any = {"color": color, "label": label if number == 1 else None}
                style |= {"marker": ".", "markersize": 4}
                axes.plot([x for x, _ in points], [y for _, y in points], **style)
                if points and panel == run.measure:
                    _mark_best(axes, run, color)
            axes.set(xlabel=runs[0].unit, xlim=(-0.03 * largest, 1.03 * largest))
            axes.xaxis.set_major_formatter(EngFormatter())  # shows 20000000 as 20 M
            axes.locator_params(axis="x", integer=True)
            axes.grid(alpha=0.3)
            axes.margins(y=0.15)
        figure.legend(ncols=2, loc="outside lower center")


def _mark_best(axes: Axes, run: TrainingCurve, color: str) -> None:
    """Mark the evaluation of the weights that were kept, and `run.ends`."""
    index, choice = run.best
    (x, value), is_perplexity = run.evaluations[index], run.unit == "tokens"
    label = f"{choice}, {'step' if is_perplexity else 'epoch'} {run.steps[index]:,}: {value:,.2f}"
    star: Any = {"marker": "*", "markersize": 13, "markeredgecolor": "white", "linestyle": ""}
    axes.plot(x, value, color=color, zorder=3, label=label, **star)
    for when, (end, text) in run.ends.items():
        label = f"{when}, on {text}: {end:,.2f}"
        axes.axhline(end, color=color, linewidth=0.9, label=label, linestyle=_LINES[when])
    values = [value for _, value in run.evaluations]
    if is_perplexity and 0 < 4 * min(values) < max(values) < inf:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:,g}")
