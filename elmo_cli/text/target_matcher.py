"""TargetMatcher: the target words that occur in a sentence, found by form, lemma or pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

MATCHES = ("form", "lemma", "regex")
_MAX_SEEN = 1 << 20  # words whose targets are remembered


class Usage(NamedTuple):
    """An occurrence of a target word in a sentence."""

    target: int  # its number in the list of targets
    position: int  # of the token, from 0


class TargetMatcher:
    """A finder of target words; a word may be a usage of several targets.

    Args:
        targets: words, or regular expressions that a whole word must match.
        are_patterns: whether they are regular expressions.
        ignore_case: whether upper and lower case are the same.
    """

    def __init__(
        self, targets: Sequence[str], *, are_patterns: bool = False, ignore_case: bool = False
    ) -> None:
        self._ignores_case = ignore_case
        self._patterns: list[re.Pattern[str]] = []
        self._targets_of: dict[str, tuple[int, ...]] = {}  # of each word that is a usage
        self._seen: set[str] = set()  # words that the patterns were compared with
        if are_patterns:
            flags = re.IGNORECASE if ignore_case else re.NOFLAG
            self._patterns = [re.compile(target, flags) for target in targets]
            return
        for number, target in enumerate(targets):
            word = target.lower() if ignore_case else target
            earlier = self._targets_of.get(word, ())
            self._targets_of[word] = (*earlier, number)

    def usages(self, words: Sequence[str]) -> list[Usage]:
        """Return the usages of all targets in a sentence, by position.

        Args:
            words: the tokens of the sentence, or their lemmas.
        """
        if self._patterns:
            self._compare_new(words)
        elif self._ignores_case:
            words = list(map(str.lower, words))
        if self._targets_of.keys().isdisjoint(words):  # true of nearly all sentences
            return []
        usages = []
        for position, word in enumerate(words):
            for target in self._targets_of.get(word, ()):
                usages.append(Usage(target, position))
        return usages

    def _compare_new(self, words: Sequence[str]) -> None:
        """Compare the patterns with the words that were not seen before."""
        new = set(words) - self._seen
        if not new:
            return
        if len(self._seen) > _MAX_SEEN:  # start over, to bound memory
            self._seen.clear()
            self._targets_of.clear()
            new = set(words)
        self._seen |= new
        for word in new:
            targets = []
            for number, pattern in enumerate(self._patterns):
                if pattern.fullmatch(word):
                    targets.append(number)
            if targets:
                self._targets_of[word] = tuple(targets)
