"""Lines that occur again: the sentence map names their last occurrence, this finds the others."""

from __future__ import annotations

import hashlib

from elmo_cli.errors import UsageError
from elmo_cli.store.datasets import Array, NumberedSentences
from elmo_cli.store.reader import Embeddings


def texts_of_repeats(embeddings: Embeddings) -> dict[int, str]:
    """The lines of the sentences that a sentence map is silent about.

    Such a sentence has the line of a later one, and so the same vectors: those of the token layer,
    which don't depend on the state, or all where a file holds no token layer. Reads the file once
    if there are such sentences at all.

    Returns:
        number of the sentence -> its line.
    Raises:
        UsageError: the vectors of such a sentence equal those of no later one.
    """
    sentences = embeddings.sentences
    sentence_map = sentences.sentence_map if isinstance(sentences, NumberedSentences) else None
    if sentence_map is None or len(sentence_map) == len(sentences):
        return {}
    later = _by_digest(embeddings, sentence_map)
    named = {int(name) for name in sentence_map.values()}
    found: dict[int, str] = {}
    for key in sentences.keys():  # noqa: SIM118 - not a mapping
        number = int(str(key))
        if number not in named:
            lines = later.get(_digest(embeddings, sentences.array(key)), [])
            found[number] = _line(embeddings, number, [line for at, line in lines if at > number])
    return found


def _by_digest(
    embeddings: Embeddings, sentence_map: dict[str, str]
) -> dict[bytes, list[tuple[int, str]]]:
    found: dict[bytes, list[tuple[int, str]]] = {}
    for line, name in sentence_map.items():
        digest = _digest(embeddings, embeddings[int(name)])
        found.setdefault(digest, []).append((int(name), line))
    return found


def _digest(embeddings: Embeddings, array: Array) -> bytes:
    part = array[0] if array.ndim == 3 and not embeddings.is_pooled else array
    header = repr(part.shape).encode("ascii")
    return hashlib.blake2b(header + part.tobytes(), digest_size=16).digest()


def _line(embeddings: Embeddings, number: int, lines: list[str]) -> str:
    if not lines:
        raise UsageError(
            f"{embeddings.path}: the line of sentence {number} occurs again, and its "
            "sentence_to_index names only the last occurrence",
            "make the file anew with `elmo embed --layout`",
        )
    if len({tuple(line.split()) for line in lines}) > 1:
        raise UsageError(
            f"{embeddings.path}: sentence {number} may be {lines[0]!r} or {lines[1]!r}, their "
            "vectors are equal and its sentence_to_index doesn't tell",
            "make the file anew with `elmo embed --layout`",
        )
    return lines[0]
