"""Read vectors as contextual-repr-analysis does: by the tokens of a sentence.

As `PrecomputedContextualizer`, version of 20 October 2021:
https://github.com/nelson-liu/contextual-repr-analysis/blob/1550abe/contexteval/contextualizers/precomputed_contextualizer.py#L61-L137

    elmo embed play.txt -o play.hdf5
    python readers/contextual_repr_analysis.py play.hdf5 This play has three acts .
"""

import json
import sys

import h5py


def read(path, tokens, layer=-1):
    """The vectors of a layer, (token, dim); a KeyError if the text lacks the sentence."""
    with h5py.File(path) as file:
        sentence_to_index = json.loads(file["sentence_to_index"][0])
        return file[sentence_to_index[" ".join(tokens)]][layer]


if __name__ == "__main__":
    path, *tokens = sys.argv[1:]
    print(f"{len(tokens)} tokens, {read(path, tokens).shape}")
