"""Which files of a folder are a model: its options and weights, and what may lie beside them.

weights.hdf5 (as this product writes it) and model.hdf5 (as NLPL has it) are taken at once; among
other names a weight file is told by what is in it. Where two would do neither is taken.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from elmo_cli.errors import ElmoError, ModelError
from elmo_cli.pretrained.cache import sha256_of
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, WEIGHTS_FILE
from elmo_cli.pretrained.family import family_of_file, family_of_folder

if TYPE_CHECKING:
    from elmo_cli.model.options import Options

SOFTMAX_FILE, VOCABULARY_FILE, STATE_FILE = "softmax.hdf5", "vocab.txt", "state.hdf5"
CARD_FILE = "README.md"
OTHER_WEIGHTS_FILE = "model.hdf5"  # as NLPL calls it
HDF5_SUFFIXES = (".hdf5", ".h5")
_GIVE_BOTH = "give the two files of one model: `--options FILE --weights FILE`"


@dataclass(frozen=True)
class ModelFiles:
    """The files of one model.

    Attributes:
        name: what messages and attributes call it.
        origin: "bundled", "cached" (named in the catalogue), "path" (named by its place).
        warm_state: the state that sentences may start from.
        card: what it was trained on and how well.
        archive: the zip or tar file that a user gave; None for files that are his own.
    """

    name: str
    options: Path
    weights: Path
    softmax: Path | None = None
    vocabulary: Path | None = None
    warm_state: Path | None = None
    card: Path | None = None
    origin: str = "path"
    archive: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files that there are."""
        files = (self.options, self.weights, self.softmax, self.vocabulary, self.warm_state)
        return tuple(path for path in (*files, self.card) if path is not None)

    def read_options(self) -> Options:
        """The sizes of the model.

        Raises:
            OptionsError: the options can't describe a biLM.
        """
        from elmo_cli.model.options import Options

        with self.named():
            return Options.from_file(self.options)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Let errors name the archive that a user gave, not the folder that it was unpacked to."""
        with named(self.weights.parent, self.archive or self.weights.parent):
            yield

    @cached_property
    def weights_sha256(self) -> str:
        """The sha256 of the weight file, as `sha256sum` prints it."""
        return sha256_of(self.weights)

    @cached_property
    def sha256(self) -> str:
        """One hash for what the model computes: its weights and the sizes in its options.

        It is the sha256 of the options as compact JSON with sorted keys, a line feed, and the hex
        sha256 of the weight file. The options are taken as read, so that 261 or 262 characters
        and keys for training make no difference.

        Raises:
            OptionsError: the options can't describe a biLM.
            ModelError: the weights can't be read.
        """
        sizes = self.read_options().to_dict()
        text = json.dumps(sizes, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(f"{text}\n{self.weights_sha256}".encode()).hexdigest()


@contextmanager
def named(folder: Path, name: Path) -> Iterator[None]:
    """Let errors call a folder by another name."""
    try:
        yield
    except ElmoError as error:
        error.message = error.message.replace(str(folder), str(name))
        raise


def files_in_folder(folder: Path, name: str, *, origin: str = "path") -> ModelFiles:
    """The model in a folder.

    Raises:
        ModelError: there is none, more than one, or one of another family.
    """
    weights = _weights_in(folder)
    files = files_of_weights(weights, name)
    return replace(files, origin=origin)


def files_of_weights(weights: Path, name: str) -> ModelFiles:
    """The model of a weight file, with what lies beside it.

    Raises:
        ModelError: it is of another family, or there are no options beside it, or two.
    """
    refuse_foreign(weights)
    return with_what_lies_beside(
        ModelFiles(name=name, options=_options_of(weights), weights=weights)
    )


def with_what_lies_beside(files: ModelFiles) -> ModelFiles:
    """The same model with the softmax, vocabulary, state and card of the folder of its weights."""
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


def refuse_foreign(path: Path) -> None:
    """Refuse a file in the place of the weights that is of another family.

    A damaged HDF5 file is left to its reader, which can say more.

    Raises:
        ModelError: with the name of the family.
    """
    if path.is_file() and (family := family_of_file(path)):
        raise family.error(path)


def _weights_in(folder: Path) -> Path:
    named = [folder / n for n in (WEIGHTS_FILE, OTHER_WEIGHTS_FILE) if (folder / n).is_file()]
    found = named or _weights_by_content(folder)
    if not found:
        raise _nothing_in(folder)
    if len(found) > 1:
        raise ModelError(
            f"{folder}: holds {len(found)} weight files ({_listed(found)})",
            "give the one that is meant, with its path",
        )
    return found[0]


def _weights_by_content(folder: Path) -> list[Path]:
    hdf5 = (p for p in sorted(folder.iterdir()) if p.suffix in HDF5_SUFFIXES and p.is_file())
    candidates = [p for p in hdf5 if "softmax" not in p.name and p.name != STATE_FILE]
    whole = [path for path in candidates if _holds_bilm(path)]
    # A damaged file whose name says that it holds the weights is better than none: its reader
    # will say what is wrong with it.
    return whole or [path for path in candidates if path.stem.endswith("_weights")]


def _holds_bilm(path: Path) -> bool:
    from elmo_cli.weightfile.describe import holds_bilm

    try:
        return holds_bilm(path)
    except (OSError, RuntimeError):
        return False


def _options_of(weights: Path) -> Path:
    folder = weights.parent
    own = _first(folder, (f"{_stem(weights)}_options.json", OPTIONS_FILE))
    if own:
        return own
    found = sorted(folder.glob("*options*.json"))
    if len(found) == 1:
        return found[0]
    if found:
        message = f"{weights}: {len(found)} options files beside it ({_listed(found)})"
        raise ModelError(message, _GIVE_BOTH)
    raise ModelError(f"{weights}: no {OPTIONS_FILE} beside it", _GIVE_BOTH)


def _nothing_in(folder: Path) -> ModelError:
    if family := family_of_folder(folder):
        return family.error(folder)
    found = sorted(folder.iterdir())
    return ModelError(
        f"{folder}: no weight file in it ({_listed(found) or 'the folder is empty'})",
        f"a model is a folder with {OPTIONS_FILE} and {WEIGHTS_FILE}",
    )


def _stem(weights: Path) -> str:
    """What the files of one published model have in common: X of X_weights.hdf5."""
    return weights.stem.partition("_weights")[0]


def _first(folder: Path, names: Iterable[str]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _only(found: Iterable[Path]) -> Path | None:
    paths = list(found)
    return paths[0] if len(paths) == 1 else None


def _listed(paths: list[Path]) -> str:
    names = [path.name for path in paths[:4]]
    return ", ".join(names + ["…"] * (len(paths) > 4))
