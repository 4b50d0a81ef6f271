"""ModelFiles: which files of a folder are a model, and the hashes that tie them together.

The weights are weights.hdf5, model.hdf5 (as in the NLPL repository) or the only other HDF5 file.
parts.json states which softmax layer, vocabulary and warm state belong to the weights:

    {"weights": SHA256, "softmax": SHA256, "vocabulary": SHA256, "state": SHA256}

Sizes do not show another model's softmax of the same sizes, or a vocabulary in another order. What
writes a model folder removes this file first and writes it last: a killed run leaves none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from elmo_cli.errors import ModelError
from elmo_cli.files import new_file, os_errors_as, output_errors
from elmo_cli.filetypes import HDF5, HEAD_BYTES, identify, identify_foreign_model
from elmo_cli.model.options import Options
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, WEIGHTS_FILE
from elmo_cli.regular_files import check_regular, read_json, sha256_of_file

SOFTMAX_FILE, VOCABULARY_FILE, STATE_FILE = "softmax.hdf5", "vocab.txt", "state.hdf5"
CHECKPOINT_FILE = "checkpoint.pt"  # of the run that trains a model
CARD_FILE, PARTS_FILE = "README.md", "parts.json"
HDF5_SUFFIXES = (".hdf5", ".h5")
_USUAL_WEIGHTS = (WEIGHTS_FILE, "model.hdf5")
_PARTS = {"weights": WEIGHTS_FILE, "softmax": SOFTMAX_FILE}
_PARTS |= {"vocabulary": VOCABULARY_FILE, "state": STATE_FILE}


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
        return tuple(filter(None, files))

    def read_options(self) -> Options:
        """Read the sizes of the model; or OptionsError."""
        return Options.from_file(self.options)

    @cached_property
    def weights_sha256(self) -> str:
        """The SHA-256 of the weight file; ModelError if it is not the published one."""
        found = sha256_of(self.weights)
        if self.published_sha256 not in (None, found):
            what = f"has the SHA-256 {found}, expected {self.published_sha256}"
            hint = f"`elmo models pull {self.name}` downloads it again"
            raise ModelError(f"{self.weights}: {what}", hint)
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
    others = [n for n in names if n.endswith(HDF5_SUFFIXES) and "softmax" not in n]
    others = [n for n in others if n != STATE_FILE]
    # Embeddings may be next to the weights.
    choices = ([n for n in names if n in _USUAL_WEIGHTS], [n for n in others if "weights" in n])
    found = choices[0] or choices[1] or others
    if not found:
        raise not_a_model(folder, names)
    if len(found) > 1:
        what = f"{folder}: contains {len(found)} possible weight files ({_listed(found)})"
        raise ModelError(what, "give one of them with its path")
    return replace(files_of_weights(folder / found[0]), name=name)


def files_of_weights(weights: Path, options: Path | None = None) -> ModelFiles:
    """The model of a weight file; ModelError if it is foreign or its options are ambiguous."""
    head = head_of(weights)
    kind = identify(head)
    is_unknown = kind is None and weights.suffix in HDF5_SUFFIXES  # its reader will refuse it
    if kind != HDF5 and (not is_unknown or identify_foreign_model([weights.name], head)):
        raise not_a_model(weights, (), head)
    folder, stem = weights.parent, weights.stem.partition("_weights")[0]  # X of X_weights.hdf5

    def first(names: Iterable[str], pattern: str = "") -> Path | None:
        """The first file that exists, or else the only one of a pattern."""
        found = [folder / name for name in names if (folder / name).is_file()]
        others = list(folder.glob(pattern)) if pattern else []
        return found[0] if found else others[0] if len(others) == 1 else None

    options = options or first((f"{stem}_options.json", OPTIONS_FILE), "*options*.json")
    if options is None:
        names = [path.name for path in folder.glob("*options*.json")]
        what = f"{len(names)} options files ({_listed(names)})" if names else f"no {OPTIONS_FILE}"
        hint = "give the two files of one model: `options` and `weights`"
        raise ModelError(f"{weights}: {what} next to it", hint)
    is_usual = weights.stem in ("weights", "model")
    return ModelFiles(
        name=weights.resolve().parent.name if is_usual else weights.stem,
        options=options,
        weights=weights,
        softmax=first((SOFTMAX_FILE, f"{stem}_softmax_weights.hdf5"), "*softmax*.hdf5"),
        vocabulary=first((VOCABULARY_FILE, f"{VOCABULARY_FILE}.gz"), "vocab*.txt*"),
        warm_state=first((STATE_FILE,)),
    )


def not_a_model(path: Path, names: Collection[str], head: bytes = b"") -> ModelError:
    """The error for a folder or archive with these names, or a file that begins with HEAD."""
    if kind := identify_foreign_model([path.name, *names], head):
        return ModelError(f"{path}: {kind.name}, not an ELMo model", kind.hint)
    kind = identify(head)
    found = kind.name if kind else _listed(names)
    what = f"{path}: not an ELMo model{found and f'; found {found}'}"
    hint = f"a model has {OPTIONS_FILE} and {WEIGHTS_FILE}; `elmo models list` shows published ones"
    return ModelError(what, hint)


def _listed(names: Collection[str]) -> str:
    return ", ".join([*sorted(names)[:4], *["…"] * (len(names) > 4)])


def write_parts(folder: Path) -> None:
    """Write parts.json for the files of a complete model folder; or OutputError."""
    paths = {part: folder / name for part, name in _PARTS.items()}
    found = {part: sha256_of_file(path) for part, path in paths.items() if path.is_file()}
    with new_file(folder / PARTS_FILE) as file:
        file.write(f"{json.dumps(found, indent=1)}\n".encode())


def remove_parts(folder: Path) -> None:
    """Remove parts.json before a file of the folder is replaced; or OutputError."""
    with output_errors(folder / PARTS_FILE):
        (folder / PARTS_FILE).unlink(missing_ok=True)


def check_parts(files: ModelFiles, used: Mapping[str, Path | None]) -> str:
    """Compare the weights, and what is used as "softmax", "vocabulary" or "state", with the
    parts.json of their model; ModelError if they differ.

    Returns a warning about files of which only the sizes can be checked, or "".
    """
    record, unknown = files.weights.parent / PARTS_FILE, []
    known, hint = {}, f"remove {PARTS_FILE}, or get the model again"
    if files.weights.name == WEIGHTS_FILE:  # the only one that `write_parts` records
        with suppress(FileNotFoundError):
            known = read_json(record, ModelError, hint)
    if not isinstance(known, dict):
        raise ModelError(f"{record}: not an object that maps parts to SHA-256 digests", hint)
    own = {"softmax": files.softmax, "vocabulary": files.vocabulary, "state": files.warm_state}
    own["weights"] = files.weights
    if misnamed := known.keys() - own.keys():
        raise ModelError(f"{record}: a model has no part {min(misnamed)!r}", hint)
    for part, path in {"weights": files.weights, **used}.items():
        if path is not None and {part, "weights"} <= known.keys() and _is_same(path, own[part]):
            found = files.weights_sha256 if part == "weights" else sha256_of(path)
            if found != (stated := known[part]):
                what = f"{path}: its sha256 is not {str(stated)[:12]}…, the value in {PARTS_FILE}"
                hint = f"get the file again, or remove {record} if it was replaced on purpose"
                raise ModelError(what, hint)
        elif path is not None and not _is_same(path, files.weights):
            unknown.append(str(path))
    what = f"no {PARTS_FILE} states that this belongs to {files.weights}; only sizes are checked"
    return f"{', '.join(unknown)}: {what}" if unknown else ""


def _is_same(one: Path, other: Path | None) -> bool:
    return other is not None and one.resolve() == other.resolve()
