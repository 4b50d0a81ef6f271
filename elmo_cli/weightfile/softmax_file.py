"""The softmax weights: a file of their own beside the biLM's, or a group inside it."""

from __future__ import annotations

from pathlib import Path

import h5py
import torch

from elmo_cli.errors import WeightFileError
from elmo_cli.model.softmax import NextToken
from elmo_cli.weightfile.new_file import add_array, new_hdf5
from elmo_cli.weightfile.read import open_weights, read_array


def read_softmax(path: str | Path, *, n_types: int, projection: int) -> NextToken:
    """The softmax layer from a file that holds softmax/W and softmax/b.

    Args:
        path: the softmax file, or a weight file that has the group `softmax` inside.
        n_types: types of the vocabulary that goes with it.
        projection: output size of the biLM's LSTM layers.
    Raises:
        WeightFileError: damaged, without a softmax, or of another size.
    """
    with open_weights(path) as file:
        weight, bias = file.get("softmax/W"), file.get("softmax/b")
        if not isinstance(weight, h5py.Dataset) or not isinstance(bias, h5py.Dataset):
            raise WeightFileError(
                f"{path}: no softmax/W and softmax/b in it", "give the file of softmax weights"
            )
        if weight.shape != (n_types, projection) or bias.shape != (n_types,):
            raise WeightFileError(
                f"{path}: softmax/W has shape {weight.shape} and softmax/b {bias.shape}, "
                f"vocabulary and options ask for {(n_types, projection)} and {(n_types,)}",
                "softmax, vocabulary and biLM must come from one model",
            )
        arrays = [read_array(item, str(path)) for item in (weight, bias)]
    head = NextToken(n_types, projection)
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(arrays[0]))
        head.bias.copy_(torch.from_numpy(arrays[1]))
    return head


def write_softmax(head: NextToken, path: str | Path, *, dtype: str = "float32") -> None:
    """Write softmax/W (type, projection) and softmax/b (type,) to a file of their own.

    Raises:
        OutputError: the file can't be written, or `dtype` can't hold a value.
    """
    with new_hdf5(path) as file:
        for name, value in (("W", head.weight), ("b", head.bias)):
            array = value.detach().cpu().float().numpy()
            add_array(file, path, f"softmax/{name}", array, dtype)
