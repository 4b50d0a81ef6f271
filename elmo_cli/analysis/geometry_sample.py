"""GeometrySample: the tokens of an embeddings file that `elmo geometry` measures, drawn by seed."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmo_cli.analysis.vectors import LayerView
from elmo_cli.arrays import Int32Array, Int64Array
from elmo_cli.fields import MOST_SEED, at_least, check_fields, within
from elmo_cli.store.layouts import Key


@dataclass(frozen=True)
class GeometrySettings:
    """How many tokens are drawn, and how.

    Attributes:
        samples: number of random tokens.
        seed: random seed.
        min_contexts: minimum number of different sentences that contain a drawn word.
        max_words: maximum number of drawn words.
        max_occurrences: maximum number of drawn occurrences of each word.
        max_cka_tokens: maximum number of tokens for CKA.
    """

    samples: int = at_least(2, 1000)
    seed: int = within(0, MOST_SEED, 0)
    min_contexts: int = at_least(2, 5)
    max_words: int = at_least(1, 1000)
    max_occurrences: int = at_least(2, 200)
    max_cka_tokens: int = at_least(2, 20_000)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class FileTokens:
    """The tokens of a file, at 4 bytes each. Each different sentence counts once.

    Attributes:
        keys: of all sentences, in file order.
        types: the distinct tokens.
        ids: the number of each token among the `types`, (token,).
        sentences: the number of each sentence with tokens among the `keys`, (sentence,).
        offsets: where its tokens begin among the `ids`, and the end of the last, (sentence + 1,).
        n_without_tokens: sentences that are left out, because their tokens are not stored.
        n_repeated: sentences that are left out, because one before has the same tokens.
    """

    keys: Sequence[Key]
    types: Sequence[str]
    ids: Int32Array
    sentences: Int64Array
    offsets: Int64Array
    n_without_tokens: int
    n_repeated: int

    @property
    def lengths(self) -> Int64Array:
        """The number of tokens of each sentence, (sentence,)."""
        lengths: Int64Array = np.diff(self.offsets)
        return lengths

    def sentence_of(self, tokens: Int64Array) -> Int64Array:
        """Return the sentences of tokens, which are numbers among the `ids`."""
        found: Int64Array = np.searchsorted(self.offsets, tokens, side="right") - 1
        return found

    def positions(self, tokens: Int64Array) -> Int64Array:
        """Return the positions of tokens in the file: (token, 2), as in `GeometrySample`."""
        sentences = self.sentence_of(tokens)
        in_sentence = tokens - self.offsets[sentences]
        return np.stack([self.sentences[sentences], in_sentence], axis=1)

    def has_same_sentences(self, other: FileTokens) -> bool:
        """Return whether two files have the same sentences in the same order."""
        if not np.array_equal(self.offsets, other.offsets):
            return False
        return np.array_equal(self.ids, other.ids) and list(self.types) == list(other.types)


@dataclass(frozen=True)
class DrawnWord:
    """A word and the occurrences that are measured.

    Attributes:
        word: a distinct token; case counts.
        n_occurrences: number of its occurrences in different sentences of the file.
        n_contexts: number of different sentences that contain it.
        positions: the occurrences drawn, in file order, (occurrence, 2), as in `GeometrySample`.
    """

    word: str
    n_occurrences: int
    n_contexts: int
    positions: Int64Array


@dataclass(frozen=True)
class GeometrySample:
    """What was drawn from a file.

    A position is a pair: the number of the sentence in the file, from 0, whatever its key is, and
    the number of the token in the sentence, from 0.

    Attributes:
        random_tokens: drawn by sentence, then by token, (token, 2).
        sentences: the numbers of the sentences of `random_tokens` with two or more tokens.
        words: in the order of their first occurrences.
        n_eligible_words: how many the `words` were drawn from.
        cka_tokens: drawn from all tokens, in file order, (token, 2).
    """

    random_tokens: Int64Array
    sentences: Int64Array
    words: Sequence[DrawnWord]
    n_eligible_words: int
    cka_tokens: Int64Array


def read_tokens(view: LayerView) -> FileTokens:
    """Read the tokens of a file, without its vectors.

    Raises:
        UsageError: it has other vectors than those of tokens, or no tokens.
        EmbeddingsFileError: it is corrupt.
    """
    view.check_per_token()
    keys: list[Key] = []
    id_of_type: dict[str, int] = {}
    ids = array("i")
    sentences = array("q")
    offsets = array("q", [0])
    seen: set[int] = set()  # hashes of sentences
    n_without_tokens = 0
    n_repeated = 0
    for number, (key, info) in enumerate(zip(view, view.embeddings.infos(), strict=True)):
        keys.append(key)
        tokens = info.tokens
        n_vectors = view.n_vectors(key)
        if n_vectors == 0:
            continue
        if tokens is None or len(tokens) != n_vectors:
            n_without_tokens += 1
            continue
        hashed = hash(tokens)
        if hashed in seen:
            n_repeated += 1
            continue
        seen.add(hashed)
        ids.extend([id_of_type.setdefault(token, len(id_of_type)) for token in tokens])
        sentences.append(number)
        offsets.append(len(ids))
    if not sentences:
        raise view.no_tokens()
    return FileTokens(
        keys=keys,
        types=list(id_of_type),
        ids=np.frombuffer(ids, np.int32),
        sentences=np.frombuffer(sentences, np.int64),
        offsets=np.frombuffer(offsets, np.int64),
        n_without_tokens=n_without_tokens,
        n_repeated=n_repeated,
    )


def draw_sample(tokens: FileTokens, settings: GeometrySettings) -> GeometrySample:
    """Draw the tokens to measure; files with equal tokens and settings give equal samples."""
    random_tokens_rng = np.random.default_rng([settings.seed, 0])
    words_rng = np.random.default_rng([settings.seed, 1])
    cka_rng = np.random.default_rng([settings.seed, 2])

    random_tokens = _draw_by_sentence(tokens, settings.samples, random_tokens_rng)
    sentences = np.unique(tokens.sentence_of(random_tokens))
    sentences = sentences[tokens.lengths[sentences] >= 2]

    n_contexts = _count_contexts(tokens)
    eligible = np.flatnonzero(n_contexts >= settings.min_contexts)
    types = _draw(eligible, settings.max_words, words_rng)
    words = []
    for type_id, occurrences in zip(types.tolist(), _occurrences(tokens, types), strict=True):
        drawn = _draw(occurrences, settings.max_occurrences, words_rng)
        word = DrawnWord(
            word=tokens.types[type_id],
            n_occurrences=len(occurrences),
            n_contexts=int(n_contexts[type_id]),
            positions=tokens.positions(drawn),
        )
        words.append(word)

    all_tokens = np.arange(len(tokens.ids))
    cka_tokens = _draw(all_tokens, settings.max_cka_tokens, cka_rng)
    return GeometrySample(
        random_tokens=tokens.positions(random_tokens),
        sentences=tokens.sentences[sentences],
        words=words,
        n_eligible_words=len(eligible),
        cka_tokens=tokens.positions(cka_tokens),
    )


def _draw(numbers: Int64Array, most: int, rng: np.random.Generator) -> Int64Array:
    """Draw at most `most` of the numbers, each once, in rising order."""
    if len(numbers) <= most:
        return numbers
    drawn: Int64Array = np.sort(rng.choice(numbers, most, replace=False))
    return drawn


def _draw_by_sentence(tokens: FileTokens, most: int, rng: np.random.Generator) -> Int64Array:
    """Draw tokens, each once: a sentence, then one of its tokens.

    All sentences are drawn before one is drawn again.
    """
    lengths = tokens.lengths
    n_drawn = np.zeros(len(lengths), np.int64)  # of each sentence
    drawn: dict[int, None] = {}  # a set of tokens that keeps their order
    while len(drawn) < most:
        open_sentences = np.flatnonzero(n_drawn < lengths)
        if not len(open_sentences):
            break
        order = rng.permutation(open_sentences)
        for sentence in order[: most - len(drawn)].tolist():
            begin = int(tokens.offsets[sentence])
            end = int(tokens.offsets[sentence + 1])
            token = int(rng.integers(begin, end))
            while token in drawn:
                token = int(rng.integers(begin, end))
            drawn[token] = None
            n_drawn[sentence] += 1
    return np.fromiter(drawn, np.int64, len(drawn))


def _count_contexts(tokens: FileTokens) -> Int64Array:
    """Count the sentences that each type occurs in, (type,)."""
    n_sentences = len(tokens.sentences)
    sentence_of_token = np.repeat(np.arange(n_sentences), tokens.lengths)
    pairs = np.unique(tokens.ids.astype(np.int64) * n_sentences + sentence_of_token)
    counts: Int64Array = np.bincount(pairs // n_sentences, minlength=len(tokens.types))
    return counts


def _occurrences(tokens: FileTokens, types: Int64Array) -> list[Int64Array]:
    """Return the tokens of each of these types, in text order."""
    is_drawn = np.zeros(len(tokens.types), np.bool_)
    is_drawn[types] = True
    found = np.flatnonzero(is_drawn[tokens.ids])
    by_type = found[np.argsort(tokens.ids[found], kind="stable")]
    begins = np.searchsorted(tokens.ids[by_type], types)
    return np.split(by_type, begins[1:]) if len(types) else []
