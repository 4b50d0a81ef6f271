"""Examples: what a probe learns from, what chooses its decay, and what it is tried on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from elmo_cli.analysis.form import SETTINGS, UNKNOWN
from elmo_cli.analysis.labels import LabelSettings, without_label
from elmo_cli.analysis.part import Part, Vectors
from elmo_cli.analysis.read_part import read_part
from elmo_cli.errors import EmbeddingsFileError, InputError, UsageError

PARTS = ("train", "dev", "test")
HELD_BACK = 10  # of so many sentences of train the last, where there is no dev
NO_ID = -1  # of a label that train lacks

_SHA256 = "model_sha256"
Ids = npt.NDArray[np.int64]
Files = tuple[str, str]


@dataclass(frozen=True)
class Examples:
    """The vectors and labels of train, dev and test.

    Attributes:
        parts: by their names.
        layers: the chosen layers, by their numbers in the model, or "top", "average", "mix:…".
        has_own_dev: whether dev has files of its own, and is no part of train's.
        warnings: what looks wrong but can be read.
    """

    parts: Mapping[str, Part]
    layers: tuple[str, ...]
    has_own_dev: bool
    warnings: tuple[str, ...] = field(default=())

    @property
    def by_sentence(self) -> bool:
        """Whether each label is one of a sentence, not of a token."""
        return self.parts["train"].form.by_sentence

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of train by their ids."""
        return tuple(sorted(set(self.parts["train"].labels)))

    @cached_property
    def targets(self) -> dict[str, Ids]:
        """The ids of all labels of each part, (vector,) int64; `NO_ID` if train lacks one."""
        ids = {label: number for number, label in enumerate(self.labels)}
        return {
            name: np.array([ids.get(label, NO_ID) for label in part.labels], np.int64)
            for name, part in self.parts.items()
        }

    @property
    def unknown(self) -> dict[str, int]:
        """How many labels of dev and test train lacks; each of them counts as wrong."""
        return {name: int((self.targets[name] == NO_ID).sum()) for name in PARTS[1:]}

    @cached_property
    def words(self) -> dict[str, list[str]] | None:
        """The tokens of each part; None where they are not all known."""
        words = {name: part.words for name, part in self.parts.items()}
        known = {name: found for name, found in words.items() if found is not None}
        return known if len(known) == len(words) else None

    @cached_property
    def is_unseen(self) -> npt.NDArray[np.bool_] | None:
        """Whether train lacks the form of each token of test; None where forms are not known."""
        if self.words is None:
            return None
        known = set(self.words["train"])
        return np.array([word not in known for word in self.words["test"]], np.bool_)

    def vectors(self, layer: str) -> dict[str, Vectors]:
        """All vectors of one of `layers` by parts, (vector, dim) float32, in new memory.

        Raises:
            EmbeddingsFileError: a file can't be read.
        """
        return {name: part.vectors(part.form.place(layer)) for name, part in self.parts.items()}


def read_examples(
    train: Files,
    test: Files,
    dev: Files | None = None,
    *,
    settings: LabelSettings | None = None,
    layers: Sequence[int] = (),
) -> Examples:
    """Read the labels of all parts, and look at all their vectors once.

    Args:
        train, test, dev: an embeddings file and a label file each. Without `dev` every tenth
            sentence of train is held back and takes its place.
        settings: how label files are read.
        layers: numbers of the layers that are probed; all by default.
    Raises:
        EmbeddingsFileError, InputError, UsageError: as `read_part`; parts without labels, with one
            label alone, or whose vectors were made in different ways; values that are not finite;
            a layer that is not there.
    """
    files = {"train": train, "dev": dev, "test": test}
    parts = {
        name: read_part(*files_of, settings)
        for name, files_of in files.items()
        if files_of is not None
    }
    for part in parts.values():
        _check_alike(parts["train"], part, by_layer=bool(layers))
        _check_labels(part)
    if dev is not None:  # of which train's may tell nothing
        _check_alike(parts["dev"], parts["test"], by_layer=bool(layers))
    names = tuple(map(str, dict.fromkeys(layers))) or parts["train"].form.layers
    for part in parts.values():
        _check_held(parts["train"], part, layers)
    warnings = _warnings(parts)
    for part in parts.values():
        part.check_finite(part.form.place(name) for name in names)
    _check_two_labels(parts["train"], "")
    if dev is None:
        parts["train"], parts["dev"] = held_back(parts["train"])
        _check_two_labels(parts["train"], "what is left of it for train ")
    parts = {name: parts[name] for name in PARTS}
    return Examples(parts, names, dev is not None, tuple(warnings))


def _check_two_labels(train: Part, what: str) -> None:
    if len(set(train.labels)) < 2:
        raise InputError(
            f"{train.labels_file}: {what}has one label alone, `{train.labels[0]}`",
            "`--dev VECTORS LABELS` leaves all of it for train"
            if what
            else "there is nothing to learn: a probe needs two labels or more",
        )


def held_back(part: Part) -> tuple[Part, Part]:
    """Nine tenths of the sentences of train, and every tenth of them for dev.

    Raises:
        InputError: there is one sentence alone.
    """
    n_sentences = len(part.keys)
    if n_sentences < 2:
        raise InputError(
            f"{part.labels_file}: has one sentence with labels, of which none can be held back",
            "`--dev VECTORS LABELS` chooses the decay",
        )
    step = min(HELD_BACK, n_sentences)
    held = range(step - 1, n_sentences, step)
    return part.sentences(k for k in range(n_sentences) if k not in held), part.sentences(held)


def _check_held(train: Part, part: Part, layers: Sequence[int]) -> None:
    """Refuse layers that a part lacks."""
    names = part.form.layers
    if names == (UNKNOWN,) and part is not train and len(train.form.layers) == 1:
        return  # it is taken for the only layer of train
    for layer in layers:
        if str(layer) not in names:
            held = f"layers {', '.join(names)}" if len(names) > 1 else f"only layer {names[0]}"
            raise UsageError(
                f"{part.vectors_file}: --layer {layer}: it has {held}",
                "`--layer` takes the number of a layer that the files hold; without it all are "
                "probed",
            )


def _check_alike(train: Part, part: Part, *, by_layer: bool) -> None:
    """Refuse vectors that were made in another way than those of train.

    Args:
        train: or dev, where test is compared with it.
        by_layer: whether chosen layers alone are read, so that others may lie beside them; where a
            file doesn't tell which are there, all have to be the same even so.
    """
    ours, theirs = train.form.settings, part.form.settings
    # A file of another program tells little; in two of ours what one lacks is a difference.
    names = SETTINGS if _SHA256 in ours and _SHA256 in theirs else tuple(ours.keys() & theirs)
    facts = [(name, ours.get(name), theirs.get(name)) for name in names]
    facts += [
        ("dim", train.form.dim, part.form.dim),
        ("vectors", _of_what(train), _of_what(part)),
    ]
    if not (by_layer and train.form.tells_layers and part.form.tells_layers):
        facts.append(("layers", _layers(train, part), _layers(part, train)))
    for name, in_train, here in facts:
        if in_train == here:
            continue
        if name == _SHA256 and train.form.model != part.form.model:
            name, in_train, here = "model", train.form.model, part.form.model
        raise EmbeddingsFileError(
            f"{part.vectors_file}: {name} is {here!r}, that of {train.vectors_file} is "
            f"{in_train!r}",
            "make all embeddings with the same model and the same settings",
        )


def _layers(part: Part, other: Part) -> str:
    """The layers of a part, alike for two of which one does not tell what its only layer is."""
    names = part.form.layers
    is_unknown = (UNKNOWN,) in (names, other.form.layers)
    return str(len(names)) if is_unknown else ", ".join(names)


def _of_what(part: Part) -> str:
    return "of sentences" if part.form.by_sentence else "of tokens"


def _check_labels(part: Part) -> None:
    """Refuse labels that are none."""
    if not part.labels:
        raise InputError(
            f"{part.labels_file}: has no labels", "train, dev and test need some sentences each"
        )
    if part.column is None:
        return
    if without_label(part.labels) == len(part.labels):
        raise InputError(
            f"{part.labels_file}: column {part.column} holds `_` alone, which is no label",
            "`--label-column` chooses another",
        )
    if part.labels == part.words:
        raise InputError(
            f"{part.labels_file}: column {part.column} holds the tokens themselves",
            "`--label-column` chooses that of the labels",
        )


def _warnings(parts: Mapping[str, Part]) -> list[str]:
    """What looks wrong but can be read."""
    found = []
    for name, part in parts.items():
        if part.lacking:
            n = part.lacking
            what = "1 sentence that has" if n == 1 else f"{n:,} sentences that have"
            found.append(f"{part.vectors_file}: lacks {what} labels, left out here too")
        if part.column is not None and (n_none := without_label(part.labels)):
            found.append(
                f"{part.labels_file}: {n_none:,} of {len(part.labels):,} labels are `_`, "
                "which is taken for a label"
            )
        text = part.form.text_sha256
        if name != "train" and text is not None and text == parts["train"].form.text_sha256:
            found.append(f"{part.vectors_file}: holds the very sentences of train")
        if part.words is None and not part.form.by_sentence:
            found.append(f"{part.vectors_file}: does not tell its tokens, so forms are not known")
    return found
