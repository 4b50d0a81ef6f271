"""ModelFiles: which files of a folder are a model, and the hash of what it computes.

The weights are weights.hdf5, model.hdf5 (as in the NLPL repository) or the only other HDF5 file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from elmo_cli.errors import ElmoError, ModelError
from elmo_cli.filetypes import HDF5, HEAD_BYTES, FileType, identify, identify_foreign_model
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, WEIGHTS_FILE
from elmo_cli.regular_files import check_regular, sha256_of_file

if TYPE_CHECKING:
    from elmo_cli.model.options import Options

SOFTMAX_FILE, VOCABULARY_FILE, STATE_FILE = "softmax.hdf5", "vocab.txt", "state.hdf5"
CHECKPOINT_FILE = "checkpoint.pt"  # of the run that trains a model
CARD_FILE = "README.md"
OTHER_WEIGHTS_FILE = "model.hdf5"
HDF5_SUFFIXES = (".hdf5", ".h5")


@dataclass(frozen=True)
class ModelFiles:
    """The files of one model.

    Attributes:
        origin: "bundled", "cached" (named in the catalogue) or "path".
        published_sha256: of the weights, None if unknown.
    """

    name: str
    options: Path
    weights: Path
    softmax: Path | None = None
    vocabulary: Path | None = None
    warm_state: Path | None = None
    origin: str = "path"
    published_sha256: str | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files that exist."""
        files = (self.options, self.weights, self.softmax, self.vocabulary, self.warm_state)
        return tuple(path for path in files if path is not None)

    def read_options(self) -> Options:
        """Read the sizes of the model; or OptionsError."""
        from elmo_cli.model.options import Options

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


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an OSError into a ModelError about PATH."""
    try:
        yield
    except ElmoError:
        raise  # some are OSErrors too
    except OSError as error:
        what = f"{path}: cannot be read ({error.strerror or error})"
        raise ModelError(what, "check the path and its permissions") from None


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal; or ModelError."""
    check_regular(path, ModelError)
    with reading(path):
        return sha256_of_file(path)


def head_of(path: Path) -> tuple[bytes, FileType | None]:
    """The first bytes of a file and what they identify; or ModelError."""
    check_regular(path, ModelError)
    with reading(path), open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    return head, identify(head)


def find_model_files(folder: Path, name: str) -> ModelFiles:
    """Find the model in a folder; ModelError if there is none, more than one, or a foreign one."""
    with reading(folder):
        names = sorted(path.name for path in folder.iterdir())
    usual = [name for name in names if name in (WEIGHTS_FILE, OTHER_WEIGHTS_FILE)]
    others = [n for n in names if n.endswith(HDF5_SUFFIXES) and "softmax" not in n]
    others = [n for n in others if n != STATE_FILE]
    # Embeddings may be next to the weights.
    found = usual or [n for n in others if "weights" in n] or others
    if not found:
        raise not_a_model(folder, names)
    if len(found) > 1:
        raise ModelError(
            f"{folder}: contains {len(found)} possible weight files ({_listed(found)})",
            "give one of them with its path",
        )
    return replace(files_of_weights(folder / found[0]), name=name)


def files_of_weights(weights: Path, options: Path | None = None) -> ModelFiles:
    """The model of a weight file; ModelError if it is foreign or its options are ambiguous."""
    head, kind = head_of(weights)
    is_unknown = kind is None and weights.suffix in HDF5_SUFFIXES  # its reader will refuse it
    if kind != HDF5 and (not is_unknown or identify_foreign_model([weights.name], head)):
        raise not_a_model(weights, (), head)
    folder, stem = weights.parent, weights.stem.partition("_weights")[0]  # X of X_weights.hdf5
    usual = weights.stem in ("weights", "model")

    def first(names: Iterable[str], pattern: str = "") -> Path | None:
        """The first file that exists, or else the only one of a pattern."""
        found = [folder / name for name in names if (folder / name).is_file()]
        others = list(folder.glob(pattern)) if pattern else []
        return found[0] if found else others[0] if len(others) == 1 else None

    return ModelFiles(
        name=weights.resolve().parent.name if usual else weights.stem,
        options=options
        or first((f"{stem}_options.json", OPTIONS_FILE), "*options*.json")
        or _no_options(weights),
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
    return ModelError(
        f"{path}: not an ELMo model{found and f'; found {found}'}",
        f"a model has {OPTIONS_FILE} and {WEIGHTS_FILE}; `elmo models list` shows published ones",
    )


def _no_options(weights: Path) -> NoReturn:
    found = [path.name for path in weights.parent.glob("*options*.json")]
    what = f"{len(found)} options files ({_listed(found)})" if found else f"no {OPTIONS_FILE}"
    hint = "give the two files of one model: `options` and `weights`"
    raise ModelError(f"{weights}: {what} next to it", hint)


def _listed(names: Collection[str]) -> str:
    return ", ".join([*sorted(names)[:4], *["…"] * (len(names) > 4)])
