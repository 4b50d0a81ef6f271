"""Blocks: the fixed pieces that an input is worked through in, whatever the mode.

A block is computed by itself and committed by itself. Where blocks end depends on the sentences
alone, counted from the first, so that a resumed run, a shard and an undisturbed run do the same
arithmetic on the same matrices and come to the same bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from elmo_cli.text.sentence import Sentence

SENTENCES = 1000  # of a block at most
TOKENS = 32_768  # a block is full when it has so many; its last sentence may go beyond
CARRIED_ROWS = 64  # of a carried state, where nothing else is said
_OPEN_DOCUMENT = 8  # blocks' worth of one document after which it is cut all the same


@dataclass(frozen=True)
class Block:
    """Sentences that are computed and committed together.

    Attributes:
        number: from 0.
        sentences: in the order of the input.
        text_sha256: of all sentences from the first of the input to the last of this block.
        starts_document: whether its first sentence begins a document.
    """

    number: int
    sentences: tuple[Sentence, ...]
    text_sha256: str
    starts_document: bool

    @property
    def n_tokens(self) -> int:
        """Tokens of its sentences, without borders."""
        return sum(len(sentence.tokens) for sentence in self.sentences)


def cut(
    sentences: Iterable[Sentence], *, state: str, batch_size: int | None = None
) -> Iterator[Block]:
    """Cut an input into blocks.

    Args:
        sentences: the whole input, from its first sentence.
        state: "carry" cuts between its batches only, "document" between documents where it can.
        batch_size: of "carry"; None for `CARRIED_ROWS`.
    """
    digest = hashlib.sha256()
    held: list[Sentence] = []
    n_tokens = number = 0
    for sentence in sentences:
        if held and _ends(held, n_tokens, sentence, state, batch_size or CARRIED_ROWS):
            yield _block(number, held, digest)
            held, n_tokens, number = [], 0, number + 1
        held.append(sentence)
        n_tokens += len(sentence.tokens)
    if held:
        yield _block(number, held, digest)


def all_of(sentence: Sentence) -> bytes:
    """What a file may take from a sentence, for checksums: names and texts as well as tokens."""
    one = sentence
    place = (one.key, one.document, one.starts_document, one.place, one.offset)
    fields = "\x1f".join((*map(repr, place), one.text, *one.tokens))
    return f"\x1e{fields}".encode("utf-8", "surrogatepass")


def _ends(
    held: Sequence[Sentence], n_tokens: int, coming: Sentence, state: str, batch_size: int
) -> bool:
    full = len(held) >= SENTENCES or n_tokens >= TOKENS
    if state == "carry":
        return full and len(held) % batch_size == 0
    if state == "document" and not coming.starts_document:
        return len(held) >= _OPEN_DOCUMENT * SENTENCES or n_tokens >= _OPEN_DOCUMENT * TOKENS
    return full


def _block(number: int, held: list[Sentence], digest: hashlib._Hash) -> Block:
    for sentence in held:
        digest.update(all_of(sentence))
    return Block(number, tuple(held), digest.hexdigest(), held[0].starts_document)
