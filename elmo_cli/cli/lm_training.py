"""Options and console reports shared by `elmo pretrain` and `elmo finetune`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from elmo_cli.cli import console
from elmo_cli.cli.click_options import (
    Option,
    flag,
    local_path,
    setting,
    settings,
    text_names,
    together,
    value,
)
from elmo_cli.cli.options import processor_options
from elmo_cli.lm.log import Reporter
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.text.input_settings import InputReport

_LINE_EVERY_S = 15.0
_MUCH_UNKNOWN = 0.5


def output_options(contents: str, resume: str) -> Option:
    """Options for the output folder of a run, and for a run that it already contains.

    Args:
        contents: description of what the folder contains.
        resume: help text of `--resume`.
    """
    return together(
        value(
            "Output",
            "-o, --output DIR",
            f"Output folder: {contents}.",
            required=True,
            callback=local_path,
        ),
        flag("Output", "--resume", resume),
        flag("Output", "-f, --overwrite", "Start over if DIR contains a run."),
        setting(
            TrainSettings,
            "Output",
            "--dtype TYPE",
            "Type of the exported weights: float32 or float16.",
        ),
    )


def heldout_option(description: str) -> Option:
    """Option for the held-out texts."""
    return value("Evaluation", "--heldout FILE", description, multiple=True, callback=text_names)


def patience_option(default: int | None = None) -> Option:
    """Option for the number of evaluations without improvement after which a run stops."""
    return setting(
        TrainSettings,
        "Evaluation",
        "--patience N",
        "Stop after N evaluations without a better held-out perplexity.",
        default=default,
    )


def training_options(*, adamw: float, adagrad: float) -> Option:
    """Options for training, with the default learning rate of each optimizer."""
    return settings(
        TrainSettings,
        "Training",
        ("--optimizer NAME", "Optimizer: adamw, or adagrad as in bilm-tf."),
        (
            "--learning-rate FLOAT",
            f"Peak learning rate.  [default: {adamw:g} for adamw, {adagrad:g} for adagrad]",
        ),
        ("--batch-size N", "Streams of text read in parallel, per process."),
        (
            "--gradient-accumulation-steps N",
            "Batches per weight update; less memory for the same effective batch size.",
        ),
        ("--dropout P", "Dropout probability."),
        (
            "--negative-samples N",
            "Types sampled for the softmax; 0 computes the full softmax.  [default: 2048, or 0 up "
            "to 8192 types]",
        ),
        ("--seed N", "Random seed."),
    )


compute_options: Option = together(
    processor_options,
    setting(
        TrainSettings,
        "Compute",
        "--precision NAME",
        "Precision of matrix products: float32 or bf16.",
    ),
)


class ConsoleReporter(Reporter):
    """Reporter that prints each evaluation, and the loss every 15 s, to the console.

    Args:
        text: description of the held-out text, for messages.
        quiet: print nothing.
        max_seconds: time limit of the run, printed next to the elapsed seconds.
    Attributes:
        notes: input warnings of the text readers.
    """

    def __init__(self, text: str, *, quiet: bool, max_seconds: float | None = None) -> None:
        self._text, self._quiet, self._printed_at = text, quiet, -_LINE_EVERY_S
        self._limit = f" of {max_seconds:,.0f}" if max_seconds else ""
        self.notes = InputReport()

    def message(self, text: str) -> None:
        console.note(text, quiet=self._quiet)

    def input_notes(self, notes: InputReport) -> None:
        self.notes = notes
        console.print_input_warnings(notes, quiet=self._quiet)

    def log_line(self, line: dict[str, Any]) -> None:
        begin = f"fit, pass {line['fit_pass']}" if "fit_pass" in line else f"step {line['step']:,}"
        at = f"{begin}, {line['tokens']:,} tokens, {line['seconds']:,.0f}{self._limit} s"
        if measured := line.get("heldout"):
            self.message(
                f"{at}: perplexity {measured['average']:.1f} on {self._text} "
                f"(forward {measured['forward']:.1f}, backward {measured['backward']:.1f})"
            )
        elif time.monotonic() - self._printed_at >= _LINE_EVERY_S:
            self._printed_at = time.monotonic()
            self.message(f"{at}: loss {line['loss']:.3f}")


def print_deletable(folder: Path, *, quiet: bool) -> None:
    """Print which files of a finished run may be deleted."""
    from elmo_cli.lm.run_folder import CHECKPOINT_FILE, TEXT_FILE

    files = [path for name in (CHECKPOINT_FILE, TEXT_FILE) if (path := folder / name).exists()]
    size = sum(path.stat().st_size for path in files) / 1e6
    names = ", ".join(path.name for path in files)
    what = f"{size:,.1f} MB are needed only for `--resume` and may be deleted: {names}"
    console.note(f"{folder}: {what}", quiet=quiet)


def warn_of_unknown(fraction: float, tokens: str, *, quiet: bool) -> None:
    """Warn if most tokens are not in the vocabulary.

    Args:
        fraction: fraction of the tokens that are unknown.
        tokens: description of these tokens, for the message.
    """
    if fraction > _MUCH_UNKNOWN:
        what = f"the vocabulary lacks {fraction:.0%} of {tokens}; is it in the language of the "
        console.note(f"warning: {what}text, and does raw text need `--tokenize`?", quiet=quiet)
