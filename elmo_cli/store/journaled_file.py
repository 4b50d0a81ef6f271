"""JournaledFile: a file that can go back to its last commit, however the process ends.

HDF5 changes old bytes while it adds new ones. So the old bytes are put into an undo log before
they are overwritten, and a rollback puts them back. What kill -9 leaves is the bytes of the write
calls made so far, which is why the order of the calls is all that counts here.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from elmo_cli.errors import ResumeError

PAGE = 4096  # bytes; old bytes are kept by whole pages, each once a block
_FIELDS = struct.Struct("<4sQQII")
_CHECK = struct.Struct("<I")
MARK = b"UNDO"


class JournaledFile:
    """The part file as h5py wants it: seek, tell, read, readinto, write, truncate, flush.

    No method lets an exception out to HDF5, whose own structures would not survive it. The first
    one is kept in `error`; from then on the disk is left alone, and what HDF5 still writes while it
    is being closed is held in memory, so that it finds again what it wrote.
    """

    def __init__(self, descriptor: int, undo_path: Path, *, committed: int, block: int) -> None:
        """Begin a block.

        Args:
            descriptor: the part file, open for reading and writing.
            undo_path: the undo log; it is made anew.
            committed: bytes of the part file that a rollback must restore.
            block: number of the block that begins.
        """
        self.error: BaseException | None = None
        self._descriptor = descriptor
        self._committed = committed
        self._block = block
        self._undo = os.open(undo_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        self._kept: set[int] = set()
        self._position = 0
        self._size = committed
        self._unwritten: list[tuple[int, bytes]] = []

    @property
    def size(self) -> int:
        """Bytes of the file as its user sees it."""
        return self._size

    def fail(self, error: BaseException) -> None:
        """Leave the disk alone from now on."""
        if self.error is None:
            self.error = error

    def close(self) -> None:
        """Close the undo log; the part file stays open."""
        if self._undo >= 0:
            os.close(self._undo)
            self._undo = -1

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing is buffered here."""

    def read(self, length: int) -> bytes:
        content = bytearray(length)
        self.readinto(content)
        return bytes(content)

    def readinto(self, buffer: bytearray | memoryview) -> int:
        """Fill `buffer`; with zeros beyond the end, as in a hole of a file."""
        view = memoryview(buffer).cast("B")
        start, length = self._position, len(view)
        try:
            # A damaged file may send HDF5 to where no file reaches.
            n_read = _read_into(self._descriptor, view, start) if start < self._size else 0
            view[n_read:] = bytes(length - n_read)
            for offset, content in self._unwritten:
                _overlay(view, start, offset, content)
        except BaseException as error:
            self.fail(error)
        self._position = start + length
        return length

    def write(self, content: bytes | memoryview) -> int:
        view = memoryview(content).cast("B")
        self.write_at(self._position, view)
        self._position += len(view)
        return len(view)

    def write_at(self, offset: int, *views: memoryview) -> None:
        """Write bytes, one after the other, at `offset`, wherever the position stands."""
        end = offset + sum(map(len, views))
        try:
            if self.error is None:
                self._keep(offset, end)
                _write_all(self._descriptor, views, offset)
        except BaseException as error:
            self.fail(error)
        if self.error is not None:
            self._unwritten.append((offset, b"".join(views)))
        self._size = max(self._size, end)

    def truncate(self, size: int) -> int:
        try:
            if self.error is None:
                self._keep(size, self._committed)
                os.ftruncate(self._descriptor, size)
        except BaseException as error:
            self.fail(error)
        self._size = size
        return size

    def _keep(self, start: int, end: int) -> None:
        """Put the committed bytes from `start` to `end` into the undo log, each page once."""
        end = min(end, self._committed)
        if start >= end:
            return
        pages = range(start // PAGE, -(-end // PAGE))
        for first, last in _runs(page for page in pages if page not in self._kept):
            offset, stop = first * PAGE, min((last + 1) * PAGE, self._committed)
            old = memoryview(bytearray(stop - offset))
            if _read_into(self._descriptor, old, offset) < len(old):
                raise OSError(f"shorter than the {self._committed} bytes that were committed")
            record = memoryview(_record(self._block, offset, bytes(old)))
            while record:
                record = record[os.write(self._undo, record) :]
        self._kept.update(pages)


def roll_back(descriptor: int, undo_path: Path, *, committed: int, block: int, name: str) -> None:
    """Bring a part file back to its last commit.

    Doing it twice does no harm, so it may be killed and begun again.

    Args:
        descriptor: the part file, open for writing.
        undo_path: its undo log; records of other blocks are passed over.
        committed: its bytes at the last commit.
        block: number of the block that was in progress.
        name: the part file, for messages.
    Raises:
        ResumeError: the file lacks committed bytes.
        OSError: it can't be written.
    """
    for of_block, offset, old in _records(undo_path):
        if of_block == block and offset + len(old) <= committed:
            _write_all(descriptor, [memoryview(old)], offset)
    size = os.fstat(descriptor).st_size
    if size < committed:
        raise ResumeError(
            f"{name}: damaged, {size} bytes where its journal says {committed}",
            "`--overwrite` starts the run anew",
        )
    os.ftruncate(descriptor, committed)


def _record(block: int, offset: int, old: bytes) -> bytes:
    fields = _FIELDS.pack(MARK, block, offset, len(old), zlib.crc32(old))
    return fields + _CHECK.pack(zlib.crc32(fields)) + old


def _records(undo_path: Path) -> Iterator[tuple[int, int, bytes]]:
    """The records (block, offset, old bytes) of an undo log, up to one that is torn."""
    try:
        log = open(undo_path, "rb")  # noqa: SIM115 - closed below; a missing log is no error
    except FileNotFoundError:
        return
    with log:
        while len(header := log.read(_FIELDS.size + _CHECK.size)) == _FIELDS.size + _CHECK.size:
            fields, check = header[: _FIELDS.size], header[_FIELDS.size :]
            mark, block, offset, length, crc = _FIELDS.unpack(fields)
            if mark != MARK or _CHECK.unpack(check)[0] != zlib.crc32(fields):
                return
            there = os.fstat(log.fileno()).st_size - log.tell()
            old = log.read(min(length, there))  # no memory for what is not there
            if len(old) < length or zlib.crc32(old) != crc:
                return
            yield block, offset, old


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of consecutive numbers."""
    run: tuple[int, int] | None = None
    for number in numbers:
        if run is not None and number == run[1] + 1:
            run = (run[0], number)
            continue
        if run is not None:
            yield run
        run = (number, number)
    if run is not None:
        yield run


def _overlay(view: memoryview, start: int, offset: int, content: bytes) -> None:
    """Lay `content`, which stands at `offset`, over `view`, which stands at `start`."""
    first, last = max(start, offset), min(start + len(view), offset + len(content))
    if first < last:
        view[first - start : last - start] = content[first - offset : last - offset]


def _read_into(descriptor: int, view: memoryview, offset: int) -> int:
    """Fill `view` from `offset`; the number of bytes that were there."""
    done = 0
    while done < len(view):
        n_read = os.preadv(descriptor, [view[done:]], offset + done)
        if n_read == 0:
            break
        done += n_read
    return done


def _write_all(descriptor: int, views: Sequence[memoryview], offset: int) -> None:
    """Write all bytes of `views`, one after the other, at `offset`."""
    left = list(views)
    while left:
        done = os.pwritev(descriptor, left, offset)
        offset += done
        while left and done >= len(left[0]):
            done -= len(left.pop(0))
        if done:
            left[0] = left[0][done:]
