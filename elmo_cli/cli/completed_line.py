"""line_with_missing: the command line that a hint proposes where a parameter is missing."""

from __future__ import annotations

import click

from elmo_cli.cli import console
from elmo_cli.cli.click_options import InputText
from elmo_cli.cli.corrected_line import shown_words
from elmo_cli.text.chunks import STDIN


def line_with_missing(context: click.Context, missing: click.Parameter) -> str:
    """The line that was typed, with the parameters that it lacks.

    A single word too many is taken as the value of the missing option: `elmo evaluate DIR FILE`
    becomes `elmo evaluate DIR --test FILE`. A missing text is `-` if a text is piped.

    Args:
        missing: the parameter that click found missing, or that the command itself requires.
    """
    words = list(console.running.words)
    given, surplus, _ = context.command.make_parser(context).parse_args(list(words))
    arguments = []
    options = []
    for parameter in context.command.params:
        typed, _ = parameter.consume_value(context, given)
        is_required = parameter.required or parameter is missing
        if not is_required or not parameter.value_is_missing(typed):
            continue
        value = _placeholder(context, parameter)
        if isinstance(parameter, click.Argument):
            arguments.append(value)
            continue
        # An option may have a value that equals the word too many.
        if parameter is missing and len(surplus) == 1 and words.count(surplus[0]) == 1:
            words.remove(surplus[0])
            [value] = shown_words(surplus)
        options += [min(parameter.opts, key=len), value]
    shown = [*shown_words(words), *arguments]
    n_before_dashes = shown.index("--") if "--" in shown else len(shown)
    shown[n_before_dashes:n_before_dashes] = options
    return " ".join([context.command_path, *shown])


def _placeholder(context: click.Context, parameter: click.Parameter) -> str:
    """What stands in a hint for the value of a parameter."""
    if isinstance(parameter.type, InputText) and console.has_piped_input():
        return STDIN
    return parameter.make_metavar(context)
