"""text_fit: how many of the first tokens of a text are in the vocabulary of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain, islice

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.errors import InputError
from elmo_cli.fit import FIRST_TOKENS_IN_VOCABULARY, FitPoint
from elmo_cli.text.sentence import Sentence
from elmo_cli.text.vocabulary import vocabulary_fit

_N_TOKENS = 10_000  # enough to know the fraction to a percent
_MOST_RESIDUES = 100  # types in the vocabulary of a model of proteins
_RESIDUES_WARNING = (
    "all tokens are single letters, as the residues of proteins are, but the model was trained on "
    "words; choose a model of proteins with `model`"
)


def text_fit(
    job: EmbedJob, sentences: Iterable[Sentence], embedder: Embedder, warn: Callable[[str], None]
) -> tuple[FitPoint, ...]:
    """Count how many of the first 10,000 tokens are in the vocabulary of the model; warn if few.

    Returns:
        One point; none if there are no tokens, if the text is itself a vocabulary, or if the model
        has no vocabulary that can be read, because vectors do not need it.
    """
    if job.layout.unit == "types":
        return ()
    tokens = chain.from_iterable(sentence.tokens for sentence in sentences)
    counts = Counter(islice(tokens, _N_TOKENS))
    try:
        vocabulary = embedder.vocabulary
    except InputError as error:
        warn(f"{error.message}; so the text is not compared with the vocabulary of the model")
        return ()
    if vocabulary is None or not counts:
        return ()
    if _are_residues(counts) and len(vocabulary) > _MOST_RESIDUES:
        warn(_RESIDUES_WARNING)
    point = vocabulary_fit(FIRST_TOKENS_IN_VOCABULARY, counts, vocabulary)
    if point.warning:
        warn(point.warning)
    return (point,)


def _are_residues(counts: Counter[str]) -> bool:
    """Whether there are several types of tokens, each of which is a capital letter."""
    are_letters = all(len(token) == 1 and "A" <= token <= "Z" for token in counts)
    return are_letters and len(counts) >= 5
