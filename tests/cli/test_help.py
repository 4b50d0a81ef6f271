"""`elmo --help`: its groups of commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import commands, made

import elmo_cli.cli
from elmo_cli.cli.command_groups import COMMAND_GROUPS, COMMAND_NAMES


class TestCommandGroups:
    def test_has_each_command_once(self) -> None:
        assert len(set(COMMAND_NAMES)) == len(COMMAND_NAMES)

    def test_has_every_module_with_a_command(self) -> None:
        folder = Path(elmo_cli.cli.__file__).parent
        with_command = set()
        for path in folder.glob("*.py"):
            lines = path.read_text(encoding="utf-8").splitlines()
            if {f"def {path.stem}(**values: Any) -> None:", f"def {path.stem}() -> None:"} & {
                *lines
            }:
                with_command.add(path.stem)
        assert with_command == set(COMMAND_NAMES)

    def test_shows_each_command_on_one_line_under_its_heading(self) -> None:
        lines = made("--help").out.decode().splitlines()
        for group in COMMAND_GROUPS:
            below = lines[lines.index(f"{group.heading}:") + 1 :]
            for (name, summary), line in zip(group.commands.items(), below, strict=False):
                command, rest = line.split(maxsplit=1)
                assert command == name
                assert rest.split("  ")[0] == f"{summary.reads} -> {summary.writes}"
                assert line.endswith(f" {summary.sentence}")
                assert len(line) <= 80


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_a_help_page_fits_80_columns(words: tuple[str, ...]) -> None:
    """click wraps all but the examples."""
    lines = made(*words, "--help").out.decode().splitlines()
    assert [line for line in lines if len(line) > 80] == []
