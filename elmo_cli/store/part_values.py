"""PartValues: the values in OUT.part, which become those of the complete HDF5 file."""

from __future__ import annotations

import os

from elmo_cli.arrays import AnyArray
from elmo_cli.store.output_file import copy_bytes, shortened_file


class PartValues:
    """The values in OUT.part, in order: copied into the HDF5 file, unless all are in place.

    Values are in place if HDF5 has given them the address at which OUT.part has them.

    Args:
        part: the file descriptor of OUT.part.
        start: where its first value is, in bytes.
        target: the file descriptor of the HDF5 file, OUT.part.tmp.
    """

    def __init__(self, part: int, start: int, target: int) -> None:
        self._part = part
        self._start = start
        self._target = target
        self._position = start
        self._is_copying = False

    @property
    def are_in_place(self) -> bool:
        """Whether there are values, and all of them are in place."""
        return self._position > self._start and not self._is_copying

    def put(self, address: int, values: AnyArray) -> None:
        """Copy the next values to `address`, unless they and all before them are in place."""
        if not self._is_copying and address != self._position:
            self._copy_from_start()
        if self._is_copying:
            copy_bytes(self._part, self._position, self._target, address, values.nbytes)
        self._position += values.nbytes

    def enclose(self) -> None:
        """Copy all but the values, which are in place, from the HDF5 file into OUT.part.

        OUT.part is complete then. An error if it has become shorter meanwhile.
        """
        end = self._position
        if os.fstat(self._part).st_size < end:
            raise shortened_file()
        size = os.fstat(self._target).st_size
        copy_bytes(self._target, 0, self._part, 0, self._start)
        copy_bytes(self._target, end, self._part, end, size - end)
        os.ftruncate(self._part, size)

    def _copy_from_start(self) -> None:
        """Copy all values so far, which were in place; HDF5 puts the next ones elsewhere."""
        n_bytes = self._position - self._start
        copy_bytes(self._part, self._start, self._target, self._start, n_bytes)
        self._is_copying = True
