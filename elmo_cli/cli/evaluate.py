"""`elmo evaluate`: score the predictions of a task model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from elmo_cli.cli import console, options, task_options
from elmo_cli.cli.click_options import (
    FILE,
    FOLDER,
    INPUT_FILE,
    argument,
    command,
    output_option,
    value,
)
from elmo_cli.errors import UsageError
from elmo_cli.messages import plural


@dataclass(frozen=True)
class EvaluateOptions(task_options.TrainedModelOptions):
    """The values of all options of `elmo evaluate`; each field is an option of the same name."""

    test: str
    embeddings: str | None
    output: str | None


@command
@argument("folder", metavar="DIR", type=FOLDER)
@value(
    "Data",
    "--test FILE",
    "Test data in the format of the training data.",
    required=True,
    type=INPUT_FILE,
)
@task_options.embeddings_option("DIR/vectors")
@task_options.model_option
@output_option("FILE", "File to write the predictions to.", type=FILE)
@task_options.format_option
@options.overwrite_option
@task_options.compute_options
@options.general_options
def evaluate(**values: Any) -> None:
    """Score the predictions of a task model on test data.

    DIR is the output folder of `elmo train`. Scores are in percent, such as the F1 of spans for
    ner and the accuracy for classification.

    \b
    Examples:
      elmo evaluate ner/ --test test.conll
      elmo evaluate ner/ --test test.conll --embeddings vectors/ --json
      elmo evaluate ner/ --test test.conll -o predicted.conll
    """
    from elmo_cli.fit import fit_facts
    from elmo_cli.tasks.data_files import read_data_file
    from elmo_cli.tasks.data_fit import fit_of_test_data

    chosen = EvaluateOptions(**values)
    path = chosen.embeddings or task_options.vectors_folder(chosen.folder)
    _check_output(chosen, path)
    trained = chosen.load()
    task = trained.task
    output_format = chosen.format_for(task)
    vectors = chosen.embeddings_folder(path, trained.bilm)
    with task_options.TaskReporter() as reporter:
        split = read_data_file(task, chosen.test, every_row=chosen.output is not None)
        console.warn(*split.report.warnings)
        fit = fit_of_test_data(task, split, trained.words)
        reporter.fit(fit)
        n_examples = sum(map(task.is_labelled, split.examples))
        _warn_of_unlabelled(chosen.test, split.unlabelled)
        predictions, scores = trained.evaluate(split, vectors, reporter)
    facts = {"test": chosen.test, "examples": n_examples, **scores.to_dict(), "fit": fit_facts(fit)}
    title = f"{chosen.test}, {plural(n_examples, 'example')}"
    console.print_result(facts, partial(task_options.print_scores, title, facts))
    if chosen.output is not None:  # last: the disk may be full
        parts = task.format_file([(split, predictions)], output_format)
        console.write_parts(chosen.output, parts, overwrite=chosen.overwrite)


def _check_output(chosen: EvaluateOptions, embeddings: str) -> None:
    """Refuse an output that cannot be written, and options that have no effect on it."""
    if chosen.output is None:
        options.refuse_options(["output_format", "overwrite"], "without -o")
        return
    if chosen.output == "-":
        hint = "name a file; `elmo predict --as-data` prints predictions"
        raise UsageError("standard output has the scores", hint, where="--output -")
    chosen.check_output(chosen.output, [chosen.test, embeddings])


def _warn_of_unlabelled(test: str, unlabelled: Sequence[str]) -> None:
    if unlabelled:
        examples = plural(len(unlabelled), "example")
        console.warn(f"{test}: {examples} without a label, not scored; the first: {unlabelled[0]}")
