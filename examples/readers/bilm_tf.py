"""Read vectors as programs for bilm-tf do: of a line by its number, or of types as weights.

As usage_cached.py and `_pretrained_initializer`, version 7cffee2:
https://github.com/allenai/bilm-tf/blob/7cffee2/usage_cached.py#L40-L41
https://github.com/allenai/bilm-tf/blob/7cffee2/bilm/model.py#L207-L216

    elmo embed play.txt --layout bilm -o play.hdf5
    python readers/bilm_tf.py play.hdf5 1
"""

import sys

import h5py
import numpy as np


def read(path, number):
    """The vectors of a line, which count from 0: (layer, token, dim)."""
    with h5py.File(path) as file:
        return file[str(number)][...]


def read_types(path):
    """The weights for types of a file of layout bilm-types; row 0, of padding, is zeros."""
    with h5py.File(path) as file:
        rows = file["embedding"][...]
    return np.concatenate([np.zeros((1, rows.shape[1]), rows.dtype), rows])


if __name__ == "__main__":
    print(read(*sys.argv[1:]).shape)
