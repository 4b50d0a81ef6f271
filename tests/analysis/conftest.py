"""Labeled vectors for the probes."""

from __future__ import annotations

import numpy as np
import pytest
from embeddings_files import make_sentences, write, write_conllu

from elmo_cli.analysis.probe_data import ProbeData, read_probe_data

DIM = 8
LABELS = ("A", "B", "C")
SIZES = {"train": 60, "dev": 20, "test": 20}


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> ProbeData:
    """In layer 1 the vectors of each label are near a point of their own, layer 0 is random.

    Some words of dev and test, and a label of dev, are not in train.
    """
    rng = np.random.default_rng(7)
    folder = tmp_path_factory.mktemp("probe")
    centers = rng.standard_normal((len(LABELS), DIM)) * 3
    files = {}
    for split, n_sentences in SIZES.items():
        lengths = rng.integers(1, 60, n_sentences)
        ids = [rng.integers(len(LABELS), size=n) for n in lengths]
        labels = [[LABELS[k] for k in ids_of_sentence] for ids_of_sentence in ids]
        n_forms = 50 if split == "train" else 60
        if split == "dev":
            labels[0][0] = "X"
        arrays = [rng.standard_normal((2, n, DIM)).astype(np.float32) for n in lengths]
        for array, ids_of_sentence in zip(arrays, ids, strict=True):
            array[1] += centers[ids_of_sentence] + 5
        forms = [rng.integers(n_forms, size=n) for n in lengths]
        lines = [" ".join(f"w{form}" for form in forms_of_line) for forms_of_line in forms]
        text = make_sentences(lines)
        files[split] = (
            str(write(folder / f"{split}.hdf5", text, arrays)),
            str(write_conllu(folder / f"{split}.conllu", text, labels)),
        )
    return read_probe_data(**files)
