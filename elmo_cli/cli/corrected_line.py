"""The command line that a hint proposes instead of the one that was typed."""

from __future__ import annotations

import shlex

import click

from elmo_cli.cli import console
from elmo_cli.messages import shortened, without_secrets
from elmo_cli.text.chunks import STDIN


def line_with_sentence(context: click.Context, sentence: str) -> str:
    """The line that pipes a sentence, which was typed in place of a path, to the command."""
    words = [STDIN if word == sentence else word for word in console.running.words]
    shown = shortened(without_secrets(sentence))
    return f"echo {_quoted(shown)} | {context.command_path} {shlex.join(words)}"


def line_with_missing(context: click.Context, missing: click.Parameter) -> str:
    """The line that was typed, with a parameter that it lacks.

    A single word too many is taken as the value of a missing option: `elmo evaluate DIR FILE`
    becomes `elmo evaluate DIR --test FILE`.
    """
    words = list(console.running.words)
    value = missing.make_metavar(context)
    if isinstance(missing, click.Argument):
        return " ".join([context.command_path, *map(shlex.quote, words), value])
    _, surplus, _ = context.command.make_parser(context).parse_args(list(words))
    if len(surplus) == 1 and words.count(surplus[0]) == 1:  # an option may have an equal value
        words.remove(surplus[0])
        value = shlex.quote(surplus[0])
    n_before_dashes = words.index("--") if "--" in words else len(words)
    quoted = [shlex.quote(word) for word in words]
    quoted[n_before_dashes:n_before_dashes] = [min(missing.opts, key=len), value]
    return " ".join([context.command_path, *quoted])


def _quoted(sentence: str) -> str:
    """Quote a sentence for the shell: with double quotes, if possible.

    `shlex.quote` makes an apostrophe, which is common in sentences, hard to read.
    """
    has_special = any(character in '"$`\\!' for character in sentence)
    return shlex.quote(sentence) if has_special else f'"{sentence}"'
