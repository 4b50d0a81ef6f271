"""`elmo train`: train a model of a task on embeddings files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import console, options, task_options
from elmo_cli.cli.click_options import (
    GroupedCommand,
    argument,
    flag,
    output_option,
    together,
    value,
)
from elmo_cli.errors import UsageError
from elmo_cli.tasks.settings import TASKS, TaskSettings, as_flat

if TYPE_CHECKING:
    from elmo_cli.tasks.task import Task


def _setting(declaration: str, description: str, dest: str | None = None, **kwargs: Any) -> Any:
    what = f"{description}  [default: depends on TASK]"
    return value("Settings", declaration, what, dest, **kwargs)


# fmt: off
_data_options = together(
    value("Data", "--train FILE", "Training data in the format of TASK."),
    value("Data", "--dev FILE", "Development data, which select the best epoch."),
    task_options.embeddings_option("vectors in the output folder"),
    value("Data", "--word-vectors FILE",
          "Word vectors: GloVe or word2vec text (also .gz), or .npz.  [default: none]"),
    task_options.model_option,
)
_setting_options = together(
    value("Settings", "--preset NAME",
          "Named group of settings, such as paper (the published sizes)."),
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
    value("Settings", "--set NAME=VALUE",
          "Change any setting; may be repeated. `--settings` lists them.", "changes",
          multiple=True),
    flag("Settings", "--settings", "List all settings of TASK with their values, and exit.",
         "shown"),
)
# fmt: on


class _TrainCommand(GroupedCommand):
    """A command whose help lists the tasks."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Tasks"):
            formatter.write_dl(list(TASKS.items()))
        super().format_options(ctx, formatter)


@click.command(cls=_TrainCommand, no_args_is_help=True)
@argument("task", metavar="TASK")
@_data_options
@output_option("DIR", "Output folder: the task model.")
@flag("Output", "--resume", "Continue the run in DIR.")
@options.overwrite_option
@_setting_options
@task_options.compute_options
@options.general_options
def train(*, task: str, **given: Any) -> None:
    """Train a task model on embeddings files.

    The model reads a learned weighted sum of the ELMo layers (equation 1 of the paper), word
    vectors and characters, and keeps the weights of its best epoch on dev. Embeddings files are
    found by their text, whatever their names; missing embeddings are computed first. The learned
    layer weights are printed at the end; `elmo convert --layers mix:…` applies them.

    \b
    Examples:
      elmo train ner --train train.conll --dev dev.conll -o ner/
      elmo train ner --train train.conll --dev dev.conll --embeddings vectors/ -o ner/ \\
          --word-vectors glove.6B.50d.txt --set hidden=200
      elmo train ner --train train.conll --dev dev.conll -o baseline/ --elmo none
      elmo evaluate ner/ --test test.conll
      elmo predict ner/ new.txt -o new.conll
    """
    from elmo_cli.tasks.task import load_task

    chosen = load_task(task, _changes(given), given["preset"])
    if given["shown"]:
        for name, one in as_flat(chosen.settings).items():
            console.print_row((name, one))
        return
    for name in ("train", "dev", "output"):
        if given[name] is None:
            raise UsageError(f"missing option `--{name}`", "`elmo train --help` shows examples")
    mode = options.run_mode(given)
    from elmo_cli.tasks.train import TaskData, train_task

    options.use_threads(given["threads"] or 1)
    output = given["output"]
    vectors = task_options.embeddings_folder(output, given)
    data = TaskData(given["train"], given["dev"], vectors, given["word_vectors"])
    with task_options.TaskReporter() as reporter:
        facts = train_task(chosen, data, output, reporter, mode=mode, device=given["device"])
    console.print_result(facts, partial(_print, output, chosen, facts))


def _changes(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that the options change, by name."""
    named = {name: given.get(name.replace(".", "_")) for name in as_flat(TaskSettings())}
    changes = {name: value for name, value in named.items() if value is not None}
    for pair in given["changes"]:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--set {pair}: `=` is missing", "give NAME=VALUE, such as hidden=200")
        changes[name.strip()] = value.strip()
    return changes


def _print(output: str, task: Task, facts: dict[str, Any]) -> None:
    title = f"dev, epoch {facts['best_epoch']} of {facts['epochs']}"
    task_options.print_scores(title, facts["dev"])
    for where, mix in facts["mix"].items():
        numbers = [*mix["weights"], mix["gamma"]]
        weights = ", ".join(f"{weight:.2f}" for weight in mix["weights"])
        console.say(f"layer weights at the {where}: {weights}; gamma {mix['gamma']:.2f}")
        if len(mix["weights"]) > 1 and not task.settings.elmo_layer_norm:
            console.say(f"  --layers mix:{','.join(f'{number:.6g}' for number in numbers)}")
    console.say(f"{output}: trained in {facts['seconds']:,.0f} s")
