"""Pieces of a text, which workers embed into shards; the number of workers has no influence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from elmo_cli.embed.blocks import Block, TextScan, read_blocks
from elmo_cli.embed.job import EmbedJob
from elmo_cli.store.shard_number import ShardNumber
from elmo_cli.text.input import InputReport

# 4,000 sentences or 131,072 tokens: minutes of work, some hundred megabytes. With state "document"
# a long document is one block of up to eight times as many.
BLOCKS_PER_PIECE = 4


@dataclass(frozen=True)
class Piece:
    """A piece of the text, and the outcome of the work on its shard.

    Attributes:
        number: from 1.
        name: of the shard.
        block_numbers: in the whole text; empty in the middle of a long document.
        lacks_equal_lines: as in `RunSummary`; False if the shard existed.
        worker: host:pid of the process that computed the shard; "" if it existed, or is missing.
        error, hint: why the shard is missing; "" if it exists.
    """

    number: int
    n_pieces: int
    name: str
    block_numbers: range
    n_sentences: int
    n_tokens: int
    lacks_equal_lines: bool = False
    worker: str = ""
    error: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Work:
    """A piece, and the blocks of the text from which a worker makes its shard."""

    piece: Piece
    blocks: tuple[Block, ...]


def plan_pieces(scan: TextScan, state: str, settings: Mapping[str, Any]) -> list[Piece]:
    """Divide a text into pieces; the number of workers has no influence on where.

    The name of a shard ends in a digest of the whole text and of `settings`: the attributes that
    determine the content of the file, from a worker that has loaded the model.
    """
    identity = [dict(settings), scan.text_sha256, scan.report.sources, scan.n_skipped]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
    n_pieces = max(1, -(-len(scan.blocks) // BLOCKS_PER_PIECE))
    pieces = []
    for number in range(1, n_pieces + 1):
        shard = ShardNumber(number, n_pieces)
        blocks = scan.shard(shard, state=state)
        totals = scan.totals(blocks)
        piece = Piece(
            number=number,
            n_pieces=n_pieces,
            name=f"{shard.file_stem}-{digest}.hdf5",
            block_numbers=blocks,
            n_sentences=totals.n_sentences,
            n_tokens=totals.n_tokens,
        )
        pieces.append(piece)
    return pieces


def read_pieces(job: EmbedJob, pieces: Sequence[Piece]) -> Iterator[Work]:
    """Read the inputs again and yield pieces with their blocks, in order; memory holds one piece.

    The worker that writes a shard checks that its blocks have not changed since the scan.
    """
    all_blocks = read_blocks(job, InputReport())
    n_read = 0
    for piece in pieces:
        n_skipped = piece.block_numbers.start - n_read
        n_blocks = len(piece.block_numbers)
        yield Work(piece, tuple(islice(all_blocks, n_skipped, n_skipped + n_blocks)))
        n_read = piece.block_numbers.stop
