"""The types of a text and how often each stands in it; memory grows with the types alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elmo_cli.errors import InputError, UsageError
from elmo_cli.text.vocabulary import SPECIALS, Vocabulary, fits_a_line


@dataclass(frozen=True)
class TypeCounts:
    """What a vocabulary is made from.

    Attributes:
        counts: how often each type is a token of the text.
        n_sentences: those without tokens left out.
    """

    counts: Counter[str]
    n_sentences: int

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], *, name: str = "the text") -> TypeCounts:
        """Count sentences as they come.

        Args:
            name: of the text, for messages.
        Raises:
            InputError: there is no token.
        """
        counts: Counter[str] = Counter()
        n_sentences = 0
        for sentence in sentences:
            counts.update(sentence)
            n_sentences += len(sentence) > 0
        if not counts:
            raise InputError(f"{name}: no sentence in it", "give a text with tokens in it")
        return cls(counts, n_sentences)

    @property
    def n_tokens(self) -> int:
        """Tokens of the text."""
        return self.counts.total()

    @property
    def misfits(self) -> list[str]:
        """Types that no vocabulary file can hold."""
        return [token for token in self.counts if not fits_a_line(token)]

    @property
    def warning(self) -> str | None:
        """What is to be told of `misfits`; None where there are none."""
        misfits = self.misfits
        if not misfits:
            return None
        return (
            f"left out, since no vocabulary can hold them: {len(misfits):,} types with a line end "
            f"or white space at their edges, or a reserved name; the first is {misfits[0]!r}"
        )

    def vocabulary(self, *, min_count: int = 1, max_types: int | None = None) -> Vocabulary:
        """The types, as `Vocabulary.count` chooses and orders them.

        Raises:
            UsageError: none is seen `min_count` times.
            InputError: there is none but names of the vocabulary's own and `misfits`.
        """
        vocabulary = Vocabulary.count(self.counts, min_count=min_count, max_types=max_types)
        if len(vocabulary) == len(SPECIALS):
            known = {token for token in self.counts if fits_a_line(token)}.difference(SPECIALS)
            if not known:
                raise InputError(
                    "the text: no token of it is a type that a vocabulary can hold",
                    "give a text with words in it, without <S>, </S> and <UNK>",
                )
            raise UsageError(
                f"--min-count {min_count}: the commonest type of the text is seen "
                f"{max(self.counts[token] for token in known)} times",
                "give a smaller number, or more text",
            )
        return vocabulary

    def coverage(self, vocabulary: Vocabulary) -> float:
        """The share of the tokens that a vocabulary has, 0 to 1."""
        unknown = vocabulary.unknown
        known = sum(n for token, n in self.counts.items() if vocabulary.id(token) != unknown)
        return known / self.n_tokens
