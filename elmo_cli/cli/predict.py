"""`elmo predict`: apply a task model to new text."""

from __future__ import annotations

from typing import Any

from elmo_cli.cli import console
from elmo_cli.cli.click_options import argument, command, flag, non_empty, text_names, value
from elmo_cli.cli.options import input_options, input_settings, overwrite_option, quiet_option
from elmo_cli.cli.task_options import (
    TaskReporter,
    embeddings_folder,
    model_option,
    task_compute_options,
    use_threads,
)


@command
@argument("folder", metavar="DIR")
@argument("texts", metavar="TEXT…", nargs=-1, required=True, callback=text_names)
@value(
    "Output",
    "-o, --output FILE",
    "File to write the predictions to; - is standard output.",
    default="-",
    callback=non_empty,
)
@value(
    "Output", "--output-format FORMAT", "Format of the predictions.  [default: depends on the task]"
)
@overwrite_option
@flag(
    "Input",
    "--as-data",
    "Read TEXT in the format of the training data; labels may be missing.",
)
@model_option
@input_options
@task_compute_options
@quiet_option
def predict(*, folder: str, texts: tuple[str, ...], quiet: bool, **given: Any) -> None:
    """Apply a task model to new text.

    DIR is the output folder of `elmo train`. Embeddings are computed with the biLM that the task
    model was trained with, and are not stored.

    \b
    Examples:
      elmo predict ner/ new.txt -o new.conll
      xz -dc new.txt.xz | elmo predict ner/ - --tokenize --output-format jsonl > new.jsonl
    """
    from elmo_cli.engine.runtime import select_device
    from elmo_cli.tasks.trained_task import (
        check_format,
        load_trained,
        predict_text,
        read_for_prediction,
    )

    use_threads(given["threads"])
    output = given["output"]
    console.check_output(output, texts, overwrite=given["overwrite"])
    trained = load_trained(folder, str(select_device(given["device"])))
    form = check_format(trained.task, given["output_format"])
    text = None if given["as_data"] else input_settings(given)
    split = read_for_prediction(trained, texts, text)
    vectors = embeddings_folder("", given, trained.bilm) if trained.reads_elmo else None
    with TaskReporter(quiet=quiet) as reporter:
        predictions = predict_text(trained, split, vectors, reporter.training)
    lines = (f"{line}\n" for line in trained.task.format_lines(split, predictions, form))
    console.write_lines(output, lines, overwrite=given["overwrite"])
