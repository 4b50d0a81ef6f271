"""Pieces of a text: what any number of workers agrees on, before any of them starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from elmo_cli.cluster.pieces import Piece, plan_pieces, read_pieces
from elmo_cli.embed import blocks
from elmo_cli.embed.blocks import Block, scan_text
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.text.input import InputSettings

Blocks = tuple[Block, ...]
SETTINGS = {"dtype": "float32"}


def plan(job: EmbedJob, settings: dict[str, str] = SETTINGS) -> list[Piece]:
    return plan_pieces(scan_text(job), job.embedder.state, settings)


def read(job: EmbedJob, pieces: Sequence[Piece]) -> list[Blocks]:
    """The blocks of pieces."""
    return [work.blocks for work in read_pieces(job, pieces)]


def keys(pieces: Sequence[Blocks]) -> list[int]:
    return [s.key for blocks in pieces for block in blocks for s in block.sentences]


def test_pieces_have_all_sentences_once_and_in_order(job: EmbedJob) -> None:
    pieces = plan(job)
    assert [(piece.number, piece.n_pieces) for piece in pieces] == [(i, 5) for i in range(1, 6)]
    assert [list(piece.block_numbers) for piece in pieces] == [[0], [1, 2], [3, 4], [5, 6], [7, 8]]
    assert [piece.n_sentences for piece in pieces] == [3, 6, 6, 6, 4]
    assert [piece.n_tokens for piece in pieces] == [18, 39, 39, 39, 26]
    assert keys(read(job, pieces)) == list(range(25))
    assert keys(read(job, [pieces[1], pieces[3]])) == [*range(3, 9), *range(15, 21)]


def test_pieces_start_with_documents(job: EmbedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document that spans several pieces belongs to the first of them."""
    monkeypatch.setattr(blocks, "_OPEN_DOCUMENT", 1)
    for name, n_lines in zip(job.inputs, (18, 6), strict=True):
        Path(name).write_text("a line\n" * n_lines)
    job = replace(job, embedder=EmbedderSettings("document"))
    blocks_of_pieces = read(job, plan(job))
    assert [len(blocks) for blocks in blocks_of_pieces] == [6, 0, 0, 2]
    assert keys(blocks_of_pieces) == list(range(24))


def change_nothing() -> None: ...


def change_a_line() -> None:
    text = Path("two.txt")
    text.write_text(text.read_text().replace("line 24", "line xxiv"))


def add_an_unreadable_line() -> None:
    """It is in no piece, but each file records how many lines were left out."""
    with open("two.txt", "ab") as text:
        text.write(b"\xff\n")


def rename_a_text() -> None:
    Path("one.txt").rename("1.txt")


@pytest.mark.parametrize(
    ("inputs", "change", "is_other"),
    [
        (("one.txt", "two.txt"), change_nothing, False),
        (("one.txt", "two.txt"), change_a_line, True),
        (("one.txt", "two.txt"), add_an_unreadable_line, True),
        (("1.txt", "two.txt"), rename_a_text, True),
        (("two.txt", "one.txt"), change_nothing, True),
    ],
)
def test_names_of_shards_depend_on_the_whole_text_and_the_settings(
    job: EmbedJob, inputs: tuple[str, ...], change: Callable[[], None], is_other: bool
) -> None:
    """The shard of another text or model must never be used for this run."""
    job = replace(job, text=InputSettings(on_error="skip"))
    before = plan(job)
    for number, piece in enumerate(before, 1):
        assert piece.name == f"part-0000{number}-of-00005-{before[0].name[-17:]}"
    assert before[0].name != plan(job, {"dtype": "float16"})[0].name
    change()
    after = plan(replace(job, inputs=inputs))
    assert [a.name != b.name for a, b in zip(before, after, strict=True)] == [is_other] * 5


def test_skipped_lines_are_in_no_piece(job: EmbedJob) -> None:
    lines = Path("two.txt").read_bytes().splitlines()
    lines[1:4] = [b"\xff"] * 3
    Path("two.txt").write_bytes(b"\n".join(lines) + b"\n")
    job = replace(job, text=InputSettings(on_error="skip"))
    assert len(scan_text(job).report.skipped) == 3
    assert keys(read(job, plan(job))) == [*range(11), *range(14, 25)]
