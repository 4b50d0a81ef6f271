"""Weight files that claim more than they hold."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import h5py
import pytest
from make_weights import options_of

from elmo_cli.errors import WeightFileError
from elmo_cli.model.options import Options
from elmo_cli.weightfile.read import read_bilm
from elmo_cli.weightfile.table import rows


def test_weights_that_are_only_said_to_be_there_take_no_memory(tmp_path: Path) -> None:
    """Options and shapes agree, and 30 KB claim 13 GB of zeros."""
    content = options_of(filters=[[1, 8]], char_dim=4, cell=100_000, projection=4000, n_layers=1)
    (tmp_path / "options.json").write_text(json.dumps(content))
    with h5py.File(tmp_path / "weights.hdf5", "w") as file:
        for row in rows(Options.from_dict(content)):
            file.create_dataset(
                row.path, row.shape, "f4", chunks=tuple(min(n, 64) for n in row.shape)
            )
    tracemalloc.start()
    with pytest.raises(WeightFileError, match="bytes, the file has"):
        read_bilm(tmp_path / "options.json", tmp_path / "weights.hdf5")
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()
