"""StoredLayer: one layer of an embeddings file, a sentence at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo_cli.analysis.form import Form, unlike
from elmo_cli.errors import UsageError
from elmo_cli.store.layers import layer_list, stored_layers
from elmo_cli.store.layouts import Key, is_number
from elmo_cli.store.reader import Embeddings

Vectors = npt.NDArray[np.floating[Any]]


class StoredLayer:
    """One layer of an open embeddings file: vectors of tokens, or of whole sentences or types.

    Attributes:
        embeddings: the file.
        number: of the layer in its model; None where the file doesn't tell.
        name: the number, or "top", "average", "mix:…", "unknown".
        by_token: whether a sentence has a vector for each token, not one in all.
        what: what has a vector: "tokens", "sentences" or "types".
    """

    def __init__(self, embeddings: Embeddings, number: int | None = None) -> None:
        """
        Args:
            number: of the layer in its model, 0 the token layer; None for the highest that there
                is.
        Raises:
            UsageError: the file doesn't hold it.
            EmbeddingsFileError: the file is damaged.
        """
        self.embeddings = embeddings
        held = stored_layers(embeddings)
        self.number = max(held, default=None) if number is None else number
        if number is not None and number not in held:
            raise _not_held(embeddings, number, held)
        self._form = form = Form.of(embeddings)
        self.name = form.layers[0] if self.number is None else str(self.number)
        has_number = self.number is not None and form.has_layers
        self._row = held.index(self.number) if has_number else 0
        self.by_token = not form.by_sentence
        of_whole = "types" if embeddings.unit == "types" else "sentences"
        self.what = "tokens" if self.by_token else of_whole

    @property
    def path(self) -> str:
        """The file's name."""
        return str(self.embeddings.path)

    def __iter__(self) -> Iterator[Key]:
        """The keys of all sentences, in the order of the file: numbers where the key of a sentence
        is its text, unless the file has lost their order."""
        first = self.embeddings.first_sentence
        by_number = self.embeddings.is_keyed_by_name and self._has_numbers
        yield from range(first, first + len(self.embeddings)) if by_number else self.embeddings

    @cached_property
    def _has_numbers(self) -> bool:
        """Whether the keys that are shown are numbers."""
        embeddings = self.embeddings
        if not embeddings.is_keyed_by_name:
            return True
        return "tokens" in embeddings.records and embeddings.first_sentence in embeddings

    def key(self, name: str) -> Key | None:
        """The key that a user calls so; None where there is no such sentence."""
        names: list[Key] = [name, int(name)] if is_number(name) else [name]
        if self._has_numbers:  # what is shown for one sentence must not be the text of another
            names.reverse()
        return next((key for key in names if key in self.embeddings), None)

    def vectors(self, key: Key) -> Vectors:
        """The vectors of a sentence that is there: (token, dim), or (1, dim) unless `by_token`.

        Raises:
            EmbeddingsFileError: they are not like those of the other sentences, or can't be read.
        """
        array = self.embeddings[key]
        if self._form.n_vectors(array.shape) is None:
            raise unlike(self.path, key, array.shape, self._form)
        rows: Vectors = self._form.rows(array)[self._row]
        return rows

    def tokens(self, key: Key) -> tuple[str, ...] | None:
        """The tokens of a sentence that is there; None where the file doesn't tell."""
        tokens = self.embeddings.tokens(key)
        # As many as there are vectors, or a wrong one would be shown.
        is_other = tokens and self.by_token and len(tokens) != self.embeddings.shape(key)[-2]
        return None if is_other else tokens


def _not_held(embeddings: Embeddings, number: int, held: tuple[int, ...]) -> UsageError:
    if held:
        return UsageError(
            f"{embeddings.path}: --layer {number}: it has {layer_list(held)}",
            "`--layer` takes a layer that the file holds",
        )
    chosen = embeddings.attributes.get("layers")
    what = f"--layers {chosen}" if chosen else "one layer, and not which"
    return UsageError(
        f"{embeddings.path}: --layer {number}: the file holds {what}", "leave out `--layer`"
    )
