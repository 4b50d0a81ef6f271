"""Find the nearest neighbors of a token in an embeddings file with NumPy alone.

elmo embed play.txt -o vectors/
python nearest.py vectors/play.hdf5 1 play
"""

import sys

import numpy as np

from elmo_cli import open_embeddings

LAYER = 2
COUNT = 3


def main(path, key, word):
    tokens = []  # (sentence, position) of each row of vectors
    arrays = []
    with open_embeddings(path) as embeddings:
        for sentence in embeddings:
            words = embeddings.tokens(sentence)
            tokens += [(words, position) for position in range(len(words))]
            if sentence == key:
                query = len(tokens) - len(words) + words.index(word)
            arrays.append(embeddings[sentence][LAYER])
    vectors = np.concatenate(arrays)  # (token, dim); for millions of tokens, use `elmo neighbors`
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors[query]
    for row in np.argsort(-cosines)[: COUNT + 1]:
        words, position = tokens[row]
        marked = [*words[:position], f"[{words[position]}]", *words[position + 1 :]]
        print(f"{cosines[row]:.2f}  {' '.join(marked)}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
