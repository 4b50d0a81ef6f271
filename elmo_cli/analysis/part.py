"""Part: the vectors of an embeddings file that have labels, and those labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo_cli.analysis.form import Form, unlike
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.store.layouts import Key
from elmo_cli.store.reader import open_embeddings

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Part:
    """Vectors of one embeddings file in the order of their sentences, and a label for each.

    Attributes:
        vectors_file, labels_file: where they are from.
        form: what the vectors have in common.
        keys: of the sentences with labels, in the embeddings file.
        counts: vectors of each sentence.
        labels: of all vectors, sentence after sentence.
        words: the token of each; None where not all are known, or vectors are of sentences.
        column: that of the labels; None for lines of labels.
        lacking: sentences that have labels, and were left out of the embeddings file.
    """

    vectors_file: str
    labels_file: str
    form: Form
    keys: tuple[Key, ...]
    counts: tuple[int, ...]
    labels: list[str]
    words: list[str] | None
    column: str | None = None
    lacking: int = 0

    def sentences(self, picked: Iterable[int]) -> Part:
        """The part that has only the sentences at these places, from 0."""
        places = list(picked)
        ends = np.cumsum([0, *self.counts]).tolist()
        spans = [range(ends[place], ends[place + 1]) for place in places]

        def of_tokens(values: list[str]) -> list[str]:
            return [values[k] for span in spans for k in span]

        return replace(
            self,
            keys=tuple(self.keys[place] for place in places),
            counts=tuple(self.counts[place] for place in places),
            labels=of_tokens(self.labels),
            words=None if self.words is None else of_tokens(self.words),
        )

    def vectors(self, layer: int) -> Vectors:
        """All vectors of one layer, (vector, dim) float32, in new memory.

        Args:
            layer: its place in `form.layers`.
        Raises:
            EmbeddingsFileError: the file can't be read.
        """
        vectors = np.empty((len(self.labels), self.form.dim), np.float32)
        end = 0
        for _, rows in self._arrays():
            begin, end = end, end + rows.shape[1]
            vectors[begin:end] = rows[layer]
        return vectors

    def check_finite(self, layers: Iterable[int]) -> None:
        """Read all vectors of some layers and refuse values that no probe can learn from.

        Args:
            layers: their places in `form.layers`.
        Raises:
            EmbeddingsFileError: a value is not finite as float32; or the file can't be read.
        """
        picked = list(layers)
        end = 0
        for key, rows in self._arrays():
            begin, end = end, end + rows.shape[1]
            with np.errstate(over="ignore"):
                is_finite = np.isfinite(rows[picked].astype(np.float32, copy=False)).all(-1)
            if not is_finite.all():
                layer, token = np.argwhere(~is_finite)[0].tolist()
                what = "the vector"
                if not self.form.by_sentence:
                    word = "" if self.words is None else f" (`{self.words[begin + token]}`)"
                    what = f"token {token + 1}{word}"
                raise EmbeddingsFileError(
                    f"{self.vectors_file}: sentence {key!r}: {what} in layer "
                    f"{self.form.layers[picked[layer]]} is not finite",
                    "`elmo inspect` finds all such values; embed the text anew, in float32",
                )

    def _arrays(self) -> Iterator[tuple[Key, npt.NDArray[Any]]]:
        """The arrays of the sentences with labels, (layer, vector, dim)."""
        with open_embeddings(self.vectors_file) as embeddings:
            for key, count in zip(self.keys, self.counts, strict=True):
                array = embeddings[key]
                if self.form.n_vectors(array.shape) != count:
                    raise unlike(self.vectors_file, key, array.shape, self.form)
                yield key, self.form.rows(array)
