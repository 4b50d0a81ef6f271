"""open_embeddings on bad files: unfinished, corrupt or crafted ones are refused or reported."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedding_files import (
    DIM,
    Change,
    attribute,
    documents,
    foreign,
    lines,
    noise,
    write,
    write_types,
)

from elmo_cli.errors import EmbeddingsFileError, UnfinishedError
from elmo_cli.messages import CORRUPT_HINT
from elmo_cli.store.reader import open_embeddings


@pytest.mark.parametrize("name", ["a.hdf5", "a.hdf5.part"])
def test_unfinished(tmp_path: Path, name: str) -> None:
    """Half a file must not be read as a complete one, by whatever name."""
    (tmp_path / "a.hdf5.part").touch()
    (tmp_path / "a.hdf5.part.log").touch()
    with pytest.raises(UnfinishedError):
        open_embeddings(tmp_path / name)


def test_a_log_of_the_user_is_no_sign_of_an_unfinished_file(tmp_path: Path) -> None:
    """`elmo embed … 2> a.hdf5.log` writes one."""
    (tmp_path / "a.hdf5.log").touch()
    path = write(tmp_path / "a.hdf5", lines(), layout="bilm")
    assert len(open_embeddings(path)) == len(lines())


def test_a_finished_file_is_read_while_the_run_that_replaces_it_is_unfinished(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="bilm")
    for suffix in (".part", ".part.log"):
        Path(f"{path}{suffix}").touch()
    assert len(open_embeddings(path)) == len(lines())


def test_a_finished_file_may_be_called_part(tmp_path: Path) -> None:
    """It is unfinished only if a log is beside it."""
    path = write(tmp_path / "a.hdf5", lines(), layout="bilm").rename(tmp_path / "b.part")
    assert len(open_embeddings(path)) == len(lines())


@pytest.mark.parametrize(
    ("cut", "hint"), [(5, CORRUPT_HINT), (None, "give an embeddings file, as `elmo embed` writes")]
)
def test_what_to_do_about_a_file_that_is_not_hdf5(
    cut: int | None, hint: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="bilm")
    content = path.read_bytes()
    path.write_bytes(content[:-cut] if cut else b"text" * 200)
    with pytest.raises(EmbeddingsFileError) as caught:
        open_embeddings(path)
    assert caught.value.hint.startswith(hint)


def test_what_to_do_about_a_file_that_is_missing(tmp_path: Path) -> None:
    """Nobody who has mistyped a name needs another kind of file."""
    with pytest.raises(EmbeddingsFileError, match="no such file") as caught:
        open_embeddings(tmp_path / "none.hdf5")
    assert caught.value.hint == "check the name"


def refused(path: Path) -> str:
    """What is wrong with a file that cannot be opened."""
    with pytest.raises(EmbeddingsFileError) as caught:
        open_embeddings(path)
    assert caught.value.where == str(path)
    assert caught.value.hint
    return caught.value.problem


def test_an_attribute_that_says_that_vectors_of_tokens_are_pooled(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    with h5py.File(path, "a") as file:
        attribute("pool", "mean")(file)
    assert "its vectors are pooled" in refused(path)


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        (
            {"softmax/W": noise(9, 4), "softmax/b": noise(9)},
            "a weight file (softmax)",
        ),
        ({}, "it has no data sets"),
        ({"0": np.arange(6).reshape(1, 2, 3)}, "'0' with int64"),
        ({"h": noise(2, 2, 1, DIM), "c": noise(2, 2, 1, DIM)}, "'c' with float32"),
        ({"a/b": noise(3, 2, DIM)}, "'a/b' with float32 in shape (3, 2, 6)"),
    ],
)
def test_hdf5_of_something_else(tmp_path: Path, datasets: dict[str, Any], message: str) -> None:
    assert message in refused(foreign(tmp_path / "a.hdf5", datasets))


def dataset(name: str, value: Any) -> Change:
    def change(file: h5py.File) -> None:
        file.pop(name, None)
        file[name] = value

    return change


def without(name: str) -> Change:
    """Removes a data set."""

    def change(file: h5py.File) -> None:
        del file[name]

    return change


def is_not_complete(file: h5py.File) -> None:
    del file.attrs["complete"]


def huge(name: str, shape: tuple[int, ...]) -> Change:
    """A data set of which the file has nothing but the claim."""

    def change(file: h5py.File) -> None:
        file.pop(name, None)
        file.create_dataset(name, shape, np.float32, chunks=(1024, *shape[1:]))

    return change


READING: dict[str, tuple[str, Change]] = {
    "not complete": ("allennlp", is_not_complete),
    "complete is an array": ("allennlp", attribute("complete", np.zeros(2))),
    "unknown layout": ("allennlp", attribute("layout", "cubes")),
    "schema 1": ("allennlp", attribute("elmo_schema", 1)),
    "schema is a word": ("allennlp", attribute("elmo_schema", "one")),
    "no offsets": ("flat", without("offsets")),
    "a scalar": ("e2e-coref", dataset("x/0", np.float32(1))),
    "a name without a number": ("dygie", dataset("x", np.ones((2, DIM, 3)))),
    "an external link": ("bilm", dataset("1", h5py.ExternalLink("/etc/other.hdf5", "/0"))),
    "48 GB in a small file": ("bilm", huge("1", (3_000_000_000, 4))),
    "rows that are only claimed": ("flat", huge("vectors", (1 << 40, 3, 2))),
    "no vectors": ("flat", without("vectors")),
    "offsets beyond the rows": ("flat", dataset("offsets", np.array([0, 1, 2, 10**6]))),
    "offsets that are no integers": ("flat", dataset("offsets", np.array([0.0, 1, 4, 9]))),
    "vectors with one axis": ("flat", dataset("vectors", np.ones(9, "f4"))),
    "types that are integers": ("bilm-types", dataset("embedding", np.ones((9, 4), "i4"))),
    "types with one axis": ("bilm-types", dataset("embedding", np.ones(9, "f4"))),
    "no map": ("allennlp", without("sentence_to_index")),
    "a count that is a word": ("manylangs", attribute("first_sentence", "x")),
    "repeated lines that do not exist": ("allennlp", attribute("repeated_lines", "[[0, 77]]")),
    "a short order": ("dygie", attribute("sentence_order", np.zeros(1, "u4"))),
    "fewer checksums": ("bilm", attribute("sentence_crc32", np.zeros(1, "u4"))),
}


@pytest.mark.parametrize("layer", [None, 1])
def test_rows_that_a_file_lacks_are_not_left_out(tmp_path: Path, layer: int | None) -> None:
    """No checksum is compared when one sentence is read; the rest of it would pass for all."""
    path = write(tmp_path / "a.hdf5", documents("x"), layout="flat")
    with h5py.File(path, "a") as file:
        file["offsets"][-1] += 3
    with open_embeddings(path) as embeddings:
        assert embeddings[1].shape == (3, 3, DIM)
        with pytest.raises(EmbeddingsFileError, match="data set 'vectors' has no rows 4 to 12"):
            embeddings[2] if layer is None else embeddings.layer(2, layer)
        with pytest.raises(EmbeddingsFileError, match="data set 'token_ends' has no rows"):
            embeddings.tokens(2)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("[draft] my run", "[draft] my run"),
        ("[" * 50_000, "[" * 50_000),
        (1 + 2j, "(1+2j)"),
        (np.bytes_(b"x"), "b'x'"),
        (h5py.Empty("f4"), "Empty(dtype=dtype('<f4'))"),
    ],
)
def test_an_attribute_that_somebody_added_is_kept(
    tmp_path: Path, value: object, expected: str
) -> None:
    path = write(tmp_path / "a.hdf5", documents("x"), layout="bilm")
    with h5py.File(path, "a") as file:
        file.attrs["note"] = value
    with open_embeddings(path) as embeddings:
        assert embeddings.attributes["note"] == expected


@pytest.mark.parametrize("case", READING)
def test_files_of_ours_with_something_else_in_them(tmp_path: Path, case: str) -> None:
    """Corrupt or crafted: an error of ours with a hint, or a problem, and no memory is taken."""
    layout, change = READING[case]
    layers = None if layout == "manylangs" else 3
    if layout == "bilm-types":
        path = write_types(tmp_path / "a.hdf5", 9)
    else:
        path = write(tmp_path / "a.hdf5", documents("x"), layout=layout, layers=layers)
    with h5py.File(path, "a") as file:
        change(file)
    tracemalloc.start()
    problems: list[str] = []
    error = None
    try:
        with open_embeddings(path) as embeddings:
            problems = [*embeddings.reader.problems(), *["?"] * embeddings.first_sentence]
            assert embeddings.records is not None
            list(embeddings.sentences())
    except EmbeddingsFileError as caught:
        error = caught
    assert problems or (error is not None and str(path) in error.message and error.hint)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
