"""RunningCommand: the line that was typed, its output mode, and its options in messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click

from elmo_cli.messages import url_without_secrets

_PARAMETER = re.compile(r"`([a-z_]+)(?:=([^`]*))?`")


@dataclass
class RunningCommand:
    """The command that runs: the line that was typed, and what its messages depend on.

    Attributes:
        quiet, as_json: whether `--quiet` and `--json` are given.
        typed: all words of the command line, also those before the name of the command.
        context: the context of click; None before the command line is read.
        words: the command line after the name of the command.
        settings: the names of the settings that `--set` changes, as far as they are known.
    """

    quiet: bool = False
    as_json: bool = False
    typed: tuple[str, ...] = ()
    context: click.Context | None = None
    words: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    def start(self, context: click.Context, words: Sequence[str]) -> None:
        """Begin a command: from here on, messages name its options."""
        self.context = context
        self.words = tuple(words)
        self.settings = ()

    def take_settings(self, names: Iterable[str]) -> None:
        """From here on, messages name these settings, which depend on the task of the command."""
        self.settings = tuple(names)

    def with_options(self, text: str) -> str:
        """Name options of the command in a message: `overwrite=True` is `--overwrite`.

        A setting without an option of its own is named as `--set` takes it.
        """
        options = self.option_names()

        def as_option(parameter: re.Match[str]) -> str:
            name = parameter[1]
            value = (parameter[2] or "").strip("'\"")
            option = options.get(name) or options.get(f"label_{name}")
            if option is None and name in self.settings:
                return f"`--set {name}={value or '…'}`"
            if option is None:
                return parameter[0]
            if value in ("", "True"):
                return f"`{option}`"
            return f"`{option} {value}`"

        return _PARAMETER.sub(as_option, text)

    def without_typed_secrets(self, text: str) -> str:
        """Hide the secrets of URLs that were typed, also where a password has spaces."""
        for word in self.typed:
            is_assigned = word.startswith("--") and "=" in word  # `--output=URL`
            url = word.partition("=")[2] if is_assigned else word
            if "://" in url:
                text = text.replace(url, url_without_secrets(url))
        return text

    def option_names(self) -> dict[str, str]:
        """The longest name of each option of the command, by the name of its parameter."""
        if self.context is None:
            return {}
        names = {}
        for parameter in self.context.command.params:
            if isinstance(parameter, click.Option):
                names[str(parameter.name)] = max(parameter.opts, key=len)
        return names
