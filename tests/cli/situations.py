"""Situations in which a command meets bad input: how each is made.

Each is a row of a table; its makers put files into a folder in which the command then runs.
"""

from __future__ import annotations

import json
import shlex
import shutil
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import h5py
import numpy as np

Maker = Callable[["CommandScene"], None]


@dataclass(frozen=True)
class CommandScene:
    """Where a command runs.

    Attributes:
        folder: the working directory.
        stock: a folder of sound files to copy from, see `stock` in conftest.py.
    """

    folder: Path
    stock: Path


@dataclass(frozen=True)
class BadInput:
    """A row of the table.

    Attributes:
        name: of the test.
        words: the command line.
        makers: of what is in the folder besides a former output and a valid text, `a.txt`.
        env: variables of the environment.
        leaves: names of files that the command may leave or change.
    """

    name: str
    words: list[str]
    makers: tuple[Maker, ...]
    env: Mapping[str, str]
    leaves: tuple[str, ...]


def bad(
    name: str,
    line: str,
    *makers: Maker,
    env: Mapping[str, str] = MappingProxyType({}),
    leaves: tuple[str, ...] = (),
) -> BadInput:
    """A row of the table, from a command line as a shell reads it."""
    words = shlex.split(line)
    return BadInput(name=name, words=words, makers=makers, env=env, leaves=leaves)


def file(name: str, content: str | bytes = "The cat sat .\nIt slept .\n") -> Maker:
    """A file of that content."""
    raw = content.encode() if isinstance(content, str) else content

    def make(scene: CommandScene) -> None:
        (scene.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (scene.folder / name).write_bytes(raw)

    return make


def objects(name: str, *lines: object) -> Maker:
    """A file of JSON lines."""
    return file(name, "".join(json.dumps(line) + "\n" for line in lines))


def cut(name: str, n_bytes: int) -> Maker:
    """Cut an existing file to its first `n_bytes`, or by as many bytes if negative."""

    def make(scene: CommandScene) -> None:
        path = scene.folder / name
        path.write_bytes(path.read_bytes()[:n_bytes])

    return make


def folder(name: str) -> Maker:
    """An empty folder."""

    def make(scene: CommandScene) -> None:
        (scene.folder / name).mkdir(parents=True)

    return make


def link(name: str, to: str) -> Maker:
    """A symbolic link."""

    def make(scene: CommandScene) -> None:
        (scene.folder / name).symlink_to(to)

    return make


def stocked(*names: str, name: str = "") -> Maker:
    """Copies of files or folders of the stock, one of them under another `name`."""

    def make(scene: CommandScene) -> None:
        for stock_name in names:
            source = scene.stock / stock_name
            copy = scene.folder / (name or stock_name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy)
            else:
                shutil.copyfile(source, copy)

    return make


def hdf5(name: str, change: Callable[[h5py.File], object]) -> Maker:
    """Change an HDF5 file, or make it, by a function."""

    def make(scene: CommandScene) -> None:
        (scene.folder / name).parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(scene.folder / name, "a") as opened:
            change(opened)

    return make


def attribute(name: str, key: str, value: object) -> Maker:
    """Change an attribute of an HDF5 file."""

    def put(opened: h5py.File) -> None:
        opened.attrs.modify(key, value)

    return hdf5(name, put)


def weight(path: str, change: Callable[[np.ndarray], np.ndarray]) -> Maker:
    """Change one array of the weights of the copy of `tiny`."""

    def put(opened: h5py.File) -> None:
        array = change(opened[path][()])
        del opened[path]
        opened[path] = array

    return hdf5("tiny/weights.hdf5", put)


def lstm_options(**changes: object) -> Maker:
    """Change the options of the LSTM of the copy of `tiny`; None takes one out."""

    def make(scene: CommandScene) -> None:
        path = scene.folder / "tiny" / "options.json"
        options = json.loads(path.read_text())
        for name, value in changes.items():
            if value is None:
                del options["lstm"][name]
            else:
                options["lstm"][name] = value
        path.write_text(json.dumps(options))

    return make


def zipped(name: str, members: Mapping[str, str]) -> Maker:
    """A zip file of members with these contents."""

    def make(scene: CommandScene) -> None:
        with zipfile.ZipFile(scene.folder / name, "w") as archive:
            for member, content in members.items():
                archive.writestr(member, content)

    return make
