"""Parquet and word2vec files in polars, DuckDB, pandas, datasets and gensim."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from command_line import made, only_tiny
from pages import run_program

from elmo_cli.store.reader import open_embeddings

pytestmark = pytest.mark.interop

pytest.importorskip("pyarrow")

PAGES = Path(__file__).resolve().parents[2] / "docs" / "guides"
TEXT = "The cat sat .\nThe dog sat .\nA cat slept here .\nThe cat ran .\n" * 20


@pytest.fixture
def folder(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with embeddings of a text, in HDF5."""
    only_tiny(monkeypatch, tiny)
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text(TEXT)
    made("embed", "a.txt", "-o", "a.hdf5", "--layout", "flat")
    return tmp_path


@pytest.fixture
def vectors(folder: Path) -> np.ndarray:
    """Layer 2 of all tokens, (token, dim)."""
    with open_embeddings("a.hdf5") as embeddings:
        return np.concatenate([embeddings[key][2] for key in embeddings])


@pytest.fixture(params=["float32", "float16"])
def table(request: pytest.FixtureRequest, folder: Path) -> Path:
    made("convert", "a.hdf5", "-o", "a.parquet", "--dtype", request.param)
    return folder / "a.parquet"


@pytest.fixture(params=["none", "zstd"])
def compressed(request: pytest.FixtureRequest, folder: Path) -> Path:
    words = ["--dtype", "float16", "--compression", request.param]
    made("convert", "a.hdf5", "-o", "b.parquet", *words)
    return folder / "b.parquet"


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    return found.shape == expected.shape and bool(np.abs(found - expected).max() < 2e-3)


def test_pyarrow(table: Path, vectors: np.ndarray) -> None:
    import pyarrow.parquet

    column = pyarrow.parquet.read_table(table)["layer_2"].combine_chunks()
    found = column.flatten().to_numpy().reshape(len(column), -1)
    assert close(found.astype("f4"), vectors)


def test_polars(table: Path, vectors: np.ndarray) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.read_parquet(table)
    assert isinstance(frame.schema["layer_2"], polars.Array)
    assert close(frame["layer_2"].to_numpy().astype("f4"), vectors)
    assert frame["token"].to_list() == TEXT.split()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_duckdb_finds_the_neighbors_of_our_command(compressed: Path, vectors: np.ndarray) -> None:
    duckdb = pytest.importorskip("duckdb")
    dim = vectors.shape[1]
    distinct = f"""
        SELECT DISTINCT token, array_cosine_similarity(
            layer_2::FLOAT[{dim}],
            (SELECT layer_2 FROM '{compressed}' WHERE sentence = 0 AND position = 1)::FLOAT[{dim}]
        ) AS cosine
        FROM '{compressed}' WHERE NOT (sentence = 0 AND position = 1)
        ORDER BY cosine DESC LIMIT 1
    """
    ((token, cosine),) = duckdb.sql(distinct).fetchall()
    query = vectors[1]
    norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    cosines = vectors @ query / norms
    cosines[1] = -1
    assert token == TEXT.split()[int(np.argmax(cosines))]
    assert cosine == pytest.approx(float(cosines.max()), abs=2e-3)


def test_pandas(table: Path, vectors: np.ndarray) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(table)
    assert close(np.stack(frame["layer_2"]).astype("f4"), vectors)
    assert list(frame["position"][:4]) == [0, 1, 2, 3]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_datasets(table: Path, vectors: np.ndarray, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.load_dataset(
        "parquet", data_files=str(table), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert rows.num_rows == len(vectors)
    assert rows.features["layer_2"].length == vectors.shape[1]
    assert close(np.array(rows[3]["layer_2"], "f4"), vectors[3])


@pytest.mark.parametrize(("name", "is_binary"), [("types.vec", False), ("types.bin", True)])
def test_gensim_reads_the_vectors_of_types(
    name: str, is_binary: bool, folder: Path, vectors: np.ndarray
) -> None:
    models = pytest.importorskip("gensim.models")
    made("convert", "a.hdf5", "-o", name, "--layer", "2", "--min-count", "21")
    read = models.KeyedVectors.load_word2vec_format(name, binary=is_binary)
    tokens = TEXT.split()
    assert read.index_to_key == [".", "The", "cat", "sat"]
    for word in read.index_to_key:
        of_word = vectors[[token == word for token in tokens]]
        assert np.abs(read[word] - of_word.mean(0)).max() < 1e-5
    assert "dog" not in read


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("number", [0, 1])
def test_the_programs_of_the_page_print_what_is_shown(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in ("polars", "duckdb"):
        pytest.importorskip(program)
    sample = PAGES.parent / "sample.txt"
    monkeypatch.chdir(tmp_path)
    made("embed", sample, "-o", "sample.parquet", "-m", "elmo-en")
    run_program(PAGES / "parquet.md", number)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_query_of_the_page_of_outputs_finds_each_occurrence(vectors: np.ndarray) -> None:
    duckdb = pytest.importorskip("duckdb")
    made("convert", "a.hdf5", "-o", "corpus.parquet")
    (query,) = re.findall(r"^SELECT .*", (PAGES / "outputs.md").read_text("utf-8"), re.M)
    rows = duckdb.sql(query.replace("'play'", "'cat'")).fetchall()
    positions = [number for number, token in enumerate(TEXT.split()) if token == "cat"]
    assert len(rows) == len(positions)
    found = np.array([vector for _, _, vector in rows], np.float32)
    assert close(found, vectors[positions])
