"""The text of a domain: what is trained on and what is held out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from elmo_cli.errors import TrainingError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.domain_files import DomainFiles
from elmo_cli.lm.read_corpus import read_corpus
from elmo_cli.text.input import InputReport, InputSettings

SHARE = 0.05  # of the text, set apart where no held-out text is named
_FEWEST_SENTENCES = 20  # that can be split
_ENOUGH_PARTS = 20  # documents, or the text is cut into pieces
_PIECE = 20  # sentences
_LEAST_OF_SHARE = 0.5  # that whole documents come to, or pieces are set apart
_MANY_SHARED = 0.1

Sentences = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Domain:
    """The text of a domain.

    Attributes:
        corpus: to train on.
        heldout: never trained on.
        how: where the held-out text comes from, in words.
        shared: share of the held-out sentences that stand in the training text too.
    """

    corpus: Corpus
    heldout: Corpus
    how: str
    shared: float

    @property
    def text(self) -> str:
        """What the two texts are known by when a run is resumed."""
        return f"{self.corpus.known_by}; held-out {self.heldout.known_by}"


def read_domain(
    files: DomainFiles,
    reading: InputSettings | None = None,
    *,
    max_characters: int = 50,
    notes: InputReport | None = None,
) -> Domain:
    """Read the texts of a domain.

    Where no held-out text is named, a twentieth is set apart: whole documents where there are
    enough of them and they make up half of that, else pieces of 20 sentences. Which ones depends
    on their content alone, so that equal parts go to one side, and the same text is split in the
    same way in every run.

    Args:
        reading: how the texts are read.
        notes: of the readers; warns where many held-out sentences are trained on too.
    Raises:
        TrainingError: no sentence, or too few to set some apart.
        InputError, UsageError: as `text.read_sentences`.
    """
    notes = notes if notes is not None else InputReport()
    whole = read_corpus(files.train, reading, max_characters=max_characters, notes=notes)
    if files.heldout:
        corpus = whole
        heldout = read_corpus(files.heldout, reading, max_characters=max_characters, notes=notes)
        how = ", ".join(files.heldout)
    else:
        apart, what = _set_apart(whole)
        corpus, heldout = part_of(whole, ~apart), part_of(whole, apart)
        how = f"{heldout.n_tokens / whole.n_tokens:.1%} of the domain, {what} set apart"
    return Domain(corpus, heldout, how, share_of(heldout, corpus, notes))


def share_of(heldout: Corpus, corpus: Corpus, notes: InputReport) -> float:
    """The share of the held-out sentences that stand in the training text too; `notes` warns
    where they are many."""
    hashes = list(_hashes(heldout))
    held = set(hashes)  # the smaller text
    there = {content for content in _hashes(corpus) if content in held}
    shared = sum(content in there for content in hashes) / heldout.n_sentences
    if shared > _MANY_SHARED:
        notes.warn(
            "shared",
            f"{shared:.0%} of the held-out sentences stand in the training text too; "
            "figures on them say little about new text",
        )
    return shared


def evenly(corpus: Corpus, n_tokens: int) -> Corpus:
    """Sentences from all over a text, of about `n_tokens` tokens together; all if it has fewer."""
    every = max(1, round(corpus.n_tokens / n_tokens))
    return part_of(corpus, np.arange(corpus.n_sentences) % every == 0)


def part_of(corpus: Corpus, wanted: npt.NDArray[np.bool_]) -> Corpus:
    """Some sentences of a text as a text of its own.

    Args:
        wanted: whether each sentence is in it, (sentence,).
    """
    lengths = np.diff(corpus.starts)
    tokens = corpus.tokens[np.repeat(wanted, lengths)]
    types, numbers = np.unique(tokens, return_inverse=True)  # the borders stay the first two
    return Corpus(
        numbers.astype(np.int32),
        np.concatenate([[0], np.cumsum(lengths[wanted])]).astype(np.int64),
        tuple(corpus.types[k] for k in types),
        corpus.characters[types],
    )


def _set_apart(corpus: Corpus) -> tuple[npt.NDArray[np.bool_], str]:
    """Which sentences are held out, and in what parts.

    Raises:
        TrainingError: there are too few sentences, or they are too much alike.
    """
    n_sentences = corpus.n_sentences
    documents = corpus.documents if corpus.documents is not None else np.array([0, n_sentences])
    size = max(1, min(_PIECE, n_sentences // _FEWEST_SENTENCES))
    # A piece ends with its document, lest it hold the end of one and the beginning of the next.
    pieces = [np.arange(*ends, size) for ends in pairwise(documents)]
    ways = [(np.append(np.concatenate(pieces), n_sentences), f"pieces of {size} sentences")]
    if len(documents) > _ENOUGH_PARTS:
        ways.insert(0, (documents, "whole documents"))
    if n_sentences >= _FEWEST_SENTENCES:
        lengths, n_tokens = np.diff(corpus.starts), float(corpus.starts[-1])
        for parts, what in ways:
            apart = _some_of(corpus, parts)
            # Small documents beside a large one may not come to a text that tells anything.
            least = _LEAST_OF_SHARE * SHARE * n_tokens if parts is documents else 1
            if lengths[apart].sum() >= least:
                return apart, what
    raise TrainingError(
        f"the domain: {n_sentences} sentence{'s' * (n_sentences > 1)}, "
        "too few or too much alike to set some apart as held-out text",
        f"give {_FEWEST_SENTENCES} different sentences or more, or `--heldout FILE`",
    )


def _some_of(corpus: Corpus, parts: Sentences) -> npt.NDArray[np.bool_]:
    """The sentences of some parts, a share of all tokens together; none where parts are too large.

    Args:
        parts: the first sentence of each, with the end of the text at last.
    """
    places = corpus.starts[parts]
    known = [_hash(corpus, *ends) for ends in pairwise(places)]
    lengths: Counter[bytes] = Counter()
    for content, length in zip(known, np.diff(places).tolist(), strict=True):
        lengths[content] += length
    wanted, taken = SHARE * float(places[-1]), 0
    held: set[bytes] = set()
    for content in sorted(lengths):
        if taken + lengths[content] <= 2 * wanted:
            held.add(content)
            taken += lengths[content]
        if taken >= wanted:
            break
    is_apart = np.asarray([content in held for content in known])
    return np.repeat(is_apart, np.diff(parts))


def _hash(corpus: Corpus, begin: int, end: int) -> bytes:
    """Of the tokens themselves: the numbers of types depend on what stands before."""
    text = "\n".join(corpus.types[k] for k in corpus.tokens[begin:end])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _hashes(corpus: Corpus) -> Iterator[int]:
    table = np.asarray([hash(token) for token in corpus.types], np.int64)
    content = table[corpus.tokens]
    starts = corpus.starts.tolist()
    return (hash(content[begin:end].tobytes()) for begin, end in pairwise(starts))
