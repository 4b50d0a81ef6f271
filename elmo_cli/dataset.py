"""EmbeddingsDataset: an embeddings file, with labels, as a data set for `torch.utils.data`."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import UsageError
from elmo_cli.label_rules import is_no_label
from elmo_cli.messages import plural
from elmo_cli.store.reader import Embeddings, open_embeddings

Label = int | str | Sequence[int] | Sequence[str]

IGNORED = -100  # the `ignore_index` of torch's losses


class LabelledSentence(NamedTuple):
    """One sentence of the data set."""

    layers: AnyArray  # (layer, token, dim), or (token, dim) where the file holds one layer
    labels: AnyArray | None  # (token,), or () for one label per sentence; None without labels


class PaddedBatch(NamedTuple):
    """Sentences padded to one length."""

    layers: Tensor  # (layer, batch, token, dim), or (batch, token, dim); float32, padded with 0
    mask: Tensor  # (batch, token), true where there is a token
    labels: Tensor | None  # (batch, token), padded with -100, or (batch,); None without labels


class EmbeddingsDataset(Dataset[LabelledSentence]):
    """The sentences of an embeddings file in its order, each with its labels.

    Worker processes, forked or spawned, each open the file themselves.

    Args:
        embeddings: a file, or what `open_embeddings` returned; of tokens, not pooled.
        labels: one entry per sentence, in the order of the file, or a mapping from its keys. An
            entry is one label, or one label per token, in the same way for all sentences. Labels
            are numbers, or strings, whose numbers are their indices in `label_names`. The losses of
            torch ignore the label -100.
        label_names: of the data set that a model was trained on; by default the strings of
            `labels`, sorted.

    Example:
        train = EmbeddingsDataset("train.hdf5", labels=tags)
        for batch in DataLoader(train, batch_size=32, shuffle=True, collate_fn=train.collate):
            vectors = mix(batch.layers, batch.mask)  # (batch, token, dim)

    Attributes:
        keys: of the sentences, in the order of the data set.
        label_names: the strings that label numbers stand for; empty for numbers.
    Raises:
        UsageError: the file has no tokens, or the labels do not fit it: one is missing (None, NaN,
            `-`, `_` or -1), there are too few or too many, some sentences have one label and others
            one per token, some are strings and others numbers, or a number is not one of
            `label_names`.
    """

    def __init__(
        self,
        embeddings: Embeddings | str | os.PathLike[str],
        labels: Sequence[Label] | Mapping[Any, Label] | None = None,
        *,
        label_names: Sequence[str] = (),
    ) -> None:
        if not isinstance(embeddings, Embeddings):
            embeddings = open_embeddings(embeddings)
        self.embeddings = embeddings
        if embeddings.unit != "tokens":
            problem = f"its vectors are of {embeddings.unit}, not of tokens"
            raise self._error(problem, "read them with `open_embeddings`")
        self.keys = list(embeddings)
        self._labels = None if labels is None else self._in_order(labels)
        self._check_counts()
        all_labels = self._all_labels()
        strings = {label for label in all_labels if isinstance(label, str)}
        self._has_strings = bool(strings)
        self.label_names = tuple(label_names) or tuple(sorted(strings))
        has_fractions = any(isinstance(label, float) for label in all_labels)
        self._dtype = np.float32 if has_fractions else np.int64
        self._numbers = {name: number for number, name in enumerate(self.label_names)}
        self._check_labels()

    def __repr__(self) -> str:
        labels = "no labels"
        if self._labels is not None:
            unit = "sentence" if self._labels and _is_single(self._labels[0]) else "token"
            n_names = f", {plural(len(self.label_names), 'name')}" if self.label_names else ""
            labels = f"a label per {unit}{n_names}"
        n_sentences = plural(len(self.keys), "sentence")
        return f"<EmbeddingsDataset {str(self.embeddings.path)!r}: {n_sentences}, {labels}>"

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> LabelledSentence:
        key = self.keys[index]
        layers = self.embeddings[key]
        if self._labels is None:
            return LabelledSentence(layers, None)
        label = self._labels[index]
        if _is_single(label):
            number = self._number(label, key)
            return LabelledSentence(layers, np.array(number, self._dtype))
        numbers = [self._number(token_label, key) for token_label in label]
        return LabelledSentence(layers, np.array(numbers, self._dtype))

    @staticmethod
    def collate(items: Sequence[LabelledSentence]) -> PaddedBatch:
        """Pad sentences to the longest one; the `collate_fn` of a DataLoader."""
        lengths = torch.tensor([item.layers.shape[-2] for item in items])
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        *layer_axis, _, dim = items[0].layers.shape  # without an axis if there is one layer
        layers = torch.zeros(*layer_axis, *mask.shape, dim, dtype=torch.float32)
        for row, item in enumerate(items):
            layers[..., row, : lengths[row], :] = torch.from_numpy(item.layers)
        labels = [torch.from_numpy(item.labels) for item in items if item.labels is not None]
        if not labels:
            return PaddedBatch(layers, mask, None)
        has_label_per_sentence = labels[0].ndim == 0
        if has_label_per_sentence:
            return PaddedBatch(layers, mask, torch.stack(labels))
        padded = pad_sequence(labels, batch_first=True, padding_value=IGNORED)
        return PaddedBatch(layers, mask, padded)

    def _in_order(self, labels: Sequence[Label] | Mapping[Any, Label]) -> list[Any]:
        """The labels of each sentence, in the order of the file."""
        if isinstance(labels, Mapping):
            for key in self.keys:
                if key not in labels:
                    hint = "the keys of `labels` are those of `open_embeddings`"
                    raise self._error(f"no labels for sentence {key!r}", hint)
            return [labels[key] for key in self.keys]
        if not self.embeddings.order_is_known:
            hint = "give `labels` as a mapping from keys"
            raise self._error("does not keep the order of the text", hint)
        if len(labels) != len(self.keys):
            problem = f"{plural(len(self.keys), 'sentence')}, but labels for {len(labels):,}"
            raise self._error(problem, "give one entry per sentence")
        return list(labels)

    def _check_counts(self) -> None:
        """Raise a UsageError unless all sentences have one label, or all have one per token."""
        entries = self._labels or []
        first_is_single = bool(entries) and _is_single(entries[0])
        for key, entry in zip(self.keys, entries, strict=False):
            is_single = _is_single(entry)
            # A missing list of labels, such as None, looks like a single label.
            if is_single and _is_missing(_plain(entry)):
                raise self._no_label(key, entry)
            if is_single != first_is_single:
                own = "one label" if is_single else "several labels"
                first = "one label" if first_is_single else "one label per token"
                problem = f"sentence {key!r} has {own}, sentence {self.keys[0]!r} {first}"
                hint = "give one label per sentence, or one per token, for all sentences"
                raise self._error(problem, hint)
            if is_single:
                continue
            n_tokens = self._n_tokens(key)
            if len(entry) != n_tokens:
                counts = f"{plural(n_tokens, 'token')}, but {plural(len(entry), 'label')}"
                problem = f"sentence {key!r} has {counts}"
                raise self._error(problem, "give one label per token")

    def _n_tokens(self, key: Any) -> int:
        """The number of tokens of a sentence, without reading its vectors."""
        shape = self.embeddings.shape(key)
        return shape[-2] if len(shape) > 1 else 0

    def _check_labels(self) -> None:
        """Raise a UsageError if a label is missing, has a wrong type or is not in `label_names`."""
        for key, entry in zip(self.keys, self._labels or (), strict=False):
            labels = [entry] if _is_single(entry) else entry
            for label in map(_plain, labels):
                if _is_missing(label):
                    raise self._no_label(key, label)
                if not isinstance(label, (str, int, float)):
                    problem = f"sentence {key!r} has the label {label!r}"
                    raise self._error(problem, "labels are numbers or strings")
                self._number(label, key)

    def _all_labels(self) -> list[Any]:
        """The labels of all sentences, without NumPy or torch scalars."""
        all_labels = []
        for entry in self._labels or ():
            entry_labels = [entry] if _is_single(entry) else entry
            all_labels += [_plain(label) for label in entry_labels]
        return all_labels

    def _number(self, label: Any, key: object) -> int | float:
        if isinstance(label, str):
            if label not in self._numbers:
                problem = f"sentence {key!r} has the label {label!r}, which is not in `label_names`"
                raise self._error(problem, "add it, or map it to one")
            return self._numbers[label]
        number: int | float = _plain(label)
        if number == IGNORED or not self.label_names:
            return number
        if self._has_strings:
            problem = f"sentence {key!r} has the label {number}, others are strings"
            raise self._error(problem, "give strings, or -100, which losses ignore")
        if number not in range(len(self.label_names)):
            names = plural(len(self.label_names), "name")
            problem = f"sentence {key!r} has the label {number}, but `label_names` has {names}"
            raise self._error(problem, "numbers of labels count from 0")
        return number

    def _no_label(self, key: object, label: object) -> UsageError:
        hint = "leave out the sentence, or give -100, which losses ignore"
        return self._error(f"sentence {key!r} has a label that means none: {label!r}", hint)

    def _error(self, problem: str, hint: str) -> UsageError:
        return UsageError(problem, hint, where=self.embeddings.path)


def _is_single(label: Any) -> bool:
    """Whether an entry is one label, for the whole sentence."""
    is_scalar = getattr(label, "ndim", 1) == 0  # of NumPy or torch
    return isinstance(label, (str, bytes)) or is_scalar or not hasattr(label, "__len__")


def _is_missing(label: Any) -> bool:
    """Whether a label means that there is none; of fractions, such as -1.0, only NaN does."""
    if isinstance(label, float):
        return math.isnan(label)
    return is_no_label(label)


def _plain(label: Any) -> Any:
    """Convert a NumPy or torch scalar to a Python scalar."""
    return label.item() if hasattr(label, "item") else label
