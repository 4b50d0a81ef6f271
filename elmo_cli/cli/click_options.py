"""Declare options of click: grouped in the help, completed by the shell, checked."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import click
from click.shell_completion import CompletionItem

from elmo_cli.cli import console
from elmo_cli.cluster.shard_folder import without_secrets
from elmo_cli.errors import UsageError
from elmo_cli.files import is_url

if TYPE_CHECKING:
    from click.types import OptionHelpExtra


Option = Callable[[Any], Any]  # a decorator of a command
_FILE_WORDS = {"FILE", "LOG", "PATH", "SHARD", "TEXT"}  # of metavars that stand for a file


class _Parameter(click.Parameter):
    """A parameter that refuses an empty value, such as that of an unset shell variable."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        value = super().process_value(ctx, value)
        has_empty = isinstance(value, tuple) and "" in value
        if value == "" or has_empty:
            raise UsageError(f"empty value for {self._name()}", "is a shell variable unset?")
        return value

    def _name(self) -> str:
        """What the help calls it: the metavar of an argument, or the name of an option."""
        if not isinstance(self, click.Argument):
            return self.opts[-1]
        return (self.metavar or "FILE").rstrip("…")  # of an argument that may be repeated

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Models, tasks, files and folders for a metavar; a shell with our completion uses no
        other."""
        words = set(re.findall(r"[A-Z]+", self.metavar or ""))
        completions = [
            CompletionItem(name) for name in self._names(words) if name.startswith(incomplete)
        ]
        if words & _FILE_WORDS:
            completions.append(CompletionItem(incomplete, type="file"))
        elif "DIR" in words:
            completions.append(CompletionItem(incomplete, type="dir"))
        if not completions:
            return super().shell_complete(ctx, incomplete)
        return completions

    def _names(self, words: set[str]) -> list[str]:
        """The models or tasks that a metavar of these words stands for."""
        is_argument = isinstance(self, click.Argument)
        if "NAME" in words and ("PATH" in words or is_argument):
            from elmo_cli.pretrained.catalogue import CATALOGUE

            return [model.name for model in CATALOGUE]
        if "TASK" in words:
            from elmo_cli.tasks.settings import TASKS

            return list(TASKS)
        return []


class GroupedOption(_Parameter, click.Option):
    """An option that the help lists under a heading."""

    def __init__(self, *args: Any, group: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        if isinstance(self.default, float):
            extra["default"] = f"{self.default:g}"
        return extra


class NamedArgument(_Parameter, click.Argument):
    """An argument that the shell completes according to its name in the help."""


class GroupedCommand(click.Command):
    """A command whose help lists its options under headings, in order of declaration."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        console.mode.context = ctx  # from here on, messages name its options
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and not isinstance(parameter, click.Argument):
                group = getattr(parameter, "group", "General")
                groups.setdefault(group, []).append(record)
        groups["General"] = groups.pop("General", [])  # the last one
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)


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
    """A click argument with completion."""
    return click.argument(name, cls=NamedArgument, **kwargs)


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
    """The type of the values of a field: `int` of `int`, and of `int | None`."""
    alternatives = get_args(hint)
    return alternatives[0] if alternatives else hint


def output_option(metavar: str, description: str, **kwargs: Any) -> Option:
    """The option for the output of a command, which is no URL; arguments as in `value`."""
    kwargs["callback"] = local_path
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


def local_path(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Callback of click: refuse an output that is a URL."""
    if value is not None:
        check_local(value)
    return value


def check_local(path: str) -> None:
    """Raise a UsageError for a URL."""
    if is_url(path):
        raise UsageError(
            "only `elmo embed --ray` writes to a URL",
            "write to a path with `-o`, then copy the file there",
            where=without_secrets(path),
        )


def longest_name(parameter: click.Parameter) -> str:
    """The name of an option in messages: `--output` of `-o, --output`."""
    return max(parameter.opts, key=len)
