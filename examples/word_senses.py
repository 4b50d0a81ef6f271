"""Tell the senses of a word apart: the nearest other occurrence of *play* in each sentence.

elmo embed play.txt -o vectors/
python word_senses.py
"""

import numpy as np

from elmo_cli import open_embeddings

WORD = "play"  # a verb in lines 0 to 9 of play.txt, a play at the theatre in lines 10 to 19


def word_vectors(path, word):
    """The vectors of the word in each sentence, of length 1: (layer, sentence, dim)."""
    vectors = []
    with open_embeddings(path) as embeddings:
        for key in embeddings:
            position = embeddings.tokens(key).index(word)
            vectors.append(embeddings[key][:, position])
    array = np.stack(vectors, axis=1)
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def main():
    is_verb = np.arange(20) < 10
    is_same = is_verb == is_verb[:, None]
    is_other = ~np.eye(20, dtype=bool)  # not the same occurrence
    for layer, vectors in enumerate(word_vectors("vectors/play.hdf5", WORD)):
        cosines = vectors @ vectors.T
        same = cosines[is_same & is_other].mean()
        different = cosines[~is_same].mean()
        print(f"layer {layer}: mean cosine {same:.2f} of one sense, {different:.2f} of two")
    nearest = np.where(is_other, cosines, -1).argmax(axis=1)
    n_right = (is_verb[nearest] == is_verb).sum()
    print(f"layer {layer}: the nearest neighbor has the same sense {n_right} times of 20")


if __name__ == "__main__":
    main()
