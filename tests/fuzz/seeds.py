"""Small sound files of every kind that elmo reads, as bytes: where the fuzzing begins."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import numpy as np
from make_weights import options_of, weight_arrays, write_arrays

from elmo_cli.lm.checkpoint import save_corpora
from elmo_cli.lm.corpus import Corpus
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence

DIM = 4
HEADER = {"model_sha256": "6c1f" + "0" * 60, "state": "zero", "layers": "all", "pool": "none"}
LINES = ("The cat sat .", "Yes .", "", "He said / she said", "Yes .")
# The smallest biLM that has every part.
OPTIONS = options_of(filters=[[1, 2], [2, 3]], char_dim=2, cell=3, projection=2, n_layers=1)
N_TYPES = 5
LAYOUTS = ("allennlp", "e2e-coref", "lsgn", "dygie", "manylangs", "bilm", "flat", "flat-int8")


def sentences() -> list[Sentence]:
    """A few sentences in documents of two; a line stands twice, one is blank."""
    made = []
    for key, line in enumerate(LINES):
        document, place = divmod(key, 2)
        name = f"nw/wsj/0{document}_0"
        tokens = tuple(line.split())
        made.append(Sentence(tokens, key, line, "in.txt", key + 1, name, place, 0, place == 0))
    return made


def array(sentence: Sentence, layout: str) -> np.ndarray:
    """Values for a sentence, in the shape that a layout takes."""
    layers = () if layout == "manylangs" else (3,)
    shape = (*layers, len(sentence.tokens), DIM)
    return (np.arange(np.prod(shape)).reshape(shape) / 8 + sentence.key).astype(np.float32)


def spec(layout: str, **run_settings: Any) -> FileSpec:
    """The settings of a file; "flat-int8" is a layout here."""
    name, int8, _ = layout.partition("-int8")
    dtype = "int8" if int8 else "float32"
    return FileSpec(layout=name, dtype=dtype, run_settings={**HEADER, **run_settings})


def append(writer: EmbeddingsWriter, layout: str, n_blocks: int = 3) -> None:
    """Append the blocks of two sentences that are not committed."""
    given = [s for s in sentences() if s.tokens or layout != "manylangs"]  # its keys are tokens
    for begin in range(writer.progress.sentences, len(given), 2)[
        : n_blocks - writer.progress.blocks
    ]:
        block = given[begin : begin + 2]
        arrays = [array(sentence, layout) for sentence in block]
        writer.append_block(block, arrays, text_sha256="hash", state=b"state")


def write(path: Path, layout: str, **run_settings: Any) -> None:
    """Write an embeddings file in blocks of two sentences."""
    with EmbeddingsWriter.open(path, spec(layout, **run_settings)) as writer:
        append(writer, layout)
        writer.finish({"sources": [["in.txt", 0]]})


def _bytes(write_to: Callable[[Path], object]) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "made"
        write_to(path)
        return path.read_bytes()


@cache
def embeddings(layout: str) -> bytes:
    """A file of our own."""
    return _bytes(lambda path: write(path, layout))


@cache
def shard() -> bytes:
    """The only shard of a run of one."""
    return _bytes(lambda path: write(path, "allennlp", shard="1/1"))


@cache
def foreign(kind: str) -> bytes:
    """A file as h5py alone makes it: its metadata have no check sums.

    Args:
        kind: "numbers" with a sentence map, "documents", "packed" by gzip in chunks, "types".
    """

    def made(path: Path) -> None:
        with h5py.File(path, "w") as file:
            _FOREIGN[kind](file)

    return _bytes(made)


def _numbers(file: h5py.File) -> None:
    for sentence in sentences():
        file[str(sentence.key)] = array(sentence, "allennlp")
    texts = json.dumps({sentence.text: str(sentence.key) for sentence in sentences()})
    file.create_dataset("sentence_to_index", (1,), h5py.string_dtype("utf-8"))[0] = texts
    # No checksum covers them, as it does in our files.
    file.attrs.update({"layers": "all", "tokens": 12, "sources": ["a", "b"], "x": np.ones(3)})


def _documents(file: h5py.File) -> None:
    for sentence in sentences():
        values = np.moveaxis(array(sentence, "e2e-coref"), 0, -1)
        file[f"nw:wsj:{sentence.key // 2}/{sentence.key % 2}"] = values


def _packed(file: h5py.File) -> None:
    for sentence in sentences():
        if sentence.tokens:
            values = array(sentence, "allennlp")
            file.create_dataset(f"P{sentence.key}", data=values, compression="gzip", shuffle=True)


def _types(file: h5py.File) -> None:
    values = np.arange(40, dtype=np.float32).reshape(10, 4)
    file.create_dataset("embedding", data=values, chunks=(4, 4))


_FOREIGN = {
    "numbers": _numbers,
    "documents": _documents,
    "packed": _packed,
    "types": _types,
}


def _arrays(arrays: dict[str, Any]) -> bytes:
    return _bytes(lambda path: write_arrays(path, arrays))


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


@cache
def run_files(layout: str) -> dict[str, bytes]:
    """What a run leaves that was killed in its third block, by what the names end in."""
    with TemporaryDirectory() as folder:
        with EmbeddingsWriter.open(Path(folder) / "out.hdf5", spec(layout)) as writer:
            append(writer, layout, n_blocks=2)
        return {
            made.name.removeprefix("out.hdf5"): made.read_bytes()
            for made in sorted(Path(folder).iterdir())
        }


def options() -> bytes:
    return json.dumps(OPTIONS).encode()


def recipe() -> bytes:
    content = {"texts": ["*.txt", "b"], "batch-size": 32, "init-from": "x", "seed": None}
    return json.dumps(content).encode()


@cache
def kept_text() -> bytes:
    """The text of a run."""
    text = Corpus.read([["a", "b"], ["a"], ["c", "b", "a"]], begins=[0, 2])
    return _bytes(lambda path: save_corpora(path, text, text))
