"""What texts name exists: commands, options, files, pages and targets of make.

The texts are the pages of the repository, its citation and its form for bugs, and the messages of
`elmo`. Blocks of code are checked too, also those that are not run.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from code_blocks import BLOCKS, PAGES, ROOT, command_lines
from command_line import commands

from elmo_cli.cli.allennlp_call import ALLENNLP_FLAGS
from elmo_cli.cli.click_options import InputFile, InputText
from elmo_cli.cli.command_groups import COMMAND_NAMES
from elmo_cli.cli.main import cli

TEXTS = [*PAGES, ROOT / "CITATION.cff", ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml"]
MESSAGES = sorted((ROOT / "elmo_cli").rglob("*.py"))
NAMES_OF_PAGES = {page.name for page in ROOT.rglob("*.md")}
COMMANDS = commands()
# Options within sentences that are those of another program.
OTHER_OPTIONS = {
    "allennlp elmo": set(ALLENNLP_FLAGS),
    "bilm-tf": {"--batch_size"},
    "elmoformanylangs": {"--input_format"},
    "pip and uv": {"-c", "--find-links", "--torch-backend"},
    "seqvec": {"--batchsize", "--cpu", "--id", "--protein", "--split-char"},
}
GENERAL_OPTIONS = {"--help", "-h", "--debug", "--version"}
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
# A command of a shell, up to a pipe, a redirection or the next command.
CALL = re.compile(r"(?:^|[|;&] ?|-m )elmo(?:_cli)? (?!-)([^|;&>]*)")
FOLDERS = "docs|elmo_cli|tests|examples|benchmarks|packaging|weights|\\.github|\\.ci"
FILE = re.compile(rf"(?<![\w/.-])(?:{FOLDERS})/[\w./-]*[\w/]")
PAGE = re.compile(r"(?<![\w/.<-])(?:[\w-]+/)*[\w-]+\.md\b")
# They stand for any name, or are in another repository.
OTHER_FILES = {"elmo_cli/cli/NAME.py", "docs/reference/commands/NAME.md"}
OTHER_FILES |= {"doc/table_format.md"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(text: Path) -> str:
    """A text without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text.read_text("utf-8"), flags=re.S | re.M)


def codes(text: Path) -> list[str]:
    """The code within the sentences of a text."""
    return [code.replace(r"\|", "|") for code in re.findall(r"`([^`\s][^`\n]*)`", prose(text))]


def find_command(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that is called, or sub-command, and the words behind its name."""
    name, *others = words
    assert name in {*COMMAND_NAMES, "help"}, f"no command {name}"
    if others and (name, others[0]) in COMMANDS:
        return COMMANDS[name, others[0]], others[1:]
    return COMMANDS.get((name,), click.Command("help")), others


def options_of(*commands: click.Command) -> set[str]:
    options = set(GENERAL_OPTIONS)
    for command in commands:
        for parameter in command.params:
            options |= {*parameter.opts, *parameter.secondary_opts}
    return options


EVERY_OPTION = options_of(*COMMANDS.values())


def lines_of_shells() -> list[str]:
    """All lines that readers type, also of blocks that are not run."""
    lines = []
    for block in BLOCKS:
        if block.language == "sh":
            lines += command_lines(block.code)
        elif block.language == "console":
            typed = re.findall(r"^\$ (.*)", block.code, re.M)
            lines += command_lines("\n".join(typed))
    return lines


def test_calls_in_blocks_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, options, their values and the number of arguments; files need not exist."""
    monkeypatch.setattr(InputText, "check", lambda *_: None)
    monkeypatch.setattr(InputFile, "check", lambda *_: None)
    program = click.Context(cli, **cli.context_settings)  # click keeps its names of --help
    n_calls = 0
    for line in lines_of_shells():
        for call in CALL.findall(line):
            command, words = find_command(shlex.split(call))
            try:
                command.make_context(command.name, words, parent=program)
            except click.exceptions.Exit:  # of --help
                pass
            except click.ClickException as error:
                pytest.fail(f"{line}: {error.format_message()}")
            n_calls += 1
    assert n_calls > 150


@pytest.mark.parametrize("text", TEXTS, ids=name_of)
def test_commands_and_options_in_sentences_exist(text: Path) -> None:
    other_options = set().union(*OTHER_OPTIONS.values())
    for code in codes(text):
        program = code.split()[0]
        if program.startswith("-"):
            missing = set(OPTION.findall(code)) - EVERY_OPTION - other_options
            assert not missing, code
        for call in re.findall(r"(?:^|\| )elmo ([a-z][^|]*)", code):
            words = call.split()
            command, others = find_command(words)
            options = {word for word in others if OPTION.fullmatch(word)}
            assert options <= options_of(command), code


@pytest.mark.parametrize("text", TEXTS, ids=name_of)
def test_files_pages_and_targets_exist(text: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    named = [*codes(text), *lines_of_shells()]
    for code in named:
        for target in re.findall(r"^make ([a-z-]+)", code):
            assert target in targets, code
    assert missing_files(prose(text)) == []


def test_files_and_pages_that_messages_name_exist() -> None:
    missing = []
    for module in MESSAGES:
        missing += missing_files(module.read_text("utf-8"))
    assert missing == []


def missing_files(text: str) -> list[str]:
    """The files and pages that a text names and the repository lacks."""
    files = set(FILE.findall(text)) - OTHER_FILES
    missing = [name for name in files if not (ROOT / name).exists()]
    pages = set(PAGE.findall(text)) - OTHER_FILES
    return missing + [name for name in pages if Path(name).name not in NAMES_OF_PAGES]
