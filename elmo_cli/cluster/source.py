"""From text files to pieces of work, each the text of one shard."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from elmo_cli.embed.blocks import Block, TextScan, split_into_blocks, with_checked_names
from elmo_cli.embed.job import EmbedJob
from elmo_cli.errors import ElmoError, InputError
from elmo_cli.store.shards import shard_name
from elmo_cli.text.input import InputReport, read_sentences
from elmo_cli.text.sentence import Sentence

# 4,000 sentences or 131,072 tokens: minutes of work, some hundred megabytes. With --state document
# a document that is so long makes a block of eight times as much.
BLOCKS_PER_SHARD = 4


@dataclass(frozen=True)
class Piece:
    """The text of one shard.

    Attributes:
        number: from 1.
        n_pieces: in all.
        blocks_of: the numbers of its blocks.
        blocks: they themselves.
        error: why there can be no shard, because its sentences would not be those of the text: a
            line that can't be read, or a text that is no longer as it was looked at.
    """

    number: int
    n_pieces: int
    blocks_of: range
    blocks: tuple[Block, ...]
    error: ElmoError | None = None

    @property
    def n_tokens(self) -> int:
        """Tokens of its sentences."""
        return sum(block.info.n_tokens for block in self.blocks)

    def name(self, settings: dict[str, Any]) -> str:
        """The shard's name, which follows from its place, its content and what is made of it.

        Args:
            settings: whatever else decides about the file.
        """
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        digest.update("".join(block.info.sha256 for block in self.blocks).encode())
        return f"{shard_name(self.number, self.n_pieces)}-{digest.hexdigest()[:12]}.hdf5"


def survey_of(job: EmbedJob) -> tuple[TextScan, InputReport]:
    """What there is to do, and what was noticed; lines that cannot be read do not end it.

    Raises:
        InputError: a shard of this layout cannot hold a sentence besides those before it.
    """
    notes = InputReport()
    blocks = _blocks(job, notes, check_names=True)
    return TextScan(tuple(block.info for block in blocks), notes), notes


def n_pieces_of(found: TextScan) -> int:
    """How many shards a text is cut into, whoever works on them: the text alone decides."""
    return max(1, -(-len(found.blocks) // BLOCKS_PER_SHARD))


def pieces(job: EmbedJob, found: TextScan, broken: ElmoError | None = None) -> Iterator[Piece]:
    """Cut the inputs into pieces, in order; memory holds one of them.

    Args:
        broken: why there is nothing to read, if so.
    """
    notes, n_pieces = InputReport(), n_pieces_of(found)
    blocks: Iterator[Block] | None = None
    for number in range(1, n_pieces + 1):
        blocks_of = found.shard((number, n_pieces), state=job.embedder.state)
        taken: tuple[Block, ...] = ()
        if broken is None:
            try:
                blocks = blocks or _blocks(job, notes)
                taken = tuple(islice(blocks, len(blocks_of)))
            except ElmoError as error:
                broken = error
            else:
                broken = _changed(taken, blocks_of, found)
        yield Piece(number, n_pieces, blocks_of, taken, broken or _refused(job, notes, taken))


def _changed(taken: tuple[Block, ...], blocks_of: range, found: TextScan) -> InputError | None:
    """An error if blocks are not those that were looked at."""
    if [block.info for block in taken] == [found.blocks[k] for k in blocks_of]:
        return None
    last = taken[-1].sentences[-1].source if taken else found.report.sources[-1][0]
    return InputError(f"{last}: has changed since the run began", "leave it alone")


def _refused(job: EmbedJob, notes: InputReport, taken: tuple[Block, ...]) -> InputError | None:
    """An error if one of the lines can't be read."""
    places = {(s.source, s.line) for block in taken for s in block.sentences if not s.tokens}
    for source, line, why in notes.skipped if job.text.on_error == "stop" else ():
        if (source, line) in places:
            return InputError(f"{source}, line {line}: {why}", "mend the line")
    return None


def _blocks(job: EmbedJob, notes: InputReport, *, check_names: bool = False) -> Iterator[Block]:
    reading = replace(job.text, on_error="skip")
    sentences = read_sentences(job.inputs, reading, notes)
    if check_names and job.layout.keyed_by == "name":
        sentences = with_checked_names(sentences, job.layout)
    if job.text.on_error == "stop":
        sentences = _with_refused(sentences, notes)
    state, batch_size = job.embedder.state, job.embedder.batch_size
    return split_into_blocks(sentences, state=state, batch_size=batch_size)


def _with_refused(sentences: Iterator[Sentence], notes: InputReport) -> Iterator[Sentence]:
    """The sentences, with an empty one in the place of each that can't be read.

    So the blocks after it are those of the text in which its lines have been mended. Keys tell how
    many there are: several lines of one sentence may be refused, as CoNLL has them. Of a paragraph
    or a document that is refused nobody knows the sentences; it takes one key, and one place.
    """
    key = n_placed = 0

    def places(before: int, n_refused: int) -> Iterator[Sentence]:
        """Places from `key` on for the next lines that were refused."""
        nonlocal n_placed
        if key < before:
            refused = notes.skipped[n_placed : n_placed + n_refused]
            n_placed += n_refused
            # There may be fewer: blank lines that are left out take keys too.
            for place, (source, line, _) in zip(range(key, before), refused, strict=False):
                yield Sentence((), place, source=source, line=line)

    for sentence in sentences:
        # The beginning of a file may have been read ahead, and what was refused there noted.
        new = notes.skipped[n_placed:]
        ahead = (s == sentence.source and line > sentence.line for s, line, _ in new)
        n_before = next((n for n, is_ahead in enumerate(ahead) if is_ahead), len(new))
        yield from places(sentence.key, max(n_before, min(1, len(new))))
        key = sentence.key + 1
        yield sentence
    yield from places(notes.n_keys, len(notes.skipped) - n_placed)
