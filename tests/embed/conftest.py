"""Fixtures of runs: a job on a text of seven small blocks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from embedders import cached_embedder

from elmo_cli.embed import blocks
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.pretrained.load import ModelSource
from elmo_cli.text.control_characters import pattern_for_lines


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 8 sentences, of which `corpus` has seven; models are read once."""
    monkeypatch.setattr(blocks, "SENTENCES", 8)
    monkeypatch.setattr(blocks, "_OPEN_DOCUMENT", 2)
    monkeypatch.setattr("elmo_cli.embed.run.make_embedder", cached_embedder)


@pytest.fixture
def corpus(tmp_path: Path, lines: list[list[str]]) -> tuple[str, ...]:
    """Two files of 56 lines in all: short sentences, blank lines, repeated sentences."""
    numbers = random.Random(3)
    refused = pattern_for_lines(is_one_byte=False)
    short = [line for line in lines if len(line) < 6 and not refused.search("".join(line))]
    made = [" ".join(numbers.choice(short)) if numbers.random() < 0.9 else "" for _ in range(56)]
    paths = (tmp_path / "first.txt", tmp_path / "second.txt")
    for path, part in zip(paths, (made[:30], made[30:]), strict=True):
        path.write_text("".join(f"{line}\n" for line in part), encoding="utf-8")
    return tuple(map(str, paths))


@pytest.fixture
def job(corpus: tuple[str, ...], tiny: Path, tmp_path: Path) -> EmbedJob:
    settings = EmbedderSettings(batch_size=4, device="cpu")
    return EmbedJob(corpus, f"{tmp_path}/whole.hdf5", ModelSource(str(tiny)), embedder=settings)
