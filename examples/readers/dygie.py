"""Read vectors as DyGIE does: one array (token, dim, layer) for each sentence.

As `load_lm_embeddings_for_sentence` and its caller, version 23d24e8:
https://github.com/luanyi/DyGIE/blob/23d24e8/model1/input_utils.py#L63-L75
https://github.com/luanyi/DyGIE/blob/23d24e8/model1/lsgn_data.py#L264-L270

    elmo embed documents.jsonlines --layout dygie -o documents.hdf5
    python readers/dygie.py documents.hdf5 nw/news/00/news_0001_0 0
"""

import sys

import h5py


def read(path, doc_key, number):
    """The vectors of a sentence of a document, which count from 0."""
    with h5py.File(path) as file:
        return file[f"{doc_key}_{number}"][:]


if __name__ == "__main__":
    print(read(*sys.argv[1:]).shape)
