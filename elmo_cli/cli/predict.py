"""`elmo predict`: apply a task model to new text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console, options, task_options
from elmo_cli.cli.click_options import FILE, FOLDER, argument, command, flag, output_option
from elmo_cli.errors import UsageError
from elmo_cli.text.input_report import InputReport

if TYPE_CHECKING:
    from elmo_cli.tasks.readers import Split
    from elmo_cli.tasks.task import Task


@dataclass(frozen=True)
class PredictOptions(task_options.TrainedModelOptions, options.InputOptions):
    """The values of all options of `elmo predict`; each field is an option of the same name."""

    texts: tuple[str, ...]
    output: str
    as_data: bool


@command
@argument("folder", metavar="DIR", type=FOLDER)
@options.texts_argument("texts", required=True, metavar="TEXT…")
@output_option(
    "FILE", "File to write the predictions to; - is standard output.", default="-", type=FILE
)
@task_options.format_option
@options.overwrite_option
@flag("Input", "--as-data", "Read TEXT in the format of the training data; labels may be missing.")
@task_options.model_option
@options.input_options
@task_options.compute_options
@options.quiet_option
def predict(**values: Any) -> None:
    """Apply a task model to new text.

    DIR is the output folder of `elmo train`. Embeddings are computed with the biLM that the task
    model was trained with, and are not stored.

    \b
    Examples:
      elmo predict ner/ new.txt -o new.conll
      xz -dc new.txt.xz | elmo predict ner/ - --tokenize --output-format jsonl > new.jsonl
    """
    chosen = PredictOptions(**values)
    console.check_output(chosen.output, chosen.texts, overwrite=chosen.overwrite)
    trained = chosen.load()
    task = trained.task
    output_format = chosen.format_for(task)
    report = InputReport()
    split = _read(chosen, task, report)
    path = task_options.vectors_folder(chosen.folder)
    vectors = chosen.embeddings_folder(path, trained.bilm)
    with task_options.TaskReporter() as reporter:
        predictions = trained.predict_unseen(split, vectors, reporter)
    lines = task.format_lines(split, predictions, output_format)
    console.write_lines(chosen.output, lines, overwrite=chosen.overwrite)
    console.exit_if_skipped(report)


def _read(chosen: PredictOptions, task: Task, report: InputReport) -> Split:
    """Read the text, or a file in the format of the training data; print the warnings."""
    if task.reads_text and not chosen.as_data:
        split = task.read_text(chosen.texts, chosen.input_settings(), report)
        console.warn(*report.warnings)
        return split
    if len(chosen.texts) > 1:
        where = chosen.texts[1]
        raise UsageError("more than one file", "predict on the files one by one", where=where)
    where = "for a file in the format of the training data"
    options.refuse_options(options.INPUT_FIELDS, where)
    return task.read(chosen.texts[0], labelled=False)
