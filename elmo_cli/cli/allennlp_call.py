"""AllenNlpCall: a call of `elmo embed` with the words of `allennlp elmo`, and the line to type."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import click

from elmo_cli.cli.click_options import GroupedCommand
from elmo_cli.errors import UsageError

_LAYERS = {"--all": "all", "--top": "top", "--average": "average"}
_DEVICE = "--cuda-device"
_WITHOUT_EQUIVALENT = {"--file-friendly-logging": False, "--vocab-path": True}  # takes a value
_SUFFIXES = (".hdf5", ".h5")


@dataclass
class AllenNlpCall:
    """What was typed, in the words of both programs.

    Attributes:
        own_words: files and options that `elmo embed` knows, in order, without `-o`.
        files: the files among them.
        output: the value of `-o`; None if it is missing.
        foreign_option: the first option of `allennlp elmo`; "" if there is none.
        added: options that replace those of `allennlp elmo`.
    """

    own_words: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    output: str | None = None
    foreign_option: str = ""
    added: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, command: click.Command, words: list[str]) -> Self:
        """Divide the words of a call; those after `--` are files."""
        takes_value = {}
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                takes_value.update(dict.fromkeys(parameter.opts, not parameter.is_flag))
        call = cls()
        remaining = iter(words)
        for word in remaining:
            name, has_value, given = word.partition("=")
            if word == "--":
                call._add_files(*remaining)
            elif not word.startswith("-") or word == "-":
                call._add_files(word)
            elif name in ("-o", "--output"):
                call.output = given if has_value else next(remaining, "")
            elif word.startswith("-o"):
                call.output = word.removeprefix("-o")
            elif name in _LAYERS:
                call._replace(name, "--layers", _LAYERS[name])
            elif name == _DEVICE:
                number = given if has_value else next(remaining, "")
                is_gpu = number.isdecimal()
                call._replace(name, "--device", f"cuda:{number}" if is_gpu else "cpu")
            elif name in _WITHOUT_EQUIVALENT:
                call._replace(name)
                if _WITHOUT_EQUIVALENT[name] and not has_value:
                    next(remaining, None)
            else:
                call.own_words.append(word)
                if takes_value.get(word):
                    value = next(remaining, "")
                    if value:
                        call.own_words.append(value)
        return call

    @property
    def has_second_path(self) -> bool:
        """Whether the output is the second path, as `allennlp elmo` takes it."""
        if self.output is not None or len(self.files) != 2:
            return False
        second = self.files[1]
        is_new = not os.path.exists(second) or second.endswith(_SUFFIXES)
        return bool(self.foreign_option) or is_new

    def line(self) -> str:
        """The line of `elmo embed` that does what was meant."""
        words = list(self.own_words)
        output = self.output
        if self.has_second_path:
            output = self.files[1]
            words = _without_last(words, output)  # the input may be equal
        if not self.files:
            words.insert(0, "FILE")
        if output is None:
            is_named = bool(self.files) and self.files[0] != "-"
            output = f"{Path(self.files[0]).stem}.hdf5" if is_named else "out.hdf5"
        return "elmo embed " + shlex.join([*words, "-o", output, *self.added])

    def _add_files(self, *files: str) -> None:
        self.files += files
        self.own_words += files

    def _replace(self, name: str, *own_words: str) -> None:
        self.foreign_option = self.foreign_option or name
        typed = [word.partition("=")[0] for word in [*self.added, *self.own_words]]
        if own_words and own_words[0] not in typed:
            self.added += own_words


def _without_last(words: list[str], word: str) -> list[str]:
    """The words without the last one that equals `word`."""
    position = len(words) - 1 - words[::-1].index(word)
    return words[:position] + words[position + 1 :]


class EmbedCommand(GroupedCommand):
    """`elmo embed`, which answers a call with the words of `allennlp elmo`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        call = AllenNlpCall.of(self, args)
        hint = f"`{call.line()}`; `--state carry` also carries the state as AllenNLP does"
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption:
            if not call.foreign_option:
                raise
            where = call.foreign_option
            raise UsageError("an option of `allennlp elmo`", hint, where=where) from None
        except click.MissingParameter:
            if not call.has_second_path:
                raise
            raise UsageError("the output has no `-o`", hint, where=call.files[1]) from None
