"""Corpus: the sentences of a text as type numbers."""

from __future__ import annotations

import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from elmo_cli.errors import TrainingError
from elmo_cli.text.characters import BEGIN, END, CharacterIds
from elmo_cli.text.input import InputReport
from elmo_cli.text.vocabulary import TypeCounts, Vocabulary

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
_LARGE_OVERLAP = 0.1


@dataclass(frozen=True)
class Corpus:
    """Sentences as numbers of their types.

    Attributes:
        tokens: all sentences one after the other, each with `<S>` and `</S>`, (token,) int32:
            numbers into the two tables that follow, not ids of a vocabulary.
        starts: where each sentence begins, and at last where the text ends, (sentence + 1,) int64.
        types: every distinct type; `<S>` and `</S>` are the first two.
        characters: their character ids, (type, char) int16.
        documents: the sentence with which each document begins, and at last their number,
            (document + 1,) int64; None where that is not known.
    """

    tokens: Int32Array
    starts: Int64Array
    types: tuple[str, ...]
    characters: npt.NDArray[np.int16]
    documents: Int64Array | None = None

    @property
    def n_sentences(self) -> int:
        """Sentences in the text."""
        return len(self.starts) - 1

    @property
    def n_tokens(self) -> int:
        """Tokens in the text, borders not counted."""
        return len(self.tokens) - 2 * self.n_sentences

    @property
    def known_by(self) -> str:
        """Length and checksum of the text, of its types too: their numbers are the same in any two
        texts of which one has other words in the places of the same words."""
        types = "\n".join(self.types).encode("utf-8", "surrogatepass")
        checksum = zlib.crc32(types, zlib.crc32(self.tokens.data))
        return f"{self.n_tokens} tokens, crc {checksum:08x}"

    @property
    def documents_known_by(self) -> str:
        """Number and checksum of where documents begin."""
        if self.documents is None:
            return "not known"
        return f"{len(self.documents) - 1} documents, crc {zlib.crc32(self.documents.data):08x}"

    @classmethod
    def read(
        cls,
        sentences: Iterable[Sequence[str]],
        *,
        begins: Sequence[int] | None = None,
        max_characters: int = 50,
        name: str = "the text",
        notes: InputReport | None = None,
    ) -> Corpus:
        """Turn sentences into numbers; sentences without tokens are left out.

        Args:
            begins: numbers of the sentences with which documents begin, those without tokens not
                counted; may be filled while `sentences` is read.
            max_characters: that the model reads of a token.
            name: of the text, for messages.
            notes: of the readers; they tell why there is no sentence, where lines were left out.
        Raises:
            TrainingError: there is no sentence.
        """
        n_before = len(notes.skipped) if notes is not None else 0
        numbers: dict[str, int] = {BEGIN: 0, END: 1}
        tokens, starts = array("i"), array("q", [0])
        for sentence in sentences:
            if len(sentence) == 0:
                continue
            tokens.append(0)
            tokens.extend([numbers.setdefault(token, len(numbers)) for token in sentence])
            tokens.append(1)
            starts.append(len(tokens))
        if len(starts) == 1:
            if notes is not None and len(notes.skipped) > n_before:
                source, line, why = notes.skipped[n_before]
                raise TrainingError(
                    f"{name}: no sentence in it could be read",
                    f"the first line that was left out is {source}, line {line}: {why}",
                )
            raise TrainingError(f"{name}: no sentence in it", "give a text with tokens in it")
        return cls(
            np.asarray(tokens, np.int32),
            np.asarray(starts, np.int64),
            tuple(numbers),
            CharacterIds(max_characters).tokens(numbers).astype(np.int16),
            None if begins is None else np.asarray([*begins, len(starts) - 1], np.int64),
        )

    def select(self, wanted: npt.NDArray[np.bool_]) -> Corpus:
        """Some sentences as a corpus of its own, without documents.

        Args:
            wanted: which sentences, (sentence,).
        """
        lengths = np.diff(self.starts)
        tokens = self.tokens[np.repeat(wanted, lengths)]
        types, numbers = np.unique(tokens, return_inverse=True)  # <S> and </S> stay the first two
        return Corpus(
            numbers.astype(np.int32),
            np.concatenate([[0], np.cumsum(lengths[wanted])]).astype(np.int64),
            tuple(self.types[k] for k in types),
            self.characters[types],
        )

    def sample_evenly(self, n_tokens: int) -> Corpus:
        """Sentences from the whole text, of about `n_tokens` tokens; all if there are fewer."""
        every = max(1, round(self.n_tokens / n_tokens))
        return self.select(np.arange(self.n_sentences) % every == 0)

    def counts(self) -> Int64Array:
        """How often each type is a token of the text, sentence borders not counted, (type,)."""
        counts = np.bincount(self.tokens, minlength=len(self.types))
        counts[:2] -= self.n_sentences
        return counts

    def vocabulary(
        self,
        *,
        min_count: int = 1,
        max_types: int | None = None,
        warn: Callable[[str], None] = lambda warning: None,
    ) -> Vocabulary:
        """The vocabulary of the text, as `TypeCounts.vocabulary` makes it.

        Args:
            warn: called where types are left out that no vocabulary file can hold.
        Raises:
            UsageError, InputError: there would be no type in it.
        """
        counts = Counter(dict(zip(self.types, self.counts().tolist(), strict=True)))
        found = TypeCounts(counts, self.n_sentences)
        vocabulary = found.vocabulary(min_count=min_count, max_types=max_types)
        if found.warning:
            warn(found.warning)
        return vocabulary

    def predicted_counts(self, vocabulary: Vocabulary) -> npt.NDArray[np.float64]:
        """How often each id is to be predicted, mean of both directions: (id,) float64."""
        ids, counts = self.ids(vocabulary), np.zeros(len(vocabulary))
        np.add.at(counts, ids, self.counts())
        counts[[vocabulary.begin, vocabulary.end]] += self.n_sentences / 2
        return counts

    def ids(self, vocabulary: Vocabulary) -> Int64Array:
        """The id of each distinct type in a vocabulary, (type,) int64."""
        return np.asarray([vocabulary.id(token) for token in self.types], np.int64)


def overlap(heldout: Corpus, train: Corpus, report: InputReport) -> float:
    """The fraction of held-out sentences that are in the training text; warns if it is large."""
    hashes = list(_sentence_hashes(heldout))
    of_heldout = set(hashes)  # the smaller text
    in_both = of_heldout.intersection(_sentence_hashes(train))
    fraction = sum(content in in_both for content in hashes) / heldout.n_sentences
    if fraction > _LARGE_OVERLAP:
        report.warn(
            "shared",
            f"{fraction:.0%} of the held-out sentences are in the training text too; "
            "figures on them say little about new text",
        )
    return fraction


def _sentence_hashes(corpus: Corpus) -> Iterator[int]:
    type_hashes = np.asarray([hash(token) for token in corpus.types], np.int64)
    content = type_hashes[corpus.tokens]
    return (hash(content[a:b].tobytes()) for a, b in pairwise(corpus.starts.tolist()))
