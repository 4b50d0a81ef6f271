"""Read the file that `allennlp elmo --all` writes: one array (layer, token, dim) for each line.

As AllenNLP 0.9.0 writes it:
https://github.com/allenai/allennlp/blob/v0.9.0/allennlp/commands/elmo.py#L345-L373

    elmo embed play.txt -o play.hdf5
    python readers/allennlp.py play.hdf5
"""

import json
import sys

import h5py


def read(path):
    """The vectors of each line, by the line; of equal lines those of the last."""
    with h5py.File(path) as file:
        sentence_to_index = json.loads(file["sentence_to_index"][0])
        return {line: file[name][:] for line, name in sentence_to_index.items()}


if __name__ == "__main__":
    arrays = read(sys.argv[1])
    print(f"{len(arrays)} lines, {arrays['Let us play a game .'].shape}")
