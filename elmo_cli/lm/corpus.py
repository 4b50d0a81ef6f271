"""Corpus: sentences as numbers, and the endless rows of them that training reads."""

from __future__ import annotations

import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from elmo_cli.errors import TrainingError
from elmo_cli.text.characters import BEGIN, END, CharacterIds
from elmo_cli.text.input import InputReport
from elmo_cli.text.vocabulary import TypeCounts, Vocabulary

Numbers = npt.NDArray[np.int32]
FORWARD, BACKWARD = 0, 1


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

    tokens: Numbers
    starts: npt.NDArray[np.int64]
    types: tuple[str, ...]
    characters: npt.NDArray[np.int16]
    documents: npt.NDArray[np.int64] | None = None

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

    def order(
        self, random: np.random.Generator, *, by_document: bool = False
    ) -> npt.NDArray[np.int64]:
        """All sentences in a new order, (sentence,) int64.

        Args:
            by_document: shuffle the documents, and leave the sentences of each as they are.
        """
        if not by_document or self.documents is None:
            return random.permutation(self.n_sentences)
        begins, lengths = self.documents[:-1], np.diff(self.documents)
        shuffled = random.permutation(len(lengths))
        lengths = lengths[shuffled]
        ends = np.cumsum(lengths)
        within = np.arange(self.n_sentences) - np.repeat(ends - lengths, lengths)
        order: npt.NDArray[np.int64] = np.repeat(begins[shuffled], lengths) + within
        return order

    def counts(self) -> npt.NDArray[np.int64]:
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

    def ids(self, vocabulary: Vocabulary) -> npt.NDArray[np.int64]:
        """The id of each distinct type in a vocabulary, (type,) int64."""
        return np.asarray([vocabulary.id(token) for token in self.types], np.int64)

    def laid_out(self, order: npt.NDArray[np.int64], direction: int) -> tuple[Numbers, Numbers]:
        """What one direction reads and what it predicts, sentence after sentence.

        Forward reads `<S> w1 … wn` and predicts `w1 … wn </S>`; backward reads `</S> wn … w1` and
        predicts `wn … w1 <S>`. The last symbol of a sentence is predicted and never read.

        Args:
            order: the sentences, (sentence,) int64.
            direction: FORWARD or BACKWARD.
        Returns:
            Read and predicted, (place,) int32 numbers of types.
        """
        lengths = np.diff(self.starts)[order] - 1
        borders = np.concatenate([[0], np.cumsum(lengths)])
        within = np.arange(borders[-1]) - np.repeat(borders[:-1], lengths)
        if direction == FORWARD:
            places = np.repeat(self.starts[order], lengths) + within
            return self.tokens[places], self.tokens[places + 1]
        places = np.repeat(self.starts[order + 1] - 1, lengths) - within
        return self.tokens[places], self.tokens[places - 1]


@dataclass(frozen=True)
class Window:
    """Some steps of all rows in both directions; the next window goes on where this one ends.

    Attributes:
        read: numbers of types, (token, direction, row) int32.
        predicted: what comes next at each place, the same shape.
        epoch, place: of the stream, from 0; `place` counts windows within the epoch.
        n_places: windows in this epoch.
    """

    read: Numbers
    predicted: Numbers
    epoch: int
    place: int
    n_places: int

    def rows(self, rows: slice) -> Window:
        """Some rows of the window."""
        return replace(self, read=self.read[..., rows], predicted=self.predicted[..., rows])


def refuse_too_short(corpus: Corpus, *, n_rows: int, n_steps: int) -> None:
    """Refuse a text that is shorter than one window of all rows.

    Raises:
        TrainingError: it is.
    """
    n_read = corpus.n_tokens + corpus.n_sentences
    if n_read // n_rows < n_steps:
        most = n_read // n_steps
        raise TrainingError(
            f"the text: {corpus.n_tokens} tokens are less than one window of {n_rows} rows "
            f"and {n_steps} steps",
            "give more text" + (f", or a smaller `--batch-size`: {most} fits" if most else ""),
        )


def windows(
    corpus: Corpus,
    *,
    n_rows: int,
    n_steps: int,
    seed: int,
    by_document: bool = False,
    epoch: int = 0,
    place: int = 0,
) -> Iterator[Window]:
    """An endless stream of windows over the sentences, shuffled anew in each epoch.

    Each row reads an equal share of the epoch's text without a stop; so a window may hold parts of
    several sentences, and the state is to be carried. A sentence that lies across two shares is
    begun by the one and ended by the other. The directions have orders of their own. What is left
    after the last whole window is not read in that epoch.

    Args:
        by_document: what is shuffled are the documents.
        epoch, place: where to begin; the stream from there is that of an undisturbed one.
    Raises:
        TrainingError: of `refuse_too_short`.

    Source: bilm-tf `bilm/data.py` `BidirectionalLMDataset`, which deals whole sentences to rows
    that never end.
    """
    refuse_too_short(corpus, n_rows=n_rows, n_steps=n_steps)
    while True:
        pairs = [
            _rows(
                corpus,
                corpus.order(
                    np.random.default_rng([seed, epoch, direction]), by_document=by_document
                ),
                direction,
                n_rows,
            )
            for direction in (FORWARD, BACKWARD)
        ]
        n_windows = min(read.shape[1] for read, _ in pairs) // n_steps
        for k in range(place, n_windows):
            steps = slice(k * n_steps, (k + 1) * n_steps)
            read, predicted = (
                np.stack([pair[side][:, steps].T for pair in pairs], 1) for side in (0, 1)
            )
            yield Window(read, predicted, epoch, k, n_windows)
        epoch, place = epoch + 1, 0


def _rows(
    corpus: Corpus, order: npt.NDArray[np.int64], direction: int, n_rows: int
) -> tuple[Numbers, Numbers]:
    """An epoch in rows of the same length, fewer places than rows left out: (row, place)."""
    read, predicted = corpus.laid_out(order, direction)
    length = len(read) // n_rows
    shape = (n_rows, length)
    return read[: n_rows * length].reshape(shape), predicted[: n_rows * length].reshape(shape)
