"""The command line that a hint proposes instead of the one that was typed."""

from __future__ import annotations

import shlex

import click

from elmo_cli.cli import console
from elmo_cli.messages import shortened
from elmo_cli.text.chunks import STDIN


def line_with_sentence(context: click.Context, sentence: str) -> str:
    """The line in which a sentence, which was typed in place of a path, is standard input."""
    words = [STDIN if word == sentence else word for word in console.mode.words]
    return f"echo {_quoted(shortened(sentence))} | {context.command_path} {shlex.join(words)}"


def line_with_missing(context: click.Context, missing: click.Parameter) -> str:
    """The line with a parameter that it lacks.

    A word too many may be the value of a missing option: `elmo evaluate DIR FILE` becomes
    `elmo evaluate DIR --test FILE`.
    """
    words = list(console.mode.words)
    name = min(missing.opts, key=len)
    metavar = missing.make_metavar(context)
    if isinstance(missing, click.Argument):
        return " ".join([context.command_path, *map(shlex.quote, words), metavar])
    _, surplus, _ = context.command.make_parser(context).parse_args(list(words))
    if len(surplus) == 1:
        words.insert(words.index(surplus[0]), name)
        return " ".join([context.command_path, *map(shlex.quote, words)])
    return " ".join([context.command_path, *map(shlex.quote, words), name, metavar])


def _quoted(sentence: str) -> str:
    """A sentence as one word of the shell; an apostrophe is common in it."""
    has_special = any(character in '"$`\\!' for character in sentence)
    return shlex.quote(sentence) if has_special else f'"{sentence}"'
