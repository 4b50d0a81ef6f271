"""Options and console reports shared by `elmo pretrain` and `elmo finetune`."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import (
    FILE,
    FOLDER,
    Option,
    flag,
    output_option,
    setting,
    settings,
    together,
    value,
)
from elmo_cli.fit import FitPoint
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.messages import duration
from elmo_cli.text.input_report import InputReport
from elmo_cli.training.reporter import Reporter

if TYPE_CHECKING:
    from elmo_cli.training.reporter import Estimate

_FIRST_LINE_S = 1.5


@dataclass(frozen=True)
class RunFolderOptions(options.ResumableOptions):
    """The values of `run_folder_options`."""

    output: str
    dtype: str


@dataclass(frozen=True)
class TrainingOptions(options.InputOptions, options.ProcessorOptions):
    """The values of `training_options`, `common_options` and other options of both commands."""

    heldout: tuple[str, ...]
    patience: int | None
    max_seconds: float | None
    max_steps: int | None
    max_epochs: float | None
    optimizer: str
    learning_rate: float | None
    batch_size: int
    gradient_accumulation_steps: int
    dropout: float
    negative_samples: int | None
    seed: int
    precision: str


def run_folder_options(contents: str, resume: str) -> Option:
    """Options for the output folder of a run, which has some contents; help of `--resume`."""
    # fmt: off
    return together(
        output_option("DIR", f"Output folder: {contents}.", required=True, type=FOLDER),
        flag("Output", "--resume", resume),
        flag("Output", "-f, --overwrite", "Start over if DIR contains a run."),
        setting(TrainSettings, "Output", "--dtype TYPE",
                "Type of the exported weights: float32 or float16."),
    )
    # fmt: on


def heldout_option(description: str) -> Option:
    """Option for the held-out texts."""
    return value("Evaluation", "--heldout FILE", description, multiple=True, type=FILE)


def patience_option(default: int | None = None) -> Option:
    """Option for the number of evaluations without improvement after which a run stops."""
    return setting(
        TrainSettings,
        "Evaluation",
        "--patience N",
        "Stop after N evaluations without a better held-out perplexity.",
        default=default,
    )


def training_options(learning_rate: str) -> Option:
    """Options for training, with the default learning rates in words."""
    # fmt: off
    return settings(
        TrainSettings, "Training",
        ("--optimizer NAME", "Optimizer: adamw, or adagrad as in bilm-tf."),
        ("--learning-rate FLOAT",
         f"Peak learning rate.  [default: {learning_rate}]"),
        ("--batch-size N", "Streams of text read in parallel, per process."),
        ("--gradient-accumulation-steps N",
         "Batches per weight update; less memory for the same effective batch size."),
        ("--dropout P", "Dropout probability."),
        ("--negative-samples N", "Types sampled for the softmax; 0 computes the full softmax.  "
         "[default: 2048, or 0 up to 8192 types]"),
        ("--seed N", "Random seed."),
    )
    # fmt: on


common_options: Option = together(
    options.processor_options,
    setting(
        TrainSettings,
        "Compute",
        "--precision NAME",
        "Precision of matrix products: float32 or bf16.",
    ),
    options.input_options,
    options.general_options,
)


class ConsoleReporter(console.ProgressDisplay, Reporter):
    """Reporter that prints evaluations of a `text` and shows progress, as a context manager."""

    def __init__(self, text: str, *, is_estimate: bool = False) -> None:
        super().__init__(None, "", is_estimate=is_estimate)
        self._text = text
        self.notes = InputReport()
        self.fit_points: tuple[FitPoint, ...] = ()
        self._first_line = threading.Timer(_FIRST_LINE_S, self._print_first_line)
        self._first_line.daemon = True

    def __enter__(self) -> ConsoleReporter:
        self.progress("loading PyTorch and the model", 0, None)
        self._first_line.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._first_line.cancel()
        super().__exit__(*error)

    def _print_first_line(self) -> None:
        """Show without a terminal, where the next line follows after 15 s, that a run is alive.

        A count of 0 is left out, since it says only that the phase has begun.
        """
        text = self.text()
        has_count_of_zero = bool(self.unit) and self.done == 0
        if text and not has_count_of_zero and not console.is_terminal(sys.stderr):
            console.note(text)

    def message(self, text: str) -> None:
        console.note(console.with_options(text))

    def reading(self, paths: Sequence[str], notes: InputReport) -> None:
        self.begin("reading", "bytes")
        self.poll = lambda: notes.bytes_read
        self.update(0, _total_size(paths))

    def input_notes(self, notes: InputReport) -> None:
        self.notes = notes
        console.warn(*notes.warnings)
        console.print_truncated(notes)

    def fit(self, points: Sequence[FitPoint]) -> None:
        """Print the points, and keep them for `--json`."""
        self.fit_points += tuple(points)
        print_fit(points)

    def progress(self, what: str, done: float, total: float | None, detail: str = "") -> None:
        if what != self.label:
            has_count = bool(total or done)
            self.begin(what, "tokens" if has_count else "")
        self.update(done, total, detail)

    def estimate(self, estimate: Estimate) -> None:
        limit = estimate.limit.replace("_", "-")
        self.message(
            f"training takes about {duration(estimate.seconds)} until --{limit}: about "
            f"{estimate.tokens:,} tokens ({estimate.epochs:.2f} epochs) at {estimate.rate:,.0f} "
            "tokens/s"
        )

    def log_line(self, line: dict[str, Any]) -> None:
        """Print an evaluation; `line` is one of the log, or of the fit of a softmax."""
        measured = line.get("heldout")
        if not measured:
            return
        position = f"step {line['step']:,}" if "step" in line else f"fit, pass {line['fit_pass']}"
        self.message(
            f"{position}, {line['tokens']:,} tokens, {line['seconds']:,.0f} s: perplexity "
            f"{measured['average']:.1f} on {self._text} (forward {measured['forward']:.1f}, "
            f"backward {measured['backward']:.1f}), {measured['unknown_fraction']:.1%} unknown"
        )


def print_fit(points: Sequence[FitPoint]) -> None:
    """Print each point as a line, or as a warning if it is outside its limits."""
    for point in points:
        if point.warning:
            console.warn(point.warning)
        else:
            console.note(point.line)


def _total_size(paths: Sequence[str]) -> int | None:
    """The bytes of some files; None if one of them is a pipe."""
    if not paths or not all(os.path.isfile(path) for path in paths):
        return None
    return sum(os.path.getsize(path) for path in paths)
