"""Embeddings in several processes: forked, pickled, closed, opened without listing all names."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from embedding_files import DIM, array, documents, lines, write

from elmo_cli.errors import ElmoError, EmbeddingsFileError
from elmo_cli.store.inspection import describe
from elmo_cli.store.reader import Embeddings, open_embeddings
from elmo_cli.weightfile.open_weights import open_weights

SHARED = ("allennlp", "flat", "e2e-coref")


def open_documents(folder: Path, layout: str) -> Embeddings:
    path = folder / f"{layout}.hdf5"
    return open_embeddings(write(path, documents("d", "e", n_places=8), layout=layout))


@pytest.mark.parametrize("layout", SHARED)
def test_a_forked_process_does_not_share_the_handle(tmp_path: Path, layout: str) -> None:
    """HDF5 does not survive a handle that two processes share: its file has one position."""
    with open_documents(tmp_path, layout) as embeddings:
        inherited = embeddings.reader
        expected = embeddings[7].tobytes()
        child = os.fork()
        if not child:
            is_right = embeddings[7].tobytes() == expected
            os._exit(0 if is_right and embeddings.reader is not inherited else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert embeddings.reader is inherited


def test_a_file_that_another_program_has_open(tmp_path: Path) -> None:
    """A notebook with the file in mode `a`: neither a new download nor a new run helps."""
    path = write(tmp_path / "a.hdf5", lines(), layout="bilm")
    program = "import h5py, sys; f = h5py.File(sys.argv[1], 'a'); print(flush=True); input()"
    words = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as notebook:
        assert notebook.stdout is not None
        notebook.stdout.readline()
        for opened in (open_embeddings, open_weights, describe):
            with pytest.raises(ElmoError, match="another program has it open") as caught:
                opened(path).__enter__()
            for word in ("notebook", "HDF5_USE_FILE_LOCKING=FALSE"):
                assert word in caught.value.hint
            assert "again" not in caught.value.hint
        notebook.kill()
    with open_embeddings(path) as embeddings:
        assert len(embeddings) == len(lines())


@pytest.mark.parametrize("layout", SHARED)
def test_pickles_and_closed_files(tmp_path: Path, layout: str) -> None:
    embeddings = open_documents(tmp_path, layout)
    first = embeddings[0]
    with pickle.loads(pickle.dumps(embeddings)) as twin:
        np.testing.assert_array_equal(twin[0], first)
        assert twin.attributes.keys() == embeddings.attributes.keys()
        assert twin != embeddings
        assert len({twin, embeddings}) == 2
    np.testing.assert_array_equal(embeddings[5], embeddings[5])
    embeddings.close()
    first += 1  # an array outlives its file and is writable
    with pytest.raises(EmbeddingsFileError, match="closed"):
        embeddings[0]
    embeddings.path.unlink()


@pytest.mark.parametrize("layout", SHARED)
def test_a_file_that_is_replaced_while_it_is_open(tmp_path: Path, layout: str) -> None:
    """Another run has written a file under the same name; what is open stays what it was."""
    embeddings = open_documents(tmp_path, layout)
    sentences = documents("d", "e", n_places=8)
    expected = [array(sentence) for sentence in sentences]
    others = [replace(sentence, key=sentence.key + 100) for sentence in sentences]
    os.replace(write(tmp_path / "new.hdf5", others, layout=layout), embeddings.path)
    with embeddings:
        for found, own in zip(embeddings[:], expected, strict=True):
            np.testing.assert_array_equal(found, own)


def test_opening_lists_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a large file would take as long as listing it, once in every worker."""
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")

    def listed(*_: object) -> None:
        raise AssertionError("all names were read")

    monkeypatch.setattr("elmo_cli.store.layouts.sentence_datasets.DatasetReader.handles", listed)
    monkeypatch.setattr(h5py.Group, "__iter__", listed)
    with open_embeddings(path) as embeddings:
        assert (len(embeddings), embeddings.dim, embeddings.n_layers) == (12, DIM, 3)
        assert "A dog" in embeddings
        assert embeddings.tokens(10) == lines()[10].tokens
        np.testing.assert_array_equal(embeddings[10], array(lines()[10]))
        with pytest.raises(TypeError):
            list(embeddings)
