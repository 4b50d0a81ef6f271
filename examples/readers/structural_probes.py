"""Read vectors as structural-probes does: one array (token, dim) for each tree.

As `generate_token_embeddings_from_hdf5`, version of 26 May 2022:
https://github.com/john-hewitt/structural-probes/blob/ad37b02/structural-probes/data.py#L169-L178

    elmo embed dev.conllu --rows all -o dev.hdf5
    python readers/structural_probes.py dev.hdf5
"""

import sys

import h5py


def read(path, layer):
    """The vectors of a layer, in the order of the text."""
    with h5py.File(path) as file:
        numbers = sorted(int(name) for name in file if name != "sentence_to_index")
        return [file[str(number)][layer] for number in numbers]


if __name__ == "__main__":
    arrays = read(sys.argv[1], layer=1)
    print(f"{len(arrays)} trees, the first {arrays[0].shape}")
