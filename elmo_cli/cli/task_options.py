"""Options, progress and scores shared by `elmo train`, `evaluate` and `predict`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console
from elmo_cli.cli.click_options import (
    FOLDER,
    MODEL_OR_FILE,
    PREDICTION_FORMAT,
    Option,
    together,
    value,
)
from elmo_cli.cli.lm_training import ConsoleReporter
from elmo_cli.cli.options import (
    ProcessorOptions,
    device_option,
    threads_option_with,
    use_threads,
)
from elmo_cli.cli.table import print_table
from elmo_cli.errors import UsageError
from elmo_cli.files import check_distinct
from elmo_cli.pretrained.catalogue import BUNDLED
from elmo_cli.training.reporter import SkippedRow

if TYPE_CHECKING:
    from elmo_cli.tasks.embeddings_folder import BiLMRecord, EmbeddingsFolder
    from elmo_cli.tasks.task import Task
    from elmo_cli.tasks.trained_task import TrainedTask

_MODEL = "biLM of the embeddings.  [default: that of the files, else $ELMO_MODEL or elmo-en]"
_FORMAT = (
    "Format of the predictions: conll, json or jsonl; docs/reference/data-formats.md lists those "
    "of each task.  [default: depends on the task]"
)
model_option: Option = value("Data", "-m, --model NAME|PATH", _MODEL, type=MODEL_OR_FILE)
format_option: Option = value("Output", "--output-format FORMAT", _FORMAT, type=PREDICTION_FORMAT)
compute_options: Option = together(device_option, threads_option_with("1"))


def embeddings_option(default: str) -> Option:
    """Option for the folder of the embeddings."""
    description = "Folder of embeddings files; missing embeddings are computed and stored in it."
    return value("Data", "--embeddings DIR", f"{description}  [default: {default}]", type=FOLDER)


@dataclass(frozen=True)
class TaskModelOptions(ProcessorOptions):
    """The values of `model_option` and `compute_options`."""

    model: str | None

    def use_threads(self) -> None:
        """Set the number of threads, by default one: the matrices of task models are small."""
        use_threads(self.threads or 1)

    def embeddings_folder(self, path: str, bilm: BiLMRecord | None = None) -> EmbeddingsFolder:
        """Return a folder of embeddings, for a task model with this biLM or for a new one."""
        from elmo_cli.tasks.embeddings_folder import EmbeddingsFolder

        return EmbeddingsFolder(
            path,
            self.model,
            bilm=bilm,
            default_model=os.environ.get("ELMO_MODEL") or BUNDLED,
            device=self.device,
        )


@dataclass(frozen=True)
class TrainedModelOptions(TaskModelOptions):
    """The values of the options of a command that predicts, and its folder of a task model."""

    folder: str
    output_format: str | None
    overwrite: bool

    def check_output(self, output: str, inputs: Iterable[str]) -> None:
        """Refuse, before any work, an output that is also read, or that cannot be written."""
        console.check_output(output, inputs, overwrite=self.overwrite)
        check_distinct(output, [self.folder, self.model], what="a file of the model")

    def load(self) -> TrainedTask:
        """Load the task model."""
        from elmo_cli.engine.runtime import select_device
        from elmo_cli.tasks.trained_task import load_trained

        self.use_threads()
        return load_trained(self.folder, str(select_device(self.device)))

    def format_for(self, task: Task) -> str:
        """Return the format of predictions; a UsageError for one that the task does not have."""
        output_format = self.output_format or task.formats[0]
        if output_format not in task.formats:
            problem = f"no output format of {task.name}"
            hint = f"choose one of {', '.join(task.formats)}"
            raise UsageError(problem, hint, where=f"`output_format={output_format}`")
        return output_format


def vectors_folder(folder: str) -> str:
    """Return the default folder of embeddings: that in the folder of a task model."""
    return os.path.join(folder, "vectors")


class TaskReporter(ConsoleReporter):
    """Reporter that prints a line per epoch, and shows progress in between."""

    def __init__(self) -> None:
        super().__init__("the dev data", is_estimate=True)
        self.skipped_rows: list[SkippedRow] = []

    def message(self, text: str) -> None:
        """Print a message, which ends the progress before it."""
        super().message(text)
        self.begin("", "")

    def skipped(self, rows: Sequence[SkippedRow]) -> None:
        self.skipped_rows += rows

    def log_line(self, line: dict[str, Any]) -> None:
        scores = ", ".join(f"{name} {score:.2f}" for name, score in line["dev"].items())
        losses = f"loss {line['loss']:.3f}, dev {scores}"
        console.note(f"epoch {line['epoch']}: {losses}, {line['seconds']:.1f} s")


def print_scores(title: str, facts: dict[str, Any]) -> None:
    """Print the content of `Scores.to_dict`: one line of scores, and a table by type."""
    scores = [f"{name} {score:.2f}" for name, score in facts.items() if isinstance(score, float)]
    console.say(f"{title}: " + ", ".join(scores))
    if facts["note"]:
        console.say(facts["note"])
    by_type = facts["by_type"]
    if by_type:
        first_type = next(iter(by_type.values()))
        rows = []
        for name, of_type in by_type.items():
            rows.append([name, *(_cell(score) for score in of_type.values())])
        print_table(["type", *first_type], rows)


def _cell(score: float) -> str:
    return f"{score:.2f}" if isinstance(score, float) else f"{score:,}"
