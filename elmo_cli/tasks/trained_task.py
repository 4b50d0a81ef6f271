"""TrainedTask: a task model, and the files of the folder that it is stored in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo_cli.embed.run import Progress, Warn
from elmo_cli.errors import InputError, ModelError, UsageError
from elmo_cli.files import new_file, write_text
from elmo_cli.lm.checkpoint import read_tensors
from elmo_cli.lm.run_folder import TASK_FILE
from elmo_cli.regular_files import read_json
from elmo_cli.tasks.elmo_vectors import BiLMRecord, EmbeddingsFolder, SentenceVectors
from elmo_cli.tasks.inputs import Array, Inputs, Tokens, WordTable, WordVectors
from elmo_cli.tasks.representation import TokenRepresentation
from elmo_cli.tasks.settings import TaskSettings, as_flat
from elmo_cli.tasks.task import Scores, Split, Task, TaskModel, load_task
from elmo_cli.text.input import InputSettings
from elmo_cli.version import __version__

MODEL_FILE, SCORES_FILE, WORDS_FILE = "model.pt", "scores.json", "word_vectors.npz"
_HINT = "give the folder that `elmo train` wrote"
_VERSION = 1
_CHUNK_TOKENS = 20_000  # predicted at a time; their vectors take 120 MB


@dataclass
class TrainedTask:
    """A task model with the word vectors and the biLM that it reads.

    Attributes:
        task: the task.
        labels: from `Task.collect_labels`.
        word_table: the words in the embedding table of the model; None without word vectors.
        word_vectors: vectors of these and further words; None without word vectors.
        bilm: the biLM whose layers the model reads; None without ELMo.
        model: the model, on the CPU unless it was moved.
    """

    task: Task[Any, Any]
    labels: Any
    word_table: WordTable | None
    word_vectors: WordVectors | None
    bilm: BiLMRecord | None
    model: TaskModel[Any, Any]

    @classmethod
    def new(
        cls,
        task: Task[Any, Any],
        labels: Any,
        vectors: WordVectors | None,
        bilm: BiLMRecord | None,
        sentences: Sequence[Tokens],
    ) -> TrainedTask:
        """Build an untrained model with random weights from torch's global generator.

        Args:
            sentences: those of the training and dev data, whose words get a row of the table.
        """
        words = None if vectors is None else WordTable.of(vectors, sentences)
        table = None if vectors is None or words is None else words.initial(vectors)
        representation = _representation(task.settings, table, bilm)
        model = task.model_class(task.settings, labels, representation)
        return cls(task, labels, words, vectors, bilm, model)

    @property
    def settings(self) -> TaskSettings:
        """The settings of the task."""
        return self.task.settings

    @property
    def reads_elmo(self) -> bool:
        """Whether the model reads layers of a biLM."""
        return self.settings.elmo.layers != "none"

    def inputs(self, sentences: Sequence[Tokens], vectors: SentenceVectors | None) -> Inputs:
        """Prepare inputs for sentences; new words with a vector are added to the table."""
        if self.word_table is not None and self.word_vectors is not None:
            extended = self.word_table.extended(self.word_vectors, sentences)
            rows = extended.initial(self.word_vectors)[len(self.word_table) :]
            self.model.representation.add_words(rows)
            self.word_table = extended
        device = next(self.model.parameters()).device
        return Inputs(sentences, vectors, self.word_table, device)

    def predict(self, split: Split[Any], vectors: SentenceVectors | None) -> list[Any]:
        """Return one prediction per example, in the order of the examples."""
        inputs = self.inputs(split.sentences, vectors)
        return predict_all(self.model, split, inputs, self.settings.batch_size)


def predict_all(
    model: TaskModel[Any, Any], split: Split[Any], inputs: Inputs, batch_size: int
) -> list[Any]:
    """Return one prediction per example, in order, from batches of similar length."""
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
    """Return the content of task.json.

    Args:
        data: role of a data file, such as "train" -> its path and SHA-256.
    """
    return {
        "version": _VERSION,
        "elmo_version": __version__,
        "task": trained.task.name,
        "settings": as_flat(trained.settings),
        "labels": trained.labels,
        "bilm": None if trained.bilm is None else asdict(trained.bilm),
        "word_vector_dim": None if trained.word_vectors is None else trained.word_vectors.dim,
        "data": dict(data),
    }


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Write task.json; OutputError if that fails."""
    write_text(str(folder / TASK_FILE), [json.dumps(config, indent=1) + "\n"], overwrite=True)


def write_words(folder: Path, trained: TrainedTask) -> None:
    """Write the word vectors that the model may need for new text; OutputError if that fails."""
    if trained.word_vectors is None or trained.word_table is None:
        return
    with new_file(folder / WORDS_FILE) as file:
        np.savez(
            file,
            words=np.array(trained.word_vectors.words, dtype=np.str_),
            vectors=trained.word_vectors.vectors,
            table=np.array(trained.word_table.words, dtype=np.str_),
        )


def read_config(folder: Path) -> dict[str, Any]:
    """Read task.json; ModelError if it is missing or invalid."""
    path = folder / TASK_FILE
    try:
        config: dict[str, Any] = read_json(path, ModelError, _HINT)
    except FileNotFoundError:
        raise ModelError(f"{folder}: contains no task model ({TASK_FILE})", _HINT) from None
    if not isinstance(config, dict) or config.get("version") != _VERSION:
        raise ModelError(f"{path}: not a task model that this version of elmo can read", _HINT)
    return config


def load_trained(folder: str | Path, device: str = "cpu") -> TrainedTask:
    """Load the task model of a folder; ModelError if a file is missing or corrupt."""
    folder = Path(folder)
    config = read_config(folder)
    try:
        state = read_tensors(folder / MODEL_FILE)
    except Exception as error:
        hint = "resume its training, or train it again"
        raise ModelError(f"{folder / MODEL_FILE}: missing or corrupt", hint) from error
    try:
        task = load_task(config["task"], config["settings"])
        bilm = None if config["bilm"] is None else BiLMRecord(**config["bilm"])
        words = vectors = table = None
        if config["word_vector_dim"] is not None:
            words, vectors = _read_words(folder / WORDS_FILE)
            table = torch.zeros(len(words), vectors.dim)
        representation = _representation(task.settings, table, bilm)
        model = task.model_class(task.settings, config["labels"], representation)
        model.load_state_dict(state)
    except (KeyError, TypeError, ValueError, RuntimeError, OSError) as error:
        what = f"{folder}: the files of the task model are inconsistent ({error})"
        raise ModelError(what, "train it again") from None
    model.to(device).eval()
    return TrainedTask(task, config["labels"], words, vectors, bilm, model)


def _read_words(path: Path) -> tuple[WordTable, WordVectors]:
    with np.load(path, allow_pickle=False) as arrays:
        found: dict[str, Array] = {name: arrays[name] for name in ("words", "vectors", "table")}
    vectors = WordVectors(found["words"].tolist(), found["vectors"])
    return WordTable(found["table"].tolist()), vectors


def predict_text(
    trained: TrainedTask,
    split: Split[Any],
    folder: EmbeddingsFolder | None,
    progress: Progress = lambda done, total: None,
) -> list[Any]:
    """Return one prediction per example, with embeddings that are computed and not stored.

    Args:
        folder: computes the embeddings; None without ELMo.
        progress: called with the number of tokens done and their total.
    """
    total, done, predictions = sum(map(len, split.sentences)), 0, list[Any]()
    for chunk in _chunks(split):
        vectors = None
        if folder is not None:
            vectors = folder.compute(chunk.sentences, trained.settings.elmo.layers)
        predictions += trained.predict(chunk, vectors)
        done += sum(map(len, chunk.sentences))
        progress(done, total)
    return predictions


def read_split(task: Task[Any, Any], path: str) -> Split[Any]:
    """Read labelled data; InputError if the file is invalid or contains no example."""
    split = task.read(path)
    if not split.examples:
        raise InputError(f"{path}: contains no example", "give a file with at least one example")
    return split


def read_for_prediction(
    trained: TrainedTask, paths: Sequence[str], text: InputSettings | None
) -> Split[Any]:
    """Read the sentences to predict on.

    Args:
        text: how text is read; None for a file in the format of the training data.
    """
    task = trained.task
    if text is not None and task.reads_text:
        return task.read_text(paths, text)
    if len(paths) > 1:
        raise UsageError(f"{paths[1]}: more than one file", "predict on the files one by one")
    return task.read(paths[0], labelled=False)


def check_format(task: Task[Any, Any], output_format: str | None) -> str:
    """Return the output format, by default the first of the task; UsageError if it is unknown."""
    if output_format is None:
        return task.formats[0]
    if output_format not in task.formats:
        hint = f"choose one of {', '.join(task.formats)}"
        raise UsageError(f"`output_format={output_format}`: no output format of {task.name}", hint)
    return output_format


def _chunks(split: Split[Any]) -> Iterator[Split[Any]]:
    """Yield consecutive examples of about `_CHUNK_TOKENS` tokens, with their sentences."""
    rows: dict[int, int] = {}  # number of a sentence in the split -> in the chunk
    examples: list[Any] = []
    n_tokens = 0
    for example in split.examples:
        for number in example.sentences:
            if number not in rows:  # frames share a sentence, and questions a context
                rows[number] = len(rows)
                n_tokens += len(split.sentences[number])
        numbers = tuple(rows[number] for number in example.sentences)
        examples.append(replace(example, sentences=numbers))
        if n_tokens >= _CHUNK_TOKENS:
            yield Split(split.path, [split.sentences[number] for number in rows], examples)
            rows, examples, n_tokens = {}, [], 0
    if examples:
        yield Split(split.path, [split.sentences[number] for number in rows], examples)


def evaluate(
    trained: TrainedTask,
    path: str,
    folder: EmbeddingsFolder | None,
    progress: Progress | None = None,
    warn: Warn | None = None,
) -> tuple[Split[Any], list[Any], Scores]:
    """Predict on a data file, and score the predictions.

    Args:
        folder: the embeddings; None without ELMo.
        progress, warn: as in `EmbeddingsFolder.find`.
    Returns:
        the content of the file, the predictions and their scores.
    """
    split = read_split(trained.task, path)
    vectors = None
    if folder is not None:
        vectors = folder.find(split, trained.settings.elmo.layers, progress, warn)
    predictions = trained.predict(split, vectors)
    return split, predictions, trained.task.score(split.examples, predictions)
