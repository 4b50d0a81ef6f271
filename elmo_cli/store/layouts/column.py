"""Column: a chunked dataset that grows by rows and is written in whole chunks."""

from __future__ import annotations

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t

from elmo_cli.store.layouts.contract import OpenFile


class Column:
    """Rows of one shape and type, one after the other.

    Whole chunks go to the file as they are, without the chunk cache of HDF5. Rows that don't fill a
    chunk are held back until `close`; the next block reads them again and writes the chunk anew.
    """

    def __init__(
        self,
        target: OpenFile,
        name: str,
        dtype: np.typing.DTypeLike,
        *,
        row: tuple[int, ...] = (),
        chunk_bytes: int,
    ) -> None:
        """Go on with the dataset `name`; it is made if it is not there.

        Args:
            target: the file.
            name: of the dataset, in the root.
            dtype: of its values.
            row: shape of a row; () makes the dataset a vector.
            chunk_bytes: size of a chunk, at most; but a chunk holds at least one row.
        """
        kind = np.dtype(dtype)
        row_bytes = kind.itemsize * int(np.prod(row, dtype=np.int64))
        n_rows = max(1, chunk_bytes // max(1, row_bytes))
        self._id = _dataset(target.file, name, kind, (n_rows, *row))
        self._row = row
        self._chunk = np.zeros((n_rows, *row), kind)
        self._rows = self._n_written = int(self._id.shape[0])
        self._fill = self._rows % n_rows
        if self._fill:
            self._chunk[: self._fill] = target.file[name][self._rows - self._fill :]

    @property
    def n_rows(self) -> int:
        """Rows so far, with those held back."""
        return self._rows

    @property
    def row(self) -> tuple[int, ...]:
        """Shape of a row."""
        return self._row

    def append(self, rows: np.ndarray) -> None:
        """Add rows, (row, …)."""
        taken = 0
        while taken < len(rows):
            n_taken = min(len(self._chunk) - self._fill, len(rows) - taken)
            self._chunk[self._fill : self._fill + n_taken] = rows[taken : taken + n_taken]
            taken += n_taken
            self._fill += n_taken
            self._rows += n_taken
            if self._fill == len(self._chunk):
                self._write()
                self._fill = 0

    def close(self) -> None:
        """Write the rows held back."""
        if self._rows > self._n_written:
            self._chunk[self._fill :] = (
                0  # rows of the chunk before would make resumed files differ
            )
            self._write()

    def _write(self) -> None:
        """Write the chunk, of which `_fill` rows are rows of the dataset."""
        if not self._chunk.size:
            return
        self._id.set_extent((self._rows, *self._row))
        start = self._rows - self._fill
        self._id.write_direct_chunk((start, *(0 for _ in self._row)), self._chunk)
        self._n_written = self._rows


def _dataset(
    file: h5py.File, name: str, kind: np.dtype[np.generic], chunk: tuple[int, ...]
) -> h5d.DatasetID:
    if name in file:
        return file[name].id
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_chunk(tuple(max(1, size) for size in chunk))
    properties.set_fill_time(h5d.FILL_TIME_NEVER)
    properties.set_obj_track_times(False)
    space = h5s.create_simple((0, *chunk[1:]), (h5s.UNLIMITED, *chunk[1:]))
    return h5d.create(file.id, name.encode("utf-8"), h5t.py_create(kind), space, properties)
