"""Stores in memory that behave like remote ones, and fail where a test says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from fsspec.implementations.memory import MemoryFileSystem


class Store(MemoryFileSystem):
    """In memory under `store://user:secret@host/`; `before` is called with each operation."""

    protocol = "store"
    store: ClassVar[dict[str, Any]] = {}
    before: ClassVar[Callable[[str], None]] = staticmethod(lambda operation: None)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.partition("@")[2] if "@" in path else path)

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        """As remote stores do it: a reader may see part of the file."""
        content = Path(lpath).read_bytes()
        self.pipe_file(rpath, content[:1])
        self.before("put")
        self.pipe_file(rpath, content)

    def rm_file(self, path: str) -> None:
        self.before("remove")
        super().rm_file(path)

    def ls(self, path: str, **options: Any) -> Any:
        self.before("list")
        return super().ls(path, **options)


class Bucket(Store):
    """An object store: uploads are atomic, and folders do not exist."""

    protocol = "s3"
    store: ClassVar[dict[str, Any]] = {}

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.removeprefix("s3://"))

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        self.before("put")
        self.pipe_file(rpath, Path(lpath).read_bytes())

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        raise AssertionError("this would create a mistyped bucket")
