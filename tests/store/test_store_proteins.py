"""seqvec and bio-embeddings: layers side by side, ids, equal sequences, files of the originals."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from embedding_files import DIM, PROTEINS, array, attribute, documents, noise, proteins, write

from elmo_cli.errors import EmbeddingsFileError, InputError, UsageError
from elmo_cli.store.convert import convert
from elmo_cli.store.inspection import verify
from elmo_cli.store.layouts import LAYOUTS, UniqueNames
from elmo_cli.store.reader import open_embeddings
from elmo_cli.text.sentence import Sentence


def test_layers_are_side_by_side(tmp_path: Path) -> None:
    """SeqVec's `--layer all` writes them so, and nothing on a data set but its values."""
    path = write(tmp_path / "a.hdf5", PROTEINS, layout="seqvec")
    with h5py.File(path) as file:
        for sentence in PROTEINS:
            dataset = file[sentence.document]
            np.testing.assert_array_equal(dataset[:], np.concatenate(array(sentence), axis=1))
            assert not dataset.attrs
        assert file.attrs["layers_side_by_side"] == 3


def test_pooled_layers_are_side_by_side(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", PROTEINS, layout="seqvec", pool=True)
    with h5py.File(path) as file:
        for sentence in PROTEINS:
            expected = np.concatenate(array(sentence).sum(-2))
            np.testing.assert_array_equal(file[sentence.document][:], expected)


@pytest.mark.parametrize("layout", ["seqvec", "bio-embeddings"])
@pytest.mark.parametrize("pool", [False, True])
def test_conversions_from_flat_and_back(tmp_path: Path, layout: str, pool: bool) -> None:
    """Layers get their axis back, also without the text; a sum of them is made of them."""
    flat = write(tmp_path / "a.hdf5", PROTEINS, layout="flat", pool=pool)
    convert(flat, tmp_path / "b.hdf5", layout=layout)
    expected = write(tmp_path / "c.hdf5", PROTEINS, layout=layout, pool=pool)
    assert (tmp_path / "b.hdf5").read_bytes() == expected.read_bytes()
    convert(expected, tmp_path / "d.hdf5", layout="bilm")
    bilm = write(tmp_path / "e.hdf5", PROTEINS, layout="bilm", pool=pool)
    assert (tmp_path / "d.hdf5").read_bytes() == bilm.read_bytes()
    convert(expected, tmp_path / "f.hdf5", layers="sum")
    assert verify(tmp_path / "f.hdf5").count == 0
    with open_embeddings(tmp_path / "f.hdf5") as embeddings:
        assert embeddings.n_layers is None
        for sentence in PROTEINS:
            values = array(sentence).sum(-2) if pool else array(sentence)
            found = embeddings[embeddings.key_of(sentence)]
            np.testing.assert_allclose(found, values.sum(0), atol=1e-5)


def test_ids_are_attributes(tmp_path: Path) -> None:
    """bio_embeddings finds them there; a key is the MD5, the id, or the residues."""
    path = write(tmp_path / "a.hdf5", PROTEINS, layout="bio-embeddings")
    with h5py.File(path) as file:
        ids = [dataset.attrs["original_id"] for dataset in file.values()]
        assert ids == [sentence.document for sentence in PROTEINS]
        assert all(len(name) == 32 for name in file)
    with open_embeddings(path) as embeddings:
        for sentence in PROTEINS:
            assert sentence.document is not None
            for key in (sentence.document, sentence.tokens):
                np.testing.assert_array_equal(embeddings[key], array(sentence))


def test_equal_sequences_are_kept_once_where_they_are_the_key(tmp_path: Path) -> None:
    """The first id is kept, and the others are counted; seqvec keeps them all."""
    sentences = proteins("P1 MK", "P2 V", "P3 MK", "P4 MK")
    path = write(tmp_path / "a.hdf5", sentences, layout="bio-embeddings")
    with open_embeddings(path) as embeddings:
        assert [info.document for info in embeddings.infos()] == ["P1", "P2"]
        assert embeddings.attributes["duplicate_sentences"] == 2
    with open_embeddings(write(tmp_path / "b.hdf5", sentences, layout="seqvec")) as embeddings:
        assert list(embeddings) == ["P1", "P2", "P3", "P4"]
    convert(path, tmp_path / "c.hdf5", layout="seqvec")  # without digests of P3 and P4
    assert verify(tmp_path / "c.hdf5").listed == []
    with open_embeddings(tmp_path / "c.hdf5") as embeddings:
        assert list(embeddings) == ["P1", "P2"]
        assert "token_digests" not in embeddings.attributes


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (("a", "a/b"), "conflicts with an earlier one"),
        (("a/b/c", "a/b"), "conflicts with an earlier one"),
        (("a", "b", "a"), "exists already"),
        (("a//b",), "is not a valid HDF5 name"),
        (("./a",), "is not a valid HDF5 name"),
        (("sentence_to_index",), "is not a valid HDF5 name"),
        (("é" * 30_001,), "is not a valid HDF5 name"),  # of 60,002 bytes
    ],
)
def test_ids_that_cannot_be_paths(ids: tuple[str, ...], words: str) -> None:
    """SeqVec computes everything, and then fails or writes fewer proteins."""
    names = UniqueNames(LAYOUTS["seqvec"])
    *fine, last = proteins(*(f"{record_id} M" for record_id in ids))
    for sentence in fine:
        assert names.add(sentence)
    with pytest.raises(InputError, match=words) as caught:
        names.add(last)
    assert caught.value.where == last.where
    assert "--fasta-id" in caught.value.hint


def test_the_longest_id(tmp_path: Path) -> None:
    (sentence,) = proteins(f"{'é' * 30_000} M")
    assert UniqueNames(LAYOUTS["seqvec"]).add(sentence)
    with open_embeddings(write(tmp_path / "a.hdf5", [sentence], layout="seqvec")) as embeddings:
        assert list(embeddings) == [sentence.document]


@pytest.mark.parametrize("layout", ["seqvec", "bio-embeddings"])
def test_a_sequence_is_the_only_one_of_its_id(tmp_path: Path, layout: str) -> None:
    with open_embeddings(write(tmp_path / "a.hdf5", PROTEINS, layout=layout)) as embeddings:
        for key in (("Q2", 0), "Q2:0", ("a/c", 0)):
            assert key in embeddings
        for key in (("Q2", 1), "Q2:1", ("a/c", 2)):
            assert key not in embeddings


@pytest.mark.parametrize("lengths", [np.zeros(7), np.ones(6), np.full(7, (1 << 24) + 1)])
def test_lengths_that_are_those_of_no_sequences(tmp_path: Path, lengths: np.ndarray) -> None:
    """A copy would count other tokens, or take the memory of millions."""
    path = write(tmp_path / "a.hdf5", PROTEINS, layout="bio-embeddings", pool=True)
    with h5py.File(path, "a") as file:
        attribute("sequence_lengths", lengths.astype("<u4"))(file)
    with pytest.raises(EmbeddingsFileError, match="sequence_lengths does not fit 7 sequences"):
        convert(path, tmp_path / "b.hdf5")


@pytest.mark.parametrize("layout", ["seqvec", "bio-embeddings"])
def test_a_sentence_without_an_id(layout: str) -> None:
    with pytest.raises(UsageError, match=f"layout {layout} needs the id of each sequence"):
        UniqueNames(LAYOUTS[layout]).add(Sentence(("M",), 0))


def test_a_document_of_several_sentences_is_no_sequence() -> None:
    names = UniqueNames(LAYOUTS["seqvec"])
    first, second = documents("d", n_places=2)
    names.add(first)
    with pytest.raises(InputError, match="exists already"):
        names.add(second)


@pytest.mark.parametrize("number", [0, -3, 4, 2.0, "three"])
def test_a_wrong_number_of_layers(tmp_path: Path, number: object) -> None:
    """Values of one layer would be read as those of another."""
    path = write(tmp_path / "a.hdf5", PROTEINS, layout="seqvec")
    with h5py.File(path, "a") as file:
        attribute("layers_side_by_side", number)(file)
    with pytest.raises(EmbeddingsFileError):
        open_embeddings(path)


def test_a_changed_id_is_found(tmp_path: Path) -> None:
    """The vectors of one protein would pass for those of another."""
    path = write(tmp_path / "a.hdf5", PROTEINS, layout="bio-embeddings")
    with h5py.File(path, "a") as file:
        name = list(file)[2]
        file[name].attrs["original_id"] = "Q9"
    assert verify(path).listed == [
        f"sentence {name!r}: corrupt: its key, tokens or values do not match their checksum"
    ]
    with h5py.File(path, "a") as file:
        del file[name].attrs["original_id"]
    assert any("has no attribute original_id" in problem for problem in verify(path).listed)


# -- files of the originals -----------------------------------------------------------------------


def of_bio_embeddings(path: Path, names: list[str], *shape: int) -> Path:
    with h5py.File(path, "w") as file:
        for number, name in enumerate(names):
            file[name] = noise(*shape)
            file[name].attrs["original_id"] = f"P{number}"
    return path


@pytest.mark.parametrize("names", [["d4" * 16, "0a" * 16], ["0", "1"]])
@pytest.mark.parametrize("shape", [(3, 5, DIM), (DIM,)])
def test_files_of_bio_embeddings(tmp_path: Path, names: list[str], shape: tuple[int, ...]) -> None:
    """With MD5 or, as `simple_remapping`, numbers; a copy has the same names and ids."""
    path = of_bio_embeddings(tmp_path / "a.hdf5", names, *shape)
    paths = [path]
    if len(shape) == 3:
        convert(path, tmp_path / "b.hdf5")
        paths.append(tmp_path / "b.hdf5")
    for file in paths:
        with open_embeddings(file) as embeddings:
            assert embeddings.layout == "bio-embeddings"
            assert sorted(embeddings) == sorted(names)
            assert embeddings["P1"].shape == shape
            assert embeddings.info(names[1]).document == "P1"
            np.testing.assert_array_equal(embeddings["P0"], embeddings[names[0]])


def test_files_of_seqvec_have_one_layer(tmp_path: Path) -> None:
    """How many are side by side is not known; nor the residues, so nobody may guess them."""
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        file["P1"] = noise(7, 3 * DIM)
        file["a/b"] = noise(1, 3 * DIM)
    with open_embeddings(path) as embeddings:
        assert (embeddings.layout, embeddings.n_layers, embeddings.dim) == ("seqvec", None, 18)
        assert embeddings.layers == ("unknown",)
        assert [embeddings.tokens(key) for key in embeddings] == [None, None]
        assert embeddings.info("a/b").document == "a/b"
    convert(path, tmp_path / "b.hdf5", dtype="float16")
    assert verify(tmp_path / "b.hdf5").count == 0
