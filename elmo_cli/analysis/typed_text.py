"""TypedText: sentences that a user types as queries, each with one token marked by brackets."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from elmo_cli.analysis.query import Occurrence
from elmo_cli.analysis.vectors import LayerView, Vectors
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.layouts import Array, Key
from elmo_cli.text.tokenizer import EnglishTokenizer

_MARK = re.compile(r"\[([^\[\]]+)\]")
_HINT = "mark one token: `she sat on the [bank]`"


class TypedText:
    """The vectors of typed sentences, which have the keys 0, 1, …, in the layer of a view.

    Attributes:
        path: its name in messages.
    """

    def __init__(self, view: LayerView, arrays: Sequence[Array]) -> None:
        """
        Args:
            view: a layer of the file that is searched.
            arrays: all layers of each sentence, (layer, token, dim); (token, dim) for one layer.
        Raises:
            EmbeddingsFileError: the file has other layers or another dimension.
        """
        self.path = "`text`"
        file, self._arrays = view.embeddings, [np.reshape(a, (-1, *a.shape[-2:])) for a in arrays]
        self._layer = file.layers.index(view.layer)
        for n_layers, _, dim in (array.shape for array in self._arrays):
            if (n_layers, dim) != (len(file.layers), file.dim):
                raise EmbeddingsFileError(
                    f"{view.path}: {len(file.layers)} layers of dimension {file.dim}, but the "
                    f"model computes {n_layers} of dimension {dim}",
                    "embed the sentence into a file, and name it with `query_file`",
                )

    def vectors(self, key: Key) -> Vectors:
        """Return the vectors of sentence `key`, (token, dim) float32."""
        vectors: Vectors = self._arrays[int(str(key))][self._layer].astype(np.float32)
        return vectors


def find_marked(text: str, key: int, tokenizer: str) -> Occurrence:
    """Split a typed sentence into tokens and find the marked one.

    Args:
        key: number of the sentence.
        tokenizer: that of an embeddings file. "english" splits raw English, where the sentence with
            the mark is returned; for others, whitespace separates the tokens.
    Raises:
        UsageError: no token is marked, or several are.
    """
    marks = _MARK.findall(text)
    if len(marks) != 1:
        raise UsageError(f"`text`: {len(marks)} words in brackets in {text!r}", _HINT)
    before, word, after = _MARK.split(text)
    whole = before + word + after
    sentences = EnglishTokenizer().sentences(whole) if tokenizer == "english" else [whole.split()]
    # Neither way of splitting changes a character other than whitespace.
    start, offset = len("".join(before.split())), 0
    for tokens in sentences:
        for position, token in enumerate(tokens):
            if offset == start and token == word:
                return Occurrence(key, position, tuple(tokens))
            offset += len(token)
    shown = " ".join(token for tokens in sentences for token in tokens)
    raise UsageError(f"`text`: [{word}] is not one of the tokens {shown!r}", _HINT)
