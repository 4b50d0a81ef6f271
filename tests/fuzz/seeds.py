"""Small valid files of every kind that elmo reads, as bytes: where the fuzzing begins."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import numpy as np
import torch
from make_weights import options_of, weight_arrays, write_arrays
from store import writer_runs
from store.embedding_files import array, lines

from elmo_cli.lm.checkpoint import save_corpora
from elmo_cli.lm.corpus import Corpus
from elmo_cli.tasks.embeddings_folder import EmbeddingsFolder
from elmo_cli.tasks.task import load_task
from elmo_cli.tasks.train import TaskData, train_task
from elmo_cli.training.reporter import SILENT

_GOLDEN = Path(__file__).resolve().parents[1] / "golden"
# The smallest biLM that has every part.
OPTIONS = options_of(filters=[[1, 2], [2, 3]], char_dim=2, cell=3, projection=2, n_layers=1)
N_TYPES = 5
WAYS = (
    "allennlp",
    "e2e-coref",
    "lsgn",
    "dygie",
    "manylangs",
    "seqvec",
    "bio-embeddings",
    "bilm",
    "flat",
    "int8",
)


def _bytes(write_to: Callable[[Path], object]) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "made"
        write_to(path)
        return path.read_bytes()


@cache
def embeddings(way: str, **run_settings: str) -> bytes:
    """A file of our own."""
    settings = {**writer_runs.SETTINGS, **run_settings}

    def write_to(path: Path) -> None:
        writer_runs.run(path, way, run_settings=settings)

    return _bytes(write_to)


@cache
def run_files(way: str) -> dict[str, bytes]:
    """What a run leaves that was killed in its third block, by what the names end in."""
    with TemporaryDirectory() as folder:
        writer_runs.run(Path(folder) / "out.hdf5", way, n=4, finish=False)
        return {
            made.name.removeprefix("out.hdf5"): made.read_bytes()
            for made in sorted(Path(folder).iterdir())
        }


@cache
def foreign() -> list[bytes]:
    """Files as h5py alone makes them: their metadata have no checksums."""

    def made(change: Callable[[h5py.File], object]) -> bytes:
        def write_to(path: Path) -> None:
            with h5py.File(path, "w") as file:
                change(file)

        return _bytes(write_to)

    return [made(change) for change in (_numbers, _documents, _packed, _types)]


def _numbers(file: h5py.File) -> None:
    for sentence in lines()[:5]:
        file[str(sentence.key)] = array(sentence)
    texts = json.dumps({sentence.text: str(sentence.key) for sentence in lines()[:5]})
    file.create_dataset("sentence_to_index", (1,), h5py.string_dtype("utf-8"))[0] = texts
    # No checksum covers them, as it does in our files.
    file.attrs.update({"layers": "all", "tokens": 12, "sources": ["a", "b"], "x": np.ones(3)})


def _documents(file: h5py.File) -> None:
    for sentence in lines()[:5]:
        document, number = divmod(sentence.key, 2)
        file[f"nw:wsj:{document}/{number}"] = np.moveaxis(array(sentence), 0, -1)


def _packed(file: h5py.File) -> None:
    for sentence in lines(blank=False)[:4]:
        values = array(sentence)
        file.create_dataset(f"P{sentence.key}", data=values, compression="gzip", shuffle=True)


def _types(file: h5py.File) -> None:
    values = np.arange(40, dtype=np.float32).reshape(10, 4)
    file.create_dataset("embedding", data=values, chunks=(4, 4))


def _arrays(arrays: dict[str, Any]) -> bytes:
    def write_to(path: Path) -> None:
        write_arrays(path, arrays)

    return _bytes(write_to)


@cache
def weights() -> bytes:
    """Of a biLM."""
    return _arrays(weight_arrays(OPTIONS, "fuzz"))


@cache
def softmax() -> bytes:
    return _arrays({"softmax/W": np.ones((N_TYPES, 2), "f4"), "softmax/b": np.ones(N_TYPES, "f4")})


@cache
def state() -> bytes:
    return _arrays({"h": np.ones((1, 2, 1, 2), "f4"), "c": np.ones((1, 2, 1, 3), "f4")})


def options() -> bytes:
    return json.dumps(OPTIONS).encode()


def recipe() -> bytes:
    content = {"texts": ["*.txt", "b"], "batch-size": 32, "init-from": "x", "seed": None}
    return json.dumps(content).encode()


@cache
def kept_text() -> bytes:
    """The text of a run."""
    text = Corpus.read([["a", "b"], ["a"], ["c", "b", "a"]], begins=[0, 2])

    def write_to(path: Path) -> None:
        save_corpora(path, text, text)

    return _bytes(write_to)


@cache
def checkpoint() -> bytes:
    content = {"version": 6, "run": {"batch_size": 4}, "model": torch.nn.Linear(2, 3).state_dict()}
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def word_vectors_text() -> bytes:
    return b"the 1 0\nanna 0 1.5\noslo -2e-3 1\n"


def word_vectors_gz() -> bytes:
    return gzip.compress(word_vectors_text() * 20)


@cache
def word_vectors_npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, words=np.array(["the", "anna"]), vectors=np.ones((2, 3), "f4"))
    return buffer.getvalue()


@cache
def task_model() -> dict[str, bytes]:
    """The files of a trained task model without ELMo, by name."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.conll").write_text("Anna B-PER\nin O\nOslo B-LOC\n\nit O\nrains O\n")
        (folder / "words.txt").write_bytes(word_vectors_text())
        sizes = {"hidden": 2, "char_filters": 2, "char_dim": 2, "epochs": 1, "elmo.layers": "none"}
        train = str(folder / "train.conll")
        embeddings = EmbeddingsFolder(str(folder / "vectors"))
        data = TaskData(train, train, embeddings, str(folder / "words.txt"))
        train_task(load_task("ner", sizes), data, str(folder / "ner"), SILENT, mode="new")
        return {path.name: path.read_bytes() for path in (folder / "ner").iterdir()}


def task_file(name: str) -> bytes:
    return task_model()[name]


@cache
def checkpoint_files() -> dict[str, bytes]:
    """Of a TensorFlow checkpoint."""
    return _files(_GOLDEN / "tf_checkpoint" / "full")


@cache
def saved_model_files() -> dict[str, bytes]:
    """Of a SavedModel with the same weights."""
    options = (_GOLDEN / "tf_checkpoint" / "full" / "options.json").read_bytes()
    return {**_files(_GOLDEN / "tf_checkpoint" / "savedmodel"), "options.json": options}


@cache
def allennlp_archive() -> bytes:
    """A model of AllenNLP."""
    return (_GOLDEN / "allennlp_archive" / "model.tar.gz").read_bytes()


@cache
def allennlp_files() -> dict[str, bytes]:
    """The files in it, and its options."""
    files = {"options.json": (_GOLDEN / "allennlp_archive" / "options.json").read_bytes()}
    with tarfile.open(fileobj=io.BytesIO(allennlp_archive())) as archive:
        for name in ("config.json", "weights.th"):
            member = archive.extractfile(name)
            assert member is not None
            files[name] = member.read()
    return files


@cache
def state_dictionaries() -> list[bytes]:
    """The same tensors in both file formats of PyTorch."""
    tensors = torch.load(io.BytesIO(allennlp_files()["weights.th"]), weights_only=True)
    made = []
    for is_zip in (True, False):
        buffer = io.BytesIO()
        torch.save(tensors, buffer, _use_new_zipfile_serialization=is_zip)
        made.append(buffer.getvalue())
    return made


def _files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
