"""Places in an embeddings file: what a user calls a token, and where a word stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from elmo_cli.analysis.stored_layer import StoredLayer
from elmo_cli.errors import UsageError
from elmo_cli.store.layouts import Key, is_number

_SHOWN = 12  # tokens of a sentence in a message


@dataclass(frozen=True)
class Place:
    """A token in its sentence, or a whole sentence or type.

    Attributes:
        key: of the sentence.
        at: which token, from 0; None where a vector stands for the whole sentence.
        tokens: of the sentence; None where the file doesn't tell.
    """

    key: Key
    at: int | None
    tokens: tuple[str, ...] | None

    def __str__(self) -> str:
        return str(self.key) if self.at is None else f"{self.key}:{self.at}"

    @property
    def token(self) -> str | None:
        """The token; None where the file doesn't tell, or it is a sentence."""
        return None if self.tokens is None or self.at is None else self.tokens[self.at]

    def window(self, n: int) -> tuple[str, str, str]:
        """What stands before the token, the token, and what stands behind it.

        Args:
            n: tokens on either side; `…` says that there are more. Of a whole sentence the first
                2n + 1 stand behind. Empty strings where the file doesn't tell.
        """
        if self.tokens is None:
            return "", "", ""
        if self.at is None:
            return "", "", _opening(self.tokens, 2 * n + 1)
        before = self.tokens[max(0, self.at - n) : self.at]
        dots = ["…"] if self.at > n else []
        return (
            " ".join((*dots, *before)),
            self.tokens[self.at],
            _opening(self.tokens[self.at + 1 :], n),
        )


def find_place(layer: StoredLayer, query: str) -> Place:
    """The place that a query names.

    Args:
        query: KEY:N for a token by its number, KEY:WORD for the first token that is spelled so,
            KEY:=WORD too if WORD is a number. A key and a word may hold colons: of the readings
            whose key is there, that with the longest key is taken. Where sentences or types have
            one vector each a query is a key.
    Raises:
        UsageError: there is no such sentence, or no such token in it.
    """
    if not layer.by_token:
        key = layer.key(query)
        if key is None:
            raise _no_sentence(layer, query, f"each of its {layer.what} is one vector: name a key")
        return Place(key, None, layer.tokens(key))
    ends = [at for at, character in enumerate(query) if character == ":"]
    for end in reversed(ends):
        key = layer.key(query[:end])
        if key is not None and query[end + 1 :]:
            return _in_sentence(layer, key, query[:end], query[end + 1 :])
    hint = "KEY:N is the token N of the sentence KEY, both from 0"
    name = query.removesuffix(":")
    if layer.key(name) is not None:
        raise UsageError(
            f"{layer.path}: {query} names a sentence, and no token of it",
            f"`{name}:0` is its first token, `{name}:WORD` the first that is spelled so",
        )
    raise _no_sentence(layer, query[: ends[-1]] if ends else query, hint)


def _in_sentence(layer: StoredLayer, key: Key, name: str, what: str) -> Place:
    """A token of the sentence `key`, called `name`, by its number or its spelling."""
    tokens = layer.tokens(key)
    n_tokens = layer.embeddings.shape(key)[-2]
    if not n_tokens:
        raise UsageError(f"{layer.path}: sentence {name} has no tokens", "name another sentence")
    if is_number(what):
        if int(what) < n_tokens:
            return Place(key, int(what), tokens)
        raise UsageError(
            f"{layer.path}: sentence {name} has {n_tokens} tokens, and no token {what}",
            f"`{name}:{n_tokens - 1}` is its last one, `{name}:={what}` one that is spelled {what}",
        )
    word = what[1:] if len(what) > 1 and what.startswith("=") else what
    if tokens is None:
        raise UsageError(
            f"{layer.path}: does not tell the tokens of sentence {name}",
            f"`{name}:0` is its first token, `{name}:{n_tokens - 1}` its last",
        )
    if word not in tokens:
        raise UsageError(
            f"{layer.path}: sentence {name} has no token {word!r}; it has "
            f"{_opening(tokens, _SHOWN)}",
            f"`elmo kwic {layer.path} {word}` lists its occurrences, if any",
        )
    return Place(key, tokens.index(word), tokens)


def _no_sentence(layer: StoredLayer, name: str, hint: str) -> UsageError:
    try:
        layer.embeddings.shape(name)
    except KeyError as error:
        return UsageError(str(error.args[0]), hint)
    return UsageError(f"{layer.path}: no sentence {name!r}", hint)


def places_of(layer: StoredLayer, word: str) -> Iterator[Place]:
    """Where a word stands, whatever the case of its letters, in the order of the file.

    Raises:
        UsageError: the file tells the tokens of no sentence.
    """
    lower = word.lower()
    n_told = n_sentences = 0
    for key in layer:
        tokens = layer.tokens(key)
        n_sentences += 1
        n_told += tokens is not None
        for at, token in enumerate(tokens or ()):
            if token.lower() == lower:
                yield Place(key, at if layer.by_token else None, tokens)
                if not layer.by_token:
                    break
    if n_sentences and not n_told:
        raise untold(layer)


def untold(layer: StoredLayer) -> UsageError:
    """That a file doesn't tell tokens."""
    query = "KEY:N names a token by its number" if layer.by_token else "a QUERY is a KEY"
    return UsageError(
        f"{layer.path}: does not tell its tokens",
        f"{query}; a file of `elmo embed --layout flat` tells them",
    )


def _opening(tokens: tuple[str, ...], n: int) -> str:
    return " ".join((*tokens[:n], "…") if len(tokens) > n else tokens)
