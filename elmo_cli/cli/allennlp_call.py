"""AllenNlpCall: a call of `elmo embed` with the words of `allennlp elmo`, and the line to type."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import click

from elmo_cli.cli.click_options import GroupedCommand
from elmo_cli.cli.corrected_line import shell_line
from elmo_cli.errors import UsageError
from elmo_cli.filetypes import HDF5, identify_file
from elmo_cli.model_folder import HDF5_SUFFIXES

# The flags of `allennlp elmo` 0.9.0 that `elmo embed` does not have, and whether they take a value.
# --options-file, --weight-file, --batch-size, --forget-sentences and --use-sentence-keys are
# options of both.
ALLENNLP_FLAGS = {
    "--all": False,
    "--top": False,
    "--average": False,
    "--cuda-device": True,
    "--file-friendly-logging": False,
    "--include-package": True,
    "--vocab-path": True,
}
_LAYERS = {"--top": "top", "--average": "average"}  # `--all` is the default
_MODEL_PARAMETERS = ("model", "options", "weights")


@dataclass(frozen=True, kw_only=True)
class AllenNlpCall:
    """What was typed, divided into the words of the two programs.

    Attributes:
        own_words: what `elmo embed` knows, in order; a second path may be the output.
        parameters: those that the own words set, and their values.
        flags: those of `allennlp elmo` alone, with their values.
    """

    own_words: list[str]
    parameters: dict[str, Any]
    flags: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, command: click.Command, ctx: click.Context, words: list[str]) -> Self:
        """Divide the words of a call; those after `--` are files.

        Raises:
            click.NoSuchOption: an option that neither program has.
        """
        own_words = []
        flags = {}
        remaining = iter(words)
        for word in remaining:
            name, has_value, value = word.partition("=")
            if word == "--":
                own_words += [word, *remaining]
            elif name not in ALLENNLP_FLAGS:
                own_words.append(word)
            elif ALLENNLP_FLAGS[name] and not has_value:
                flags[name] = next(remaining, "")
            else:
                flags[name] = value
        parameters, _, _ = command.make_parser(ctx).parse_args(list(own_words))
        return cls(own_words=own_words, parameters=parameters, flags=flags)

    @property
    def files(self) -> tuple[str, ...]:
        """The paths without an option before them."""
        files = self.parameters.get("files")
        return files if isinstance(files, tuple) else ()  # click has a marker for no paths

    @property
    def second_path(self) -> str:
        """The second of two paths if it is the output, as in `allennlp elmo`; "" otherwise.

        It is an output if it is new or HDF5. An existing text is a second input of `elmo embed`.
        """
        if "output" in self.parameters or len(self.files) != 2:
            return ""
        second = self.files[1]
        return second if not os.path.exists(second) or _is_hdf5(second) else ""

    def hint(self) -> str:
        """The line to type, which gives the numbers of AllenNLP if its flags were typed."""
        line = f"`{self.line()}`"
        if not self._adds_state:
            return line
        return f"{line} gives the numbers of AllenNLP; for new work, leave out `--state carry`"

    def line(self) -> str:
        """The line of `elmo embed` that does what was meant."""
        words = list(self.own_words)
        options = []
        if "output" not in self.parameters:
            if self.second_path:
                words = _without_last(words, self.second_path)  # the input may be equal
            options += ["-o", self.second_path or self._default_output()]
        if not self.files:
            words.insert(0, "FILE")
        if self.flags:
            options += self._equivalent_options()
        n_before_dashes = words.index("--") if "--" in words else len(words)
        words[n_before_dashes:n_before_dashes] = options
        return f"elmo embed {shell_line(words)}"

    @property
    def _adds_state(self) -> bool:
        return bool(self.flags) and "state" not in self.parameters

    def _default_output(self) -> str:
        is_named = bool(self.files) and self.files[0] != "-"
        return f"{Path(self.files[0]).stem}.hdf5" if is_named else "out.hdf5"

    def _equivalent_options(self) -> list[str]:
        """The options that stand for the flags of AllenNLP, and for what it does without one."""
        options = []
        if "layers" not in self.parameters:
            for flag, layers in _LAYERS.items():
                if flag in self.flags:
                    options += ["--layers", layers]
        if "--cuda-device" in self.flags and "device" not in self.parameters:
            number = self.flags["--cuda-device"]
            options += ["--device", f"cuda:{number}" if number.isdecimal() else "cpu"]
        if not any(name in self.parameters for name in _MODEL_PARAMETERS):
            options += ["-m", "original"]
        if self._adds_state:
            options += ["--state", "carry"]
        is_replaced = "overwrite" in self.parameters or "resume" in self.parameters
        has_named_output = bool(self.second_path) or "output" in self.parameters
        if has_named_output and not is_replaced:
            options.append("--overwrite")
        return options


def _without_last(words: list[str], word: str) -> list[str]:
    """The words without the last one that equals `word`."""
    position = len(words) - 1 - words[::-1].index(word)
    return words[:position] + words[position + 1 :]


def _is_hdf5(path: str) -> bool:
    """Whether a path is that of an HDF5 file, or has its suffix."""
    if path.endswith(HDF5_SUFFIXES):
        return True
    return os.path.isfile(path) and identify_file(path) is HDF5


class EmbedCommand(GroupedCommand):
    """`elmo embed`, which answers a call with the words of `allennlp elmo`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(args)  # click empties its own list
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption:
            call = AllenNlpCall.of(self, ctx, words)
            where = next(iter(call.flags))
            raise UsageError("an option of `allennlp elmo`", call.hint(), where=where) from None
        except click.MissingParameter:
            call = AllenNlpCall.of(self, ctx, words)
            if not call.second_path:
                raise
            hint = call.hint()
            raise UsageError("the output has no `-o`", hint, where=call.second_path) from None
