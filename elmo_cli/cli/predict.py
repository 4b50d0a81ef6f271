"""`elmo predict`: apply a task model to new text."""

from __future__ import annotations

from typing import Any

from elmo_cli.cli import console, options, task_options
from elmo_cli.cli.click_options import argument, command, flag, output_option
from elmo_cli.errors import UsageError
from elmo_cli.text.input_report import InputReport


@command
@argument("folder", metavar="DIR")
@options.texts_argument("texts", required=True, metavar="TEXT…")
@output_option("FILE", "File to write the predictions to; - is standard output.", default="-")
@task_options.format_option
@options.overwrite_option
@flag("Input", "--as-data", "Read TEXT in the format of the training data; labels may be missing.")
@task_options.model_option
@options.input_options
@task_options.compute_options
@options.quiet_option
def predict(*, folder: str, texts: tuple[str, ...], **given: Any) -> None:
    """Apply a task model to new text.

    DIR is the output folder of `elmo train`. Embeddings are computed with the biLM that the task
    model was trained with, and are not stored.

    \b
    Examples:
      elmo predict ner/ new.txt -o new.conll
      xz -dc new.txt.xz | elmo predict ner/ - --tokenize --output-format jsonl > new.jsonl
    """
    console.check_output(given["output"], texts, overwrite=given["overwrite"])
    trained, output_format = task_options.load_model(folder, given)
    task, report = trained.task, InputReport()
    if task.reads_text and not given["as_data"]:
        split = task.read_text(texts, options.input_settings(given), report)
        console.warn(*report.warnings)
    elif len(texts) == 1:
        where = "for a file in the format of the training data"
        options.refuse_options(options.INPUT_FIELDS, where)
        split = task.read(texts[0], labelled=False)
    else:
        raise UsageError(f"{texts[1]}: more than one file", "predict on the files one by one")
    vectors = task_options.embeddings_folder(folder, given, trained.bilm)
    with task_options.TaskReporter() as reporter:
        predictions = trained.predict_unseen(split, vectors, reporter)
    lines = task.format_lines(split, predictions, output_format)
    console.write_lines(given["output"], lines, overwrite=given["overwrite"])
    console.exit_if_skipped(report)
