"""ProbeData: the labeled vectors of train, dev and test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from elmo_cli.analysis.labelled_vectors import LabelledVectors, LabelSettings, join_labels
from elmo_cli.analysis.vectors import check_comparable
from elmo_cli.arrays import BoolArray, Float32Array, Int64Array
from elmo_cli.errors import EmbeddingsFileError, InputError
from elmo_cli.fit import REPEATED_LABELS, FitPoint, repeated_in
from elmo_cli.store.reader import Embeddings, open_embeddings

SPLITS = ("train", "dev", "test")
DEV_EVERY = 10  # without files for dev, every tenth sentence of train is in dev
_FEW_LABELS = 20  # as many as words only by chance, in a few sentences
UNKNOWN_LABEL = -1  # the id of a label that is not in train

FilePair = tuple[str, str]  # names of an embeddings file and a label file


@dataclass(frozen=True)
class ProbeData:
    """The vectors and labels of train, dev and test."""

    splits: Mapping[str, LabelledVectors]  # by name
    layers: tuple[int | str, ...]  # to probe: numbers, or "top", "average", "mix:…", "unknown"
    unit: str  # what the labels belong to: "tokens" or "sentences"
    column: str | None  # name of the label column; None for lines of labels
    model: str | None  # of the embeddings, if recorded, as is the initial state
    state: str | None
    has_own_dev: bool  # or dev is split off train
    warnings: tuple[str, ...] = ()  # about data that look wrong but can be used

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of train, indexed by label id."""
        return tuple(sorted(set(self.splits["train"].labels)))

    @cached_property
    def targets(self) -> dict[str, Int64Array]:
        """The label ids of each split, (vector,) int64; `UNKNOWN_LABEL` if not in train."""
        id_of_label = {label: number for number, label in enumerate(self.labels)}
        targets = {}
        for name, split in self.splits.items():
            ids = [id_of_label.get(label, UNKNOWN_LABEL) for label in split.labels]
            targets[name] = np.array(ids, np.int64)
        return targets

    @cached_property
    def words(self) -> dict[str, list[str]] | None:
        """The tokens of each split; None if some are unknown, or if sentences are labeled."""
        words = {}
        for name, split in self.splits.items():
            if split.words is None:
                return None
            words[name] = split.words
        return words

    @cached_property
    def is_unseen(self) -> BoolArray | None:
        """Whether each token of test is missing in train, (vector,); None if tokens are unknown."""
        if self.words is None:
            return None
        known = set(self.words["train"])
        return np.array([word not in known for word in self.words["test"]], np.bool_)

    def vectors(self, layer: int | str) -> dict[str, Float32Array]:
        """Return new arrays of all vectors of a layer by split, (vector, dim) float32."""
        return {name: split.vectors(layer) for name, split in self.splits.items()}


def read_probe_data(
    train: FilePair,
    test: FilePair,
    dev: FilePair | None = None,
    *,
    labels: LabelSettings | None = None,
    layers: Sequence[int] = (),
) -> ProbeData:
    """Read the labels of all splits, join them with the vectors and check both.

    Args:
        train, test, dev: embeddings and label files. Without `dev`, every tenth sentence of train
            is in dev.
        layers: numbers of the layers to probe, which all files must contain; by default all
            layers of train.
    Raises:
        EmbeddingsFileError: a file cannot be read or contains no sentences, the files are not
            comparable, or a value is not finite.
        InputError: the labels cannot be read or used, or belong to another text.
        UsageError: the label settings do not fit a file, or a layer is not stored.
    """
    data = join_splits(train, test, dev, labels=labels or LabelSettings(), layers=layers)
    for split in data.splits.values():
        if not split.labels:
            raise _no_labels_in_column(split, data.column) if data.column else _no_labels(split)
    _check_different_labels(data.splits["train"])
    warnings = (*data.warnings, *_warnings_of_labels(data.splits["train"]))
    return replace(data, warnings=warnings)


def join_splits(
    train: FilePair,
    test: FilePair,
    dev: FilePair | None,
    *,
    labels: LabelSettings,
    layers: Sequence[int] = (),
) -> ProbeData:
    """Read the labels of all splits, join them with the vectors and check both.

    Arguments and errors are those of `read_probe_data`, except that labels may all be the same or
    mean that there is none.
    """
    if dev is None:
        files = {"train": train, "test": test}
    else:
        files = {"train": train, "dev": dev, "test": test}
    with ExitStack() as stack:
        opened = {}
        for name, (vectors_file, _) in files.items():
            opened[name] = stack.enter_context(open_embeddings(vectors_file))
        first = opened["train"]
        _check_comparable(list(opened.values()))
        chosen = tuple(dict.fromkeys(layers)) or first.layers
        splits = {}
        for name, (_, labels_file) in files.items():
            splits[name] = join_labels(opened[name], labels_file, labels, chosen)
        column = labels.column_of(splits["train"].labels_file)
        warnings = list(_warnings(opened, splits))
    for split in splits.values():
        if not split.sentences:
            raise _no_labels(split)
    if dev is None:
        splits["train"], splits["dev"] = split_dev(splits["train"])
    return ProbeData(
        splits={name: splits[name] for name in SPLITS},
        layers=chosen,
        unit=first.unit,
        column=column,
        model=first.attributes.get("model"),
        state=first.attributes.get("state"),
        has_own_dev=dev is not None,
        warnings=tuple(warnings),
    )


def split_dev(train: LabelledVectors) -> tuple[LabelledVectors, LabelledVectors]:
    """Split train into train and dev, which gets every tenth sentence."""
    n_sentences = len(train.sentences)
    step = min(DEV_EVERY, n_sentences)
    dev = range(step - 1, n_sentences, step)
    rest = [number for number in range(n_sentences) if number not in dev]
    return train.select(rest), train.select(dev)


def _check_comparable(files: Sequence[Embeddings]) -> None:
    """Raise an EmbeddingsFileError if the vectors differ in more than their text."""
    first = files[0]
    for file in files[1:]:
        differences = check_comparable(file, first)
        if differences:
            hint = "embed all texts with the same model and the same options"
            raise EmbeddingsFileError(differences[0], hint, where=file.path)


def _no_labels(split: LabelledVectors) -> InputError:
    return InputError(
        f"has no labels for {split.vectors_file}",
        "train, dev and test need at least one sentence each",
        where=split.labels_file,
    )


def _no_labels_in_column(split: LabelledVectors, column: str) -> InputError:
    return InputError(
        f"no token has a label in column {column}",
        "`column` names another one, such as upos",
        where=split.labels_file,
    )


def _check_different_labels(train: LabelledVectors) -> None:
    """Refuse train data from which nothing can be learned."""
    different = set(train.labels)
    if len(different) >= 2:
        return
    problem = "train has fewer than two different labels"
    for label in different:
        problem += f", only {label!r}"
    raise InputError(
        problem,
        "`column` names the column of the labels; with `dev`, all of the file is used to train",
        where=train.labels_file,
    )


def _warnings_of_labels(train: LabelledVectors) -> Iterator[str]:
    """Yield warnings about labels that may be those of another column."""
    repeated = FitPoint.count_repeated(REPEATED_LABELS, train.labels)
    if repeated.warning:
        yield f"{train.labels_file}: {repeated.warning}"
    if train.words is None:
        return
    n_labels = len(set(train.labels))
    n_types = len(set(train.words))
    if n_labels >= max(_FEW_LABELS, n_types):
        problem = f"as many different labels as words ({n_labels:,} and {n_types:,})"
        hint = "are they the words themselves, or words joined with tags?"
        yield f"{train.labels_file}: {problem}; {hint}"


def _warnings(
    opened: Mapping[str, Embeddings], splits: Mapping[str, LabelledVectors]
) -> Iterator[str]:
    """Yield warnings about data that look wrong but can be used."""
    for name, split in splits.items():
        if split.n_missing > 0:
            yield f"{split.vectors_file}: labeled sentences that are missing: {split.n_missing:,}"
        n_unlabelled = len(split.is_labelled) - len(split.labels)
        if n_unlabelled > 0:
            all_labels = [label for sentence in split.sentences for label in sentence.labels]
            first = all_labels[int(split.is_labelled.argmin())]
            yield (
                f"{split.labels_file}: {n_unlabelled:,} of {len(all_labels):,} labels, such as "
                f"{first!r}, mean that there is none, and are left out"
            )
        if name == "train":
            continue
        n_repeated = _n_in_train(split, splits["train"])
        if n_repeated is None and _has_text_of(opened["train"], opened[name]):
            n_repeated = len(split.sentences)
        if n_repeated is not None:
            rule = repeated_in(name, "sentences")
            repeated = FitPoint(rule, n_repeated, len(split.sentences))
            if repeated.warning:
                yield f"{split.vectors_file}: {repeated.warning}"


def _n_in_train(split: LabelledVectors, train: LabelledVectors) -> int | None:
    """The number of sentences that train has too; None if the tokens of some are not known."""
    in_train = {sentence.words for sentence in train.sentences}
    words = [sentence.words for sentence in split.sentences]
    if None in in_train or None in words:
        return None
    return sum(sentence in in_train for sentence in words)


def _has_text_of(train: Embeddings, other: Embeddings) -> bool:
    """Whether files record that they are of the same text."""
    digest = train.attributes.get("tokens_sha256")
    return digest is not None and digest == other.attributes.get("tokens_sha256")
