"""embed_docs: the documents of spaCy as sentences of a biLM, and back to one vector per token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from spacy.tokens import Doc, Span

from elmo_cli.arrays import FloatArray
from elmo_cli.errors import UsageError
from elmo_cli.text.sentence import Sentence

if TYPE_CHECKING:
    from elmo_cli.embed.embedder import Embedder

_SOURCE = "spaCy"  # in messages


def embed_docs(
    embedder: Embedder, docs: Sequence[Doc], *, per_sentence: bool = False
) -> list[FloatArray]:
    """The arrays of documents, with a position for every token of spaCy.

    Tokens of whitespace have zeros, and the biLM does not see them.

    Args:
        per_sentence: embed each sentence of a document by itself; otherwise a document is read as
            one sentence.
    Returns:
        (token, dim) or (layer, token, dim) each, as the embedder selects layers.
    Raises:
        UsageError: a document has no sentence boundaries, but `per_sentence` needs them.
    """
    sentences: list[Sentence] = []
    positions_of_words: list[list[int]] = []  # of the words of each sentence in its document
    for number, doc in enumerate(docs):
        for position, span in enumerate(_sentences_of(doc, per_sentence)):
            words = [token for token in span if not token.is_space]
            sentence = Sentence(
                tokens=tuple(token.text for token in words),
                key=number,
                source=_SOURCE,
                starts_document=position == 0,
            )
            sentences.append(sentence)
            positions_of_words.append([token.i for token in words])
    no_tokens = embedder.embed([])
    arrays = [_zeros_like(no_tokens, len(doc)) for doc in docs]
    embedded = embedder.stream(sentences)
    for (sentence, array), word_positions in zip(embedded, positions_of_words, strict=True):
        arrays[sentence.key][..., word_positions, :] = array
    return arrays


def _sentences_of(doc: Doc, per_sentence: bool) -> Iterable[Doc | Span]:
    """What the biLM reads as a sentence; or UsageError."""
    if not per_sentence or len(doc) == 0:
        return [doc]
    if not doc.has_annotation("SENT_START"):
        problem = "the document has no sentence boundaries"
        hint = "add a component that sets them before `elmo`, such as `sentencizer`"
        raise UsageError(problem, hint, where="`per_sentence=True`")
    sentences: Iterable[Span] = doc.sents
    return sentences


def _zeros_like(no_tokens: FloatArray, n_tokens: int) -> FloatArray:
    """Zeros with the layers of an array without tokens: (…, 0, dim) to (…, token, dim)."""
    *layers, _, dim = no_tokens.shape
    return np.zeros((*layers, n_tokens, dim), no_tokens.dtype)
