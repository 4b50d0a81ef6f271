"""text_fit: how many of the first tokens and characters of a text are known to the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from elmo_cli.embed.blocks import SENTENCES
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.errors import InputError
from elmo_cli.fit import (
    FIRST_CHARACTERS_KNOWN,
    FIRST_TOKENS_IN_VOCABULARY,
    FitPoint,
    FitRule,
)
from elmo_cli.messages import shortened
from elmo_cli.text.sentence import Sentence, Tokens
from elmo_cli.text.vocabulary import vocabulary_fit

MAX_TOKENS = 10_000  # enough to know the fraction to a percent
_MAX_RESIDUE_TYPES = 100  # in the vocabulary of a model of proteins; others have words
_MIN_LETTER_TYPES = 5  # in a text of proteins; fewer may be in any text
_RESIDUES_WARNING = (
    "all tokens are single letters, as the residues of proteins are, but the model was trained on "
    "words; choose a model of proteins with `model`"
)
_N_EXAMPLES = 3  # in a warning


def text_fit(
    job: EmbedJob,
    sentences: Iterable[Sentence],
    embedder: Embedder,
    warn: Callable[[str], None],
    *,
    is_whole_text: bool = True,
) -> tuple[FitPoint, ...]:
    """Count how many of the first tokens, and their characters, are known; warn if few.

    These are at most 10,000 tokens of at most 1,000 sentences.

    Args:
        is_whole_text: whether the text ends with the sentences.
    Returns:
        A point for the vocabulary or the words of the model, and one for its characters, as far as
        it has them. There is no point if there are no tokens or if the text is itself a vocabulary.
        A vocabulary that cannot be read has no point either, because vectors do not need it.
    """
    if job.layout.unit == "types":
        return ()
    tokens = (sentence.tokens for sentence in sentences)
    return tokens_fit(tokens, embedder, warn, is_whole_text=is_whole_text)


def tokens_fit(
    sentences: Iterable[Tokens],
    embedder: Embedder,
    warn: Callable[[str], None],
    *,
    is_whole_text: bool = True,
) -> tuple[FitPoint, ...]:
    """Count and warn as `text_fit` does, for the tokens of sentences that are no vocabulary."""
    counts, is_beginning = _count_first_tokens(sentences)
    if not counts:
        return ()
    points = []
    for counted in _points(counts, embedder, warn):
        point = replace(counted, is_beginning=is_beginning or not is_whole_text)
        points.append(point)
        if point.warning:
            warn(point.warning)
    return tuple(points)


def _count_first_tokens(sentences: Iterable[Tokens]) -> tuple[Counter[str], bool]:
    """Count the tokens of the first sentences; return also whether there may be more tokens.

    The next sentence is not read in order to know it: a pipe may not have one for a long time.
    """
    counts: Counter[str] = Counter()
    n_left = MAX_TOKENS
    for number, tokens in enumerate(sentences, 1):
        counts.update(tokens[:n_left])
        n_left -= min(n_left, len(tokens))
        if n_left == 0 or number == SENTENCES:
            return counts, True
    return counts, False


def _points(
    counts: Counter[str], embedder: Embedder, warn: Callable[[str], None]
) -> list[FitPoint]:
    """The points of `text_fit`, and warnings that do not belong to a point.

    Args:
        counts: how often each type occurs, in the order of their first occurrence.
    """
    points = []
    token_ids = embedder.bilm.token_ids
    if token_ids.known_words is not None:
        points.append(_known_fit(FIRST_TOKENS_IN_VOCABULARY, counts, token_ids.known_words))
    if token_ids.known_characters is not None:
        characters: Counter[str] = Counter()
        for token, count in counts.items():
            for character in token:
                characters[character] += count
        points.append(_known_fit(FIRST_CHARACTERS_KNOWN, characters, token_ids.known_characters))
    try:
        vocabulary = embedder.vocabulary
    except InputError as error:
        warn(f"{error.message}; so the text is not compared with the vocabulary of the model")
        return points
    if vocabulary is None:
        return points
    if _are_residues(counts) and len(vocabulary) > _MAX_RESIDUE_TYPES:
        warn(_RESIDUES_WARNING)
    points.append(vocabulary_fit(FIRST_TOKENS_IN_VOCABULARY, counts, vocabulary))
    return points


def _are_residues(counts: Counter[str]) -> bool:
    """Whether there are several types of tokens, each of which is a capital letter."""
    are_letters = all(len(token) == 1 and "A" <= token <= "Z" for token in counts)
    return are_letters and len(counts) >= _MIN_LETTER_TYPES


def _known_fit(rule: FitRule, counts: Counter[str], known: Collection[str]) -> FitPoint:
    """Count the things that are known; the example is the most frequent ones that are not."""
    unknown = Counter({thing: count for thing, count in counts.items() if thing not in known})
    frequent = [thing for thing, _ in unknown.most_common(_N_EXAMPLES)]
    n_all = counts.total()
    return FitPoint(
        rule,
        n_fitting=n_all - unknown.total(),
        n_all=n_all,
        example=shortened(" ".join(frequent)),
    )
