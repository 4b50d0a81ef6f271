"""Stores in memory that work as those far away do, and fail where a test says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from fsspec.implementations.memory import MemoryFileSystem


class Store(MemoryFileSystem):
    """In memory under `store://user:secret@host/`, and `wrong` is what goes wrong."""

    protocol = "store"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    wrong: ClassVar[Callable[[str], None]] = staticmethod(lambda what: None)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.partition("@")[2] if "@" in path else path)

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        content = Path(lpath).read_bytes()
        self.pipe_file(rpath, content[:100])
        self.wrong("put")
        self.pipe_file(rpath, content)

    def rm_file(self, path: str) -> None:
        self.wrong("remove")
        super().rm_file(path)

    def info(self, path: str, **_: Any) -> Any:
        self.wrong("ask")
        return super().info(path)

    def cat_file(self, path: str, **_: Any) -> bytes:
        self.wrong("read")
        return super().cat_file(path)


class Bucket(Store):
    """An object store: an object is there when all of it is, and folders are nothing."""

    protocol = "s3"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.removeprefix("s3://"))

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        self.wrong("put")
        self.pipe_file(rpath, Path(lpath).read_bytes())

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        raise AssertionError("a mistyped bucket would be made")
