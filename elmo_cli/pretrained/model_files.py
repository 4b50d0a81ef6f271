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
from typing import TYPE_CHECKING

from elmo_cli.errors import ElmoError, ModelError
from elmo_cli.filetypes import HDF5, HEAD_BYTES, FileType, identify, identify_foreign_model
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, WEIGHTS_FILE
from elmo_cli.regular_files import check_regular, sha256_of_file

if TYPE_CHECKING:
    from elmo_cli.model.options import Options

SOFTMAX_FILE, VOCABULARY_FILE, STATE_FILE = "softmax.hdf5", "vocab.txt", "state.hdf5"
CARD_FILE = "README.md"
OTHER_WEIGHTS_FILE = "model.hdf5"
HDF5_SUFFIXES = (".hdf5", ".h5")
_GIVE_BOTH = "give the two files of one model: `options` and `weights`"


@dataclass(frozen=True)
class ModelFiles:
    """The files of one model.

    Attributes:
        name: for messages and attributes.
        origin: "bundled", "cached" (named in the catalogue) or "path".
        warm_state: the state that sentences may start from.
        card: the model card.
        published_sha256: of the weights, "" if unknown.
    """

    name: str
    options: Path
    weights: Path
    softmax: Path | None = None
    vocabulary: Path | None = None
    warm_state: Path | None = None
    card: Path | None = None
    origin: str = "path"
    published_sha256: str = ""

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files that exist."""
        files = (self.options, self.weights, self.softmax, self.vocabulary, self.warm_state)
        return tuple(path for path in (*files, self.card) if path is not None)

    def read_options(self) -> Options:
        """Read the sizes of the model; or OptionsError."""
        from elmo_cli.model.options import Options

        return Options.from_file(self.options)

    @cached_property
    def weights_sha256(self) -> str:
        """The SHA-256 of the weight file, as `sha256sum` prints it; or ModelError."""
        return sha256_of(self.weights)

    @cached_property
    def sha256(self) -> str:
        """One hash for what the model computes: its weights and the sizes in its options.

        It is the SHA-256 of the options as compact JSON with sorted keys, a line feed, and the
        hexadecimal SHA-256 of the weight file. The options are taken as read, so that 261 or 262
        characters and keys for training make no difference.

        Raises:
            OptionsError: the options cannot describe a biLM.
            ModelError: the weights cannot be read.
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
        paths = sorted(path for path in folder.iterdir() if path.is_file())
    named = [path for path in paths if path.name in (WEIGHTS_FILE, OTHER_WEIGHTS_FILE)]
    found = named or [path for path in paths if _may_be_weights(path)]
    if len(found) > 1 and not named:  # embeddings may be next to the weights
        found = [path for path in found if "weights" in path.stem] or found
    if not found:
        raise not_a_model(folder, [path.name for path in folder.iterdir()])
    if len(found) > 1:
        raise ModelError(
            f"{folder}: contains {len(found)} possible weight files ({_listed(found)})",
            "give one of them with its path",
        )
    return files_of_weights(found[0], name)


def files_of_weights(weights: Path, name: str) -> ModelFiles:
    """The model of a weight file; ModelError if it is foreign or its options are not unique."""
    refuse_foreign(weights)
    files = ModelFiles(name=name, options=_options_of(weights), weights=weights)
    return with_optional_files(files)


def with_optional_files(files: ModelFiles) -> ModelFiles:
    """Add the softmax layer, vocabulary, warm state and card in the folder of the weights."""
    folder, stem = files.weights.parent, _stem(files.weights)
    return replace(
        files,
        softmax=_first(folder, (SOFTMAX_FILE, f"{stem}_softmax_weights.hdf5"))
        or _only(folder.glob("*softmax*.hdf5")),
        vocabulary=_first(folder, (VOCABULARY_FILE, f"{VOCABULARY_FILE}.gz"))
        or _only([*folder.glob("vocab*.txt"), *folder.glob("vocab*.txt.gz")]),
        warm_state=_first(folder, (STATE_FILE,)),
        card=_first(folder, (CARD_FILE,)),
    )


def refuse_foreign(weights: Path) -> None:
    """Raise ModelError for a weight file that is missing or of a known kind other than HDF5."""
    head, kind = head_of(weights)
    if kind not in (None, HDF5) or identify_foreign_model([weights.name], head):
        raise not_a_model(weights, (), head)


def not_a_model(path: Path, names: Collection[str], head: bytes = b"") -> ModelError:
    """The error for something that is not a model.

    Args:
        names: of the files in a folder or archive.
        head: the first bytes of a file.
    """
    if kind := identify_foreign_model([path.name, *names], head):
        return ModelError(f"{path}: {kind.name}, not an ELMo model", kind.hint)
    kind = identify(head)
    listed = ", ".join([*sorted(names)[:4], *["…"] * (len(names) > 4)])
    found = kind.name if kind else listed
    return ModelError(
        f"{path}: not an ELMo model{found and f'; found {found}'}",
        f"a model has {OPTIONS_FILE} and {WEIGHTS_FILE}; `elmo models list` shows published ones",
    )


def _may_be_weights(path: Path) -> bool:
    is_other = "softmax" in path.name or path.name == STATE_FILE
    return path.suffix in HDF5_SUFFIXES and not is_other


def _options_of(weights: Path) -> Path:
    folder = weights.parent
    if own := _first(folder, (f"{_stem(weights)}_options.json", OPTIONS_FILE)):
        return own
    found = sorted(folder.glob("*options*.json"))
    if len(found) == 1:
        return found[0]
    problem = f"{len(found)} options files ({_listed(found)})" if found else f"no {OPTIONS_FILE}"
    raise ModelError(f"{weights}: {problem} next to it", _GIVE_BOTH)


def _stem(weights: Path) -> str:
    """What the files of one published model have in common: X of X_weights.hdf5."""
    return weights.stem.partition("_weights")[0]


def _first(folder: Path, names: Iterable[str]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _only(found: Iterable[Path]) -> Path | None:
    paths = list(found)
    return paths[0] if len(paths) == 1 else None


def _listed(paths: list[Path]) -> str:
    return ", ".join([path.name for path in paths[:4]] + ["…"] * (len(paths) > 4))
