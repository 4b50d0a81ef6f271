"""Options that commands share, and help that lists options in groups."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from elmo_cli.cli.completion import completions
from elmo_cli.cli.console import check_stdout, is_terminal
from elmo_cli.cluster.shard_folder import is_url, without_secrets
from elmo_cli.engine.names import check_device_name
from elmo_cli.errors import UsageError

if TYPE_CHECKING:
    from click.types import OptionHelpExtra

    from elmo_cli.text.input import InputSettings

_MOST_THREADS = 1024
F = TypeVar("F", bound=Callable[..., Any])


class GroupedOption(click.Option):
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

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return completions(self.metavar, incomplete) or super().shell_complete(ctx, incomplete)


class NamedArgument(click.Argument):
    """An argument that the shell completes according to its name in the help."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        metavar = "MODEL" if self.metavar == "NAME" else self.metavar
        return completions(metavar, incomplete) or super().shell_complete(ctx, incomplete)


class GroupedCommand(click.Command):
    """A command whose help lists its options under headings, in order of declaration."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Argument):
                continue
            record = parameter.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(parameter, "group", "General"), []).append(record)
        last = groups.pop("General", [])
        for group, records in {**groups, "General": last}.items():
            with formatter.section(group):
                formatter.write_dl(records)


class FiniteRange(click.FloatRange):
    """A number within bounds; NaN compares as neither too small nor too great, and is none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number", param, ctx)
        return number


def argument(name: str, **kwargs: Any) -> Callable[[F], F]:
    """A click argument with completion."""
    return click.argument(name, cls=NamedArgument, **kwargs)


def value(
    group: str, declaration: str, description: str, dest: str | None = None, **kwargs: Any
) -> Callable[[F], F]:
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
    kwargs.setdefault("show_default", kwargs.get("default") is not None)
    return click.option(
        *names,
        *filter(None, [dest]),
        cls=GroupedOption,
        group=group,
        metavar=" ".join(words[len(names) :]),
        help=description,
        **kwargs,
    )


def flag(
    group: str, declaration: str, description: str, dest: str | None = None, **kwargs: Any
) -> Callable[[F], F]:
    """An option without a value; arguments as in `value`."""
    names = declaration.split(", ")
    return click.option(
        *names,
        *filter(None, [dest]),
        cls=GroupedOption,
        group=group,
        is_flag=True,
        help=description,
        **kwargs,
    )


def setting(
    owner: type, group: str, declaration: str, description: str, **kwargs: Any
) -> Callable[[F], F]:
    """An option for the field of a dataclass, with its type, default and choices.

    Args:
        owner: dataclass with a field named like the option, such as `TrainSettings`; it checks the
            bounds.
        group, declaration, description, kwargs: as in `value`.
    """
    names = [word for word in re.split(r",? ", declaration) if word.startswith("-")]
    name = names[-1].lstrip("-").replace("-", "_")
    field = next(one for one in fields(owner) if one.name == name)
    hint = get_type_hints(owner)[name]
    kind = (get_args(hint) or (hint,))[0]
    if kind is bool:
        return flag(group, declaration, description, **kwargs)
    if choices := field.metadata.get("choices"):
        kwargs.setdefault("type", click.Choice(choices))
    kwargs.setdefault("type", FiniteRange() if kind is float else kind)
    kwargs.setdefault("default", field.default)
    if kind is str and not choices:
        kwargs.setdefault("callback", non_empty)
    return value(group, declaration, description, **kwargs)


def settings(owner: type, group: str, *options: tuple[str, str]) -> Callable[[F], F]:
    """A `setting` for each declaration with its description."""
    return together(*(setting(owner, group, *option) for option in options))


def given_options(ctx: click.Context) -> dict[str, Any]:
    """The parameters that the command line or the environment gives, with their values."""
    sources = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    return {
        name: value
        for name, value in ctx.params.items()
        if ctx.get_parameter_source(name) in sources and value != ()
    }


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in the order given."""

    def decorate(function: F) -> F:
        for one in reversed(options):
            function = one(function)
        return function

    return decorate


def non_empty(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Refuse an empty value, as an unset variable of the shell makes it; a callback of click.

    Raises:
        UsageError: the name is empty, or one of several is.
    """
    if value == "" or (isinstance(value, tuple) and "" in value):
        name = parameter.metavar if isinstance(parameter, click.Argument) else parameter.opts[-1]
        raise UsageError(
            f"a name is empty: {(name or 'FILE').rstrip('…')}",
            "is a variable of the shell not set?",
        )
    return value


def text_names(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Refuse an empty name of a text, and a terminal in the place of one; a callback of click.

    Raises:
        UsageError: the name is empty, or standard input is a terminal, where a run would wait for a
            text for ever.
    """
    check_stdin(value if isinstance(value, tuple) else (value,))
    return non_empty(ctx, parameter, value)


def check_stdin(texts: Sequence[str]) -> None:
    """Raise a UsageError if standard input is among the texts and is a terminal."""
    if "-" in texts and is_terminal(sys.stdin):
        raise UsageError(
            "standard input is a terminal: no text is coming", "name a file, or pipe the text in"
        )


def local_path(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Refuse an output that is no path of this machine; a callback of click.

    Raises:
        UsageError: the name is empty, or a URL.
    """
    found: str = non_empty(ctx, parameter, value)
    if is_url(found):
        raise UsageError(
            f"{without_secrets(found)}: only `elmo embed --ray` writes to a URL",
            "`-o` with a path, and copy it there",
        )
    return found


def _model(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The model; a pair of files on the command line goes before $ELMO_MODEL."""
    by_environment = ctx.get_parameter_source("model") is ParameterSource.ENVIRONMENT
    if by_environment and (ctx.params.get("options") or ctx.params.get("weights")):
        return None
    found: str | None = non_empty(ctx, parameter, value)
    return found


def _hdf5(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    if value == "-":
        raise UsageError("--output -: HDF5 needs a file on a disk", "`-o FILE` names one")
    return local_path(ctx, parameter, value)


def printed(ctx: click.Context, parameter: click.Parameter, value: bool) -> bool:
    """Refuse to print a result to a standard output that is closed; a callback of click.

    Raises:
        OutputError: it is closed.
    """
    if value:
        check_stdout()
    return value


LAYER_SPEC = "all, top, average, numbers such as 0,2, or mix:W0,W1,W2[,GAMMA]"
DTYPES = ("float32", "float16", "int8")
_DTYPE = "Type of the stored values: float32, float16, or int8 (layout flat only)."
_ON_ERROR = "On an unreadable line: stop, or skip it and exit with code 3."

Option = Callable[[Any], Any]

hdf5_output: Option = value(
    "Output", "-o, --output FILE", "HDF5 file to write.", required=True, callback=_hdf5
)
overwrite_option: Option = flag("Output", "-f, --overwrite", "Replace existing output.")


def dtype_option(default: str | None = None) -> Option:
    """The type of stored values; that of FILE without a `default`."""
    more = "" if default else "  [default: that of FILE]"
    choices = click.Choice(DTYPES)
    return value("Output", "--dtype TYPE", _DTYPE + more, type=choices, default=default)


encoding_option: Option = value("Input", "--encoding NAME", "Text encoding.", default="utf-8")
_on_error: Option = value(
    "Input", "--on-error ACTION", _ON_ERROR, type=click.Choice(["stop", "skip"]), default="stop"
)
input_options: Option = together(
    value(
        "Input",
        "--input-format FORMAT",
        "Input format: auto (by suffix), plain (one sentence per line), conll, conllu or jsonl.",
        "format",
        type=click.Choice(["auto", "plain", "conll", "conllu", "jsonl"]),
        default="auto",
    ),
    flag(
        "Input",
        "--tokenize",
        "Split raw English, one paragraph per line, into sentences and tokens.",
    ),
    encoding_option,
    value(
        "Input",
        "--column N",
        "Token column of conll and conllu input, from 1; -1 is the last.  [default: FORM in "
        "conllu, recognized in conll]",
        type=int,
    ),
    _on_error,
)
raw_input_options: Option = together(encoding_option, _on_error)
blank_lines_option: Option = value(
    "Input",
    "--blank-lines ACTION",
    "What a blank line of plain text becomes: keep (an empty sentence), skip, or error.",
    "blank",
    type=click.Choice(["keep", "skip", "error"]),
    default="keep",
)

model_options: Option = together(
    value(
        "Model",
        "-m, --model NAME|PATH",
        "Model: a name from `elmo models list`, a folder, an archive or a weight file.  "
        "[default: elmo-en]",
        envvar="ELMO_MODEL",
        callback=_model,
    ),
    value(
        "Model",
        "--options-file FILE",
        "options.json of the model; needs --weight-file.",
        "options",
        callback=non_empty,
    ),
    value(
        "Model",
        "--weight-file FILE",
        "HDF5 weight file of the model; needs --options-file.",
        "weights",
        callback=non_empty,
    ),
)
_VOCABULARY = "Types that the softmax predicts, one per line.  [default: vocab.txt next to the "


def language_model_options(*, or_counted: bool = False) -> Option:
    """Softmax and vocabulary of a model, which may be `or_counted` in the text."""
    default = "weights, else counted in the text]" if or_counted else "weights]"
    return together(
        value(
            "Model",
            "--softmax FILE",
            "Softmax weights in HDF5.  [default: softmax.hdf5 next to the weights, or inside the "
            "weight file]",
            callback=non_empty,
        ),
        value("Model", "--vocabulary FILE", _VOCABULARY + default, callback=non_empty),
    )


threads_option: Option = value(
    "Compute",
    "--threads N",
    "Number of CPU threads.  [default: chosen by PyTorch]",
    type=click.IntRange(1, _MOST_THREADS),
)


def _checked_device(context: click.Context, parameter: click.Parameter, name: str) -> str:
    """Refuse a malformed device before torch is imported."""
    check_device_name(name)
    return name


processor_options: Option = together(
    value(
        "Compute",
        "--device NAME",
        "Device: auto, cpu, cuda, cuda:N or mps.",
        envvar="ELMO_DEVICE",
        default="auto",
        callback=_checked_device,
    ),
    threads_option,
)


def precision_option(*precisions: str, description: str) -> Option:
    """The precision of matrix products, one of `precisions`."""
    return value(
        "Compute", "--precision NAME", description, type=click.Choice(precisions), default="float32"
    )


quiet_option: Option = flag("General", "-q, --quiet", "Print errors only.")
json_option: Option = flag(
    "General",
    "--json",
    "Print the result as one JSON object; its fields are listed in docs/json.md.",
    "as_json",
    callback=printed,
)


INPUT_FIELDS = ("format", "tokenize", "encoding", "column", "blank", "max_tokens", "on_error")


def input_settings(given: dict[str, Any], *, max_characters: int = 50) -> InputSettings:
    """How the text is to be read, from the values of `input_options`."""
    from elmo_cli.text.input import InputSettings

    fields = {name: given[name] for name in INPUT_FIELDS if name in given}
    return InputSettings(**fields, max_characters=max_characters)


def refuse_options(ctx: click.Context, names: Collection[str], where: str, hint: str) -> None:
    """Raise a UsageError for an option that the command line gives and that has no effect.

    Args:
        names: parameters of the command.
        where: "without --text", "for standard output", ….
    """
    for parameter in ctx.command.params:
        is_given = ctx.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        if is_given and parameter.name in names:
            option = max(parameter.opts, key=len)
            raise UsageError(f"{option}: has no meaning {where}", hint)
