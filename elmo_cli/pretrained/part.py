"""The part file of a download, and the note beside it that says what it is a part of."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from elmo_cli.pretrained.cache import not_writable

if TYPE_CHECKING:
    from hashlib import _Hash

_CHUNK = 1 << 20


class Part:
    """`target.part`: what of `target` has arrived so far.

    The note beside it, `target.part.json`, holds the address and the version (ETag or date) that
    the bytes are of; without them a rest could be joined to the beginning of another file.

    Attributes:
        bytes: how many are there; 0 without a part file.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = target.with_name(target.name + ".part")
        self._note_path = target.with_name(target.name + ".part.json")
        self._note = self._read_note()
        self._file: BinaryIO | None = None
        self.bytes = self.path.stat().st_size if self.path.is_file() else 0

    def belongs_to(self, address: str, *, is_checked: bool) -> bool:
        """Whether a rest from `address` may be joined to it.

        Args:
            is_checked: whether a known sha256 will tell if the two parts did not belong together.
        """
        same = self._note.get("address") == address and bool(self._note.get("version"))
        return same or is_checked

    def range_headers(self, address: str) -> dict[str, str]:
        """The headers that ask for the rest; none without a part file."""
        if not self.bytes:
            return {}
        headers = {"Range": f"bytes={self.bytes}-"}
        if self._note.get("address") == address and self._note.get("version"):
            headers["If-Range"] = str(self._note["version"])
        return headers

    def begin(self, start: int, address: str, version: str) -> _Hash:
        """Get ready for content from byte `start` on, and return the hash of what stands before.

        Raises:
            OutputError: the files can't be written.
        """
        self._note = {"address": address, "version": version}
        try:
            if not start:  # first: bytes of an old version must not stand beside the new note
                self.path.write_bytes(b"")
            self._note_path.write_text(json.dumps(self._note), encoding="utf-8")
            self._file = open(self.path, "ab")  # noqa: SIM115
        except OSError as error:
            raise not_writable(self.path, error) from None
        self.bytes = start
        return self.sha256()

    def append(self, chunk: bytes) -> None:
        """Write at the end, after `begin`.

        Raises:
            OutputError: it can't be written, or the disk is full.
        """
        try:
            if self._file:
                self.bytes += self._file.write(chunk)
        except OSError as error:
            raise not_writable(self.path, error) from None

    def close(self) -> None:
        """End what `begin` began.

        Raises:
            OutputError: the last bytes can't be written.
        """
        try:
            if self._file:
                self._file.close()
        except OSError as error:
            raise not_writable(self.path, error) from None
        self._file = None

    def sha256(self) -> _Hash:
        """The running hash of what is there."""
        digest = hashlib.sha256()
        try:
            with open(self.path, "rb") as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
        except OSError as error:
            raise not_writable(self.path, error) from None
        return digest

    def finish(self) -> None:
        """Give the file its name; after a power cut it is whole or not there.

        Raises:
            OutputError: it can't be renamed.
        """
        try:
            with open(self.path, "rb") as file:
                os.fsync(file.fileno())
            os.replace(self.path, self.target)
        except OSError as error:
            raise not_writable(self.target, error) from None
        self._note_path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove it, to start anew."""
        self._note, self.bytes = {}, 0
        for path in (self.path, self._note_path):
            with suppress(OSError):
                path.unlink()

    def _read_note(self) -> dict[str, Any]:
        try:
            note = json.loads(self._note_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return note if isinstance(note, dict) else {}
