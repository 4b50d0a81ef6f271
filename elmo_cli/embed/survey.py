"""Survey: a look at the whole input before work starts, for shards, sizes and free space."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from elmo_cli.embed.blocks import SENTENCES, Block, cut
from elmo_cli.errors import OutputError
from elmo_cli.files import resolve
from elmo_cli.store.layouts import Layout, UniqueNames
from elmo_cli.store.shards import shard_range
from elmo_cli.text.input import (
    InputReport,
    InputSettings,
    count_sentences,
    is_stream,
    read_sentences,
)
from elmo_cli.text.lines import LineReader, read_chunks
from elmo_cli.text.sentence import Sentence

_SAMPLE = 500  # sentences that stand for the rest where reading all of them would take long
_SAMPLE_BYTES = 8 << 20  # of a packed text, which tell how much it was packed
_SCALE_BYTES = 4


@dataclass(frozen=True)
class FileBytes:
    """The size of an embeddings file in bytes.

    Attributes:
        vectors, metadata: their sizes; the file has both.
        is_copied: whether the vectors are twice on the disk while the file is completed.
    """

    vectors: int
    metadata: int
    is_copied: bool

    @property
    def total(self) -> int:
        """Of the finished file."""
        return self.vectors + self.metadata

    @property
    def peak(self) -> int:
        """What a run takes of the disk at most."""
        return self.total + (self.vectors if self.is_copied else self.metadata)


@dataclass(frozen=True)
class Survey:
    """What there is to do.

    Attributes:
        sentences: of the whole input.
        tokens: of the whole input, without borders.
        exact: false where the two were reckoned from a sample.
        block_tokens: tokens of each block, in order; none where only sizes were asked for.
        block_sentences: the same of sentences.
        starts: for each block whether it begins a document.
        sources: name and first key of each file, known with the blocks.
        text_sha256: of all sentences, known with the blocks.
        block_sha256: of all sentences to the end of each block.
        left_out: sentences that the text has besides, blank or not to be read; known with the
            blocks.
    """

    sentences: int
    tokens: int
    exact: bool
    block_tokens: tuple[int, ...] = ()
    starts: tuple[bool, ...] = ()
    sources: tuple[tuple[str, int], ...] = ()
    text_sha256: str = ""
    block_sentences: tuple[int, ...] = ()
    block_sha256: tuple[str, ...] = ()
    left_out: int = 0

    def bytes(
        self, layout: Layout, *, n_kept: int, dim: int, itemsize: int, pooled: bool
    ) -> FileBytes:
        """Size of the embeddings file, about."""
        vectors = (self.sentences if pooled else self.tokens) * n_kept
        of_sentence, of_token = layout.metadata_bytes
        of_vector = dim * itemsize + (_SCALE_BYTES if itemsize == 1 else 0)
        metadata = self.sentences * of_sentence + self.tokens * of_token
        return FileBytes(vectors * of_vector, metadata, is_copied=not layout.data_start)

    def shard(self, number: int, n_shards: int, *, state: str) -> range:
        """The blocks of shard `number` (from 1) of `n_shards`; with state "document" a shard
        begins where a document does."""
        blocks = shard_range(len(self.block_tokens), number, n_shards)
        if state != "document":
            return blocks
        return range(self._moved(blocks.start), self._moved(blocks.stop))

    def empty_shard(self, number: int, n_shards: int) -> str:
        """What to say of a shard that no block is left for."""
        n_blocks = len(self.block_tokens)
        blocks = "1 block" if n_blocks == 1 else f"{n_blocks:,} blocks"
        return (
            f"nothing is left for shard {number} of {n_shards}: the text has {blocks} of about "
            f"{SENTENCES:,} sentences"
        )

    def of_blocks(self, blocks: range) -> Survey:
        """The same for some of the blocks alone."""
        return Survey(
            sum(self.block_sentences[k] for k in blocks),
            sum(self.block_tokens[k] for k in blocks),
            self.exact,
        )

    def _moved(self, place: int) -> int:
        while 0 < place < len(self.starts) and not self.starts[place]:
            place += 1
        return place


def survey(
    inputs: tuple[str, ...],
    settings: InputSettings,
    *,
    state: str,
    batch_size: int | None,
    whole: bool,
    layout: Layout | None = None,
) -> Survey | None:
    """Read the input before the model runs; None where it can be read only once.

    Args:
        whole: read all of it and cut it into blocks, for shards.
        layout: of the output; the names of all sentences are checked if it is keyed by names.
    Raises:
        UsageError, InputError: as `read_sentences` and `UniqueNames`.
    """
    if any(map(is_stream, inputs)):
        return None
    is_named = layout is not None and layout.keyed_by == "name"
    whole = whole or is_named
    if not whole and settings.tokenize:
        return _sampled(inputs, settings)
    if not whole:
        return Survey(*count_sentences(inputs, settings), True)
    notes = InputReport()
    sentences = read_sentences(inputs, settings, notes)
    if layout is not None and is_named:
        sentences = with_checked_names(sentences, layout)
    return survey_of_blocks(cut(sentences, state=state, batch_size=batch_size), notes)


def with_checked_names(sentences: Iterable[Sentence], layout: Layout) -> Iterator[Sentence]:
    """The same sentences.

    Raises:
        InputError: a file of this layout cannot hold one of them besides those before it.
    """
    names = UniqueNames(layout)
    for sentence in sentences:
        names.add(sentence)
        yield sentence


def survey_of_blocks(blocks: Iterable[Block], notes: InputReport) -> Survey:
    """Look at all blocks of the input; memory holds one of them.

    Args:
        notes: which the reader of the blocks keeps.
    """
    rows = [(len(block.sentences), block.n_tokens, block.starts_document, block.text_sha256)
            for block in blocks]  # fmt: skip
    sentences, tokens, starts, digests = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Survey(
        sum(sentences),
        sum(tokens),
        True,
        block_tokens=tokens,
        starts=starts,
        sources=tuple(notes.sources),
        text_sha256=digests[-1] if digests else "",
        block_sentences=sentences,
        block_sha256=digests,
        left_out=notes.n_keys - sum(sentences),
    )


def _sampled(inputs: tuple[str, ...], settings: InputSettings) -> Survey:
    notes, taken, tokens = InputReport(), 0, 0
    line: tuple[str, int] | None = None
    for sentence in read_sentences(inputs, settings, notes):
        # All of a line or none: what is known of the sample's share are the bytes of its lines.
        if taken >= _SAMPLE and (sentence.source, sentence.line) != line:
            before = inputs[: len(notes.sources) - 1]
            read = _bytes_before(sentence, settings) + sum(map(_text_bytes, before))
            share = read / max(read, sum(map(_text_bytes, inputs)))
            return Survey(round(taken / share), round(tokens / share), False)
        taken, tokens = taken + 1, tokens + len(sentence.tokens)
        line = sentence.source, sentence.line
    return Survey(taken, tokens, True)


def _bytes_before(sentence: Sentence, settings: InputSettings) -> int:
    """Bytes of a text before the line in which a sentence stands, about."""
    mark = len("".encode(settings.encoding))  # which UTF-16 has, and not at each line
    source = LineReader(sentence.source, settings, InputReport())
    lines = islice(source.lines(), sentence.line - 1)
    return sum(len(f"{line or ''}\n".encode(settings.encoding, "replace")) - mark for line in lines)


def _text_bytes(name: str) -> int:
    """Bytes of a text, of a packed one about as many as are in it."""
    notes, n_bytes = InputReport(), 0
    for piece in read_chunks(name, notes):
        n_bytes += len(piece)
        if n_bytes >= _SAMPLE_BYTES:
            break
    return round(os.path.getsize(name) * n_bytes / max(1, notes.bytes_read))


def check_space(
    path: str | Path, needed: FileBytes, *, held: int = 0, smaller: Sequence[str] = ()
) -> None:
    """Refuse to start what cannot be finished.

    Args:
        path: the file to be written.
        needed: its size; the peak counts.
        held: bytes of an unfinished output.
        smaller: what would make it smaller, for the hint.
    Raises:
        OutputError: the disk has less free space than that.
    """
    folder = resolve(path).parent  # where the writer puts it
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return  # the writer says what is wrong with the folder
    if needed.peak - held > free:
        of_file = f" for a file of {gib(needed.total)}" if needed.is_copied else ""
        raise OutputError(
            f"{path}: about {gib(needed.peak)} are needed{of_file}, {gib(free)} are free on its "
            "disk",
            "; or ".join([*filter(None, [", ".join(smaller)]), "write to another disk"]),
        )


def gib(n_bytes: int) -> str:
    """Bytes in words: "12.3 GiB", "4.0 MiB"."""
    size, unit = float(n_bytes), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
