"""Occurrences of tokens: find the tokens that a query names, or all occurrences of a word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from elmo_cli.analysis.vectors import LayerView
from elmo_cli.errors import UsageError
from elmo_cli.messages import plural
from elmo_cli.store.layouts import Key, is_number
from elmo_cli.text.sentence import Tokens
from elmo_cli.text.tokenizer import EnglishTokenizer

_MAX_SHOWN = 12  # tokens of a sentence in a message
_N_DEFAULT = 5  # occurrences of a word that a query names by default
_QUERY_HINT = (
    "KEY:N is token N of sentence KEY, both counted from 0, KEY:WORD its first token WORD, and "
    "KEY:=7 its first token 7; words require a file that stores tokens, such as one in layout flat"
)
_MARK = re.compile(r"\[([^\[\]]+)\]")
_MARK_HINT = "mark one token: `she sat on the [bank]`"


@dataclass(frozen=True)
class Occurrence:
    """A token or phrase in its sentence, or a whole sentence or type."""

    key: Key
    position: int | None  # of its first token, from 0; None if the sentence has a single vector
    tokens: Tokens | None  # of the sentence; None if they are not stored
    n_tokens: int = 1  # more for a phrase

    def __str__(self) -> str:
        return str(self.key) if self.position is None else f"{self.key}:{self.position}"

    @property
    def token(self) -> str | None:
        """The token, or the tokens of a phrase joined by spaces.

        It is None for a sentence or a type, and if tokens are not stored.
        """
        if self.tokens is None or self.position is None:
            return None
        end = self.position + self.n_tokens
        return " ".join(self.tokens[self.position : end])

    def context(self, n: int) -> tuple[str, str, str]:
        """Return up to `n` tokens before it, the token, and up to `n` after it; `…` marks a cut.

        For a whole sentence, the third string has its first 2n + 1 tokens. Unknown tokens give
        empty strings.
        """
        if self.tokens is None:
            return "", "", ""
        token = self.token
        if self.position is None or token is None:
            return "", "", _first(self.tokens, 2 * n + 1)
        before = " ".join(self.tokens[max(0, self.position - n) : self.position])
        if self.position > n:
            before = f"… {before}" if before else "…"
        end = self.position + self.n_tokens
        after = _first(self.tokens[end:], n)
        return before, token, after


def find_tokens(
    view: LayerView, query: str, occurrence: int | Literal["all"] | None = None
) -> tuple[list[Occurrence], int | None]:
    """Return the tokens that a query names, and how often its word occurs in the file.

    Args:
        query: KEY:N for token N, from 0; KEY:WORD for the first token spelled WORD, and KEY:=WORD
            if WORD is a number. Keys and words may contain colons; the longest existing key is
            used. Otherwise a word, searched as in `occurrences`; `=WORD` if WORD looks like
            KEY:N. If each sentence or type has one vector, a query is a key.
        occurrence: number of an occurrence of the word, from 1; by default the first five.
    Raises:
        UsageError: there is no such sentence, token or occurrence.
    """
    named = _find_by_key(view, query)
    if named is not None:
        if occurrence is not None:
            problem = f"{query} names one vector, not a word"
            hint = "leave out `occurrence`"
            raise UsageError(problem, hint, where=f"`occurrence={occurrence}`")
        return [named], None
    word = _without_mark(query)
    all_of_word = _find_word(view, word, is_marked=word != query)
    n_occurrences = len(all_of_word)
    if occurrence is None:
        return all_of_word[:_N_DEFAULT], n_occurrences
    if occurrence == "all":
        return all_of_word, n_occurrences
    if occurrence > n_occurrences:
        problem = f"the last occurrence of {word!r} in {view.path} is number {n_occurrences:,}"
        hint = "`occurrence=all` searches with all of them"
        raise UsageError(problem, hint, where=f"`occurrence={occurrence}`")
    return [all_of_word[occurrence - 1]], n_occurrences


def _find_by_key(view: LayerView, query: str) -> Occurrence | None:
    """Return the token of a query that begins with a key, the longest one that exists."""
    if not view.per_token:
        key = view.find_key(query)
        if key is None:
            raise no_sentence(view, query, f"each of its {view.unit} has one vector: name a key")
        return Occurrence(key, None, view.tokens(key))
    colons = [position for position, character in enumerate(query[:-1]) if character == ":"]
    for colon in reversed(colons):
        name = query[:colon]
        key = view.find_key(name)
        if key is not None:
            return _token_of(view, key, name, query[colon + 1 :])
    return None


def _find_word(view: LayerView, word: str, *, is_marked: bool) -> list[Occurrence]:
    """Return all occurrences of a word, at least one.

    Args:
        is_marked: whether the user has marked it as a word, by `=`.
    """
    if not is_marked and not view.has_tokens:
        problem = f"contains no token {word!r} ({view.no_tokens().problem})"
        raise UsageError(problem, _QUERY_HINT, where=view.path)
    found = list(occurrences(view, word))
    if not found:
        hint = "give a whole token; case is ignored" if is_marked else _QUERY_HINT
        raise UsageError(f"contains no token {word!r}", hint, where=view.path)
    return found


def _without_mark(word: str) -> str:
    """Remove the `=` that marks a word; a lone `=` is a word itself."""
    is_marked = len(word) > 1 and word.startswith("=")
    return word[1:] if is_marked else word


def _token_of(view: LayerView, key: Key, name: str, wanted: str) -> Occurrence:
    """Return a token of sentence `key`, which the user calls `name`, by its number or spelling."""
    tokens = view.tokens(key)
    n_tokens = view.embeddings.shape(key)[-2]
    if is_number(wanted):
        if int(wanted) < n_tokens:
            return Occurrence(key, int(wanted), tokens)
    elif tokens is not None:
        word = _without_mark(wanted)
        if word in tokens:
            return Occurrence(key, tokens.index(word), tokens)
    shown = "not stored" if tokens is None else _first(tokens, _MAX_SHOWN)
    has = f"has no token {wanted!r} among its {plural(n_tokens, 'token')} ({shown})"
    raise UsageError(f"sentence {name} {has}", _QUERY_HINT, where=view.path)


def occurrences(view: LayerView, word: str) -> Iterator[Occurrence]:
    """Yield the occurrences of a word in file order, case-insensitive.

    A sentence or type with a single vector counts as one occurrence.

    Raises:
        UsageError: the file stores no tokens.
    """
    return _matches(view, [(word.lower(),)])


def phrase_occurrences(view: LayerView, phrase: str) -> Iterator[Occurrence]:
    """Yield the occurrences of a phrase in file order, case-insensitive.

    A phrase is a single token, which may contain spaces, or a sequence of tokens: separated by
    whitespace, or split by the tokenizer of the file. A sentence or type with a single vector
    counts as one occurrence.

    Raises:
        UsageError: the file stores no tokens, or the phrase is blank.
    """
    lower = phrase.lower()
    if not lower.strip():
        raise UsageError("no word to search for", "give a word or a phrase", where="`word`")
    patterns = [(lower,), tuple(lower.split())]
    tokenizer = str(view.embeddings.attributes.get("tokenizer"))
    sentences = _split(phrase, tokenizer)
    if len(sentences) == 1:
        patterns.append(tuple(token.lower() for token in sentences[0]))
    return _matches(view, patterns)


def _matches(view: LayerView, patterns: Sequence[Tokens]) -> Iterator[Occurrence]:
    """Yield the occurrences of any of some patterns, which are sequences of lower-case tokens."""
    check_has_tokens(view)
    first_tokens = {pattern[0] for pattern in patterns}
    for key, info in zip(view, view.embeddings.infos(), strict=True):
        lower = tuple(map(str.lower, info.tokens or ()))
        if first_tokens.isdisjoint(lower):
            continue
        found = list(_matches_in(lower, patterns))
        if not found:
            continue
        tokens = view.tokens(key)  # read only here, because its check is slow
        if tokens is None:
            continue
        if not view.per_token:
            yield Occurrence(key, None, tokens)
            continue
        for position, n_tokens in found:
            yield Occurrence(key, position, tokens, n_tokens)


def _matches_in(tokens: Tokens, patterns: Sequence[Tokens]) -> Iterator[tuple[int, int]]:
    """Yield the position and the number of tokens of each match in a sentence."""
    for position in range(len(tokens)):
        for pattern in patterns:
            n_tokens = len(pattern)
            if tokens[position : position + n_tokens] == pattern:
                yield position, n_tokens
                break


def check_has_tokens(view: LayerView) -> None:
    """Raise a UsageError for a file that stores no tokens, or has none."""
    if not view.has_tokens:
        raise view.no_tokens()


def find_marked(text: str, key: int, tokenizer: str) -> Occurrence:
    """Split a typed sentence into tokens and find the one that is marked by brackets.

    Args:
        key: number of the sentence.
        tokenizer: that of an embeddings file. "english" splits raw English, where the sentence with
            the mark is returned; for others, whitespace separates the tokens.
    Raises:
        UsageError: no token is marked, or several are.
    """
    marks = _MARK.findall(text)
    if len(marks) != 1:
        problem = f"{len(marks)} words in brackets in {text!r}"
        raise UsageError(problem, _MARK_HINT, where="`text`")
    before, word, after = _MARK.split(text)
    whole = before + word + after
    sentences = _split(whole, tokenizer)
    # Neither way of splitting changes a character other than whitespace.
    n_before = len("".join(before.split()))
    offset = 0  # number of characters before the token, without whitespace
    for tokens in sentences:
        for position, token in enumerate(tokens):
            if offset == n_before and token == word:
                return Occurrence(key, position, tuple(tokens))
            offset += len(token)
    shown = " ".join(token for tokens in sentences for token in tokens)
    problem = f"[{word}] is not one of the tokens {shown!r}"
    raise UsageError(problem, _MARK_HINT, where="`text`")


def _split(text: str, tokenizer: str) -> list[list[str]]:
    """Split a typed text into sentences and tokens, as `tokenizer` of `find_marked` says."""
    if tokenizer == "english":
        return EnglishTokenizer().sentences(text)
    return [text.split()]


def no_sentence(view: LayerView, name: str, hint: str) -> UsageError:
    """Return the error for a name of which `find_key` of the view finds no sentence."""
    return UsageError(f"no sentence {name!r}", hint, where=view.path)


def _first(tokens: Tokens, n: int) -> str:
    """Join the first `n` tokens; `…` marks a cut."""
    if len(tokens) <= n:
        return " ".join(tokens)
    return " ".join((*tokens[:n], "…"))
