"""The HDF5 file at the end of a run: written to OUT.tmp in one pass, with all its attributes."""

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

from elmo_cli.errors import ElmoError, OutputError
from elmo_cli.files import FileLock, StrPath, is_open_file, resolve
from elmo_cli.store.layouts import Facts, Layout, StoredSentence, tokens_sha256
from elmo_cli.store.spec import SCHEMA, WRITER_ATTRIBUTES, FileSpec

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Attributes of the writer that a caller who knows better may give: `convert` and `merge` do.
_OVERRIDABLE = frozenset({"tokens", "duplicate_sentences", "text_is_tokens", "token_digests"})


class Tally:
    """Collects what the attributes say of the sentences that pass through.

    Attributes:
        token_digests: of all sentences handed over, also those that the file does not get.
    """

    def __init__(self) -> None:
        self.token_digests, self._crc32, self._tokens = bytearray(), integers("I"), 0

    def counted(self, stored: Iterable[StoredSentence]) -> Iterator[StoredSentence]:
        """The sentences that the file gets."""
        for one in stored:
            self._crc32.append(one.crc32)
            self._tokens += len(one.sentence.tokens)
            yield one

    def attributes(
        self, spec: FileSpec, layout: Layout, facts: Facts, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """All attributes of the file in their order, the end mark last.

        Args:
            facts: of the layout.
            given: by the caller, whose counts win; duplicates are added up.
        Raises:
            ValueError: the caller gives settings, or attributes of the writer.
        """
        n_all, n_stored = len(self.token_digests) // 8, len(self._crc32)
        own = {
            "elmo_schema": SCHEMA,
            **spec.to_attributes(),
            "sentences": n_stored,
            "tokens": self._tokens,
            **({"duplicate_sentences": n_all - n_stored} if layout.keeps_first else {}),
            "sentence_crc32": np.array(self._crc32, "<u4"),
            "token_digests": np.frombuffer(self.token_digests, "<u8"),
        }
        if taken := (own.keys() | WRITER_ATTRIBUTES) & given.keys() - _OVERRIDABLE:
            raise ValueError(f"the writer itself writes {sorted(taken)}")
        everything = {**own, **facts.attributes, **given}
        if layout.keeps_first and "duplicate_sentences" in given:
            everything["duplicate_sentences"] += n_all - n_stored
        digests = everything.pop("token_digests")
        if digests is not None:
            everything["token_digests"] = digests
            everything["tokens_sha256"] = tokens_sha256(digests.tobytes())
        return {**everything, "complete": True}


def check_space(file: Path, size: int, needed: int) -> None:
    """Refuse, before HDF5 is opened, a file for which there is no space.

    Args:
        file: exists, and is empty afterwards.
        size: of the file in bytes, about.
        needed: what it takes of the disk.
    Raises:
        OSError: as the system would raise it later.
    """
    os.truncate(file, size)  # the file system and the user have limits
    os.truncate(file, 0)
    disk = os.statvfs(file)
    if disk.f_bavail * disk.f_frsize < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def new_hdf5(path: Path, layout: Layout) -> Iterator[h5py.File]:
    """Create an HDF5 file; after an error it is empty.

    Raises:
        OSError: of the system, where HDF5 says that it is the cause.
    """
    file = layout.create(path)
    try:
        yield file
        file.close()
    except BaseException as error:
        # First, since HDF5 may end the process when it cannot write while it closes a file.
        with suppress(OSError):
            os.truncate(path, 0)
        with suppress(Exception):
            file.close()
        found = re.search(r"errno = (\d+)", str(error))
        if found and not isinstance(error, ElmoError):
            raise OSError(int(found[1]), os.strerror(int(found[1]))) from None
        raise


@contextmanager
def temporary_file(out: StrPath) -> Iterator[tuple[Path, FileLock]]:
    """OUT.tmp, locked; what a kill has left there is replaced, and in the end nothing is left.

    Raises:
        OutputError: another process is writing it, or it is a file of the user.
    """
    path = Path(f"{resolve(out)}.tmp")
    lock = FileLock(path)
    if not lock.acquire():
        raise OutputError(
            f"{path}: another process is writing it", "wait for it, or choose another output path"
        )
    try:
        head = os.pread(lock.descriptor, len(_HDF5_SIGNATURE), 0)
        if head.strip(b"\0") and head != _HDF5_SIGNATURE:
            raise OutputError(
                f"{path}: exists and is not a temporary file of elmo",
                "move it elsewhere, or choose another output path",
            )
        try:
            yield path, lock
        finally:
            with suppress(OSError):
                if is_open_file(lock.descriptor, path):  # it may be OUT by now
                    path.unlink()
    finally:
        lock.release()
