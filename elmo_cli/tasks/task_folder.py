"""TaskFolder: the files of a task model, and `TaskModelFile`, a model that was read from them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo_cli.errors import ElmoError, ModelError, UsageError
from elmo_cli.files import new_file, write_text
from elmo_cli.lm.run_folder import TASK_FILE
from elmo_cli.regular_files import read_json
from elmo_cli.tasks.elmo_vectors import BiLMRecord, SentenceVectors, VectorFolder
from elmo_cli.tasks.inputs import Array, Inputs, Tokens, WordTable, WordVectors
from elmo_cli.tasks.representation import TokenRepresentation
from elmo_cli.tasks.settings import TaskSettings, as_flat, with_settings
from elmo_cli.tasks.task import Scores, Split, Task, TaskModel, load_task
from elmo_cli.text.input import InputSettings
from elmo_cli.version import __version__

MODEL_FILE, SCORES_FILE, WORDS_FILE = "model.pt", "scores.json", "word_vectors.npz"
_HINT = "give the folder that `elmo train` wrote"
_VERSION = 1
_PIECE_TOKENS = 20_000  # whose vectors are in memory at a time: 120 MB


@dataclass
class TrainedTask:
    """A task model with what it needs to read text.

    Attributes:
        task, settings, labels: as of `Task.model`.
        words: table of the word vectors that the model has; None without word vectors.
        vectors: word vectors of further words; None without.
        bilm: the biLM whose layers it reads; None without ELMo.
        model: on the CPU unless it was moved.
    """

    task: Task[Any, Any]
    settings: TaskSettings
    labels: Any
    words: WordTable | None
    vectors: WordVectors | None
    bilm: BiLMRecord | None
    model: TaskModel[Any, Any]

    @classmethod
    def new(
        cls,
        task: Task[Any, Any],
        settings: TaskSettings,
        labels: Any,
        vectors: WordVectors | None,
        bilm: BiLMRecord | None,
        sentences: Sequence[Tokens],
    ) -> TrainedTask:
        """An untrained model, its random weights from torch's global generator.

        Args:
            sentences: of the training and dev data, whose words get a row of the table.
        """
        words = None if vectors is None else WordTable.of(vectors, sentences)
        table = None if vectors is None or words is None else words.initial(vectors)
        model = task.model(settings, labels, _representation(settings, table, bilm))
        return cls(task, settings, labels, words, vectors, bilm, model)

    @property
    def reads_elmo(self) -> bool:
        """Whether the model reads layers of a biLM."""
        return self.settings.elmo.layers != "none"

    def inputs(self, sentences: Sequence[Tokens], vectors: SentenceVectors | None) -> Inputs:
        """Inputs for sentences; words that the table lacks are added to it."""
        if self.words is not None and self.vectors is not None:
            extended = self.words.extended(self.vectors, sentences)
            rows = extended.initial(self.vectors)[len(self.words) :]
            self.model.representation.add_words(rows)
            self.words = extended
        device = next(self.model.parameters()).device
        return Inputs(sentences, vectors, self.words, device)

    def predict(self, split: Split[Any], vectors: SentenceVectors | None) -> list[Any]:
        """One prediction per example, in the order of the examples."""
        inputs = self.inputs(split.sentences, vectors)
        return predict_all(self.model, split, inputs, self.settings.batch_size)


def predict_all(
    model: TaskModel[Any, Any], split: Split[Any], inputs: Inputs, batch_size: int
) -> list[Any]:
    """One prediction per example, in the order of the examples, computed by length."""
    examples = split.examples
    order = sorted(range(len(examples)), key=lambda number: split.n_tokens(examples[number]))
    found: dict[int, Any] = {}
    model.eval()
    with torch.no_grad():
        for first in range(0, len(order), batch_size):
            some = order[first : first + batch_size]
            predictions = model.predict([examples[number] for number in some], inputs)
            found.update(zip(some, predictions, strict=True))
    return [found[number] for number in range(len(examples))]


def _representation(
    settings: TaskSettings, table: torch.Tensor | None, bilm: BiLMRecord | None
) -> TokenRepresentation:
    n_layers = 0 if bilm is None else bilm.n_layers if settings.elmo.layers == "all" else 1
    return TokenRepresentation(settings, table, n_layers, 0 if bilm is None else bilm.dim)


def config_of(trained: TrainedTask, data: Mapping[str, Any]) -> dict[str, Any]:
    """The content of task.json.

    Args:
        data: name of a data file -> what identifies it.
    """
    return {
        "version": _VERSION,
        "elmo_version": __version__,
        "task": trained.task.name,
        "settings": as_flat(trained.settings),
        "labels": trained.labels,
        "bilm": None if trained.bilm is None else asdict(trained.bilm),
        "word_vector_dim": None if trained.vectors is None else trained.vectors.dim,
        "data": dict(data),
    }


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Write task.json; OutputError."""
    write_text(str(folder / TASK_FILE), [json.dumps(config, indent=1) + "\n"], overwrite=True)


def write_words(folder: Path, trained: TrainedTask) -> None:
    """Write the word vectors that the model may need for new text; OutputError."""
    if trained.vectors is None or trained.words is None:
        return
    with new_file(folder / WORDS_FILE) as file:
        np.savez(
            file,
            words=np.array(trained.vectors.words, dtype=np.str_),
            vectors=trained.vectors.vectors,
            table=np.array(trained.words.words, dtype=np.str_),
        )


def write_tensors(path: Path, content: Any) -> None:
    """Replace a file of tensors atomically; OutputError."""
    with new_file(path, durable=True, resumable=path.exists()) as file:
        torch.save(content, file)


def read_tensors(path: Path, error: type[ElmoError], hint: str) -> Any:
    """Load a file of tensors on the CPU without running code in it; raises `error`."""
    try:
        with zipfile.ZipFile(path) as archive:
            if corrupt := archive.testzip():  # torch does not verify the checksums
                raise ValueError(f"{corrupt} is corrupt")
        return torch.load(path, weights_only=True, map_location="cpu")
    except Exception as reason:  # torch and zipfile raise a dozen types on corrupt files
        raise error(f"{path}: missing or corrupt", hint) from reason


def read_config(folder: Path) -> dict[str, Any]:
    """Read task.json; ModelError."""
    path = folder / TASK_FILE
    try:
        config: dict[str, Any] = read_json(path, ModelError, _HINT)
    except FileNotFoundError:
        raise ModelError(f"{folder}: contains no task model ({TASK_FILE})", _HINT) from None
    if not isinstance(config, dict) or config.get("version") != _VERSION:
        raise ModelError(f"{path}: not of a task model of this version of elmo", _HINT)
    return config


def load_trained(folder: str | Path, device: str = "cpu") -> TrainedTask:
    """Load the task model of a folder; ModelError if a file is missing or corrupt."""
    folder = Path(folder)
    config = read_config(folder)
    state = read_tensors(folder / MODEL_FILE, ModelError, "resume its training, or train it again")
    try:
        task = load_task(config["task"])
        settings = with_settings(task.settings(), config["settings"])
        bilm = None if config["bilm"] is None else BiLMRecord(**config["bilm"])
        words = vectors = table = None
        if config["word_vector_dim"] is not None:
            words, vectors = _read_words(folder / WORDS_FILE)
            table = torch.zeros(len(words), vectors.dim)
        representation = _representation(settings, table, bilm)
        model = task.model(settings, config["labels"], representation)
        model.load_state_dict(state)
    except (KeyError, TypeError, ValueError, RuntimeError, OSError) as error:
        what = f"{folder}: the files of the task model contradict each other ({error})"
        raise ModelError(what, "train it again") from None
    model.to(device).eval()
    return TrainedTask(task, settings, config["labels"], words, vectors, bilm, model)


def _read_words(path: Path) -> tuple[WordTable, WordVectors]:
    with np.load(path, allow_pickle=False) as arrays:
        found: dict[str, Array] = {name: arrays[name] for name in ("words", "vectors", "table")}
    vectors = WordVectors(found["words"].tolist(), found["vectors"])
    return WordTable(found["table"].tolist()), vectors


def predict_text(
    trained: TrainedTask,
    split: Split[Any],
    folder: VectorFolder | None,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> list[Any]:
    """One prediction per example, with vectors that are computed and not stored.

    Args:
        folder: computes the vectors; None without ELMo.
        progress: called with the tokens done and their number.
    """
    total, done, predictions = sum(map(len, split.sentences)), 0, list[Any]()
    for piece in _pieces(split):
        vectors = None
        if folder is not None and trained.reads_elmo:
            vectors = folder.compute(piece.sentences, trained.settings.elmo.layers)
        predictions += trained.predict(piece, vectors)
        done += sum(map(len, piece.sentences))
        progress(done, total)
    return predictions


def read_all(trained: TrainedTask, paths: Sequence[str], text: InputSettings | None) -> Split[Any]:
    """Read what is to be predicted on.

    Args:
        text: how text is read; None for a file in the format of the training data.
    """
    task = trained.task
    if text is not None and task.reads_text:
        return task.read_text(paths, text)
    if len(paths) > 1:
        raise UsageError(f"{paths[1]}: a second file", "predict on the files one by one")
    return task.read(paths[0], trained.settings, labelled=False)


def check_format(task: Task[Any, Any], form: str | None) -> str:
    """The format of predictions, by default the first of the task; UsageError for others."""
    if form is None:
        return task.formats[0]
    if form not in task.formats:
        hint = f"choose one of {', '.join(task.formats)}"
        raise UsageError(f"`output_format={form}`: no format of {task.name}", hint)
    return form


def _pieces(split: Split[Any]) -> Iterator[Split[Any]]:
    """Consecutive examples of about `_PIECE_TOKENS` tokens, with the sentences that they need."""
    sentences: list[Tokens] = []
    examples: list[Any] = []
    for example in split.examples:
        first = len(sentences)
        sentences += [split.sentences[number] for number in example.sentences]
        numbers = tuple(range(first, len(sentences)))
        examples.append(replace(example, sentences=numbers))
        if sum(map(len, sentences)) >= _PIECE_TOKENS:
            yield Split(split.path, sentences, examples)
            sentences, examples = [], []
    if examples:
        yield Split(split.path, sentences, examples)


def evaluate(
    trained: TrainedTask,
    path: str,
    folder: VectorFolder | None,
    progress: Callable[[int, int | None], None] | None = None,
) -> tuple[Split[Any], list[Any], Scores]:
    """Predict what a data file contains, and score the predictions.

    Args:
        folder: of embeddings; None without ELMo.
    Returns:
        the content of the file, the predictions, and their scores.
    """
    split = trained.task.read(path, trained.settings)
    vectors = None
    if folder is not None and trained.reads_elmo:
        vectors = folder.find(split, trained.settings.elmo.layers, progress)
    predictions = trained.predict(split, vectors)
    return split, predictions, trained.task.score(split.examples, predictions)
