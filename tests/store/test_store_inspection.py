"""What `elmo inspect` reports of a file: its facts, and Python code that reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedding_files import DIM, array, documents, foreign, lines, write
from make_weights import MODELS, weight_arrays, write_arrays

from elmo_cli.store.inspection import describe, python_example, verify
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence

N_TOKENS = sum(len(sentence.tokens) for sentence in lines())


def test_facts_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    facts = describe(path)
    attributes = facts.pop("attributes")
    assert facts == {
        "kind": "embeddings",
        "path": str(path),
        "bytes": path.stat().st_size,
        "layout": "allennlp",
        "complete": True,
        "sentences": 12,
        "tokens": N_TOKENS,
        "n_layers": 3,
        "dim": DIM,
        "dtype": "float32",
        "sentence_map": True,
        "checksums": True,
        "sources": [["in.txt", 0]],
        "samples": [
            {"key": 0, "shape": [3, 7, DIM]},
            {"key": 1, "shape": [3, 2, DIM]},
            {"key": 2, "shape": [3, 0, DIM]},
        ],
    }
    assert attributes["state"] == "zero"
    assert not {"sentence_crc32", "token_digests", "repeated_lines"} & attributes.keys()


def test_facts_of_a_file_of_another_program(tmp_path: Path) -> None:
    """Its attributes may have the names of ours."""
    path = foreign(tmp_path / "a.hdf5", {"d/0": np.ones((2, DIM, 3), "f4")})
    with h5py.File(path, "a") as file:
        file.attrs["sources"] = "web"
        file.attrs["tokens"] = "many"
    facts = describe(path)
    assert facts["sources"] is None
    assert (facts["layout"], facts["complete"], facts["tokens"]) == ("e2e-coref", None, None)
    assert facts["samples"] == [{"key": "d:0", "shape": [3, 2, DIM]}]
    assert facts["checksums"] is False


@pytest.mark.parametrize("value", ["abc", "[[1, 2, 3]]", np.arange(3)])
@pytest.mark.parametrize("name", ["tokens", "sources"])
def test_attributes_that_are_not_ours_are_not_facts(name: str, value: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    with h5py.File(path, "a") as file:
        file.attrs[name] = value
    assert describe(path)[name] is None
    assert len(verify(path).listed) == (name == "tokens")


def test_weights(tmp_path: Path) -> None:
    path = write_arrays(tmp_path / "weights.hdf5", weight_arrays(MODELS["tiny"], "tiny"))
    facts = describe(path)
    assert (facts["kind"], facts["weights"]) == ("weights", "biLM")
    assert verify(path).count == 0
    with h5py.File(path, "a") as file:
        file["CNN_proj/b_proj"][2] = np.inf
    assert "CNN_proj/b_proj" in verify(path).listed[0]


def test_an_unfinished_file(tmp_path: Path) -> None:
    """HDF5 could not open it; its log tells what is committed."""
    with EmbeddingsWriter.open(
        tmp_path / "a.hdf5", FileSpec(layout="bilm", run_settings={"state": "x"})
    ) as writer:
        block = lines()[:4]
        arrays = [array(sentence) for sentence in block]
        writer.append_block(block, arrays, text_sha256="")
    part = tmp_path / "a.hdf5.part"
    facts = describe(part)
    assert (facts["kind"], facts["sentences"], facts["tokens"]) == ("unfinished", 4, 11)
    assert (facts["settings"]["state"], facts["is_complete"]) == ("x", False)
    assert verify(part).listed == ["unfinished: 4 sentences committed"]


POOLED: dict[str, Any] = {"layout": "flat", "pool": True}
READ: list[tuple[list[Sentence], dict[str, Any], str]] = [
    (lines(), {"layout": "allennlp"}, "layer, token, dim"),
    (lines(repeats=False)[4:], {"layout": "allennlp", "keys": "sentence"}, "layer, token, dim"),
    (documents("a/b'\""), {"layout": "e2e-coref", "layers": None}, "token, dim"),
    (lines(), POOLED, "layer, dim"),
    (lines(), {**POOLED, "layers": None}, "dim"),
]


@pytest.mark.parametrize(("sentences", "options", "axes"), READ)
def test_the_example_reads_the_first_sentence(
    tmp_path: Path, sentences: list[Sentence], options: dict[str, Any], axes: str
) -> None:
    """It is printed to be pasted, so it must run and state the right axes."""
    path = write(tmp_path / "it's.hdf5", sentences, **options)
    program = "\n".join(python_example(path))
    assert f"# axes: {axes}\n" in f"{program}\n"
    expected = array(sentences[0], options.get("layers", 3))
    names: dict[str, Any] = {}
    exec(program, names)
    np.testing.assert_array_equal(
        names["array"], expected.sum(-2) if "pool" in options else expected
    )
    with open_embeddings(path) as embeddings:
        assert names.get("tokens") == embeddings.tokens(next(iter(embeddings)))


def test_a_file_without_sentences_has_no_example(tmp_path: Path) -> None:
    assert python_example(write(tmp_path / "e.hdf5", [], layout="bilm")) == []


def test_facts_of_a_file_without_sentences(tmp_path: Path) -> None:
    facts = describe(write(tmp_path / "e.hdf5", [], layout="flat", dtype="float16"))
    assert (facts["sentences"], facts["tokens"], facts["samples"]) == (0, 0, [])
    assert (facts["dtype"], facts["dim"], facts["n_layers"]) == ("float16", 0, None)
    assert (facts["checksums"], facts["complete"], facts["sentence_map"]) == (True, True, False)
