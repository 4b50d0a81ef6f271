"""Read vectors as NeuroX does: one array (token, layer * dim) for each line.

As `load_activations`, version of 12 April 2023:
https://github.com/fdalvi/NeuroX/blob/a9ac7cd/neurox/data/loader.py#L98-L117

    elmo embed play.txt --sentence-map occurrences -o play.hdf5
    python readers/neurox.py play.hdf5
"""

import json
import sys

import h5py


def read(path):
    """The vectors of each line, all layers side by side, in the order of the text."""
    with h5py.File(path) as file:
        names = json.loads(file["sentence_to_index"][0]).values()
        arrays = [file[name][:].swapaxes(0, 1) for name in names]
    return [array.reshape(len(array), -1) for array in arrays]


if __name__ == "__main__":
    arrays = read(sys.argv[1])
    print(f"{len(arrays)} lines, the first {arrays[0].shape}")
