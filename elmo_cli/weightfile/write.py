"""Write biLM weights to HDF5, in the form that bilm-tf and AllenNLP load."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from elmo_cli.model.bilm import BiLM
from elmo_cli.weightfile.new_file import add_array, new_hdf5
from elmo_cli.weightfile.table import rows


def write_bilm(bilm: BiLM, path: str | Path, *, dtype: str = "float32") -> None:
    """Write the weights of a biLM; `path` appears when it is whole.

    Args:
        bilm: on any device.
        path: the HDF5 file to make; an old one is replaced.
        dtype: "float32", or "float16" for half the bytes (AllenNLP loads both).
    Raises:
        OutputError: the file can't be written, or `dtype` can't hold a value.
    """
    parameters = bilm.state_dict()
    with new_hdf5(path) as file:
        for row in rows(bilm.options):
            arrays = [parameters[name].cpu().float().numpy() for name in row.parameters]
            whole = np.concatenate([row.transform.to_file(array) for array in arrays])
            add_array(file, path, row.path, whole, dtype)
