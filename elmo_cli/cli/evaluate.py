"""`elmo evaluate`: score the predictions of a task model."""

from __future__ import annotations

from functools import partial
from typing import Any

from elmo_cli.cli import console
from elmo_cli.cli.click_options import argument, command, output_option, value
from elmo_cli.cli.options import json_option, overwrite_option, quiet_option
from elmo_cli.cli.task_options import (
    TaskReporter,
    embeddings_folder,
    embeddings_option,
    format_option,
    load_model,
    model_option,
    print_scores,
    task_compute_options,
)


@command
@argument("folder", metavar="DIR")
@value("Data", "--test FILE", "Test data in the format of the training data.", required=True)
@embeddings_option("DIR/vectors")
@model_option
@output_option("FILE", "File to write the predictions to.")
@format_option
@overwrite_option
@task_compute_options
@quiet_option
@json_option
def evaluate(*, folder: str, test: str, **given: Any) -> None:
    """Score the predictions of a task model on test data.

    DIR is the output folder of `elmo train`. Scores are in percent, such as the F1 of spans for
    ner and the accuracy for classification.

    \b
    Examples:
      elmo evaluate ner/ --test test.conll
      elmo evaluate ner/ --test test.conll --embeddings vectors/ --json
      elmo evaluate ner/ --test test.conll -o predicted.conll
    """
    if (output := given["output"]) is not None:
        console.check_output(output, [test], overwrite=given["overwrite"])
    trained, output_format = load_model(folder, given)
    vectors = embeddings_folder(folder, given, trained.bilm)
    with TaskReporter() as reporter:
        split = trained.task.read(test)
        predictions, scores = trained.evaluate(split, vectors, reporter)
    if output is not None:
        lines = trained.task.format_lines(split, predictions, output_format)
        console.write_lines(output, lines, overwrite=given["overwrite"])
    facts = {"test": test, "examples": len(split.examples), **scores.to_dict()}
    title = f"{test}, {console.plural(len(split.examples), 'example')}"
    console.print_result(facts, partial(print_scores, title, facts))
