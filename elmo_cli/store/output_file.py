"""OutputFile: a new HDF5 file of embeddings, written in one pass, with its values beside HDF5."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5f, h5p

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import ElmoError
from elmo_cli.hdf5 import METADATA_BLOCK_BYTES, TRACKED
from elmo_cli.store.collected_sentences import CollectedSentences
from elmo_cli.store.large_attributes import write_numbers
from elmo_cli.store.layouts import Layout, LineCheck, StoredSentence, ValueSink, layout_of_spec
from elmo_cli.store.layouts.spool import Spool
from elmo_cli.store.recorded_facts import RecordedFacts
from elmo_cli.store.spec import FileSpec, write_attributes

_COPIED_BYTES = 1 << 20  # at a time
# Metadata that HDF5 caches; in memory, a header of 272 bytes takes several times as much.
_METADATA_CACHE_BYTES = 4 << 20


class OutputFile:
    """A new embeddings file in HDF5: sentences are added one by one, then it is finished."""

    def __init__(self, file: h5py.File, spec: FileSpec, layout: Layout, sink: ValueSink) -> None:
        self._file = file
        self._writer = layout.writer(layout, file, spec, sink)
        self._facts = RecordedFacts(spec, layout, os.path.dirname(file.filename))

    def add(self, stored: StoredSentence) -> None:
        """Add the next sentence; its values go to the sink."""
        self._writer.add(stored)
        self._facts.add(stored)

    def add_collected(self, values: AnyArray, collected: CollectedSentences) -> None:
        """Add all sentences at once, with the shape of all values, which go to the sink."""
        self._writer.add_collected(values, collected.columns)
        self._facts.close()
        self._facts = collected.facts

    def add_token_digests(self, digests: bytes) -> None:
        """Add the digests of the next sentences, also of those that the layout leaves out."""
        self._facts.add_token_digests(digests)

    def finish(self, attributes: Mapping[str, Any]) -> None:
        """Write what follows the sentences, and all attributes.

        Args:
            attributes: those of the caller, whose counts win; `duplicate_sentences` are added up.
        """
        of_layout = self._writer.finish()
        for name, value in self._facts.items(of_layout, attributes):
            if isinstance(value, Spool):
                write_numbers(self._file, name, value)
            else:
                write_attributes(self._file, {name: value})

    @property
    def line_check(self) -> LineCheck | None:
        """After `finish`, the `line_check` of the layout's writer."""
        return self._writer.line_check

    def close(self) -> None:
        """Remove temporary files, also after an error."""
        self._facts.close()
        self._writer.close()


@contextmanager
def new_output_file(path: Path, spec: FileSpec, sink: ValueSink) -> Iterator[OutputFile]:
    """Create an embeddings file, whose values go to the sink; after an error it is empty.

    Raises:
        OSError: no space left.
    """
    layout = layout_of_spec(spec)
    file = _new_hdf5(path, layout.alignment)
    try:
        output = OutputFile(file, spec, layout, sink)
        with closing(output):
            yield output
        file.close()
    except BaseException as error:
        try:
            # First, because HDF5 may abort the process if it cannot write while closing a file.
            with suppress(OSError):
                os.truncate(path, 0)
        finally:
            with suppress(Exception):
                file.close()
        system_error = None if isinstance(error, ElmoError) else _system_error(error)
        if system_error is not None:
            raise system_error from None
        raise


def _system_error(error: BaseException) -> OSError | None:
    """The error of the system that HDF5 reports in the text of its own; None without one."""
    match = re.search(r"errno = (\d+)", str(error))
    if match is None:
        return None
    code = int(match[1])
    return OSError(code, os.strerror(code))


def _new_hdf5(path: Path, alignment: int) -> h5py.File:
    """Create a file that HDF5 1.8 can read, with tracked creation order and without timestamps."""
    access = h5p.create(h5p.FILE_ACCESS)
    with suppress(AttributeError):  # h5py before 3.9; whoever writes holds a lock of its own
        access.set_file_locking(False, True)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    access.set_libver_bounds(h5f.LIBVER_V18, h5f.LIBVER_V18)
    access.set_alignment(1, alignment)
    cache = access.get_mdc_config()
    cache.max_size = _METADATA_CACHE_BYTES
    access.set_mdc_config(cache)
    access.set_meta_block_size(METADATA_BLOCK_BYTES)
    creation = h5p.create(h5p.FILE_CREATE)
    creation.set_link_creation_order(TRACKED)
    creation.set_attr_creation_order(TRACKED)
    creation.set_obj_track_times(False)
    return h5py.File(h5f.create(os.fsencode(path), h5f.ACC_TRUNC, fcpl=creation, fapl=access))


def write_at(descriptor: int, content: bytes | memoryview, position: int) -> int:
    """Write all of it, which may take more than one call; where it ends."""
    rest = memoryview(content)
    while rest:
        n_written = os.pwrite(descriptor, rest, position)
        rest = rest[n_written:]
        position += n_written
    return position


def write_values(descriptor: int, values: AnyArray, position: int) -> int:
    """Write the bytes of a C-contiguous array; where they end."""
    if not values.size:
        return position
    return write_at(descriptor, values.reshape(-1).view(np.uint8).data, position)


def copy_bytes(source: int, start: int, target: int, position: int, n_bytes: int) -> None:
    """Copy bytes between open files."""
    end = start + n_bytes
    while start < end:
        content = os.pread(source, min(_COPIED_BYTES, end - start), start)
        if not content:
            raise shortened_file()
        start += len(content)
        position = write_at(target, content, position)


def shortened_file() -> OSError:
    """The error for a file that ends before what was written to it."""
    return OSError(errno.EIO, "a file became shorter while it was read")
