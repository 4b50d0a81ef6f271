"""Blocks, the units in which an input is computed and committed, and TextScan, a list of them.

Where a block ends depends on the sentences alone, counted from the first of the input. So an
uninterrupted run, a resumed one and shards multiply the same matrices and get the same bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import InputError
from elmo_cli.store.layouts import Layout, UniqueNames
from elmo_cli.store.shard_number import WHOLE_TEXT, ShardNumber
from elmo_cli.text.input import InputReport, is_stream, read_sentences
from elmo_cli.text.sentence import Sentence

SENTENCES = 1000  # of a block at most
TOKENS = 32_768  # a block is full when it has as many; a sentence with as many begins a block
CARRY_BATCH_SIZE = 64  # default with state "carry"
_OPEN_DOCUMENT = 8  # full blocks after which a document is divided


@dataclass(frozen=True)
class BlockInfo:
    """What a scan keeps of a block."""

    n_sentences: int
    n_tokens: int  # without sentence boundaries
    first_key: int  # key of its first sentence
    starts_document: bool  # whether its first sentence starts a document
    text_sha256: str  # of all sentences up to its last one


@dataclass(frozen=True)
class Block:
    """Sentences that are computed and committed together; the first block has the number 0."""

    number: int
    sentences: tuple[Sentence, ...]
    info: BlockInfo
    is_last: bool  # whether the input ends with it


class TextTotals(NamedTuple):
    """How many sentences and tokens a text, or a file made from it, has."""

    n_sentences: int
    n_tokens: int  # without sentence boundaries


@dataclass(frozen=True)
class TextScan:
    """An input that was read once before the model runs, and what its readers reported."""

    blocks: tuple[BlockInfo, ...]
    report: InputReport

    @property
    def text_sha256(self) -> str:
        """Digest of the whole input."""
        return self.blocks[-1].text_sha256 if self.blocks else ""

    @property
    def n_skipped(self) -> int:
        """Keys without a sentence: of blank lines and of lines that could not be read."""
        return self.report.n_keys - sum(block.n_sentences for block in self.blocks)

    def shard(self, shard: ShardNumber | None, *, state: str) -> range:
        """The blocks of a shard; all blocks without one.

        With state "document" a shard starts with a document.
        """
        blocks = (shard or WHOLE_TEXT).blocks_of(len(self.blocks))
        if state != "document":
            return blocks
        return range(self._document_start(blocks.start), self._document_start(blocks.stop))

    def first_key(self, blocks: range) -> int:
        """The key with which the input of a range of blocks begins."""
        if blocks.start == 0:
            return 0  # also if the first lines were skipped
        if blocks.start == len(self.blocks):
            return self.report.n_keys
        return self.blocks[blocks.start].first_key

    def totals(self, blocks: range) -> TextTotals:
        """The totals of some blocks."""
        infos = [self.blocks[number] for number in blocks]
        return TextTotals(
            n_sentences=sum(info.n_sentences for info in infos),
            n_tokens=sum(info.n_tokens for info in infos),
        )

    def _document_start(self, number: int) -> int:
        while 0 < number < len(self.blocks) and not self.blocks[number].starts_document:
            number += 1
        return number


def split_into_blocks(sentences: Iterable[Sentence], settings: EmbedderSettings) -> Iterator[Block]:
    """Divide an input into blocks; memory holds one of them.

    Args:
        sentences: the whole input, from its first sentence.
        settings: state "carry" ends blocks between batches only, "document" between documents if
            possible.
    """
    text_digest = hashlib.sha256()
    for number, content in enumerate(_contents_of_blocks(sentences, settings)):
        digest = hashlib.sha256(b"".join(map(_sentence_bytes, content.sentences)))
        text_digest.update(digest.digest())
        first = content.sentences[0]
        info = BlockInfo(
            n_sentences=len(content.sentences),
            n_tokens=sum(len(sentence.tokens) for sentence in content.sentences),
            first_key=first.key,
            starts_document=first.starts_document,
            text_sha256=text_digest.hexdigest(),
        )
        yield Block(
            number=number,
            sentences=tuple(content.sentences),
            info=info,
            is_last=content.is_last,
        )


class _BlockContent(NamedTuple):
    """The sentences of a block, at least one, and whether the input ends with it."""

    sentences: list[Sentence]
    is_last: bool


def _contents_of_blocks(
    sentences: Iterable[Sentence], settings: EmbedderSettings
) -> Iterator[_BlockContent]:
    """Yield the content of each block."""
    state = settings.state
    batch_size = settings.batch_size or CARRY_BATCH_SIZE
    block_sentences: list[Sentence] = []
    n_tokens = 0
    for sentence in sentences:
        is_within_document = state == "document" and not sentence.starts_document
        n_full = _OPEN_DOCUMENT if is_within_document else 1
        is_full = len(block_sentences) >= n_full * SENTENCES or n_tokens >= n_full * TOKENS
        # A very long protein should not be in memory together with a block that is nearly full.
        fills_a_block = state in ("zero", "warm") and len(sentence.tokens) >= TOKENS
        if block_sentences and fills_a_block:
            is_full = True
        if is_full and (state != "carry" or len(block_sentences) % batch_size == 0):
            yield _BlockContent(block_sentences, is_last=False)
            block_sentences = []
            n_tokens = 0
        block_sentences.append(sentence)
        n_tokens += len(sentence.tokens)
    if block_sentences:
        yield _BlockContent(block_sentences, is_last=True)


def scan_text(
    job: EmbedJob, collect: Callable[[Iterable[Sentence]], Iterator[Sentence]] = iter
) -> TextScan:
    """Read the inputs of a job, which can be read more than once; all sentences pass `collect`.

    Raises a UsageError or InputError as `read_sentences`, `UniqueNames` and `type_of` do.
    """
    report = InputReport()
    sentences = collect(_read_sentences(job, report))
    blocks = split_into_blocks(_checked(sentences, job.layout), job.embedder)
    return TextScan(tuple(block.info for block in blocks), report)


def check_first_sentence(job: EmbedJob) -> None:
    """Refuse files whose first sentence a layout of names or types cannot store."""
    has_names_or_types = job.layout.keyed_by != "number" or job.layout.unit == "types"
    has_stream = any(is_stream(path) for path in job.inputs)
    if has_names_or_types and not has_stream:
        sentences = read_sentences(job.inputs, job.text)
        next(_checked(sentences, job.layout), None)


def read_blocks(job: EmbedJob, report: InputReport) -> Iterator[Block]:
    """Read the inputs of a job in blocks."""
    return split_into_blocks(_read_sentences(job, report), job.embedder)


def _read_sentences(job: EmbedJob, report: InputReport) -> Iterator[Sentence]:
    return read_sentences(job.inputs, job.text, report, checks_text=job.checks_text)


def type_of(sentence: Sentence) -> str:
    """The type in a line of a vocabulary; an InputError if it is not a single token."""
    if len(sentence.tokens) != 1:
        raise InputError(
            f"{len(sentence.tokens)} tokens; a vocabulary has one per line",
            "this layout needs one type per line; other layouts store sentences",
            where=sentence.where,
        )
    return sentence.tokens[0]


def _checked(sentences: Iterable[Sentence], layout: Layout) -> Iterator[Sentence]:
    """Yield the sentences; raise an error for one that cannot be stored with those before it."""
    names = UniqueNames(layout)
    for sentence in sentences:
        if layout.keyed_by == "name":
            names.add(sentence)
        if layout.unit == "types":
            type_of(sentence)
        yield sentence


def _sentence_bytes(sentence: Sentence) -> bytes:
    """All that a file records of a sentence, for digests."""
    position = (
        repr(sentence.key),
        repr(sentence.document),
        repr(sentence.starts_document),
        repr(sentence.place),
        repr(sentence.offset),
    )
    fields = "\x1f".join((*position, sentence.text, *sentence.tokens))
    return f"\x1e{fields}".encode("utf-8", "surrogatepass")


def positions_by_document(sentences: Sequence[Sentence]) -> list[list[int]]:
    """Positions of the sentences of each document, in order, without empty ones."""
    documents: list[list[int]] = []
    for position, sentence in enumerate(sentences):
        if sentence.starts_document or not documents:
            documents.append([])
        if sentence.tokens:
            documents[-1].append(position)
    return documents
