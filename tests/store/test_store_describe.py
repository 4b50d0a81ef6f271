"""describe and python_example: what `elmo inspect` reports of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedding_files import (
    DIM,
    array,
    biLM_weights,
    documents,
    foreign,
    lines,
    write,
    write_types,
)

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.store.describe import describe, python_example
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.verify import verify
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
    path = foreign(tmp_path / "a.hdf5", {"d/0": np.ones((2, DIM, 3), "f4")})
    facts = describe(path)
    assert (facts["layout"], facts["complete"], facts["tokens"]) == ("e2e-coref", None, None)
    assert facts["samples"] == [{"key": "d:0", "shape": [3, 2, DIM]}]
    assert facts["checksums"] is False


def test_weights(tmp_path: Path) -> None:
    path = biLM_weights(tmp_path / "weights.hdf5")
    assert (describe(path)["kind"], describe(path)["weights"]) == ("weights", "biLM")
    assert verify(path).count == 0
    with h5py.File(path, "a") as file:
        file["CNN_proj/b_proj"][2] = np.inf
    assert "CNN_proj/b_proj" in verify(path).listed[0]


def test_an_unfinished_file(tmp_path: Path) -> None:
    """HDF5 could not open it; its log tells what is committed."""
    with EmbeddingsWriter.open(
        tmp_path / "a.hdf5", FileSpec(layout="bilm", run_settings={"state": "x"})
    ) as writer:
        writer.append_block(lines()[:4], [array(s) for s in lines()[:4]], text_sha256="")
    part = tmp_path / "a.hdf5.part"
    facts = describe(part)
    assert (facts["kind"], facts["sentences"], facts["tokens"]) == ("unfinished", 4, 11)
    assert (facts["settings"]["state"], facts["is_complete"]) == ("x", False)
    assert verify(part).listed == ["unfinished: 4 sentences are committed"]


@pytest.mark.parametrize("ask", [describe, verify, python_example])
def test_neither(tmp_path: Path, ask: Any) -> None:
    with pytest.raises(EmbeddingsFileError, match=r"a\.hdf5: "):
        ask(tmp_path / "a.hdf5")
    (tmp_path / "b.hdf5").write_text("some text")
    with pytest.raises(EmbeddingsFileError, match=r"b\.hdf5: "):
        ask(tmp_path / "b.hdf5")


# -- python_example -------------------------------------------------------------------------------

READ: list[tuple[list[Sentence], dict[str, Any], str]] = [
    (lines(), {"layout": "allennlp"}, "layer, token, dim"),
    (lines(), {"layout": "allennlp", "layers": None}, "token, dim"),
    (lines(), {"layout": "bilm", "pool": True}, "layer, dim"),
    (lines(), {"layout": "bilm", "pool": True, "layers": None}, "dim"),
    (lines(repeats=False)[4:], {"layout": "allennlp", "keys": "sentence"}, "layer, token, dim"),
    (documents("a/b'\""), {"layout": "e2e-coref"}, "token, dim, layer"),
    (documents("a/b"), {"layout": "e2e-coref", "pool": True}, "dim, layer"),
    (documents("a/b"), {"layout": "dygie", "layers": None}, "token, dim, layer"),
    (documents("bc/a_0"), {"layout": "lsgn"}, "layer, token, dim"),
    (lines(blank=False), {"layout": "manylangs", "layers": None}, "token, dim"),
    (lines(), {"layout": "flat"}, "token, layer, dim"),
    (lines(), {"layout": "flat", "layers": None}, "token, dim"),
    (lines(), {"layout": "flat", "pool": True}, "layer, dim"),
]


def run(program: str) -> dict[str, Any]:
    """The names that a program leaves."""
    names: dict[str, Any] = {}
    exec(program, names)
    return names


@pytest.mark.parametrize(("sentences", "options", "axes"), READ)
def test_the_example_reads_the_first_sentence(
    tmp_path: Path, sentences: list[Sentence], options: dict[str, Any], axes: str
) -> None:
    """It is printed to be pasted, so it must run and state the right axes."""
    path = write(tmp_path / "it's.hdf5", sentences, **options)
    plain, ours = python_example(path).split("\n\n")
    assert f"# axes: {axes}\n" in f"{plain}\n"
    expected = array(sentences[0], options.get("layers", 3))
    if options.get("pool"):
        expected = expected.sum(-2)
    found = run(ours)
    np.testing.assert_array_equal(found["array"], expected)
    in_file = run(plain)["array"]
    assert sorted(in_file.ravel().tolist()) == sorted(expected.ravel().tolist())
    sizes = {"layer": options.get("layers", 3) or 1, "token": len(sentences[0].tokens), "dim": DIM}
    assert list(in_file.shape) == [sizes[axis] for axis in axes.split(", ")]
    assert len(ours.split("# axes: ")[1].split("\n")[0].split(", ")) == expected.ndim
    with open_embeddings(path) as embeddings:
        assert found.get("tokens") == embeddings.tokens(next(iter(embeddings)))


def test_the_example_for_types_weights_and_nothing(tmp_path: Path) -> None:
    plain, ours = python_example(write_types(tmp_path / "t.hdf5", 2)).split("\n\n")
    assert run(plain)["array"].tolist() == run(ours)["array"].tolist() == [0] * DIM
    weights = python_example(biLM_weights(tmp_path / "w.hdf5"))
    assert run(weights)["array"].shape == (261, 4)
    empty = python_example(write(tmp_path / "e.hdf5", [], layout="bilm"))
    assert run(empty)["names"] == []
