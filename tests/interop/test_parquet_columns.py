"""What the columns and the index of a Parquet file contain in unusual files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store.embedding_files import NESTED, ONE, PROTEINS, RUN, array, lines, write

from elmo_cli.errors import OutputError
from elmo_cli.interop import parquet_rows
from elmo_cli.interop.parquet import new_output_file
from elmo_cli.store.convert import convert
from elmo_cli.store.layouts import layout_of_spec, sentence_columns, spool
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence

pytestmark = pytest.mark.interop

parquet = pytest.importorskip("pyarrow.parquet")

TOKENIZED = [
    Sentence(("do", "n't"), 0, "don't", source="in.txt", line=1),
    Sentence((), 1, "", source="in.txt", line=2),
]


@pytest.mark.parametrize(
    ("sentences", "options", "texts"),
    [
        (TOKENIZED, {"layout": "allennlp"}, ["don't", ""]),
        (TOKENIZED, {"layout": "allennlp", "forget_sentences": True}, [None, None]),
        (TOKENIZED, {"layout": "flat"}, ["don't", ""]),
        (TOKENIZED, {"layout": "bilm"}, [None, None]),
        (TOKENIZED[:1], {"layout": "allennlp", "keys": "sentence"}, [None]),  # it is the key
        (PROTEINS, {"layout": "seqvec"}, [None] * len(PROTEINS)),
    ],
)
def test_the_text_of_pooled_files(
    sentences: list[Sentence], options: dict[str, Any], texts: list[str | None], tmp_path: Path
) -> None:
    """The text as it was, "" for a blank line, and null where the file does not record it."""
    source = write(tmp_path / "a.hdf5", sentences, pool=True, **options)
    convert(source, tmp_path / "a.parquet")
    column = parquet.read_table(tmp_path / "a.parquet").column("text")
    assert column.to_pylist() == texts


@pytest.mark.parametrize("pool", [False, True])
def test_sentences_that_are_forgotten_are_null(pool: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, lines(), layout="allennlp", forget_sentences=True, pool=pool)
    column = parquet.read_table(path).column("text" if pool else "token")
    assert set(column.to_pylist()) == {None}
    with open_embeddings(path) as embeddings:
        assert not any(info.tokens or info.text for info in embeddings.infos())


def test_numbers_of_sentences_with_names_count_from_the_first_of_a_shard(tmp_path: Path) -> None:
    sentences = NESTED[3:]
    source = write(tmp_path / "a.hdf5", sentences, layout="dygie", first_sentence=3, **ONE)
    convert(source, tmp_path / "a.parquet")
    with open_embeddings(source) as first, open_embeddings(tmp_path / "a.parquet") as second:
        for embeddings in (first, second):
            for sentence in sentences:
                np.testing.assert_array_equal(embeddings[sentence.key], array(sentence, None))
            for missing in (2, 3 + len(sentences)):
                with pytest.raises(KeyError):
                    embeddings[missing]


@pytest.mark.parametrize("layout", ["seqvec", "bio-embeddings"])
def test_proteins_are_found_by_their_ids(layout: str, tmp_path: Path) -> None:
    """Those of the FASTA file, which the names in the file may differ from."""
    source = write(tmp_path / "a.hdf5", PROTEINS, layout=layout)
    convert(source, tmp_path / "a.parquet")
    with open_embeddings(source) as first, open_embeddings(tmp_path / "a.parquet") as second:
        for protein in PROTEINS:
            name = str(protein.document)
            np.testing.assert_array_equal(first[name], array(protein))
            np.testing.assert_array_equal(second[name], array(protein))


def test_a_number_that_the_column_cannot_hold_is_refused(tmp_path: Path) -> None:
    most = (1 << 31) - 1
    sentences = [Sentence(("a",), most, "a"), Sentence(("b",), most + 1, "b")]
    source = write(tmp_path / "a.hdf5", sentences[:1], layout="flat", first_sentence=most)
    convert(source, tmp_path / "a.parquet")
    source = write(tmp_path / "b.hdf5", sentences, layout="flat", first_sentence=most)
    with pytest.raises(OutputError, match="holds no number above 2,147,483,647"):
        convert(source, tmp_path / "b.parquet")


def test_the_index_is_written_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_CHUNK_BYTES", 16)
    monkeypatch.setattr(sentence_columns, "_MAX_PENDING", 8)  # the rest is on the disk
    source = write(tmp_path / "a.hdf5", lines(), layout="flat")
    convert(source, tmp_path / "a.parquet")
    with open_embeddings(source) as first, open_embeddings(tmp_path / "a.parquet") as second:
        for sentence in lines():
            assert first.tokens(sentence.key) == second.tokens(sentence.key) == sentence.tokens


def test_a_file_whose_writer_has_failed_is_not_parquet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets no footer, also when the writer of pyarrow is garbage."""
    monkeypatch.setattr(parquet_rows, "ROWS", 4)
    spec = FileSpec(layout="flat", run_settings=RUN)
    layout = layout_of_spec(spec)
    path = tmp_path / "a.parquet"
    with pytest.raises(RuntimeError), new_output_file(path, spec, "none") as output:  # noqa: PT012
        for sentence in lines():  # more than a row group
            output.add(layout.store(sentence, array(sentence), spec))
        raise RuntimeError
    del output
    assert path.read_bytes().startswith(b"PAR1")
    assert not path.read_bytes().endswith(b"PAR1")
