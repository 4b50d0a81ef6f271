"""`elmo predict`: apply a task model to new text."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import console, options, task_options
from elmo_cli.cli.click_options import (
    FILE,
    FOLDER,
    InputText,
    argument,
    command,
    flag,
    output_option,
)
from elmo_cli.cli.corrected_line import shell_line
from elmo_cli.errors import UsageError
from elmo_cli.text.input_report import InputReport
from elmo_cli.training.reporter import SILENT

if TYPE_CHECKING:
    from elmo_cli.tasks.embeddings_folder import EmbeddingsFolder
    from elmo_cli.tasks.readers import Split
    from elmo_cli.tasks.task import Task
    from elmo_cli.text.sentence import Tokens


@dataclass(frozen=True)
class PredictOptions(task_options.TrainedModelOptions, options.InputOptions):
    """The values of all options of `elmo predict`; each field is an option of the same name."""

    texts: tuple[str, ...]
    output: str
    as_data: bool


class _NewText(InputText):
    """The path of a text; the folder of a task model in its place is one that belongs before it."""

    def check(self, path: str, ctx: click.Context) -> None:
        from elmo_cli.training.run_folder import TASK_FILE

        if os.path.isfile(os.path.join(path, TASK_FILE)):
            hint = f"it comes first: `elmo predict {shell_line([path])} TEXT`"
            raise UsageError("a task model, not a text", hint, where=path)
        super().check(path, ctx)


@command
@argument("folder", metavar="DIR", type=FOLDER)
@options.texts_argument("texts", required=True, metavar="TEXT…", type=_NewText())
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
      xz -dc new.txt.xz | elmo predict ner/ - --tokenize -o new.jsonl \\
          --output-format jsonl
    """
    from elmo_cli.tasks.chunks import read_chunks

    chosen = PredictOptions(**values)
    chosen.check_output(chosen.output, chosen.texts)
    trained = chosen.load()
    task = trained.task
    output_format = chosen.format_for(task)
    report = InputReport()
    split, rows = _open(chosen, task, report)
    path = task_options.vectors_folder(chosen.folder)
    vectors = chosen.embeddings_folder(path, trained.bilm)
    is_shown = chosen.output == "-" and console.is_terminal(sys.stdout)
    # A progress bar would be mixed with predictions on the same terminal.
    reporting = nullcontext(SILENT) if is_shown else task_options.TaskReporter()
    with reporting as reporter:
        chunks = _with_warnings(read_chunks(split, rows, is_waiting=_is_waiting), report)
        if trained.bilm is not None:
            chunks = _with_fit(chunks, vectors)
        predicted = trained.predict_chunks(chunks, vectors, reporter)
        parts = task.format_file(predicted, output_format)
        console.write_parts(chosen.output, parts, overwrite=chosen.overwrite)
    console.exit_if_skipped(report)


def _open(chosen: PredictOptions, task: Task, report: InputReport) -> tuple[Split, Iterator[None]]:
    """Open the text, or a file in the format of the training data.

    Returns:
        An empty split, and an iterator that adds one row to it at each step.
    """
    from elmo_cli.tasks.data_files import read_rows
    from elmo_cli.tasks.readers import Split
    from elmo_cli.text.input import read_sentences

    if task.reads_text and not chosen.as_data:
        sentences = read_sentences(chosen.texts, chosen.input_settings(), report)
        split = Split(", ".join(chosen.texts))
        return split, task.fill_text(split, sentences)
    if len(chosen.texts) > 1:
        where = chosen.texts[1]
        raise UsageError("more than one file", "predict on the files one by one", where=where)
    where = "for a file in the format of the training data"
    options.refuse_options(options.INPUT_FIELDS, where)
    path = chosen.texts[0]
    split = Split(path, where=path, report=report)
    return split, read_rows(task, split, labelled=False)


def _with_warnings(chunks: Iterator[Split], report: InputReport) -> Iterator[Split]:
    """Yield the same chunks; print the warnings about each chunk before it is yielded."""
    n_printed = 0
    for chunk in chunks:
        console.warn(*report.warnings[n_printed:])
        n_printed = len(report.warnings)
        yield chunk
    console.warn(*report.warnings[n_printed:])  # those that come with the end of the text


def _with_fit(chunks: Iterator[Split], vectors: EmbeddingsFolder) -> Iterator[Split]:
    """Yield the same chunks; warn if few of the first tokens of all are known to the biLM."""
    from elmo_cli.embed.text_fit import MAX_TOKENS

    first_sentences: list[Tokens] = []
    n_tokens = 0
    for chunk in chunks:
        first_sentences += chunk.sentences
        n_tokens += sum(map(len, chunk.sentences))
        yield chunk
        if n_tokens >= MAX_TOKENS:
            break
    vectors.warn_of_fit(first_sentences, console.warn)
    yield from chunks


def _is_waiting() -> bool:
    """Whether standard input has no data yet, so that reading from it would wait."""
    try:
        ready, _, _ = select.select([sys.stdin], [], [], 0)
    except (OSError, ValueError, TypeError):  # closed, or not a stream of the system
        return False
    return not ready
