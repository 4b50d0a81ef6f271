"""Small embeddings files for tests: ours and those of other programs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence

Change = Callable[[h5py.File], object]
DIM = 6
BLOCK = 5
RUN = {"model_sha256": "6c1f" + "0" * 60, "state": "zero", "layers": "all", "pool": "none"}
LINES = (
    "The cat sat on the mat .",
    "A dog",
    "",
    "Yes .",
    "He said / she said",
    "Yes .",
    'naïve 日本語 "quoted" tokens',
    "A dog",
    "one",
    "Yes .",
    "the last line",
    "eleven , so that ten sorts after nine",
)


def lines(*, blank: bool = True, repeats: bool = True) -> list[Sentence]:
    """One sentence a line; keys are line numbers, and lines left out keep theirs."""
    seen: set[str] = set()
    made = []
    for key, line in enumerate(LINES):
        if (blank or line) and (repeats or line not in seen):
            tokens = tuple(line.split())
            made.append(Sentence(tokens, key, line, source="in.txt", line=key + 1))
        seen.add(line)
    return made


def documents(*keys: str, n_places: int = 3) -> list[Sentence]:
    """Sentences of documents, `n_places` each; LSGN's offset counts on over parts `_0`, `_1`."""
    made = []
    for document in keys:
        _, _, suffix = document.rpartition("_")
        part = int(suffix) if suffix.isdigit() else 0
        for place in range(n_places):
            key = len(made)
            tokens = tuple(f"w{i}" for i in range(1 + (key * 2) % 5))
            sentence = Sentence(
                tokens,
                key,
                text=" ".join(tokens),
                source="in.jsonl",
                line=key + 1,
                document=document,
                place=place,
                offset=part * n_places,
                starts_document=place == 0,
            )
            made.append(sentence)
    return made


def proteins(*records: str) -> list[Sentence]:
    """Sentences of FASTA records such as "P1 MKV", an id and its residues."""
    made = []
    for key, record in enumerate(records):
        record_id, residues = record.split()
        tokens = tuple(residues)
        sentence = Sentence(
            tokens,
            key,
            text=" ".join(tokens),
            source="in.fasta",
            line=1 + 2 * key,
            document=record_id,
            starts_document=True,
        )
        made.append(sentence)
    return made


def array(sentence: Sentence, layers: int | None = 3, *, dim: int = DIM) -> np.ndarray:
    """Values that depend on tokens, layer and dim, and above the token layer on the key as well."""
    tokens = "\t".join(sentence.tokens).encode("utf-8", "surrogatepass")
    rng = np.random.default_rng(zlib.crc32(tokens))
    n_tokens = len(sentence.tokens)
    if layers is None:
        return rng.standard_normal((n_tokens, dim)).astype(np.float32) + sentence.key
    values = rng.standard_normal((layers, n_tokens, dim)).astype(np.float32)
    values[1:] += sentence.key
    return values


def write(
    path: Path,
    sentences: Sequence[Sentence],
    *,
    layout: str,
    layers: int | None = 3,
    run_settings: dict[str, Any] | None = None,
    attributes: dict[str, Any] | None = None,
    pool: bool = False,
    **options: Any,
) -> Path:
    """Write a whole file with the writer, in blocks of `BLOCK` sentences."""
    settings = {**RUN, **(run_settings or {}), **({"pool": "mean"} if pool else {})}
    spec = FileSpec(layout=layout, run_settings=settings, **options)
    with EmbeddingsWriter.open(path, spec) as writer:
        for begin in range(0, len(sentences), BLOCK):
            block = sentences[begin : begin + BLOCK]
            arrays = [array(sentence, layers) for sentence in block]
            if pool:
                arrays = [values.sum(-2) for values in arrays]
            writer.append_block(block, arrays, text_sha256="")
        writer.finish({"sources": [["in.txt", 0]]} if attributes is None else attributes)
    return path


def write_types(path: Path, n: int, *, start: int = 0, run_settings: Any = ()) -> Path:
    """A file of the layout bilm-types with `n` rows; row i of the vocabulary is all i."""
    settings = {**RUN, **dict(run_settings)}
    spec = FileSpec(layout="bilm-types", first_sentence=start, run_settings=settings)
    with EmbeddingsWriter.open(path, spec) as writer:
        types = [Sentence((f"t{key}",), key, f"t{key}") for key in range(start, start + n)]
        arrays = [np.full(DIM, key, np.float32) for key in range(start, start + n)]
        writer.append_block(types, arrays, text_sha256="")
        writer.finish({})
    return path


def foreign(path: Path, datasets: dict[str, Any]) -> Path:
    """A file that another program could have made: plain h5py, no attributes."""
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file.create_dataset(name, data=values)
    return path


def attribute(name: str, value: Any) -> Change:
    """A change of an attribute, in its place if its type stays."""

    def change(file: h5py.File) -> None:
        old = file.attrs.get(name)
        is_kept = np.ndim(value) == 0 and (type(old) is type(value) or isinstance(value, int))
        if is_kept:
            file.attrs.modify(name, value)
        else:
            file.attrs[name] = value

    return change


PARTS = documents("bc/cctv/00/cctv_0000_0", "bc/cctv/00/cctv_0000_1", "bc/cnn/00/cnn_0_0")
NESTED = documents("a/b", "c", "a/d")
PROTEINS = proteins("sp|P1 MKVL", "a/b M", "Q2 MKX", "a/c VV", "Q3 KKKKK", "x.y MK", "7 MKVLA")
BARE = lines(blank=False, repeats=False)
ONE = {"layers": None}
# Files of every layout: sentences, and options of `write`.
FILES: dict[str, tuple[list[Sentence], dict[str, Any]]] = {
    "allennlp": (lines(), {"layout": "allennlp"}),
    "allennlp, blanks skipped": (lines(blank=False), {"layout": "allennlp"}),
    "allennlp, float16": (lines(), {"layout": "allennlp", "dtype": "float16"}),
    "allennlp, occurrences": (lines(), {"layout": "allennlp", "sentence_map": "occurrences"}),
    "allennlp, pooled": (lines(), {"layout": "allennlp", "pool": True}),
    "allennlp, sentences": (BARE, {"layout": "allennlp", "keys": "sentence"}),
    "bilm, a shard": (lines()[4:], {"layout": "bilm", "first_sentence": 4}),
    "e2e-coref": (NESTED, {"layout": "e2e-coref"}),
    "lsgn": (PARTS, {"layout": "lsgn"}),
    "dygie": (NESTED, {"layout": "dygie", **ONE}),
    "manylangs": (lines(blank=False), {"layout": "manylangs", **ONE}),
    "seqvec": (PROTEINS, {"layout": "seqvec"}),
    "seqvec, pooled": (PROTEINS, {"layout": "seqvec", "pool": True}),
    "seqvec, one layer": (PROTEINS, {"layout": "seqvec", "dtype": "float16", **ONE}),
    "bio-embeddings": (PROTEINS, {"layout": "bio-embeddings"}),
    "bio-embeddings, pooled": (PROTEINS, {"layout": "bio-embeddings", "pool": True, **ONE}),
    "flat": (PARTS, {"layout": "flat"}),
    "flat, int8": (lines(), {"layout": "flat", "dtype": "int8"}),
    "flat, pooled": (lines(), {"layout": "flat", "pool": True, **ONE}),
    "bilm-types": ([], {"layout": "bilm-types"}),
}


def made(path: Path, name: str, table: Any = FILES) -> Path:
    """A file of a table such as FILES."""
    sentences, options = table[name]
    return write_types(path, 9) if name == "bilm-types" else write(path, sentences, **options)


def noise(*shape: int) -> np.ndarray:
    """Standard normal values in float32; the seed is the number of axes."""
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)
