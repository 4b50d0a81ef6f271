"""TrainedTask: a task model, and the files of the folder that it is stored in."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import NoneType
from typing import Any

import torch
from torch import Tensor

from elmo_cli.errors import ElmoError, ModelError, TrainingError
from elmo_cli.fields import check_fields
from elmo_cli.files import write_text
from elmo_cli.pretrained.parts_file import PartsFile, check_digest
from elmo_cli.regular_files import read_json, sha256_of_file
from elmo_cli.tasks.embeddings_folder import BiLMRecord, EmbeddingsFolder
from elmo_cli.tasks.inputs import Inputs, LayerReader, TokenRepresentation
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.settings import TaskSettings, as_flat
from elmo_cli.tasks.task import Scores, Task, load_task
from elmo_cli.tasks.word_vectors import WordVectors
from elmo_cli.text.sentence import Tokens
from elmo_cli.training.reporter import Reporter
from elmo_cli.training.run_folder import MODEL_FILE, SCORES_FILE, TASK_FILE, WORDS_FILE
from elmo_cli.training.tensors import read_tensors, write_tensors
from elmo_cli.version import __version__

PARTS = {  # the names in parts.json
    "task": TASK_FILE,
    "model": MODEL_FILE,
    "word_vectors": WORDS_FILE,
}
_EMBEDDING = "representation.words.weight"  # in MODEL_FILE
_HINT = "give the folder that `elmo train` wrote"
_REPLACE_HINT = "get the folder again, or train the model again"
_VERSION = 3
_CONFIG: dict[str, Any] = {  # the types of the fields of TASK_FILE
    "task": str,
    "settings": dict,
    "labels": (dict, list, NoneType),
    "bilm": (dict, NoneType),
    "word_vector_dim": (int, NoneType),
    "data": dict,
}
_MAX_LAYERS = 1_001  # of a biLM, with the token layer, as `model.options` limits them
_MAX_DIM = 1 << 25


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
        """Return one prediction per example, in order, from batches of similar length.

        The prediction of a blank example is None.
        """
        predictions: dict[int, Any] = {}  # number of the example -> prediction
        self.model.eval()
        with torch.no_grad():
            for numbers in self._batches(examples, inputs):
                batch = [examples[number] for number in numbers]
                of_batch = self.model.predict(batch, inputs)
                predictions.update(zip(numbers, of_batch, strict=True))
        return [predictions.get(number) for number in range(len(examples))]

    def loss(self, examples: Sequence[Any], inputs: Inputs) -> float:
        """Return the mean loss of examples without dropout; NaN if there is no example.

        A loss may draw at random, such as a part of a document; these draws are always the same.
        """
        if not examples:
            return math.nan
        total_loss = 0.0
        self.model.eval()
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(0)
            for numbers in self._batches(examples, inputs):
                batch = [examples[number] for number in numbers]
                total_loss += len(batch) * self.model.loss(batch, inputs).item()
        return total_loss / len(examples)

    def _batches(self, examples: Sequence[Any], inputs: Inputs) -> Iterator[list[int]]:
        """Yield the numbers of examples of similar length, without blank ones."""
        lengths = [example.n_tokens(inputs.sentences) for example in examples]
        numbers = [number for number, example in enumerate(examples) if not example.is_blank]
        order = sorted(numbers, key=lengths.__getitem__)
        batch_size = self.task.settings.batch_size
        for start in range(0, len(order), batch_size):
            yield order[start : start + batch_size]

    def predict_chunks(
        self, chunks: Iterable[Split], folder: EmbeddingsFolder, reporter: Reporter
    ) -> Iterator[tuple[Split, list[Any]]]:
        """Yield chunks of text, each with one prediction per example.

        Embeddings are computed and not stored; memory does not grow with the number of chunks.
        """
        n_tokens = 0
        for chunk in chunks:
            predictions = self.predict_unseen(chunk, folder)
            n_tokens += sum(example.n_tokens(chunk.sentences) for example in chunk.examples)
            reporter.progress("predicting", n_tokens, None)
            yield chunk, predictions

    def predict_unseen(self, split: Split, folder: EmbeddingsFolder) -> list[Any]:
        """Return one prediction per example, with embeddings that are computed and not stored."""
        sentences = split.sentences_of_examples()
        read_layers = folder.compute(sentences, self.task.settings.elmo_layers)
        return self.predict(split.examples, self.inputs(split.sentences, read_layers))

    def evaluate(
        self, split: Split, folder: EmbeddingsFolder, reporter: Reporter
    ) -> tuple[list[Any], Scores]:
        """Return one prediction per example, with embeddings of the folder, and their scores.

        Examples without a target are predicted, but not scored.
        """
        read_layers = folder.find(split, self.task.settings.elmo_layers, reporter)
        predictions = self.predict(split.examples, self.inputs(split.sentences, read_layers))
        scored_examples = []
        scored_predictions = []
        for example, prediction in zip(split.examples, predictions, strict=True):
            if self.task.is_labelled(example):
                scored_examples.append(example)
                scored_predictions.append(prediction)
        return predictions, self.task.score(scored_examples, scored_predictions)

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

    def write_start(self, folder: Path, config: dict[str, Any]) -> None:
        """Write task.json, which marks the folder of a run, and word vectors; or OutputError."""
        PartsFile(folder, PARTS).remove()
        write_text(folder / TASK_FILE, [json.dumps(config, indent=1), "\n"], durable=True)
        if self.words is not None:
            self.words.write(folder / WORDS_FILE)

    def write_weights(self, folder: Path) -> None:
        """Write the weights, and parts.json for all files of the model; or OutputError.

        TrainingError if a weight is not finite: such a model cannot be loaded.
        """
        state = self.model.state_dict()
        if not all(_is_finite(tensor) for tensor in state.values()):
            hint = "start over with `overwrite=True` and a lower `learning_rate`"
            raise TrainingError("the weights of the best epoch are not finite", hint)
        write_tensors(folder / MODEL_FILE, state)
        PartsFile(folder, PARTS).write()


def read_config(folder: Path) -> dict[str, Any]:
    """Read task.json; ModelError if it is missing or does not have the fields of `config`."""
    path = folder / TASK_FILE
    try:
        config = read_json(path, ModelError, _HINT)
    except FileNotFoundError:
        problem = f"contains no task model ({TASK_FILE})"
        raise ModelError(problem, _HINT, where=folder) from None
    if not isinstance(config, dict) or config.get("version") != _VERSION:
        problem = "not a task model that this version of elmo can read"
        raise ModelError(problem, _HINT, where=path)
    for name, kinds in _CONFIG.items():
        if name not in config or not isinstance(config[name], kinds):
            problem = f"the field {name} is missing or of the wrong type"
            raise ModelError(problem, _REPLACE_HINT, where=path)
    return config


def has_valid_parts(folder: Path) -> bool:
    """Whether all files of a task model exist and are those that were written together."""
    try:
        _check_parts(folder, read_config(folder))
    except (ModelError, OSError):
        return False
    return True


def _check_parts(folder: Path, config: dict[str, Any]) -> None:
    """Raise a ModelError unless all files of a task model are those that parts.json records."""
    digests = PartsFile(folder, PARTS).read(_REPLACE_HINT)
    if not digests and not (folder / SCORES_FILE).exists():
        hint = "`elmo train … --resume` continues it"
        raise ModelError("the training of this model is not finished", hint, where=folder)
    parts = ["task", "model"]
    if config["word_vector_dim"] is not None:
        parts.append("word_vectors")
    for part in parts:
        path = folder / PARTS[part]
        if part not in digests:
            problem = "parts.json does not state that this belongs to the model"
            raise ModelError(problem, _REPLACE_HINT, where=path)
        if not path.exists():
            raise ModelError("missing", _REPLACE_HINT, where=path)
        check_digest(path, sha256_of_file(path), digests[part], _REPLACE_HINT)


def load_trained(folder: str | Path, device: str = "cpu") -> TrainedTask:
    """Load the task model of a folder.

    ModelError if a file is missing, corrupt or of another model, or states sizes that the weights
    do not have.
    """
    folder = Path(folder)
    config = read_config(folder)
    _check_parts(folder, config)
    try:
        trained = _load(folder, config)
    except Exception as error:  # torch and zipfile raise a dozen types on corrupt files
        problem = f"the task model cannot be loaded ({error})"
        hint = error.hint if isinstance(error, ElmoError) else _REPLACE_HINT
        on_one_line = " ".join(problem.split())
        raise ModelError(on_one_line, hint, where=folder) from error
    trained.model.to(device).eval()
    return trained


def _load(folder: Path, config: dict[str, Any]) -> TrainedTask:
    """Load a task model, with an embedding for all words of its file of word vectors."""
    task = load_task(config["task"], config["settings"])
    labels = config["labels"]
    task.check_model_labels(labels)
    bilm = None if config["bilm"] is None else _read_bilm(config["bilm"])
    state = read_tensors(folder / MODEL_FILE)
    words = None
    if config["word_vector_dim"] is not None:
        words = WordVectors.read(str(folder / WORDS_FILE))
        seen = state[_EMBEDDING]
        further = words.table()[len(seen) :]
        state[_EMBEDDING] = torch.cat([seen, further])
    with torch.device("meta"):  # without memory, of which the stated sizes may need any amount
        outline = TrainedTask(task, labels, words, bilm)
    _check_state(state, outline.model.state_dict())
    trained = TrainedTask(task, labels, words, bilm)
    trained.model.load_state_dict(state)
    return trained


def _read_bilm(fields: dict[str, Any]) -> BiLMRecord:
    """Return the biLM of a task.json; a ValueError for values that no biLM has."""
    # By name, as `TrainedTask.config` wrote them: a missing or a further field is an error.
    bilm = BiLMRecord(**fields)
    check_fields(bilm)
    if not 1 <= bilm.n_layers <= _MAX_LAYERS or not 1 <= bilm.dim <= _MAX_DIM:
        raise ValueError(f"a biLM with {bilm.n_layers} layers of {bilm.dim} values")
    return bilm


def _check_state(state: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Raise a ValueError unless weights have the expected names, shapes and types, and are finite.

    Args:
        expected: tensors whose values do not matter.
    """
    different = state.keys() ^ expected.keys()
    if different:
        raise ValueError(f"{MODEL_FILE} and {TASK_FILE} differ in {min(different)}")
    for name, tensor in state.items():
        shape = tuple(expected[name].shape)
        if tuple(tensor.shape) != shape or tensor.dtype != expected[name].dtype:
            found = f"{tuple(tensor.shape)}, {tensor.dtype}"
            raise ValueError(f"{name} is of shape {found}, expected {shape}")
        if not _is_finite(tensor):
            raise ValueError(f"{name} has a value that is not finite")


def _is_finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())
