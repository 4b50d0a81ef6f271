"""add_hooks: the functions with which spaCy compares texts, and finds vectors, in `doc.tensor`."""

from __future__ import annotations

from typing import Any

import numpy as np
from spacy.lexeme import Lexeme
from spacy.tokens import Doc, Span, Token

from elmo_cli.arrays import FloatArray
from elmo_cli.errors import UsageError


def add_hooks(doc: Doc) -> None:
    """Let a document compare vectors in context, after it was read or came from another process.

    spaCy itself calls two tokens or spans with equal words equal before it looks at any vector. If
    the vocabulary has word vectors, `vector` and `has_vector` also refer to `doc.tensor` then.
    """
    add_similarity_hooks(doc)
    if doc.vocab.vectors.size:
        add_vector_hooks(doc)


def add_similarity_hooks(doc: Doc) -> None:
    """Let `similarity` of the document, its spans and tokens be the cosine of their vectors."""
    for hooks in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
        hooks["similarity"] = _similarity


def add_vector_hooks(doc: Doc) -> None:
    """Let `vector` and `has_vector` refer to `doc.tensor`, not to the vectors of the vocabulary."""
    doc.user_hooks["vector"] = _doc_vector
    doc.user_span_hooks["vector"] = _span_vector
    doc.user_token_hooks["vector"] = _token_vector
    doc.user_hooks["has_vector"] = _doc_has_vector
    doc.user_span_hooks["has_vector"] = _part_has_vector
    doc.user_token_hooks["has_vector"] = _part_has_vector


def _similarity(part: Doc | Span | Token, other: Doc | Span | Token | Lexeme) -> float:
    """The cosine of two vectors, 0 if one of them is zero or missing."""
    vector = part.vector
    other_vector = other.vector
    if not vector.size or not other_vector.size:
        return 0.0
    if vector.shape != other_vector.shape:
        problem = f"vectors of {vector.size} and {other_vector.size} numbers"
        hint = "compare documents that one pipeline has processed"
        raise UsageError(problem, hint, where="similarity")
    norms = float(np.linalg.norm(vector)) * float(np.linalg.norm(other_vector))
    return float(vector @ other_vector) / norms if norms else 0.0


def _doc_vector(doc: Doc) -> FloatArray:
    return _mean(doc.tensor)


def _span_vector(span: Span) -> FloatArray:
    return _mean(span.doc.tensor[span.start : span.end])


def _token_vector(token: Token) -> Any:
    return token.doc.tensor[token.i]


def _doc_has_vector(doc: Doc) -> bool:
    return bool(doc.tensor.size)


def _part_has_vector(part: Span | Token) -> bool:
    return bool(part.doc.tensor.size)


def _mean(vectors: FloatArray) -> FloatArray:
    """The mean of the vectors of tokens, zeros without tokens: (token, dim) to (dim,)."""
    n_tokens = max(1, len(vectors))
    mean: FloatArray = vectors.sum(axis=0) / np.float32(n_tokens)
    return mean
