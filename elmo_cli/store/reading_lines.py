"""reading_lines: the lines of Python that read a file, for its very layout and keys."""

from __future__ import annotations

import os

from elmo_cli.store.datasets import NamedSentences, NumberedSentences
from elmo_cli.store.naming import Key
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.recognise import kind_of_weights, open_hdf5

_LAST = "layer"


def reading_lines(path: str | os.PathLike[str]) -> str:
    """Two pieces of Python with a blank line between them: with h5py alone, and with our reader.

    Each leaves the first sentence of the file in `array`; of a weight file there is the first only.

    Raises:
        EmbeddingsFileError: the file can't be opened, or holds neither embeddings nor weights.
    """
    name = os.fspath(path)
    with open_hdf5(embeddings_path := _path(path)) as file:
        weights = kind_of_weights(file)
    if weights:
        dataset = "char_embed" if weights == "biLM" else "softmax/W"
        return _h5py_lines(name, [f'array = file["{dataset}"][()]'])
    with Embeddings(embeddings_path) as embeddings:
        return _embeddings_lines(name, embeddings)
