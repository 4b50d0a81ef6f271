"""ModelFiles: which files are a model, of which family, and the hashes that tie them together.

parts.json states which softmax layer, vocabulary, warm state and accumulators belong to the
weights:

    {"weights": SHA256, "softmax": SHA256, "vocabulary": SHA256, "state": SHA256,
     "optimizer": SHA256}

A model that reads Unicode characters also has "characters" and "words", its dictionaries.

In a model that was converted from another family, "tensors" is the digest of the weights in the
files that it was converted from. Both then have the same `ModelFiles.sha256`.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_cli.errors import ModelError
from elmo_cli.families.family import Family
from elmo_cli.families.model_paths import ModelPaths, head_of, listed, not_a_model, reading
from elmo_cli.families.registry import FAMILIES
from elmo_cli.messages import plural
from elmo_cli.model.options import CHARACTERS_FILE, WORDS_FILE, Options
from elmo_cli.model_folder import (
    OPTIMIZER_FILE,
    RECIPE_FILE,
    RECORD_FILE,
    SOFTMAX_FILE,
    STATE_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
)
from elmo_cli.pretrained.archive import is_archive
from elmo_cli.pretrained.parts_file import PARTS_FILE, PartsFile, check_digest
from elmo_cli.regular_files import sha256_of_file
from elmo_cli.weightfile.named_arrays import SOFTMAX_WEIGHT

if TYPE_CHECKING:
    from elmo_cli.families.family import OpenModel

CHECKPOINT_FILE = "checkpoint.pt"  # of the run that trains a model
CARD_FILE = "README.md"
_PARTS = {  # the names in parts.json
    "weights": WEIGHTS_FILE,
    "softmax": SOFTMAX_FILE,
    "vocabulary": VOCABULARY_FILE,
    "state": STATE_FILE,
    "optimizer": OPTIMIZER_FILE,
    "characters": CHARACTERS_FILE,
    "words": WORDS_FILE,
}
_DICTIONARIES = ("characters", "words")  # parts that a model with them cannot do without
_TENSORS = "tensors"  # an entry of parts.json that is not about a file
_LAST_FILES = {  # the file that a finished run has written last, by the file that marks a run
    RECIPE_FILE: STATE_FILE,
    RECORD_FILE: CARD_FILE,
}
_RESUMING = {
    RECIPE_FILE: "`elmo pretrain -o {folder} --resume`",
    RECORD_FILE: "`elmo finetune … -o {folder} --resume`",
}
_PARTS_HINT = f"remove {PARTS_FILE}, or get the model again"


@dataclass(frozen=True, kw_only=True)
class ModelFiles(ModelPaths):
    """The files of one model, and their family.

    Attributes:
        origin: "path", "bundled", or "cached" (named in the catalogue).
        published_sha256: of the weights; None if nobody has published one.
    """

    family: Family
    origin: str = "path"
    published_sha256: str | None = None

    @classmethod
    def of(cls, family: Family, paths: ModelPaths) -> ModelFiles:
        """The files that a family has found."""
        return cls(
            family=family,
            name=paths.name,
            weights=paths.weights,
            options=paths.options,
            others=paths.others,
            softmax=paths.softmax,
            vocabulary=paths.vocabulary,
            warm_state=paths.warm_state,
            optimizer_state=paths.optimizer_state,
            notes=paths.notes,
        )

    def open(self) -> AbstractContextManager[OpenModel]:
        """Open the model; errors as of `Family.open`."""
        return self.family.open(self)

    def read_options(self) -> Options:
        """Read the sizes of the model; or OptionsError."""
        return self.family.read_options(self)

    @cached_property
    def weights_sha256(self) -> str:
        """A SHA-256 that identifies the weights: that of the file if they are HDF5, otherwise that
        of their tensors; ModelError if it is not the published one."""
        found = self.family.digest(self)
        if self.published_sha256 not in (None, found):
            problem = f"has the SHA-256 {found}, expected {self.published_sha256}"
            hint = f"`elmo models pull {self.name}` downloads it again"
            raise ModelError(problem, hint, where=self.weights)
        return found

    @cached_property
    def sha256(self) -> str:
        """One hash for what the model computes: its weights and the sizes in its options.

        It is the SHA-256 of the options as compact JSON with sorted keys, a line feed, and the
        hexadecimal `identity` of the weights. The options are taken as read, so that 261 or 262
        characters and keys for training make no difference.
        """
        sizes = self.read_options().to_dict()
        text = json.dumps(sizes, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(f"{text}\n{self.identity}".encode()).hexdigest()

    @cached_property
    def identity(self) -> str:
        """The digest of the weights, and of the dictionaries that the model reads.

        A converted model has the identity of the model that it was converted from, if its
        parts.json records that identity and the SHA-256 of the weights and of each dictionary.
        Otherwise, the identity of a model without dictionaries is `weights_sha256`; that of a
        model with dictionaries is the SHA-256 of one line for the weights and for each dictionary,
        with the name in parts.json and the SHA-256.

        `check_parts` refuses weights that are not those that parts.json states.
        """
        recorded = _recorded_digests(self)
        options = self.read_options()
        is_read = {"characters": options.is_unicode, "words": options.word_dim > 0}
        digests = {"weights": self.weights_sha256}
        for part, path in _dictionaries(self).items():
            if is_read[part]:
                digests[part] = sha256_of(path)
        are_recorded = all(recorded.get(part) == sha256 for part, sha256 in digests.items())
        if _TENSORS in recorded and are_recorded:
            return str(recorded[_TENSORS])
        if len(digests) == 1:
            return self.weights_sha256
        lines = "".join(f"{part} {sha256}\n" for part, sha256 in digests.items())
        return hashlib.sha256(lines.encode()).hexdigest()

    def softmax_shape(self) -> tuple[int, ...] | None:
        """The shape (type, projection) of the softmax layer, None without one; or
        WeightFileError."""
        from elmo_cli.weightfile.open_weights import open_weights

        if self.softmax is None:
            with self.open() as model:
                return model.softmax_shape()
        with open_weights(self.softmax) as arrays:
            return arrays.shape(SOFTMAX_WEIGHT)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal; or ModelError."""
    with reading(path):
        return sha256_of_file(path)


def find_files(path: Path, options: Path | None = None) -> ModelFiles:
    """Find the model in a folder, of a file, or of files whose names begin with PATH.

    Args:
        options: the file that states the sizes, if the user has named one.
    Raises:
        ModelError: there is none, more than one, or one that is not known.
    """
    with reading(path):
        for family in FAMILIES:
            paths = family.find(path, options)
            if paths is not None:
                files = ModelFiles.of(family, paths)
                unfinished = _unfinished_notes(files.weights.parent)
                return replace(files, notes=(*files.notes, *unfinished))
        names = sorted(file.name for file in path.iterdir()) if path.is_dir() else []
    head = b"" if path.is_dir() else head_of(path)
    known = "; ".join(f"{family.name} ({family.usual_files})" for family in FAMILIES)
    hint = f"known families are {known}; `elmo models list` shows published models"
    models_inside = _models_inside(path) if path.is_dir() else []
    if models_inside:
        hint = f"name one that it contains: {listed(models_inside)}"
    raise not_a_model(path, names, head, hint)


def _unfinished_notes(folder: Path) -> list[str]:
    """Note that the run which writes a model folder is unfinished, and what continues it."""
    if not (folder / CHECKPOINT_FILE).exists():
        return []
    notes = []
    for marker, last in _LAST_FILES.items():
        if (folder / marker).exists() and not (folder / last).exists():
            command = _RESUMING[marker].format(folder=shlex.quote(str(folder)))
            weights = "the weights are those that it has written so far"
            notes.append(f"{folder}: the run is not finished; {weights}; {command} continues it")
    return notes


def _models_inside(folder: Path) -> list[str]:
    """The paths of archives and folders of models in a folder that is no model itself."""
    models = []
    for path in sorted(folder.iterdir()):
        with suppress(ModelError):  # a file that cannot be read or an incomplete model is left out
            if _is_archive_or_model_folder(path):
                models.append(str(path))
    return models


def _is_archive_or_model_folder(path: Path) -> bool:
    """Whether a path is an archive, or the folder of a model."""
    if path.is_file():
        return is_archive(path)
    return path.is_dir() and _is_model(path)


def _is_model(path: Path) -> bool:
    """Whether a family finds a model at a path; a ModelError if the model is incomplete."""
    return any(family.find(path) is not None for family in FAMILIES)


def is_prefix(path: Path) -> bool:
    """Whether the names of files of a model begin with a path that does not exist itself."""
    folder = path.parent
    if path.exists() or not path.name or not folder.is_dir():
        return False
    return _is_model(path)


def check_vocabulary_size(vocabulary: Path, n_lines: int, n_types: int) -> None:
    """Raise a ModelError if a vocabulary has another number of types than the softmax layer."""
    if n_lines != n_types:
        problem = f"has {plural(n_lines, 'type')}, the softmax layer {n_types:,}"
        hint = "replace it by the vocabulary that the model was trained with, or remove it"
        raise ModelError(problem, hint, where=vocabulary)


def write_parts(folder: Path, *, tensors: str = "") -> None:
    """Write parts.json for the files of a complete model folder; or OutputError.

    Args:
        tensors: the digest of the weights that they were converted from, if they were.
    """
    PartsFile(folder, _PARTS).write({_TENSORS: tensors} if tensors else None)


def remove_parts(folder: Path) -> None:
    """Remove parts.json before a file of the folder is replaced; or OutputError."""
    PartsFile(folder, _PARTS).remove()


def _recorded_digests(files: ModelPaths) -> dict[str, Any]:
    """The content of the parts.json of a model; or ModelError."""
    if files.weights.name != WEIGHTS_FILE:  # the only name that `write_parts` records
        return {}
    return PartsFile(files.weights.parent, _PARTS).read(_PARTS_HINT, others=(_TENSORS,))


def check_parts(files: ModelFiles, used: Mapping[str, Path | None]) -> str:
    """Compare the weights and other parts of a model with the digests in its parts.json.

    Args:
        used: the files that are used as other parts, by their names in parts.json, such as
            "softmax"; None for a part that is not used.
    Returns:
        A warning about files of which only the sizes can be checked, or "".
    Raises:
        ModelError: a digest differs.
    """
    digests = _recorded_digests(files)
    dictionaries = _dictionaries(files)
    own_paths: dict[str, Path | None] = {
        **dictionaries,
        "weights": files.weights,
        "softmax": files.softmax,
        "vocabulary": files.vocabulary,
        "state": files.warm_state,
        "optimizer": files.optimizer_state,
    }
    parts_path = files.weights.with_name(PARTS_FILE)
    unrecorded: list[str] = []
    for part, path in {"weights": files.weights, **dictionaries, **used}.items():
        if path is None:
            continue
        is_recorded = part in digests and "weights" in digests
        if is_recorded and _is_same(path, own_paths[part]):
            sha256 = files.weights_sha256 if part == "weights" else sha256_of(path)
            hint = f"get the file again, or remove {parts_path} if it was replaced on purpose"
            check_digest(path, sha256, digests[part], hint)
        elif part not in dictionaries and not _is_same(path, files.weights):
            unrecorded.append(str(path))
    if not unrecorded:
        return ""
    problem = f"no {PARTS_FILE} states that this belongs to {files.weights}; only sizes are checked"
    return f"{', '.join(unrecorded)}: {problem}"


def _dictionaries(files: ModelPaths) -> dict[str, Path]:
    """The dictionaries of a model folder, by their names in parts.json."""
    names = {path.name: path for path in files.others}
    return {part: names[_PARTS[part]] for part in _DICTIONARIES if _PARTS[part] in names}


def _is_same(path: Path, other: Path | None) -> bool:
    return other is not None and path.resolve() == other.resolve()
