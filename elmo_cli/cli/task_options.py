"""Options, progress and scores shared by `elmo train`, `evaluate` and `predict`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console
from elmo_cli.cli.click_options import Option, together, value
from elmo_cli.cli.lm_training import ConsoleReporter
from elmo_cli.cli.options import device_option, threads_option_with, use_threads
from elmo_cli.errors import UsageError
from elmo_cli.pretrained.catalogue import BUNDLED

if TYPE_CHECKING:
    from elmo_cli.tasks.embeddings_folder import BiLMRecord, EmbeddingsFolder
    from elmo_cli.tasks.trained_task import TrainedTask

_MODEL = "biLM of the embeddings.  [default: that of the files, else $ELMO_MODEL or elmo-en]"
_FORMAT = (
    "Format of the predictions: conll, json or jsonl; docs/train.md lists those of each task.  "
    "[default: depends on the task]"
)
model_option: Option = value("Data", "-m, --model NAME|PATH", _MODEL)
format_option: Option = value("Output", "--output-format FORMAT", _FORMAT)
compute_options: Option = together(device_option, threads_option_with("1"))


def embeddings_option(default: str) -> Option:
    """Option for the folder of the embeddings."""
    what = "Folder of embeddings files; missing embeddings are computed and stored in it."
    return value("Data", "--embeddings DIR", f"{what}  [default: {default}]")


def embeddings_folder(
    folder: str, given: dict[str, Any], bilm: BiLMRecord | None = None
) -> EmbeddingsFolder:
    """Return the folder of the embeddings, by default in that of the task model with this biLM."""
    from elmo_cli.tasks.embeddings_folder import EmbeddingsFolder

    path = given.get("embeddings") or os.path.join(folder, "vectors")
    default = os.environ.get("ELMO_MODEL") or BUNDLED
    model, device = given["model"], given["device"]
    return EmbeddingsFolder(path, model, bilm=bilm, default_model=default, device=device)


def load_model(folder: str, given: dict[str, Any]) -> tuple[TrainedTask, str]:
    """Load a task model; return also the format of its predictions."""
    from elmo_cli.engine.runtime import select_device
    from elmo_cli.tasks.trained_task import load_trained

    use_threads(given["threads"] or 1)  # its matrices are small
    trained = load_trained(folder, str(select_device(given["device"])))
    formats = trained.task.formats
    if (chosen := given["output_format"] or formats[0]) not in formats:
        what = f"`output_format={chosen}`: no output format of {trained.task.name}"
        raise UsageError(what, f"choose one of {', '.join(formats)}")
    return trained, chosen


class TaskReporter(ConsoleReporter):
    """Reporter that prints a line per epoch, and shows progress in between."""

    def __init__(self) -> None:
        super().__init__("the dev data", is_estimate=True)

    def message(self, text: str) -> None:
        """Print a message, which ends the progress before it."""
        super().message(text)
        self.begin("", "")

    def log_line(self, line: dict[str, Any]) -> None:
        scores = ", ".join(f"{name} {score:.2f}" for name, score in line["dev"].items())
        what = f"epoch {line['epoch']}: loss {line['loss']:.3f}, dev {scores}"
        console.note(f"{what}, {line['seconds']:.1f} s")


def print_scores(title: str, facts: dict[str, Any]) -> None:
    """Print the content of `Scores.to_dict`: one line of scores, and a table by type."""
    named = [f"{name} {score:.2f}" for name, score in facts.items() if isinstance(score, float)]
    console.say(f"{title}: " + ", ".join(named))
    if facts["note"]:
        console.say(facts["note"])
    if by_type := facts["by_type"]:
        columns = list(next(iter(by_type.values())))
        rows = [[name, *map(_cell, one.values())] for name, one in by_type.items()]
        console.table(["type", *columns], rows)


def _cell(score: float) -> str:
    return f"{score:.2f}" if isinstance(score, float) else f"{score:,}"
