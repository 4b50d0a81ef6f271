"""ModelPaths: the files of one model, as a family finds them; and the search in a folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from elmo_cli.errors import ModelError
from elmo_cli.files import os_errors_as
from elmo_cli.filetypes import HEAD_BYTES, identify, identify_foreign_model
from elmo_cli.model_folder import OPTIONS_FILE, VOCABULARY_FILE, WEIGHTS_FILE
from elmo_cli.regular_files import check_regular

NAME_OPTIONS = (  # for hints
    "`elmo embed … -m MODEL --options-file FILE`; `elmo inspect MODEL` prints one to correct"
)
_MAX_LISTED = 4  # names in a message
_NOT_A_MODEL_HINT = (
    f"a model has {OPTIONS_FILE} and {WEIGHTS_FILE}; `elmo models list` shows published ones"
)


@dataclass(frozen=True, kw_only=True)
class ModelPaths:
    """The files of one model.

    Attributes:
        name: what the model is called, after its folder or its weights.
        weights: the file that identifies the model.
        options: the file that states the sizes; None if the weights state them.
        others: files that are read together with `weights`, such as the shards of a checkpoint.
        softmax, vocabulary, warm_state, optimizer_state: next to the weights; None if there is no
            such file.
        notes: what a user should know about the choice of the files, one sentence each.
    """

    name: str
    weights: Path
    options: Path | None = None
    others: tuple[Path, ...] = ()
    softmax: Path | None = None
    vocabulary: Path | None = None
    warm_state: Path | None = None
    optimizer_state: Path | None = None
    notes: tuple[str, ...] = ()

    @property
    def required(self) -> tuple[Path, ...]:
        """The files without which the model cannot be loaded."""
        options = () if self.options is None else (self.options,)
        return (*options, self.weights, *self.others)

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files that exist."""
        optional = (self.softmax, self.vocabulary, self.warm_state, self.optimizer_state)
        return (*self.required, *(path for path in optional if path is not None))


def reading(path: Path) -> AbstractContextManager[None]:
    """Turn an OSError into a ModelError about PATH, and refuse what is not a regular file."""
    check_regular(path, ModelError)
    hint = "check the path and its permissions"
    return os_errors_as(ModelError, path, "cannot be read", hint)


def head_of(path: Path) -> bytes:
    """The first bytes of a file, to be identified; or ModelError."""
    with reading(path), open(path, "rb") as file:
        return file.read(HEAD_BYTES)


def find_file(folder: Path, names: Iterable[str], pattern: str = "") -> Path | None:
    """The first of these files that exists, or else the only file that matches a pattern."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    others = list(folder.glob(pattern)) if pattern else []
    return others[0] if len(others) == 1 else None


def find_vocabulary(folder: Path) -> Path | None:
    """The vocabulary in the folder of a model; None if there is none, or more than one."""
    return find_file(folder, (VOCABULARY_FILE, f"{VOCABULARY_FILE}.gz"), "vocab*.txt*")


def not_a_model(
    path: Path, names: Collection[str], head: bytes = b"", hint: str = _NOT_A_MODEL_HINT
) -> ModelError:
    """The error for a folder or archive with these names, or a file that begins with HEAD.

    Args:
        hint: what to do, if the file is of no kind that has a hint of its own.
    """
    foreign = identify_foreign_model([path.name, *names], head)
    if foreign:
        return ModelError(f"{foreign.name}, not an ELMo model", foreign.hint, where=path)
    kind = identify(head)
    found = kind.name if kind else listed(names)
    problem = f"not an ELMo model; found {found}" if found else "not an ELMo model"
    return ModelError(problem, hint, where=path)


def listed(names: Collection[str]) -> str:
    """The first names of files, for a message."""
    shown = sorted(names)[:_MAX_LISTED]
    if len(names) > _MAX_LISTED:
        shown.append("…")
    return ", ".join(shown)
