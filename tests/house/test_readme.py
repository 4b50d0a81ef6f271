"""What the README says of commands, combinations and versions is what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from elmo_cli.cli.command_groups import COMMAND_GROUPS
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.engine import engines
from elmo_cli.errors import DeviceError, UsageError
from elmo_cli.model.bilm import BiLM
from elmo_cli.store.layouts import LAYOUTS
from elmo_cli.store.shard_number import ShardNumber
from elmo_cli.store.spec import FileSpec
from elmo_cli.version import __version__

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MATRIX = README.split("## What can be combined\n\n")[1].split("\n\n")[0].splitlines()
COLUMNS = ("state zero, warm", "document", "carry", "float32", "bf16", "int8")
STATES = {"state zero, warm": ("zero", "warm"), "document": ("document",), "carry": ("carry",)}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_lists_every_command_as_the_help_does() -> None:
    expected = []
    for group in COMMAND_GROUPS:
        for name, summary in group.commands.items():
            link = f"[{name}](docs/reference/commands/{name}.md)"
            expected.append([link, summary.sentence, summary.reads, summary.writes])
    lines = README.split("## Commands\n\n")[1].split("\n\n")[0].splitlines()[2:]
    assert [cells(line) for line in lines] == expected


def settings(column: str, **others: str) -> list[EmbedderSettings]:
    """The settings of a column: of its states, or of its precision."""
    if column in STATES:
        return [EmbedderSettings(state=state, **others) for state in STATES[column]]
    return [EmbedderSettings(precision=column, **others)]


def try_layout(name: str, column: str) -> None:
    layers = "top" if "one layer" in LAYOUTS[name].needs else "all"
    for embedder in settings(column, layers=layers):
        EmbedJob(inputs=("a",), output="b.hdf5", embedder=embedder, file=FileSpec(layout=name))


def try_device(kind: str, column: str, bilm: BiLM) -> None:
    for embedder in settings(column):
        engines.make_engine("fast", bilm, torch.device(kind), embedder.precision)


def try_shard(column: str) -> None:
    for embedder in settings(column):
        EmbedJob(inputs=("a",), output="b.hdf5", embedder=embedder, shard=ShardNumber(1, 2))


@pytest.mark.parametrize("line", MATRIX[2:])
def test_the_matrix_shows_what_is_accepted(
    line: str, tiny_bilm: BiLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a device, whether the precision is refused; its engine is not made."""
    assert cells(MATRIX[0])[1:] == list(COLUMNS)
    monkeypatch.setattr(engines, "FastEngine", lambda *arguments: None)
    first, *marks = cells(line)
    names = re.findall(r"`([^`]+)`", first)
    assert names
    for column, mark in zip(COLUMNS, marks, strict=True):
        for name in names:
            try:
                if name in LAYOUTS:
                    try_layout(name, column)
                elif name == "--engine plain":
                    settings(column, engine="plain")
                elif name in ("--shard", "--ray"):  # a cluster computes shards
                    try_shard(column)
                else:
                    try_device(name.removeprefix("--device "), column, tiny_bilm)
                is_accepted = True
            except (UsageError, DeviceError):
                is_accepted = False
            if mark == "zero":  # and not warm
                EmbedJob(inputs=("a",), output="b.hdf5", file=FileSpec(layout=name))
            assert is_accepted == (mark == "✓"), (name, column)


def test_names_every_layout() -> None:
    named = set(re.findall(r"`([a-z0-9-]+)`", "\n".join(MATRIX)))
    assert set(LAYOUTS) <= named


def test_cites_this_version_and_the_paper() -> None:
    assert f"version = {{{__version__}}}" in README
    assert "10.18653/v1/N18-1202" in README
