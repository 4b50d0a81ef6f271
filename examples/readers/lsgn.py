"""Read vectors as LSGN does: one array (token, dim, layer) for each sentence.

As `load_lm_embeddings_for_sentence` and its caller, version b1495ec:
https://github.com/luheng/lsgn/blob/b1495ec/input_utils.py#L46-L52
https://github.com/luheng/lsgn/blob/b1495ec/lsgn_data.py#L200-L210

    elmo embed documents.jsonlines --layout lsgn -o ontonotes.hdf5
    python readers/lsgn.py ontonotes.hdf5 documents.jsonlines
"""

import json
import sys

import h5py


def read(path, documents):
    """The vectors of the sentences of documents: dicts with `doc_key` and `sentences`."""
    n_seen = {}  # sentences of a document in the parts before, as `sent_offset` of LSGN
    with h5py.File(path) as file:
        for document in documents:
            key = document["doc_key"]
            for number in range(len(document["sentences"])):
                if "ontonotes" in str(path):  # as LSGN decides it
                    name = key[: key.rfind("_")]
                    place = f"{name}/{n_seen.get(name, 0)}".replace("/", ":")
                    n_seen[name] = n_seen.get(name, 0) + 1
                else:
                    place = f"{key.replace('/', ':')}/{number}"
                yield file[place][:].transpose(1, 2, 0)


if __name__ == "__main__":
    path, text = sys.argv[1:]
    with open(text, encoding="utf-8") as lines:
        arrays = list(read(path, map(json.loads, lines)))
    print(f"{len(arrays)} sentences, the first {arrays[0].shape}")
