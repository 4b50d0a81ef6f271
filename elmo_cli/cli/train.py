"""`elmo train`: train a model of a task on embeddings files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import console, options, task_options
from elmo_cli.cli.click_options import (
    FOLDER,
    INPUT_FILE,
    PRESET,
    TASK,
    GroupedCommand,
    argument,
    flag,
    output_option,
    together,
    value,
)
from elmo_cli.errors import SkippedError, UsageError
from elmo_cli.tasks.settings import TASKS, as_flat
from elmo_cli.text.input_settings import ON_ERROR
from elmo_cli.training.reporter import SkippedRow

if TYPE_CHECKING:
    from elmo_cli.tasks.task import Task


_SETTINGS = "Settings, whose defaults depend on TASK"  # a heading of the help
_setting = partial(value, _SETTINGS)

# fmt: off
_data_options = together(
    value("Data", "--train FILE", "Training data in the format of TASK.", type=INPUT_FILE),
    value("Data", "--dev FILE", "Development data, which select the best epoch.",
          type=INPUT_FILE),
    task_options.embeddings_option("vectors in the output folder"),
    value("Data", "--word-vectors FILE",
          "Word vectors: GloVe or word2vec text (also .gz), or .npz.  [default: none]",
          type=INPUT_FILE),
    task_options.model_option,
    value("Data", "--on-error ACTION",
          "On an invalid example: stop, or skip it and exit with code 3.",
          type=click.Choice(ON_ERROR), default="stop"),
)
_setting_options = together(
    _setting("--preset NAME",
             "Named group of settings, such as paper (the published sizes).", type=PRESET),
    _setting("--elmo LAYERS",
             "ELMo layers: all (a learned weighted sum), last, type (the token layer) or none.",
             "elmo_layers", type=click.Choice(["all", "last", "type", "none"])),
    _setting("--elmo-at WHERE", "Where the model reads ELMo: input, output or both.",
             "elmo_where", type=click.Choice(["input", "output", "both"])),
    _setting("--epochs N", "Maximum number of epochs."),
    _setting("--patience N", "Stop after this many epochs without a better dev score."),
    _setting("--batch-size N", "Examples per step."),
    _setting("--learning-rate FLOAT", "Learning rate."),
    _setting("--fraction P", "Fraction of the training examples to train on."),
    _setting("--seed N", "Random seed."),
    _setting("--set NAME=VALUE",
             "Change any setting; may be repeated. `--settings` lists them.", "changes",
             multiple=True),
    flag(_SETTINGS, "--settings", "List all settings of TASK with their values, and exit.",
         "shown"),
)
# fmt: on


@dataclass(frozen=True)
class TrainOptions(task_options.TaskModelOptions, options.ResumableOptions):
    """The values of all options of `elmo train`; each field is an option of the same name.

    `epochs` to `seed` are settings of the task, which parses and checks them.
    """

    task: str
    train: str | None
    dev: str | None
    embeddings: str | None
    word_vectors: str | None
    on_error: str
    output: str | None
    preset: str | None
    elmo_layers: str | None
    elmo_where: str | None
    epochs: str | None
    patience: str | None
    batch_size: str | None
    learning_rate: str | None
    fraction: str | None
    seed: str | None
    changes: tuple[str, ...]
    shown: bool

    def setting_changes(self) -> dict[str, str]:
        """Return the settings that the options change, by name."""
        values = {
            "elmo.layers": self.elmo_layers,
            "elmo.where": self.elmo_where,
            "learning_rate": self.learning_rate,
            "batch_size": self.batch_size,
            "epochs": self.epochs,
            "patience": self.patience,
            "fraction": self.fraction,
            "seed": self.seed,
        }
        changes = {name: value for name, value in values.items() if value is not None}
        for pair in self.changes:
            name, equals, value = pair.partition("=")
            if not equals:
                hint = "give NAME=VALUE, such as hidden=200"
                raise UsageError("`=` is missing", hint, where=f"--set {pair}")
            changes[name.strip()] = value.strip()
        return changes


class _TrainCommand(GroupedCommand):
    """A command whose help lists the tasks, and which knows their settings."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(args)  # click empties its own list
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            option = error.option_name
            setting = _setting_named(option, words)
            if setting is None:
                raise
            problem = f"no such option '{option}'"
            raise UsageError(problem, f"`--set {setting}=…` changes this setting") from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Tasks"):
            formatter.write_dl(list(TASKS.items()))
        super().format_options(ctx, formatter)


def _setting_named(option: str, words: Sequence[str]) -> str | None:
    """The setting that an unknown option is named after, of the task among the words of the line.

    `--label-column` is named after `label_column`, and `--elmo-dropout` after `elmo.dropout`.
    """
    from elmo_cli.tasks.task import load_task

    name = option.lstrip("-").replace("-", "_")
    for task in TASKS:
        if task not in words:
            continue
        for setting in as_flat(load_task(task).settings):
            if setting.replace(".", "_") == name:
                return setting
    return None


@click.command(cls=_TrainCommand, no_args_is_help=True)
@argument("task", metavar="TASK", type=TASK)
@_data_options
@output_option("DIR", "Output folder: the task model.", type=FOLDER)
@flag("Output", "--resume", "Continue the run in DIR.")
@options.overwrite_option
@_setting_options
@task_options.compute_options
@options.general_options
def train(**values: Any) -> None:
    """Train a task model on embeddings files.

    The model reads a learned weighted sum of the ELMo layers (equation 1 of the paper), word
    vectors and characters, and keeps the weights of its best epoch on dev. Embeddings files are
    found by their text, whatever their names; missing embeddings are computed first. The learned
    layer weights are printed at the end; `elmo convert --layers mix:…` applies them.

    \b
    Examples:
      elmo train ner --train train.conll --dev dev.conll -o ner/
      elmo train ner --train train.conll --dev dev.conll -o ner/ \\
          --embeddings vectors/ --word-vectors glove.6B.50d.txt --set hidden=200
      elmo train ner --train train.conll --dev dev.conll -o baseline/ --elmo none
      elmo train ner --train train.conllu --dev dev.conllu -o upos/ \\
          --set label_column=upos
      elmo evaluate ner/ --test test.conll
      elmo predict ner/ new.txt -o new.conll
    """
    from elmo_cli.tasks.task import load_task

    chosen = TrainOptions(**values)
    task = load_task(chosen.task, chosen.setting_changes(), chosen.preset)
    console.running.take_settings(as_flat(task.settings))
    if chosen.shown:
        for name, setting in as_flat(task.settings).items():
            console.print_row((name, setting))
        return
    train_file = _required("train", chosen.train)
    dev_file = _required("dev", chosen.dev)
    output = _required("output", chosen.output)
    mode = chosen.mode()
    from elmo_cli.tasks.train import TaskData, train_task

    chosen.use_threads()
    path = chosen.embeddings or task_options.vectors_folder(output)
    data = TaskData(
        train=train_file,
        dev=dev_file,
        embeddings=chosen.embeddings_folder(path),
        word_vectors=chosen.word_vectors,
        on_error=chosen.on_error,
    )
    reporter = task_options.TaskReporter()
    with reporter:
        facts = train_task(task, data, output, reporter, mode=mode, device=chosen.device)
    console.print_result(facts, partial(_print, output, task, facts))
    _warn_of_lowest_score(facts["dev"])
    _exit_if_skipped(reporter.skipped_rows)


def _required(name: str, value: str | None) -> str:
    """Return the value of an option that only `--settings` does without."""
    if value is None:
        context = click.get_current_context()
        [missing] = [option for option in context.command.params if option.name == name]
        raise click.MissingParameter(ctx=context, param=missing)
    return value


def _warn_of_lowest_score(dev: dict[str, Any]) -> None:
    """Warn if the score on dev that selects the best epoch is never above zero."""
    name = dev["main"]
    score = dev[name]
    if score > 0:
        return
    finding = "which is below 0"  # a correlation
    if score == 0:
        finding = "the lowest possible, so the epoch with the lowest loss on dev was kept"
    console.warn(
        f"the best {name} on dev is {score:.2f}, {finding}; train longer (`resume=True` with more "
        "`epochs`), or with another `learning_rate`"
    )


def _exit_if_skipped(rows: Sequence[SkippedRow]) -> None:
    """Raise a SkippedError (exit code 3) if examples were left out."""
    if rows:
        first = rows[0]
        count = "1 example was" if len(rows) == 1 else f"{len(rows):,} examples were"
        raise SkippedError(
            f"{count} left out, the first {first.where}: {first.problem}",
            "the model is trained on all others; `on_error='stop'` stops at the first",
        )


def _print(output: str, task: Task, facts: dict[str, Any]) -> None:
    title = f"dev, epoch {facts['best_epoch']} of {facts['epochs']}"
    task_options.print_scores(title, facts["dev"])
    for where, mix in facts["mix"].items():
        weights = mix["weights"]
        gamma = mix["gamma"]
        rounded = ", ".join(f"{weight:.2f}" for weight in weights)
        console.say(f"layer weights at the {where}: {rounded}; gamma {gamma:.2f}")
        if len(weights) > 1 and not task.settings.elmo_layer_norm:
            numbers = ",".join(f"{number:.6g}" for number in [*weights, gamma])
            console.say(f"  --layers mix:{numbers}")
    console.say(f"{output}: trained in {facts['seconds']:,.0f} s")
