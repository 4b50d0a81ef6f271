"""ModelFiles: which files of a folder are a model, and the hashes that tie them together.

The weights are weights.hdf5, model.hdf5 (as in the NLPL repository) or the only other HDF5 file.
parts.json states which softmax layer, vocabulary and warm state belong to the weights:

    {"weights": SHA256, "softmax": SHA256, "vocabulary": SHA256, "state": SHA256}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from elmo_cli.errors import ModelError
from elmo_cli.files import os_errors_as
from elmo_cli.filetypes import HDF5, HEAD_BYTES, identify, identify_foreign_model
from elmo_cli.model.options import Options
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, WEIGHTS_FILE
from elmo_cli.pretrained.parts_file import PARTS_FILE, PartsFile, check_digest
from elmo_cli.regular_files import check_regular, sha256_of_file

SOFTMAX_FILE = "softmax.hdf5"
VOCABULARY_FILE = "vocab.txt"
STATE_FILE = "state.hdf5"
CHECKPOINT_FILE = "checkpoint.pt"  # of the run that trains a model
CARD_FILE = "README.md"
HDF5_SUFFIXES = (".hdf5", ".h5")
_USUAL_WEIGHTS = (WEIGHTS_FILE, "model.hdf5")
_PARTS = {  # the names in parts.json
    "weights": WEIGHTS_FILE,
    "softmax": SOFTMAX_FILE,
    "vocabulary": VOCABULARY_FILE,
    "state": STATE_FILE,
}
_MAX_LISTED = 4  # names in a message


@dataclass(frozen=True)
class ModelFiles:
    """The files of one model."""

    name: str
    options: Path
    weights: Path
    softmax: Path | None = None
    vocabulary: Path | None = None
    warm_state: Path | None = None
    origin: str = "path"  # or "bundled", or "cached" (named in the catalogue)
    published_sha256: str | None = None  # of the weights

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files that exist."""
        files = (self.options, self.weights, self.softmax, self.vocabulary, self.warm_state)
        return tuple(path for path in files if path is not None)

    def read_options(self) -> Options:
        """Read the sizes of the model; or OptionsError."""
        return Options.from_file(self.options)

    @cached_property
    def weights_sha256(self) -> str:
        """The SHA-256 of the weight file; ModelError if it is not the published one."""
        found = sha256_of(self.weights)
        if self.published_sha256 not in (None, found):
            problem = f"has the SHA-256 {found}, expected {self.published_sha256}"
            hint = f"`elmo models pull {self.name}` downloads it again"
            raise ModelError(problem, hint, where=self.weights)
        return found

    @cached_property
    def sha256(self) -> str:
        """One hash for what the model computes: its weights and the sizes in its options.

        It is the SHA-256 of the options as compact JSON with sorted keys, a line feed, and the
        hexadecimal SHA-256 of the weight file. The options are taken as read, so that 261 or 262
        characters and keys for training make no difference.
        """
        sizes = self.read_options().to_dict()
        text = json.dumps(sizes, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(f"{text}\n{self.weights_sha256}".encode()).hexdigest()


def reading(path: Path) -> AbstractContextManager[None]:
    """Turn an OSError into a ModelError about PATH, and refuse what is not a regular file."""
    check_regular(path, ModelError)
    hint = "check the path and its permissions"
    return os_errors_as(ModelError, path, "cannot be read", hint)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal; or ModelError."""
    with reading(path):
        return sha256_of_file(path)


def head_of(path: Path) -> bytes:
    """The first bytes of a file, to be identified; or ModelError."""
    with reading(path), open(path, "rb") as file:
        return file.read(HEAD_BYTES)


def find_model_files(folder: Path, name: str) -> ModelFiles:
    """Find the model in a folder; ModelError if there is none, more than one, or a foreign one."""
    with reading(folder):
        names = sorted(path.name for path in folder.iterdir())
    candidates = _possible_weights(names)
    if not candidates:
        raise not_a_model(folder, names)
    if len(candidates) > 1:
        problem = f"contains {len(candidates)} possible weight files ({_listed(candidates)})"
        raise ModelError(problem, "give one of them with its path", where=folder)
    return replace(files_of_weights(folder / candidates[0]), name=name)


def _possible_weights(names: Sequence[str]) -> list[str]:
    """The names of files that are probably weights; embeddings may be next to them."""
    usual = [name for name in names if name in _USUAL_WEIGHTS]
    if usual:
        return usual
    others = []
    for name in names:
        if name.endswith(HDF5_SUFFIXES) and "softmax" not in name and name != STATE_FILE:
            others.append(name)
    named = [name for name in others if "weights" in name]
    return named if named else others


def files_of_weights(weights: Path, options: Path | None = None) -> ModelFiles:
    """The model of a weight file; ModelError if it is foreign or its options are ambiguous."""
    _refuse_foreign(weights)
    folder = weights.parent
    stem = weights.stem.partition("_weights")[0]  # X of X_weights.hdf5
    if options is None:
        options = _find_file(folder, (f"{stem}_options.json", OPTIONS_FILE), "*options*.json")
    if options is None:
        names = [path.name for path in folder.glob("*options*.json")]
        count = f"{len(names)} options files ({_listed(names)})" if names else f"no {OPTIONS_FILE}"
        hint = f"copy the one that belongs to it into the same folder, as {OPTIONS_FILE}"
        raise ModelError(f"{count} next to it", hint, where=weights)
    has_usual_name = weights.stem in ("weights", "model")
    softmax_names = (SOFTMAX_FILE, f"{stem}_softmax_weights.hdf5")
    vocabulary_names = (VOCABULARY_FILE, f"{VOCABULARY_FILE}.gz")
    return ModelFiles(
        name=weights.resolve().parent.name if has_usual_name else weights.stem,
        options=options,
        weights=weights,
        softmax=_find_file(folder, softmax_names, "*softmax*.hdf5"),
        vocabulary=_find_file(folder, vocabulary_names, "vocab*.txt*"),
        warm_state=_find_file(folder, (STATE_FILE,)),
    )


def _refuse_foreign(weights: Path) -> None:
    """Raise a ModelError for a file that is not HDF5; unknown content is left to its reader."""
    head = head_of(weights)
    kind = identify(head)
    if kind == HDF5:
        return
    is_unknown = kind is None and weights.suffix in HDF5_SUFFIXES
    if not is_unknown or identify_foreign_model([weights.name], head):
        raise not_a_model(weights, (), head)


def _find_file(folder: Path, names: Iterable[str], pattern: str = "") -> Path | None:
    """The first file that exists, or else the only one of a pattern."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    others = list(folder.glob(pattern)) if pattern else []
    return others[0] if len(others) == 1 else None


def not_a_model(path: Path, names: Collection[str], head: bytes = b"") -> ModelError:
    """The error for a folder or archive with these names, or a file that begins with HEAD."""
    foreign = identify_foreign_model([path.name, *names], head)
    if foreign:
        return ModelError(f"{foreign.name}, not an ELMo model", foreign.hint, where=path)
    kind = identify(head)
    found = kind.name if kind else _listed(names)
    problem = f"not an ELMo model; found {found}" if found else "not an ELMo model"
    hint = f"a model has {OPTIONS_FILE} and {WEIGHTS_FILE}; `elmo models list` shows published ones"
    return ModelError(problem, hint, where=path)


def _listed(names: Collection[str]) -> str:
    shown = sorted(names)[:_MAX_LISTED]
    if len(names) > _MAX_LISTED:
        shown.append("…")
    return ", ".join(shown)


def write_parts(folder: Path) -> None:
    """Write parts.json for the files of a complete model folder; or OutputError."""
    PartsFile(folder, _PARTS).write()


def remove_parts(folder: Path) -> None:
    """Remove parts.json before a file of the folder is replaced; or OutputError."""
    PartsFile(folder, _PARTS).remove()


def check_parts(files: ModelFiles, used: Mapping[str, Path | None]) -> str:
    """Compare the weights, and what is used as "softmax", "vocabulary" or "state", with the
    parts.json of their model; ModelError if they differ.

    Returns a warning about files of which only the sizes can be checked, or "".
    """
    record = PartsFile(files.weights.parent, _PARTS)
    digests: dict[str, Any] = {}
    if files.weights.name == WEIGHTS_FILE:  # the only name that `write_parts` records
        digests = record.read(f"remove {PARTS_FILE}, or get the model again")
    own_paths = {
        "weights": files.weights,
        "softmax": files.softmax,
        "vocabulary": files.vocabulary,
        "state": files.warm_state,
    }
    unrecorded: list[str] = []
    for part, path in {"weights": files.weights, **used}.items():
        if path is None:
            continue
        is_recorded = part in digests and "weights" in digests
        if is_recorded and _is_same(path, own_paths[part]):
            sha256 = files.weights_sha256 if part == "weights" else sha256_of(path)
            hint = f"get the file again, or remove {record.path} if it was replaced on purpose"
            check_digest(path, sha256, digests[part], hint)
        elif not _is_same(path, files.weights):
            unrecorded.append(str(path))
    if not unrecorded:
        return ""
    problem = f"no {PARTS_FILE} states that this belongs to {files.weights}; only sizes are checked"
    return f"{', '.join(unrecorded)}: {problem}"


def _is_same(path: Path, other: Path | None) -> bool:
    return other is not None and path.resolve() == other.resolve()
