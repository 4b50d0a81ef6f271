"""The HDF5 file at the end of a run: written in one pass, its values beside HDF5."""

from __future__ import annotations

import errno
import os
import re
from array import array as integers
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5f, h5p

from elmo_cli.errors import ElmoError
from elmo_cli.hdf5 import TRACKED
from elmo_cli.store.digests import tokens_sha256
from elmo_cli.store.layouts import StoredSentence, ValueSink, layout_of_spec
from elmo_cli.store.spec import SCHEMA, FileSpec, write_attributes

_COPIED_BYTES = 1 << 20


def write_hdf5(
    path: Path,
    spec: FileSpec,
    stored: Iterable[StoredSentence],
    token_digests: bytearray,
    given: Mapping[str, Any],
    sink: ValueSink,
) -> None:
    """Write a whole file.

    Args:
        token_digests: has those of all sentences handed over, once all are stored.
        given: attributes of the caller, whose counts win; duplicates are added up.
        sink: gets the values.
    Raises:
        OSError: no space left; the file is empty then.
    """
    layout, crc32, n_tokens = layout_of_spec(spec), integers("I"), 0

    def counted() -> Iterator[StoredSentence]:
        nonlocal n_tokens
        for one in stored:
            crc32.append(one.crc32)
            n_tokens += len(one.sentence.tokens)
            yield one

    with _new_hdf5(path, layout.alignment) as file:
        of_layout = layout.write(file, counted(), spec, sink)
        facts = {"elmo_schema": SCHEMA, **spec.to_attributes()}
        facts |= {"sentences": len(crc32), "tokens": n_tokens}
        if layout.keeps_first:
            n_left_out = len(token_digests) // 8 - len(crc32)
            n_left_out += given.get("duplicate_sentences", 0)
            given = {**given, "duplicate_sentences": n_left_out}
            facts["duplicate_sentences"] = n_left_out
        facts |= {"sentence_crc32": np.array(crc32, "<u4"), **of_layout, **given}
        digests = facts.pop("token_digests", np.frombuffer(token_digests, "<u8"))
        if digests is not None:
            facts |= {"token_digests": digests, "tokens_sha256": tokens_sha256(digests.tobytes())}
        write_attributes(file, {**facts, "complete": True})


@contextmanager
def _new_hdf5(path: Path, alignment: int) -> Iterator[h5py.File]:
    """Create an HDF5 file; after an error it is empty, and the system's error is raised."""
    file = _created(path, alignment)
    try:
        yield file
        file.close()
    except BaseException as error:
        try:
            # First, because HDF5 may abort the process if it cannot write while closing a file.
            with suppress(OSError):
                os.truncate(path, 0)
        finally:
            with suppress(Exception):
                file.close()
        found = re.search(r"errno = (\d+)", str(error))
        if found and not isinstance(error, ElmoError):
            raise OSError(int(found[1]), os.strerror(int(found[1]))) from None
        raise


def _created(path: Path, alignment: int) -> h5py.File:
    """Create a file that HDF5 1.8 can read, with tracked creation order and without timestamps."""
    access, creation = h5p.create(h5p.FILE_ACCESS), h5p.create(h5p.FILE_CREATE)
    with suppress(AttributeError):  # h5py before 3.9; whoever writes holds a lock of its own
        access.set_file_locking(False, True)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    access.set_libver_bounds(h5f.LIBVER_V18, h5f.LIBVER_V18)
    access.set_alignment(1, alignment)
    creation.set_link_creation_order(TRACKED)
    creation.set_attr_creation_order(TRACKED)
    creation.set_obj_track_times(False)
    return h5py.File(h5f.create(os.fsencode(path), h5f.ACC_TRUNC, fcpl=creation, fapl=access))


def write_at(descriptor: int, content: bytes | memoryview, position: int) -> int:
    """Write all of it, which may take more than one call; where it ends."""
    rest = memoryview(content)
    while rest:
        n_written = os.pwrite(descriptor, rest, position)
        rest, position = rest[n_written:], position + n_written
    return position


def copy_bytes(source: int, start: int, target: int, position: int, n_bytes: int) -> None:
    """Copy bytes between open files."""
    end = start + n_bytes
    while start < end:
        if not (content := os.pread(source, min(_COPIED_BYTES, end - start), start)):
            raise OSError(errno.EIO, "a file became shorter while it was read")
        start, position = start + len(content), write_at(target, content, position)
