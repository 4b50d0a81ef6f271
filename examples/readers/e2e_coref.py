"""Read vectors as e2e-coref does: one array (sentence, token, dim, layer) for each document.

As `load_lm_embeddings`, version 9d1ee19:
https://github.com/kentonl/e2e-coref/blob/9d1ee19/coref_model.py#L96-L106

    elmo embed documents.jsonlines --layout e2e-coref -o documents.hdf5
    python readers/e2e_coref.py documents.hdf5 nw/news/00/news_0001_0
"""

import sys

import h5py
import numpy as np


def read(path, doc_key):
    """The vectors of a document, padded with zeros to its longest sentence."""
    with h5py.File(path) as file:
        group = file[doc_key.replace("/", ":")]
        sentences = [group[str(number)][:] for number in range(len(group))]
    n_tokens = max(map(len, sentences))
    document = np.zeros((len(sentences), n_tokens, *sentences[0].shape[1:]))
    for row, sentence in zip(document, sentences, strict=True):
        row[: len(sentence)] = sentence
    return document


if __name__ == "__main__":
    print(read(*sys.argv[1:]).shape)
