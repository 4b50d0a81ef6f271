"""What an HDF5 file is: one of our layouts, a file another program made, or no embeddings at all.

Our own files say it in the attribute `layout`. Others are known by the names and shapes of a few of
their datasets; which program makes which, `SCHEMA.md` and its sources tell.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmo_cli import hdf5
from elmo_cli.errors import EmbeddingsFileError, UnfinishedError
from elmo_cli.filetypes import identify
from elmo_cli.regular_files import check_regular
from elmo_cli.store.damage import DAMAGED, cut_off
from elmo_cli.store.schema import LAYOUTS, MAP, SCHEMA
from elmo_cli.weightfile.describe import kind_of_weights

_SAMPLE = 48
_MADE_BY = (
    "embeddings are made by `elmo embed`, and also read as AllenNLP, bilm-tf and others make them"
)


def open_hdf5(path: Path) -> h5py.File:
    """The HDF5 file at `path`, for reading.

    Raises:
        EmbeddingsFileError: it is missing, a folder, empty, cut off, or no HDF5 file; says which.
    """
    check_regular(path, EmbeddingsFileError)
    try:
        return hdf5.open_hdf5(path)
    except FileNotFoundError:
        raise _missing(path) from None
    except IsADirectoryError:
        hint = "give the HDF5 file itself"
        inside = path / "weights.hdf5"
        if os.path.isfile(inside):
            hint += f": `elmo inspect {inside}`"
        raise EmbeddingsFileError(f"{path}: is a folder", hint) from None
    except PermissionError:
        raise EmbeddingsFileError(f"{path}: no permission to read it", f"`ls -l {path}`") from None
    except OSError as error:
        raise _unreadable(path, error) from None


def _missing(path: Path) -> EmbeddingsFileError:
    if path.with_name(path.name + ".part").exists():
        return UnfinishedError(
            f"{path}: not there, but {path.name}.part is: its run did not finish",
            "run the same `elmo embed` command with `--resume`",
        )
    return EmbeddingsFileError(f"{path}: no such file", "check the name")


def _unreadable(path: Path, error: OSError) -> EmbeddingsFileError:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(512)
    except OSError as reason:
        return EmbeddingsFileError(f"{path}: can't be read: {reason.strerror}", "check the file")
    if "unable to lock file" in str(error):
        return EmbeddingsFileError(f"{path}: locked, another program writes it", "wait for its end")
    if error.errno is not None:
        why = os.strerror(error.errno)
        return EmbeddingsFileError(f"{path}: can't be read: {why}", "check the disk")
    if not size:
        return EmbeddingsFileError(f"{path}: an empty file (0 bytes)", _MADE_BY)
    if there := cut_off(error):
        return EmbeddingsFileError(f"{path}: cut off: {there}", "copy it again, or make it anew")
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return EmbeddingsFileError(f"{path}: can't be read as HDF5: {error}", DAMAGED)
    what, hint = _first_bytes(head)
    return EmbeddingsFileError(f"{path}: {what}, not an HDF5 file", hint)


def _first_bytes(head: bytes) -> tuple[str, str]:
    if (found := identify(head)) is not None:
        return found.name, found.hint
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        # The sample may end inside a character; only an earlier error says that it is no text.
        text = head[: error.start].decode("utf-8") if error.start > len(head) - 4 else "\x00"
    if text.isprintable() or all(c.isprintable() or c.isspace() for c in text):
        return "a text file", "`elmo embed` makes embeddings of a text file"
    return f"unknown (first bytes {head[:8].hex(' ')})", _MADE_BY


def recognise(file: h5py.File) -> str:
    """The name of the layout of an open file.

    Returns:
        one of `LAYOUTS`, or "named" for arrays under identifiers (SeqVec, bio_embeddings).
    Raises:
        EmbeddingsFileError: no embeddings; the message says what it is instead.
    """
    layout = file.attrs.get("layout")
    if "elmo_schema" in file.attrs:
        return _own(file, layout)
    if "keras_version" in file.attrs or "layer_names" in file.attrs or "model_weights" in file:
        raise _no_embeddings(file, "a Keras model, not embeddings")
    weights = kind_of_weights(file)
    if weights:
        raise EmbeddingsFileError(
            f"{file.filename}: this is a weight file ({weights}), not embeddings",
            "`elmo embed --model` takes the folder that holds it and its options.json",
        )
    if _is_dataset(file, "vectors") and _is_dataset(file, "offsets"):
        return "flat"
    return _foreign(file)


def _own(file: h5py.File, layout: object) -> str:
    schema = file.attrs["elmo_schema"]
    if not isinstance(schema, np.integer):
        raise EmbeddingsFileError(f"{file.filename}: its elmo_schema is {schema!r}", DAMAGED)
    if schema > SCHEMA:
        raise EmbeddingsFileError(
            f"{file.filename}: schema {schema}, this program reads up to {SCHEMA}",
            "`pip install --upgrade elmo-cli`",
        )
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise EmbeddingsFileError(f"{file.filename}: unknown layout {layout!r}", DAMAGED)
    return layout


def is_complete(file: h5py.File) -> bool:
    """Whether a file of ours has its end mark; files that others made have none to miss."""
    return "elmo_schema" not in file.attrs or np.array_equal(file.attrs.get("complete"), True)


def _is_dataset(group: h5py.Group, name: str) -> bool:
    return isinstance(group.get(name), h5py.Dataset)


def some_datasets(group: h5py.Group, limit: int = _SAMPLE) -> Iterator[tuple[str, h5py.Dataset]]:
    """Path and dataset of up to about `limit` sentences, in no order; reads few names of many.

    A group that has several names, its own members perhaps among them, is entered once.
    """
    entered = {group_number(group)}
    # Not by recursion: a line with a thousand `/` in it nests as many groups.
    entering = [("", group, iter(_some_names(group, limit)), limit)]
    while entering:
        above, group, names, limit = entering[-1]
        name = next(names, None)
        if name is None:
            entering.pop()
            continue
        path = f"{above}{name}"
        member = None if path == MAP else group.get(name)
        if isinstance(member, h5py.Dataset):
            yield path, member
        elif isinstance(member, h5py.Group) and (number := group_number(member)) not in entered:
            entered.add(number)
            limit = max(2, limit // 8)
            entering.append((f"{path}/", member, iter(_some_names(member, limit)), limit))


def group_number(group: h5py.Group) -> tuple[int, int]:
    """What tells a group from all others, by whatever name it was opened."""
    found = h5py.h5o.get_info(group.id)
    return found.fileno, found.addr


def _some_names(group: h5py.Group, limit: int) -> list[str]:
    names: list[str] = []

    def take(name: bytes) -> bool | None:
        names.append(name.decode("utf-8", "surrogateescape"))
        return len(names) >= limit or None

    # In native order HDF5 doesn't sort the names first, which takes a second for a million.
    group.id.links.iterate(take, order=h5py.h5.ITER_NATIVE)
    return names


def _foreign(file: h5py.File) -> str:
    sample = list(some_datasets(file))
    if not sample:
        raise _no_embeddings(file, "an HDF5 file without datasets")
    for path, dataset in sample:
        _check_numbers(file, path, dataset)
    paths = [path for path, _ in sample]
    shapes = [dataset.shape for _, dataset in sample]
    if paths == ["embedding"] and len(shapes[0]) == 2:
        return "bilm-types"
    layout = _by_names(paths, shapes, MAP in file)
    if layout is None:
        raise _no_embeddings(file, f"an HDF5 file of no known layout (it holds {_listed(paths)})")
    return layout


def _check_numbers(file: h5py.File, path: str, dataset: h5py.Dataset) -> None:
    if dataset.dtype.kind != "f":
        kind = "text" if h5py.check_string_dtype(dataset.dtype) else str(dataset.dtype)
        raise _no_embeddings(file, f"dataset {path!r} holds {kind}, embeddings are floats")
    if not 1 <= len(dataset.shape) <= 3:
        if set(file) == {"c", "h"}:
            raise EmbeddingsFileError(
                f"{file.filename}: a model's warm state (h, c), neither embeddings nor weights",
                "it belongs beside its model's weights; `elmo embed --state warm` starts from it",
            )
        what = f"dataset {path!r} has {len(dataset.shape)} axes, shape {dataset.shape}"
        raise _no_embeddings(file, f"{what}; embeddings have 1 to 3")


def _no_embeddings(file: h5py.File, what: str) -> EmbeddingsFileError:
    return EmbeddingsFileError(f"{file.filename}: {what}", _MADE_BY)


def _listed(paths: list[str]) -> str:
    return ", ".join(repr(path) for path in paths[:3]) + (", …" if len(paths) > 3 else "")


def _by_names(paths: list[str], shapes: list[Any], has_map: bool) -> str | None:
    if all(path.isascii() and path.isdigit() for path in paths):
        return "allennlp" if has_map or any(len(shape) < 3 for shape in shapes) else "bilm"
    if has_map:
        return "allennlp"
    if all(re.search(r"[^/]/\d+$", path) for path in paths) and _one_rank(shapes):
        return "e2e-coref" if _layers_last(shapes) else "lsgn"
    if _one_rank(shapes) and len(shapes[0]) == 3:
        if all(re.search(r"_\d+$", path) for path in paths) and _layers_last(shapes):
            return "dygie"
        if all(re.search(r":\d+$", path) for path in paths):
            return "lsgn"
    if _are_tab_joined(paths, shapes):
        return "manylangs"
    if any(" " in path for path in paths):
        return "allennlp"
    return None if any("/" in path for path in paths) else "named"


def _are_tab_joined(paths: list[str], shapes: list[Any]) -> bool:
    """Whether names are tokens as ELMoForManyLangs joins them, a vector for each.

    A line that AllenNLP split at white space may hold a tab as well.
    """
    return any(
        len(shape) == 1 or len(path.split("\t")) == shape[-2]
        for path, shape in zip(paths, shapes, strict=True)
        if "\t" in path or "$period$" in path or "$backslash$" in path
    )


def _one_rank(shapes: list[Any]) -> bool:
    return len({len(shape) for shape in shapes}) == 1 and len(shapes[0]) >= 2


def _layers_last(shapes: list[Any]) -> bool:
    """Whether arrays are (token, dim, layer) rather than (layer, token, dim).

    The dim is the same in all, and greater than the number of layers; where one sentence fits both
    readings, the greater dim is taken.
    """
    if len(shapes[0]) == 2:
        return False
    sizes = np.array(shapes)
    dims, layers = sizes[:, 1], sizes[:, 2]
    last = bool((dims == dims[0]).all() and (layers == layers[0]).all() and layers[0] < dims[0])
    firsts, ends = sizes[:, 0], sizes[:, 2]
    first = bool((firsts == firsts[0]).all() and (ends == ends[0]).all() and firsts[0] < ends[0])
    return last and not (first and ends[0] > dims[0])
