"""Options, progress and scores shared by `elmo train`, `evaluate` and `predict`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console
from elmo_cli.cli.click_options import Option, non_empty, together, value
from elmo_cli.cli.options import device_option, threads_option_with
from elmo_cli.pretrained.catalogue import BUNDLED

if TYPE_CHECKING:
    from elmo_cli.tasks.elmo_vectors import BiLMRecord, EmbeddingsFolder

model_option: Option = value(
    "Data",
    "-m, --model NAME|PATH",
    "biLM of the embeddings.  [default: that of the files, else $ELMO_MODEL or elmo-en]",
    callback=non_empty,
)
task_compute_options: Option = together(device_option, threads_option_with("1"))


def embeddings_option(default: str) -> Option:
    """Option for the folder of the embeddings."""
    return value(
        "Data",
        "--embeddings DIR",
        "Folder of embeddings files; missing embeddings are computed and stored in it.  "
        f"[default: {default}]",
        callback=non_empty,
    )


def embeddings_folder(
    path: str, given: dict[str, Any], bilm: BiLMRecord | None = None
) -> EmbeddingsFolder:
    """Return the folder of the embeddings of a command.

    Args:
        given: values of `model_option` and `task_compute_options`.
        bilm: the biLM of a trained task model.
    """
    from elmo_cli.tasks.elmo_vectors import EmbeddingsFolder

    default = os.environ.get("ELMO_MODEL") or BUNDLED
    model, device = given["model"], given["device"]
    return EmbeddingsFolder(path, model, bilm=bilm, default_model=default, device=device)


def use_threads(threads: int | None) -> None:
    """Set the number of CPU threads, by default 1, since the matrices of task models are small."""
    from elmo_cli.engine.runtime import keep_freed_memory, set_num_threads

    set_num_threads(threads or 1)
    keep_freed_memory()


class TaskReporter:
    """Reporter that prints messages, progress and a line per epoch to the console."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._progress: console.Progress | None = None
        self._work = ""

    def message(self, text: str) -> None:
        """Print a line about the run."""
        self._stop()
        console.note(text, quiet=self._quiet)

    def warn(self, text: str) -> None:
        """Print a warning."""
        self.message(f"warning: {text}")

    def embedding(self, done: int, total: int | None) -> None:
        """Show the progress of computing missing embeddings."""
        self._show(done, total, "computing embeddings")

    def training(self, done: int, total: int | None) -> None:
        """Show the progress of training."""
        self._show(done, total, "")

    def epoch(self, line: dict[str, Any]) -> None:
        """Print the loss and the dev scores of an epoch."""
        scores = ", ".join(f"{name} {score:.2f}" for name, score in line["dev"].items())
        what = f"epoch {line['epoch']}: loss {line['loss']:.3f}, dev {scores}"
        console.note(f"{what}, {line['seconds']:.1f} s", quiet=self._quiet)

    def _show(self, done: int, total: int | None, work: str) -> None:
        if self._progress is None or work != self._work:
            self._stop()
            self._work = work
            if work:
                console.note(work, quiet=self._quiet)
            self._progress = console.Progress(None, "tokens", quiet=self._quiet, is_estimate=True)
            self._progress.__enter__()
        self._progress.update(done, total)

    def _stop(self) -> None:
        if self._progress is not None:
            self._progress.__exit__()
            self._progress = None

    def __enter__(self) -> TaskReporter:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()


def print_scores(title: str, facts: dict[str, Any]) -> None:
    """Print the content of `scores_as_dict`: one line of scores, and a table by type."""
    named = {name: score for name, score in facts.items() if isinstance(score, float)}
    console.say(f"{title}: " + ", ".join(f"{name} {score:.2f}" for name, score in named.items()))
    if facts["note"]:
        console.say(facts["note"])
    if by_type := facts["by_type"]:
        columns = list(next(iter(by_type.values())))
        rows = [
            [
                name,
                *(f"{one[c]:.2f}" if isinstance(one[c], float) else f"{one[c]:,}" for c in columns),
            ]
            for name, one in by_type.items()
        ]
        console.table(["type", *columns], rows)
