"""open_embeddings on files of other programs: recognized, with lines where they have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedding_files import DIM, array, foreign, lines, noise, write

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.store.reader import open_embeddings

SEQUENCES = {"P12345": noise(7, DIM), "Q6": noise(2, DIM)}
OF_DYGIE = [f"{document}_{i}" for document in ("J87", "W99/x") for i in range(11)]
OF_COREF = {f"nw:x_0/{i}": noise(i % 3 + 1, DIM, 3) for i in range(11)}
OF_LSGN = {f"S1:x/{i}": noise(3, i % 3 + 1, DIM) for i in range(3)}
OF_ONTONOTES = {f"bc:cctv:00:cctv_0000:{i}": noise(3, i % 3 + 1, DIM) for i in range(11)}
WORDS = ["one", "two"]
OF_MANYLANGS = {"a\tb": noise(2, DIM), "c$period$": noise(1, DIM)}
# Data sets, layout and keys.
FOREIGN: dict[str, tuple[dict[str, Any], str, list[Any]]] = {
    "bilm": ({"0": noise(3, 2, DIM), "1": noise(3, 4, DIM)}, "bilm", [0, 1]),
    "allennlp --top": ({"0": noise(2, DIM), "1": noise(4, DIM)}, "allennlp", [0, 1]),
    "lines": ({"a b": noise(3, 2, DIM), "c": noise(3, 1, DIM)}, "allennlp", ["a b", "c"]),
    "a tab": ({"the cat\tsat down": noise(3, 4, DIM)}, "allennlp", ["the cat\tsat down"]),
    "types": ({"embedding": noise(5, DIM)}, "bilm-types", [0, 1, 2, 3, 4]),
    "e2e-coref": (OF_COREF, "e2e-coref", [f"nw:x_0:{i}" for i in range(11)]),
    "lsgn": (OF_LSGN, "lsgn", [f"S1:x:{i}" for i in range(3)]),
    "lsgn, ontonotes": (OF_ONTONOTES, "lsgn", list(OF_ONTONOTES)),
    "dygie": ({name: noise(4, DIM, 3) for name in OF_DYGIE}, "dygie", OF_DYGIE),
    "manylangs": (OF_MANYLANGS, "manylangs", list(OF_MANYLANGS)),
    "seqvec": (SEQUENCES, "seqvec", list(SEQUENCES)),
    "seqvec, pooled": ({"P1": noise(DIM), "Q2": noise(DIM)}, "seqvec", ["P1", "Q2"]),
    "seqvec, groups": ({"a/b": noise(7, DIM), "a/c": noise(1, DIM)}, "seqvec", ["a/b", "a/c"]),
    "seqvec, numbered groups": ({"P/1": noise(DIM), "P/2": noise(DIM)}, "seqvec", ["P/1", "P/2"]),
    "seqvec, colons": (
        {"sp:12": noise(7, DIM), "sp:3": noise(2, DIM)},
        "seqvec",
        ["sp:3", "sp:12"],
    ),
    "seqvec, underscores": ({"P_12": noise(7, DIM)}, "seqvec", ["P_12"]),
    "lines of one word": ({"one": noise(3, 1, DIM), "two": noise(3, 1, DIM)}, "allennlp", WORDS),
    "lines with a slash": ({"He said / she": noise(3, 4, DIM)}, "allennlp", ["He said / she"]),
    "lines, pooled": ({"a b": noise(DIM), "c": noise(DIM)}, "allennlp", ["a b", "c"]),
    "manylangs, period": ({"Mr$period$": noise(1, DIM)}, "manylangs", ["Mr$period$"]),
    "manylangs, slash": ({"a$backslash$b": noise(1, DIM)}, "manylangs", ["a$backslash$b"]),
    "manylangs, pooled": ({"a\tb": noise(DIM)}, "manylangs", ["a\tb"]),
}


@pytest.mark.parametrize("program", FOREIGN)
def test_foreign_files_are_recognized(tmp_path: Path, program: str) -> None:
    """Otherwise a file of another program would be refused, or read with its axes exchanged."""
    datasets, layout, keys = FOREIGN[program]
    with open_embeddings(foreign(tmp_path / "a.hdf5", datasets)) as embeddings:
        assert (embeddings.layout, list(embeddings), len(embeddings)) == (layout, keys, len(keys))
        is_ordered = not embeddings.is_keyed_by_name  # names are listed in their own order
        assert (embeddings.dim, embeddings.order_is_known) == (DIM, is_ordered)
        assert ("text order" in embeddings.records) is is_ordered
        assert len(list(embeddings.sentences())) == len(keys)
        assert list(embeddings.reader.problems()) == []
        for key in keys:
            assert embeddings[key].shape == embeddings.shape(key)
            assert embeddings[key].shape[-1] == DIM
            assert embeddings.n_layers in (None, len(embeddings[key]))


def test_only_names_of_ontonotes_say_a_document_of_lsgn(tmp_path: Path) -> None:
    """Otherwise `nw` would pass for a text whose parts are `nw_0`, `nw_1`, …"""
    names = {"bc:cctv:00:cctv_0000:3": noise(3, 2, DIM), "nw:1": noise(3, 1, DIM)}
    with open_embeddings(foreign(tmp_path / "a.hdf5", names)) as embeddings:
        assert embeddings.layout == "lsgn"
        infos = [embeddings.info(name) for name in names]
    assert [(info.document, info.place, info.offset) for info in infos] == [
        ("bc/cctv/00/cctv_0000_0", 0, 3),
        (None, 0, 1),
    ]


def with_map(path: Path, content: str, datasets: dict[str, Any]) -> Path:
    foreign(path, datasets)
    with h5py.File(path, "a") as file:
        file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())[0] = content
    return path


def test_foreign_allennlp_with_repeated_lines(tmp_path: Path) -> None:
    """Its map has only the last of equal lines; of the others nothing is known."""
    names = {str(i): noise(3, n, DIM) for i, n in ((0, 2), (2, 2), (10, 1), (11, 3))}
    index = json.dumps({"a b": "2", "c": "10", "not four tokens": "11"})
    with open_embeddings(with_map(tmp_path / "a.hdf5", index, names)) as embeddings:
        assert list(embeddings) == [0, 2, 10, 11]
        assert [embeddings.tokens(key) for key in (0, 2, 10)] == [None, ("a", "b"), ("c",)]
        assert embeddings.info(0).text is None
        np.testing.assert_array_equal(embeddings["c"], names["10"])
        np.testing.assert_array_equal(embeddings["a", "b"], names["2"])
        assert embeddings.attributes == {}
        assert "tokens" not in embeddings.records
    names.pop("0")
    with open_embeddings(with_map(tmp_path / "b.hdf5", index, names)) as embeddings:
        assert "tokens" in embeddings.records
        assert embeddings.tokens(11) == ("not", "four", "tokens")


@pytest.mark.parametrize(
    "content",
    ["[1]", "nonsense", '{"a": 0}', '{"a": "x"}', '{"a": "007"}', "[" * 50_000, '{"a": "9"}'],
)
def test_a_foreign_map_that_is_none(tmp_path: Path, content: str) -> None:
    path = with_map(tmp_path / "a.hdf5", content, {"0": noise(3, 2, DIM)})
    with open_embeddings(path) as embeddings:
        assert embeddings[0].shape == (3, 2, DIM)
        assert list(embeddings.reader.problems())
        with pytest.raises((EmbeddingsFileError, KeyError)):
            embeddings["a"]


def test_attributes_of_other_programs(tmp_path: Path) -> None:
    """They may be called as ours and hold anything; no reason to refuse the arrays."""
    path = foreign(tmp_path / "a.hdf5", {"0": np.ones((3, 2, DIM)), "1": np.ones((3, 1, DIM))})
    with h5py.File(path, "a") as file:
        file.attrs.update({"layers": "[1, 2", "pool": 1 + 2j, "first_sentence": file["0"].ref})
    with open_embeddings(path) as embeddings:
        assert list(embeddings) == [0, 1]
        assert (embeddings.n_layers, embeddings.attributes) == (3, {})


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_chunked_rows_are_read_through_hdf5(tmp_path: Path, compression: str | None) -> None:
    """A program that repacks a file may do so; compressed bytes must not be taken for values."""
    path = write(tmp_path / "a.hdf5", lines(), layout="flat")
    with h5py.File(path, "a") as file:
        for name in list(file):
            values = file.pop(name)[()]
            file.create_dataset(name, data=values, chunks=True, compression=compression)
    with open_embeddings(path) as embeddings:
        for sentence, (info, values) in zip(lines(), embeddings.sentences(), strict=True):
            np.testing.assert_array_equal(values, array(sentence))
            assert info.tokens == sentence.tokens
