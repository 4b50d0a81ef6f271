"""`elmo evaluate`: score the predictions of a task model."""

from __future__ import annotations

from functools import partial
from typing import Any

from elmo_cli.cli import console, options, task_options
from elmo_cli.cli.click_options import argument, command, output_option, value
from elmo_cli.messages import plural


@command
@argument("folder", metavar="DIR")
@value("Data", "--test FILE", "Test data in the format of the training data.", required=True)
@task_options.embeddings_option("DIR/vectors")
@task_options.model_option
@output_option("FILE", "File to write the predictions to.")
@task_options.format_option
@options.overwrite_option
@task_options.compute_options
@options.general_options
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
    else:
        options.refuse_options(["output_format", "overwrite"], "without -o")
    trained, output_format = task_options.load_model(folder, given)
    vectors = task_options.embeddings_folder(folder, given, trained.bilm)
    with task_options.TaskReporter() as reporter:
        split = trained.task.read(test)
        predictions, scores = trained.evaluate(split, vectors, reporter)
    if output is not None:
        lines = trained.task.format_lines(split, predictions, output_format)
        console.write_lines(output, lines, overwrite=given["overwrite"])
    facts = {"test": test, "examples": len(split.examples), **scores.to_dict()}
    title = f"{test}, {plural(len(split.examples), 'example')}"
    console.print_result(facts, partial(task_options.print_scores, title, facts))
