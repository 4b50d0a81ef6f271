"""Options that commands share, and help that lists options in groups."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from elmo_cli.cli.completion import completions
from elmo_cli.cli.console import check_stdout, is_terminal
from elmo_cli.cluster.url import is_url, shown
from elmo_cli.errors import UsageError

_MOST_THREADS = 1024
F = TypeVar("F", bound=Callable[..., Any])


class GroupedOption(click.Option):
    """An option that stands under a heading in the help."""

    def __init__(self, *args: Any, group: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return completions(self.metavar, incomplete) or super().shell_complete(ctx, incomplete)


class NamedArgument(click.Argument):
    """An argument that the shell completes as what its name in the help says."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return completions(self.metavar, incomplete) or super().shell_complete(ctx, incomplete)


class GroupedCommand(click.Command):
    """A command whose help lists its options under headings, in the order they were declared."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Argument):
                continue
            record = parameter.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(parameter, "group", "Other"), []).append(record)
        last = groups.pop("Other", [])
        for group, records in {**groups, "Other": last}.items():
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


def option(group: str, *names: str, **kwargs: Any) -> Callable[[F], F]:
    """A click option under the heading `group`."""
    return click.option(*names, cls=GroupedOption, group=group, **kwargs)


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in the order given."""

    def decorate(function: F) -> F:
        for one in reversed(options):
            function = one(function)
        return function

    return decorate


def named(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
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


def named_texts(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Refuse an empty name of a text, and a terminal in the place of one; a callback of click.

    Raises:
        UsageError: the name is empty, or standard input is a terminal, where a run would wait for a
            text for ever.
    """
    texts = value if isinstance(value, tuple) else (value,)
    if "-" in texts and is_terminal(sys.stdin):
        raise UsageError(
            "standard input is a terminal: no text is coming", "name a file, or pipe the text in"
        )
    return named(ctx, parameter, value)


def on_disk(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Refuse an output that is no path of this machine; a callback of click.

    Raises:
        UsageError: the name is empty, or a URL.
    """
    found: str = named(ctx, parameter, value)
    if is_url(found):
        raise UsageError(
            f"{shown(found)}: only `elmo embed --engine ray` writes to a URL",
            "`-o` with a path, and copy it there",
        )
    return found


def _model(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The model; a pair of files on the command line goes before $ELMO_MODEL."""
    by_environment = ctx.get_parameter_source("model") is ParameterSource.ENVIRONMENT
    if by_environment and (ctx.params.get("options") or ctx.params.get("weights")):
        return None
    found: str | None = named(ctx, parameter, value)
    return found


def _hdf5(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    if value == "-":
        raise UsageError("--output -: HDF5 needs a file on a disk", "`-o FILE` names one")
    return on_disk(ctx, parameter, value)


hdf5_output: Callable[[Any], Any] = option(
    "Output",
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    callback=_hdf5,
    help="The file to make.",
)

encoding_option: Callable[[Any], Any] = option(
    "Input", "--encoding", default="utf-8", show_default=True, help="Encoding of the text."
)
_max_tokens: Callable[[Any], Any] = option(
    "Input",
    "--max-tokens",
    type=int,
    default=100_000,
    show_default=True,
    help="Refuse a longer sentence.",
)
_on_error: Callable[[Any], Any] = option(
    "Input",
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="Stop at a line that can't be read, or leave it out, tell of it and exit with 3.",
)

input_options: Callable[[Any], Any] = together(
    option(
        "Input",
        "--input-format",
        "format",
        type=click.Choice(["auto", "plain", "conll", "conllu", "jsonl"]),
        default="auto",
        show_default=True,
        help="How files are read; auto goes by the suffix, and plain is a sentence a line, "
        "tokens split at white space.",
    ),
    option(
        "Input",
        "--tokenize",
        is_flag=True,
        help="The text is raw English: split paragraphs (lines) into sentences and tokens.",
    ),
    encoding_option,
    option(
        "Input", "--column", type=int, help="Column of the tokens, from 1, for conll and conllu."
    ),
    option(
        "Input",
        "--blank",
        type=click.Choice(["keep", "skip", "error"]),
        default="keep",
        show_default=True,
        help="A blank line is kept as a sentence without tokens, left out (its number too), or "
        "refused. Line i of a plain text is key i always, but for --tokenize.",
    ),
    _max_tokens,
    _on_error,
)

raw_input_options: Callable[[Any], Any] = together(encoding_option, _max_tokens, _on_error)

model_options: Callable[[Any], Any] = together(
    option(
        "Model",
        "-m",
        "--model",
        envvar="ELMO_MODEL",
        callback=_model,
        metavar="NAME|PATH",
        help="A name of `elmo models list`, a folder or a zip; the bundled model by default.",
    ),
    option(
        "Model",
        "--options",
        metavar="FILE",
        callback=named,
        help="An options.json, with --weights.",
    ),
    option(
        "Model",
        "--weights",
        metavar="FILE",
        callback=named,
        help="An HDF5 weight file, with --options.",
    ),
)


threads_option: Callable[[Any], Any] = option(
    "Speed", "--threads", type=click.IntRange(1, _MOST_THREADS), help="Threads on the CPU."
)
processor_options: Callable[[Any], Any] = together(
    option(
        "Speed",
        "--device",
        envvar="ELMO_DEVICE",
        default="auto",
        show_default=True,
        metavar="NAME",
        help="auto, cpu, cuda, cuda:N or mps.",
    ),
    threads_option,
)


def precision_option(*precisions: str, what: str) -> Callable[[F], F]:
    """In which of `precisions` products are computed, and `what` that brings."""
    return option(
        "Speed",
        "--precision",
        type=click.Choice(precisions),
        default="float32",
        show_default=True,
        help=what,
    )


def device_options(*engines: str) -> Callable[[F], F]:
    """Where numbers are computed, and by which of `engines`."""
    on_cluster = "; ray is fast on the workers of a Ray cluster" if "ray" in engines else ""
    return together(
        processor_options,
        option(
            "Speed",
            "--engine",
            type=click.Choice(engines),
            default="fast",
            show_default=True,
            help=f"plain computes each step as the paper has it{on_cluster}.",
        ),
    )


def printed(ctx: click.Context, parameter: click.Parameter, value: bool) -> bool:
    """Refuse to print a result to a standard output that is closed; a callback of click.

    Raises:
        OutputError: it is closed.
    """
    if value:
        check_stdout()
    return value


quiet_option: Callable[[Any], Any] = option(
    "Messages", "-q", "--quiet", is_flag=True, help="Say nothing but errors."
)
_json = partial(option, "Messages", "--json", "as_json", is_flag=True, callback=printed)
json_option: Callable[[Any], Any] = _json(help="Print the result as one JSON object.")
figures_json_option: Callable[[Any], Any] = _json(
    help="Print the result as one JSON object; a figure that is infinite is null."
)
