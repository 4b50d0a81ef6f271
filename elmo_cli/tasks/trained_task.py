"""TrainedTask: a task model, and the files of the folder that it is stored in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo_cli.errors import ElmoError, ModelError
from elmo_cli.files import new_file, write_text
from elmo_cli.regular_files import read_json
from elmo_cli.tasks.embeddings_folder import BiLMRecord, EmbeddingsFolder
from elmo_cli.tasks.inputs import Inputs, LayerReader, TokenRepresentation, WordVectors
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.settings import TaskSettings, as_flat
from elmo_cli.tasks.task import Scores, Task, load_task
from elmo_cli.text.sentence import Tokens
from elmo_cli.training.reporter import Reporter
from elmo_cli.training.run_folder import TASK_FILE
from elmo_cli.training.tensors import read_tensors
from elmo_cli.version import __version__

MODEL_FILE = "model.pt"
WORDS_FILE = "word_vectors.npz"
_EMBEDDING = "representation.words.weight"  # in MODEL_FILE
_HINT = "give the folder that `elmo train` wrote"
_VERSION = 3
_CHUNK_TOKENS = 20_000  # predicted at a time; their vectors take 120 MB


class TrainedTask:
    """A task model, at first with random weights from torch's global generator.

    Args:
        labels: from `Task.collect_labels`.
        words: the word vectors of the model's embedding, and further ones for new text.
        bilm: the biLM whose layers the model reads.
    """

    def __init__(
        self, task: Task, labels: Any, words: WordVectors | None, bilm: BiLMRecord | None
    ) -> None:
        self.task = task
        self.words = words
        self.bilm = bilm
        task.labels = labels
        settings: TaskSettings = task.settings
        table = None if words is None else words.table()
        n_layers = 0 if bilm is None else bilm.n_layers
        elmo_dim = 0 if bilm is None else bilm.dim
        if settings.elmo_layers != "all":
            n_layers = 1
        representation = TokenRepresentation(settings, table, n_layers, elmo_dim)
        self.model = task.model_class(settings, labels, representation)

    def inputs(self, sentences: Sequence[Tokens], read_layers: LayerReader | None) -> Inputs:
        """Prepare inputs for sentences."""
        device = next(self.model.parameters()).device
        return Inputs(sentences, read_layers, self.words, device)

    def predict(self, examples: Sequence[Any], inputs: Inputs) -> list[Any]:
        """Return one prediction per example, in order, from batches of similar length."""
        lengths = [example.n_tokens(inputs.sentences) for example in examples]
        order = sorted(range(len(examples)), key=lengths.__getitem__)
        batch_size = self.task.settings.batch_size
        predictions: dict[int, Any] = {}  # number of the example -> prediction
        self.model.eval()
        with torch.no_grad():
            for start in range(0, len(order), batch_size):
                numbers = order[start : start + batch_size]
                batch = [examples[number] for number in numbers]
                of_batch = self.model.predict(batch, inputs)
                predictions.update(zip(numbers, of_batch, strict=True))
        return [predictions[number] for number in range(len(examples))]

    def predict_unseen(
        self, split: Split, folder: EmbeddingsFolder, reporter: Reporter
    ) -> list[Any]:
        """Return one prediction per example, with embeddings that are computed and not stored."""
        sentences = split.sentences
        n_tokens = sum(example.n_tokens(sentences) for example in split.examples)
        n_done = 0
        predictions: list[Any] = []
        for examples in _chunks(split):
            numbers = dict.fromkeys(number for example in examples for number in example.sentences)
            of_chunk = {number: sentences[number] for number in numbers}
            read_layers = folder.compute(of_chunk, self.task.settings.elmo_layers)
            predictions += self.predict(examples, self.inputs(sentences, read_layers))
            n_done += sum(example.n_tokens(sentences) for example in examples)
            reporter.progress("predicting", n_done, n_tokens)
        return predictions

    def evaluate(
        self, split: Split, folder: EmbeddingsFolder, reporter: Reporter
    ) -> tuple[list[Any], Scores]:
        """Return one prediction per example, with embeddings of the folder, and their scores."""
        read_layers = folder.find(split, self.task.settings.elmo_layers, reporter)
        predictions = self.predict(split.examples, self.inputs(split.sentences, read_layers))
        return predictions, self.task.score(split.examples, predictions)

    def config(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the content of task.json, with the identity of the data files."""
        return {
            "version": _VERSION,
            "elmo_version": __version__,
            "task": self.task.name,
            "settings": as_flat(self.task.settings),
            "labels": self.task.labels,
            "bilm": None if self.bilm is None else asdict(self.bilm),
            "word_vector_dim": None if self.words is None else self.words.vectors.shape[1],
            "data": data,
        }

    def write_config(self, folder: Path, config: dict[str, Any]) -> None:
        """Write the word vectors and task.json; OutputError if that fails."""
        if self.words is not None:
            # One string, since a NumPy array pads each string to the length of the longest.
            words = np.frombuffer("\n".join(self.words.words).encode(), np.uint8)
            with new_file(folder / WORDS_FILE) as file:
                np.savez(file, words=words, vectors=self.words.vectors)
        write_text(folder / TASK_FILE, [json.dumps(config, indent=1), "\n"])


def _chunks(split: Split) -> list[list[Any]]:
    """Return the examples in order, in a chunk for every `_CHUNK_TOKENS` tokens."""
    chunks: list[list[Any]] = []
    n_tokens_before = 0
    next_start = 0  # of a chunk, in tokens
    for example in split.examples:
        if n_tokens_before >= next_start:
            chunks.append([])
            next_start = _CHUNK_TOKENS * (1 + n_tokens_before // _CHUNK_TOKENS)
        chunks[-1].append(example)
        n_tokens_before += example.n_tokens(split.sentences)
    return chunks


def read_config(folder: Path) -> dict[str, Any]:
    """Read task.json; ModelError if it is missing or invalid."""
    path = folder / TASK_FILE
    try:
        config = read_json(path, ModelError, _HINT)
    except FileNotFoundError:
        problem = f"contains no task model ({TASK_FILE})"
        raise ModelError(problem, _HINT, where=folder) from None
    if not isinstance(config, dict) or config.get("version") != _VERSION:
        problem = "not a task model that this version of elmo can read"
        raise ModelError(problem, _HINT, where=path)
    return config


def load_trained(folder: str | Path, device: str = "cpu") -> TrainedTask:
    """Load the task model of a folder; ModelError if a file is missing or corrupt."""
    folder = Path(folder)
    config = read_config(folder)
    try:
        trained = _load(folder, config)
    except Exception as error:  # torch and zipfile raise a dozen types on corrupt files
        problem = f"the task model cannot be loaded ({error})"
        hint = "resume its training, or train it again"
        if isinstance(error, ElmoError):
            hint = error.hint
        on_one_line = " ".join(problem.split())
        raise ModelError(on_one_line, hint, where=folder) from error
    trained.model.to(device).eval()
    return trained


def _load(folder: Path, config: dict[str, Any]) -> TrainedTask:
    """Load a task model, with an embedding for all words of its file of word vectors."""
    task = load_task(config["task"], config["settings"])
    # By name, as `TrainedTask.config` wrote them: a missing or a further field is an error.
    bilm = None if config["bilm"] is None else BiLMRecord(**config["bilm"])
    state = read_tensors(folder / MODEL_FILE)
    words = None
    if config["word_vector_dim"] is not None:
        words = WordVectors.read(str(folder / WORDS_FILE))
        seen = state[_EMBEDDING]
        further = words.table()[len(seen) :]
        state[_EMBEDDING] = torch.cat([seen, further])
    trained = TrainedTask(task, config["labels"], words, bilm)
    trained.model.load_state_dict(state)
    return trained
