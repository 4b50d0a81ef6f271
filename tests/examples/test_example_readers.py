"""The readers of `examples/readers/` find the right arrays in files of their commands."""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import made, only_tiny

from elmo_cli.arrays import AnyArray
from elmo_cli.embed.embedder import Embedder
from elmo_cli.model.bilm import BiLM

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
READERS = sorted(path.name for path in (EXAMPLES / "readers").glob("*.py"))
LINES = (EXAMPLES / "play.txt").read_text(encoding="utf-8").splitlines()
TEXT = (EXAMPLES / "documents.jsonlines").read_text(encoding="utf-8")
DOCUMENTS = [json.loads(line) for line in TEXT.splitlines()]
FIRST_KEY = DOCUMENTS[0]["doc_key"]
DIM = 16  # of the small model
PRINTED = {  # with a model of DIM dimensions
    "allennlp.py": "20 lines, (3, 6, 16)",
    "bilm_tf.py": "(3, 8, 16)",
    "contextual_repr_analysis.py": "6 tokens, (6, 16)",
    "dygie.py": "(6, 16, 3)",
    "e2e_coref.py": "(2, 6, 16, 3)",
    "lsgn.py": "5 sentences, the first (6, 16, 3)",
    "neurox.py": "20 lines, the first (7, 48)",
    "structural_probes.py": "12 trees, the first (8, 16)",
}

SentenceVectors = Callable[[str], AnyArray]


@pytest.fixture
def alone(tiny_bilm: BiLM) -> SentenceVectors:
    """The array of a sentence by itself, (layer, token, dim)."""
    embedder = Embedder(tiny_bilm, device="cpu")
    return lambda sentence: embedder.embed(sentence.split())


@dataclass(frozen=True)
class ReaderRun:
    """What a reader is after the two commands in its docstring.

    Attributes:
        folder: with the file that the first command has written.
        names: of the reader, such as its function `read`.
        printed: by the second command.
    """

    folder: Path
    names: dict[str, Any]
    printed: str


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> dict[str, ReaderRun]:
    """Each reader, by the name of its file, run in a folder of its own."""
    by_name = {}
    for name in READERS:
        folder = shutil.copytree(EXAMPLES, tmp_path_factory.mktemp("readers") / "examples")
        path = f"readers/{name}"
        docstring = (folder / path).read_text(encoding="utf-8").split('"""')[1]
        embed, read = re.findall(r"^    (.+)$", docstring, re.M)
        _, reader, *arguments = read.split()
        assert reader == path
        with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
            only_tiny(patch, tiny)
            made(*embed.split()[1:], "-q")
            patch.setattr(sys, "argv", [path, *arguments])
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                names = runpy.run_path(path, run_name="__main__")
        by_name[name] = ReaderRun(folder, names, printed.getvalue().strip())
    return by_name


@pytest.mark.parametrize("name", READERS)
def test_names_the_lines_of_a_version_of_the_program_and_prints_shapes(
    name: str, runs: dict[str, ReaderRun]
) -> None:
    text = (EXAMPLES / "readers" / name).read_text(encoding="utf-8")
    assert re.search(r"https://github\.com/\S+/blob/(\w{7}|v[\d.]+)/\S+#L\d+-L\d+\n", text)
    assert runs[name].printed == PRINTED[name]


def test_readers_of_lines_find_the_vectors_of_each_line(
    runs: dict[str, ReaderRun], alone: SentenceVectors
) -> None:
    def read(name: str, *arguments: Any) -> Any:
        run = runs[f"{name}.py"]
        return run.names["read"](run.folder / "play.hdf5", *arguments)

    by_line = read("allennlp")
    side_by_side = read("neurox")
    for number, line in enumerate(LINES):
        expected = alone(line)
        near(by_line[line], expected)
        near(read("bilm_tf", number), expected)
        near(read("contextual_repr_analysis", line.split()), expected[2])
        near(side_by_side[number], np.concatenate(list(expected), axis=1))
    structural = runs["structural_probes.py"]
    trees = structural.names["read"](structural.folder / "dev.hdf5", 1)
    near(trees[0], alone(LINES[6])[1])  # the first tree of dev


def test_the_reader_of_types_has_a_row_of_zeros_for_padding(
    runs: dict[str, ReaderRun], alone: SentenceVectors, tmp_path: Path, tiny: Path
) -> None:
    (tmp_path / "types.txt").write_text("play\nThe\n")
    output = tmp_path / "types.hdf5"
    made("embed", tmp_path / "types.txt", "-o", output, "--layout", "bilm-types", "-m", tiny, "-q")
    rows = runs["bilm_tf.py"].names["read_types"](output)
    half = alone("play")[0, 0, : DIM // 2]
    near(rows[:2], np.stack([np.zeros(DIM // 2), half]))


def test_readers_of_documents_find_the_vectors_of_each_sentence(
    runs: dict[str, ReaderRun], alone: SentenceVectors
) -> None:
    sentences = [" ".join(words) for document in DOCUMENTS for words in document["sentences"]]
    expected = [alone(sentence).transpose(1, 2, 0) for sentence in sentences]
    e2e_coref, lsgn, dygie = (runs[f"{name}.py"] for name in ("e2e_coref", "lsgn", "dygie"))
    padded = e2e_coref.names["read"](e2e_coref.folder / "documents.hdf5", FIRST_KEY)
    near(padded[1, :4], expected[1])
    assert not padded[1, 4:].any()
    arrays = lsgn.names["read"](lsgn.folder / "ontonotes.hdf5", DOCUMENTS)
    for array, wanted in zip(arrays, expected, strict=True):
        near(array, wanted)
    key = DOCUMENTS[1]["doc_key"]
    near(dygie.names["read"](dygie.folder / "documents.hdf5", key, 2), expected[4])


def near(found: AnyArray, expected: AnyArray) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)
