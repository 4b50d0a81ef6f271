"""The options that a message names, and those of them that its command does not have."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module

import click

from elmo_cli.cli.command_groups import COMMAND_NAMES

PARAMETER = re.compile(r"`([a-z_]+)(?:=[^`]*)?`")  # as in `console.with_options`
_QUOTED = re.compile(r"`([^`]*)`")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_GENERAL = {"--help", "--debug", "--version"}
# Names of options that also stand for something else: a key of a recipe, of JSON or of a file, a
# label, a column, or the word of an example.
_OTHER_MEANINGS = {"texts", "labels", "text", "model", "state", "layers", "shard"}


@cache
def all_commands() -> dict[str, click.Command]:
    """Each command, and each sub-command as "plot senses"."""
    commands: dict[str, click.Command] = {}
    for name in COMMAND_NAMES:
        command = getattr(import_module(f"elmo_cli.cli.{name}"), name)
        commands[name] = command
        if isinstance(command, click.Group):
            for sub_name, sub_command in command.commands.items():
                commands[f"{name} {sub_name}"] = sub_command
    return commands


def options_of(command: click.Command) -> set[str]:
    """The names of the options of a command: "--output" and "-o"."""
    names = set(_GENERAL)
    for parameter in command.params:
        names.update(parameter.opts)
    return names


def parameters_of(command: click.Command) -> set[str]:
    """What the library calls them: "output"; a label option also serves for a text option."""
    names = set()
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            name = str(parameter.name)
            names.update((name, name.removeprefix("label_")))
    return names


@cache
def _parameters_of_all() -> frozenset[str]:
    return frozenset().union(*map(parameters_of, all_commands().values()))


def names_that_lead_nowhere(hint: str, command: click.Command) -> list[str]:
    """What a printed hint names and its command lacks: options, and parameters of the library."""
    parameters = _parameters_of_all()
    unconverted = [name for name in PARAMETER.findall(hint) if name in parameters]
    return missing_options(hint, command) + [
        name for name in unconverted if name not in _OTHER_MEANINGS
    ]


def missing_options(text: str, command: click.Command) -> list[str]:
    """The options that a text names and the command lacks.

    In "`elmo embed --tokenize`" the option is one of `elmo embed`; other programs are not checked.
    """
    missing = []
    every = all_commands()
    for quoted in _QUOTED.findall(text):
        program, *words = quoted.split()[:2] or [""]
        if program == "elmo" and words and words[0] in every:
            own = options_of(every[words[0]])
            missing += [option for option in _OPTION.findall(quoted) if option not in own]
        elif program.startswith("-"):
            own = options_of(command)
            missing += [option for option in _OPTION.findall(quoted) if option not in own]
    outside = _QUOTED.sub("", text)
    own = options_of(command)
    missing += [option for option in _OPTION.findall(outside) if option not in own]
    return missing
