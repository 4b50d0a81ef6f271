"""Declare options of click: grouped in the help, completed by the shell, checked."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import click
from click.shell_completion import CompletionItem

from elmo_cli.cli import console
from elmo_cli.cli.corrected_line import line_with_sentence
from elmo_cli.errors import InputError, UsageError
from elmo_cli.files import is_url
from elmo_cli.messages import shortened, without_secrets
from elmo_cli.text.chunks import STDIN, check_input_file

if TYPE_CHECKING:
    from click.types import OptionHelpExtra


Option = Callable[[Any], Any]  # a decorator of a command


class CompletedText(click.types.StringParamType):
    """A text that the shell completes: with known names, or with the names of files or folders.

    A shell for which we complete a value offers nothing of its own, not even files.

    Args:
        names: returns the known names; None if there are none.
        paths: which paths the shell completes in addition; None for no paths.
    """

    def __init__(
        self,
        *,
        names: Callable[[], list[str]] | None = None,
        paths: Literal["file", "dir"] | None = None,
    ) -> None:
        self._names = names
        self._paths = paths

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        completions = []
        if self._paths is not None:  # first, because the script for bash drops what comes before it
            completions.append(CompletionItem(incomplete, type=self._paths))
        names = self._names() if self._names is not None else []
        completions += [CompletionItem(name) for name in names if name.startswith(incomplete)]
        return completions


class InputFile(CompletedText):
    """The path of a file that a command reads, or standard input."""

    def __init__(self) -> None:
        super().__init__(paths="file")

    def check(self, path: str, ctx: click.Context) -> None:
        """Raise an InputError for a file that cannot be read."""
        if path != STDIN:
            check_input_file(path)


class InputText(InputFile):
    """The path of a text; if a sentence was typed in its place, the hint pipes the sentence."""

    def check(self, path: str, ctx: click.Context) -> None:
        try:
            super().check(path, ctx)
        except InputError as error:
            is_sentence = " " in path and not is_url(path.partition(" ")[0])
            if not is_sentence or os.path.lexists(path):
                raise
            hint = f"{error.hint}; for a sentence: `{line_with_sentence(ctx, path)}`"
            where = shortened(without_secrets(path))
            raise InputError(error.problem, hint, where=where) from None


def _model_names() -> list[str]:
    from elmo_cli.pretrained.catalogue import CATALOGUE
    from elmo_cli.pretrained.hub import pulled_models

    return [*(model.name for model in CATALOGUE), *map(str, pulled_models())]


def _task_names() -> list[str]:
    from elmo_cli.tasks.settings import TASKS

    return list(TASKS)


def _preset_names() -> list[str]:
    from elmo_cli.tasks.settings import PRESETS

    return list(PRESETS)


def _prediction_formats() -> list[str]:
    from elmo_cli.tasks.settings import PREDICTION_FORMATS

    return list(PREDICTION_FORMATS)


def _layout_names() -> list[str]:
    from elmo_cli.store.layouts import LAYOUTS

    return list(LAYOUTS)


def _device_names() -> list[str]:
    from elmo_cli.engine.names import DEVICES

    return list(DEVICES)


def _column_names() -> list[str]:
    from elmo_cli.text.conll import CONLLU_COLUMNS

    return list(CONLLU_COLUMNS)


def _encoding_names() -> list[str]:
    """The encodings of text that come with Python, with hyphens."""
    from encodings.aliases import aliases

    names = []
    for name in sorted(set(aliases.values())):
        # Python refuses names of codecs of another operating system, and of codecs of bytes.
        with suppress(LookupError):
            "".encode(name)
            names.append(name.replace("_", "-"))
    return names


# The types of options and arguments that the shell completes.
COLUMN = CompletedText(names=_column_names)
DEVICE = CompletedText(names=_device_names)
ENCODING = CompletedText(names=_encoding_names)
FILE = CompletedText(paths="file")
INPUT_FILE = InputFile()
INPUT_TEXT = InputText()
FOLDER = CompletedText(paths="dir")
LAYERS = CompletedText(names=lambda: ["all", "top", "average", "sum"])
LAYOUT = CompletedText(names=_layout_names)
MODEL = CompletedText(names=_model_names)
MODEL_OR_FILE = CompletedText(names=_model_names, paths="file")
PREDICTION_FORMAT = CompletedText(names=_prediction_formats)
PRESET = CompletedText(names=_preset_names)
TASK = CompletedText(names=_task_names)


class _NonEmptyParameter(click.Parameter):
    """A parameter that refuses an empty value, such as that of an unset shell variable."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        value = super().process_value(ctx, value)
        has_empty = isinstance(value, tuple) and "" in value
        if value == "" or has_empty:
            raise UsageError(
                f"empty value for {self._name_in_messages()}", "is a shell variable unset?"
            )
        return value

    def _name_in_messages(self) -> str:
        """The metavar of an argument, as in the help, or the name of an option."""
        if not isinstance(self, click.Argument):
            return self.opts[-1]
        return (self.metavar or "FILE").rstrip("…")  # "…" marks an argument that may be repeated


class GroupedOption(_NonEmptyParameter, click.Option):
    """An option that the help lists under a heading."""

    def __init__(self, *args: Any, group: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)  # descriptions state a bound where a user could hit it
        if isinstance(self.default, float):
            extra["default"] = f"{self.default:g}"
        return extra


class NonEmptyArgument(_NonEmptyParameter, click.Argument):
    """An argument that refuses an empty value."""


class GroupedCommand(click.Command):
    """A command whose help lists its options under headings, in order of declaration."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        console.running.start(ctx, args)
        if not args and not ctx.resilient_parsing:
            _refuse_unread_text(ctx)
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:  # true while the shell completes a line
            _check_input_files(ctx)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        general: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and not isinstance(parameter, click.Argument):
                group = getattr(parameter, "group", "General")  # `--help` of click has no group
                records = general if group == "General" else groups.setdefault(group, [])
                records.append(record)
        groups["General"] = general  # listed last
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)


def _refuse_unread_text(ctx: click.Context) -> None:
    """Raise an error in place of the help if a text is piped to a command that reads texts."""
    for parameter in ctx.command.params:
        if isinstance(parameter.type, InputText) and console.has_piped_input():
            raise click.MissingParameter(ctx=ctx, param=parameter)


def _check_input_files(ctx: click.Context) -> None:
    """Raise an InputError for a file that cannot be read, once the command line is understood."""
    for parameter in ctx.command.params:
        if not isinstance(parameter.type, InputFile):
            continue
        value = ctx.params.get(str(parameter.name))
        if value is None:
            continue
        for path in value if isinstance(value, tuple) else (value,):
            parameter.type.check(path, ctx)


def command(function: Callable[..., Any]) -> click.Command:
    """Declare a command with grouped options, which shows its help if nothing is given.

    The values of its options and arguments are the fields of a dataclass in the same module, named
    after the function: `EmbedOptions` for `embed`.
    """
    return click.command(cls=GroupedCommand, no_args_is_help=True)(function)


class FiniteRange(click.FloatRange):
    """A finite number within bounds; NaN would pass every comparison."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number", param, ctx)
        return number


def argument(name: str, **kwargs: Any) -> Option:
    """An argument; `kwargs` as in `click.argument`."""
    return click.argument(name, cls=NonEmptyArgument, **kwargs)


def value(
    group: str, declaration: str, description: str, dest: str | None = None, **kwargs: Any
) -> Option:
    """An option that takes a value.

    Args:
        group: heading in the help.
        declaration: names and metavar, such as `-o, --output FILE`.
        description: help; a default is appended to it.
        dest: name of the Python parameter; that of the option by default.
        kwargs: as in `click.option`.
    """
    words = declaration.replace(",", "").split(" ")
    names = [word for word in words if word.startswith("-")]
    metavar = words[len(names) :]
    if metavar:
        kwargs["metavar"] = " ".join(metavar)
    if dest is not None:
        names.append(dest)
    kwargs.setdefault("show_default", kwargs.get("default") is not None)
    return click.option(*names, cls=GroupedOption, group=group, help=description, **kwargs)


def flag(
    group: str, declaration: str, description: str, dest: str | None = None, **kwargs: Any
) -> Option:
    """An option without a value; arguments as in `value`."""
    return value(group, declaration, description, dest, is_flag=True, **kwargs)


def setting(owner: type, group: str, declaration: str, description: str, **kwargs: Any) -> Option:
    """An option for the field of a dataclass, with its type, default and choices.

    Args:
        owner: dataclass with a field named like the option, such as `TrainSettings`; it checks the
            bounds.
        group, declaration, description, kwargs: as in `value`; the option has one name.
    """
    option = declaration.split(" ")[0]
    name = option.lstrip("-").replace("-", "_")
    field = {field.name: field for field in fields(owner)}[name]
    kind = _type_of_value(get_type_hints(owner)[name])
    if kind is bool:
        return flag(group, declaration, description, **kwargs)
    choices = field.metadata.get("choices")
    if choices:
        kwargs.setdefault("type", click.Choice(choices))
    elif kind is float:
        kwargs.setdefault("type", FiniteRange())
    else:
        kwargs.setdefault("type", kind)
    kwargs.setdefault("default", field.default)
    return value(group, declaration, description, **kwargs)


def _type_of_value(hint: Any) -> Any:
    """Return the type of the values of a field from its annotation: `int` from `int | None`.

    Raises:
        TypeError: the annotation is neither a class nor a class or None; click has no type for it.
    """
    if isinstance(hint, type):
        return hint
    types = [alternative for alternative in get_args(hint) if alternative is not NoneType]
    if get_origin(hint) is not UnionType or len(types) != 1:
        raise TypeError(f"an option cannot have values of type {hint}")
    return types[0]


def output_option(metavar: str, description: str, **kwargs: Any) -> Option:
    """The option for the output of a command, which is no URL; arguments as in `value`."""
    kwargs["callback"] = refuse_url
    return value("Output", f"-o, --output {metavar}", description, **kwargs)


def settings(owner: type, group: str, *options: tuple[str, str]) -> Option:
    """A `setting` for each declaration with its description."""
    return together(*(setting(owner, group, *option) for option in options))


def together(*options: Option) -> Option:
    """Several options as one decorator, in the order given."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def refuse_url(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Callback of click: return an output path unchanged; a UsageError if it is a URL."""
    if value is not None:
        check_local(value)
    return value


def check_local(path: str) -> None:
    """Raise a UsageError for a URL."""
    if is_url(path):
        raise UsageError(
            "only `elmo embed --ray` writes to a URL",
            "write to a path with `-o`, then copy the file there",
            where=path,
        )


def longest_name(parameter: click.Parameter) -> str:
    """The name of an option in messages: `--output` of `-o, --output`."""
    return max(parameter.opts, key=len)
