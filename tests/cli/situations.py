"""Situations in which a command meets bad input: how each is made.

Each is a row of a table; its makers put files into a folder in which the command then runs.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import h5py
import numpy as np
import pytest
from _pytest.mark import ParameterSet

Maker = Callable[["Scene"], None]


@dataclass(frozen=True)
class Scene:
    """Where a command runs.

    Attributes:
        folder: the working directory.
        stock: a folder of sound files to copy from, see `stock` in conftest.py.
    """

    folder: Path
    stock: Path


def bad(
    name: str,
    line: str,
    *makes: Maker,
    env: Mapping[str, str] = MappingProxyType({}),
    leaves: tuple[str, ...] = (),
) -> ParameterSet:
    """A row of the table.

    Args:
        name: of the test.
        line: the command line, split at spaces; `''` stands for an empty word, and `EMBED` for
            what most commands share: they would replace a former output.
        makes: what lies in the folder besides a former output and a valid text, `a.txt`.
        env: variables of the environment.
        leaves: names of files that the command may leave or change.
    """
    line = line.replace("EMBED", "embed -q -o out.hdf5 --overwrite")
    words = ["" if word == "''" else word for word in line.split()]
    return pytest.param(words, makes, env, set(leaves), id=name)


def file(name: str, content: str | bytes = "The cat sat .\nIt slept .\n") -> Maker:
    """A file of that content."""
    raw = content.encode() if isinstance(content, str) else content

    def make(scene: Scene) -> None:
        (scene.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (scene.folder / name).write_bytes(raw)

    return make


def objects(name: str, *lines: object) -> Maker:
    """A file of JSON lines."""
    return file(name, "".join(json.dumps(line) + "\n" for line in lines))


def cut(name: str, n_bytes: int) -> Maker:
    """Cut an existing file to its first `n_bytes`, or by as many bytes if negative."""

    def make(scene: Scene) -> None:
        path = scene.folder / name
        path.write_bytes(path.read_bytes()[:n_bytes])

    return make


def folder(name: str) -> Maker:
    return lambda scene: (scene.folder / name).mkdir(parents=True)


def link(name: str, to: str) -> Maker:
    return lambda scene: (scene.folder / name).symlink_to(to)


def stocked(*names: str, name: str = "") -> Maker:
    """Copies of files or folders of the stock, one of them under another `name`."""

    def make(scene: Scene) -> None:
        for stock in names:
            there, here = scene.stock / stock, scene.folder / (name or stock)
            here.parent.mkdir(parents=True, exist_ok=True)
            if there.is_dir():
                shutil.copytree(there, here)
            else:
                shutil.copyfile(there, here)

    return make


def hdf5(name: str, change: Callable[[h5py.File], object]) -> Maker:
    """Change an HDF5 file, or make it."""

    def make(scene: Scene) -> None:
        (scene.folder / name).parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(scene.folder / name, "a") as opened:
            change(opened)

    return make


def weight(path: str, change: Callable[[np.ndarray], np.ndarray]) -> Maker:
    """Change one array of the weights of the copy of `tiny`."""

    def put(opened: h5py.File) -> None:
        array = change(opened[path][()])
        del opened[path]
        opened[path] = array

    return hdf5("tiny/weights.hdf5", put)


def options(**changes: object) -> Maker:
    """Change the options of the copy of `tiny`: `lstm__dim=5`; None takes the member out."""

    def make(scene: Scene) -> None:
        path = scene.folder / "tiny" / "options.json"
        content = json.loads(path.read_text())
        for name, value in changes.items():
            part, _, member = name.partition("__")
            if value is None:
                del content[part][member]
            else:
                content[part][member] = value
        path.write_text(json.dumps(content))

    return make


def zipped(name: str, *members: str) -> Maker:
    """A zip file of files in the folder; a member `NAME=CONTENT` is written as it stands."""

    def make(scene: Scene) -> None:
        with zipfile.ZipFile(scene.folder / name, "w") as archive:
            for member in members:
                inside, has_content, content = member.partition("=")
                if has_content:
                    archive.writestr(inside, content)
                else:
                    archive.write(scene.folder / inside, inside)

    return make
