"""Small runs of EmbeddingsWriter, as `elmo embed` makes them; in a module for other processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence

SETTINGS = {"layers": "all", "model_sha256": "6c1f" + "0" * 60, "state": "zero"}
ONE_LAYER = {"manylangs", "bilm-types"}
ONE_SENTENCE_PER_DOCUMENT = {"seqvec", "bio-embeddings"}
DIM = 4
# Every way to write a file: numbers, names, groups, left-out duplicates, values in place, scales.
WAYS: dict[str, dict[str, Any]] = {
    "allennlp": {},
    "lines": {"layout": "allennlp", "keys": "sentence"},
    "e2e-coref": {},
    "dygie": {},
    "manylangs": {},
    "seqvec": {},
    "bio-embeddings": {},
    "bilm-types": {},
    "flat": {},
    "int8": {"layout": "flat", "dtype": "int8"},
    "pooled": {"layout": "flat", "run_settings": {**SETTINGS, "pool": "mean"}},
}


def sentences(n: int, way: str = "allennlp") -> list[Sentence]:
    """Sentences of 1 to 3 tokens in documents of 3; with `manylangs` one occurs twice."""
    made = []
    for key in range(n):
        n_tokens = 1 if way == "bilm-types" else 1 + key % 3
        number = 0 if way == "manylangs" and key == 3 else key
        tokens = tuple(f"t{number}.{i}/é" for i in range(n_tokens))
        document, place = divmod(key, 3)
        if way in ONE_SENTENCE_PER_DOCUMENT:
            document, place = key, 0
        name = f"bc/cctv/00/cctv_000{document}_{document}"
        sentence = Sentence(
            tokens,
            key,
            text="  ".join(tokens) if key % 2 else " ".join(tokens),
            source="in.txt",
            line=key + 1,
            document=name,
            place=place,
            starts_document=place == 0,
        )
        made.append(sentence)
    return made


def array(sentence: Sentence, way: str = "allennlp") -> np.ndarray:
    """Values that differ for each sentence, layer, token and dim; (layer, token, dim)."""
    n_tokens = len(sentence.tokens)
    shape = (n_tokens, DIM) if way in ONE_LAYER else (3, n_tokens, DIM)
    values = (np.arange(np.prod(shape)).reshape(shape) / 8 + sentence.key).astype(np.float32)
    return values[:, 0] if way == "pooled" else values


def spec(way: str, **changes: Any) -> FileSpec:
    return FileSpec(**{"layout": way, "run_settings": SETTINGS, **WAYS.get(way, {}), **changes})


def append(writer: EmbeddingsWriter, way: str, *, n: int, block: int) -> None:
    """Append the blocks that are not committed."""
    everything = sentences(n, way)
    for begin in range(writer.progress.sentences, n, block):
        appended = everything[begin : begin + block]
        end = begin + len(appended)
        arrays = [array(sentence, way) for sentence in appended]
        state = b"state %d" % end
        commit = writer.append_block(appended, arrays, text_sha256=f"hash of {end}", state=state)
        commit.result()


def run(
    out: Path,
    way: str,
    *,
    n: int = 6,
    block: int = 2,
    finish: bool = True,
    resume: bool = False,
    overwrite: bool = False,
    **changes: Any,
) -> EmbeddingsWriter:
    """Write `n` sentences in blocks; with `resume` those that are missing."""
    with EmbeddingsWriter.open(
        out, spec(way, **changes), resume=resume, overwrite=overwrite
    ) as writer:
        if not writer.finished:
            append(writer, way, n=n, block=block)
        if finish and not writer.finished:
            text_sha256 = writer.progress.text_sha256
            writer.finish({"sources": [["in.txt", 0]], "text_sha256": text_sha256})
    return writer


def names(folder: Path) -> list[str]:
    """Names of the files of a folder, sorted."""
    return sorted(path.name for path in folder.iterdir())


def attributes(out: Path) -> dict[str, Any]:
    """Return the attributes of a finished file."""
    with open_embeddings(out) as embeddings:
        return embeddings.attributes
