"""Block: the HDF5 file between two commits."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import h5py
import numpy as np
from h5py import h5f, h5fd, h5p

from elmo_cli.errors import InputError, UsageError
from elmo_cli.store.attributes import write_attributes
from elmo_cli.store.interrupts import Interrupts
from elmo_cli.store.journaled_file import JournaledFile
from elmo_cli.store.layouts.contract import Layout, OpenFile
from elmo_cli.store.sentence_map import SentenceMap, make_dataset, write_element
from elmo_cli.text.sentence import Sentence

# Groups of 1.8 don't collapse under long names as older ones do; every HDF5 since 2008 reads them.
LIBVER = (h5f.LIBVER_V18, h5f.LIBVER_V18)
_NAME = b"part"  # HDF5 wants one; the file is found through the driver
_LARGE_BYTES = 1 << 16


class Block:
    """A part file, open as HDF5.

    What goes wrong under HDF5 (an OSError, a KeyboardInterrupt) is raised as it was, not as what
    HDF5 makes of it. After any error but InputError and UsageError only `abandon` is left.
    """

    def __init__(
        self,
        raw: JournaledFile,
        layout: type[Layout],
        *,
        dtype: np.dtype[Any],
        pooled: bool,
    ) -> None:
        """Open the file; one of 0 bytes is made.

        Args:
            raw: its bytes.
            layout: how it is keyed and shaped.
            dtype: of the values.
            pooled: whether arrays have no token axis.
        """
        self._raw = raw
        self._file: h5py.File | None = None
        self._interrupts = Interrupts()
        # If nobody closes it, HDF5 would at exit write through Python objects that are gone.
        atexit.register(self.abandon, SystemExit())
        try:
            with self._hdf5():
                self._file = _open(raw, layout.alignment)
                self._layout = layout(OpenFile(self._file, raw, dtype, pooled))
        except BaseException as error:
            self.abandon(error)
            raise

    def append(self, sentence: Sentence, array: np.ndarray) -> bool:
        """See `Layout.append`."""
        with self._hdf5():
            return self._layout.append(sentence, array)

    def close(self) -> int:
        """Write all; the size of the file."""
        with self._hdf5():
            self._layout.close()
            self._close_file()
        self._end()
        return self._raw.size

    def close_with(self, facts: Mapping[str, object], sentences: SentenceMap | None) -> int:
        """Write all, the sentence map, and the attributes, of which the last is the end mark.

        Args:
            facts: the attributes.
            sentences: the map; None for a file without one.
        Returns:
            the size of the file.
        """
        with self._hdf5():
            self._layout.close()
            element = None if sentences is None else make_dataset(self._file)
            write_attributes(self._file, facts)
            self._close_file()
            if sentences is not None and element is not None:
                write_element(self._raw, element, sentences)
        self._end()
        return self._raw.size

    def abandon(self, error: BaseException) -> None:
        """Close without touching the disk, so that nothing is left for HDF5 to do at exit."""
        self._raw.fail(error)
        with self._interrupts, suppress(Exception):
            self._close_file()
        self._end()

    def _end(self) -> None:
        self._raw.close()
        self._interrupts.restore()
        atexit.unregister(self.abandon)

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @contextmanager
    def _hdf5(self) -> Iterator[None]:
        """Raise what went wrong in the file under HDF5, which does not pass it on."""
        with self._interrupts:
            try:
                yield
            except (InputError, UsageError):
                raise
            except BaseException as error:
                raise self._raw.error or error from None
            if self._raw.error is not None:
                raise self._raw.error


def _open(raw: JournaledFile, alignment: int) -> h5py.File:
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    access.set_libver_bounds(*LIBVER)
    access.set_alignment(_LARGE_BYTES, alignment)
    access.set_fileobj_driver(h5fd.fileobj_driver, raw)
    if raw.size:
        return h5py.File(h5f.open(_NAME, h5f.ACC_RDWR, fapl=access))
    return h5py.File(h5f.create(_NAME, h5f.ACC_TRUNC, fcpl=_creation(), fapl=access))


def _creation() -> h5p.PropFCID:
    """Links and attributes of the root in the order of creation, and no times."""
    creation = h5p.create(h5p.FILE_CREATE)
    order = h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED
    creation.set_link_creation_order(order)
    creation.set_attr_creation_order(order)
    # h5py.File could set this from 3.14 on only; with times no two runs have equal bytes.
    creation.set_obj_track_times(False)
    return creation
