"""The command line that a hint proposes instead of the one that was typed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from elmo_cli.cli import console
from elmo_cli.messages import shortened, url_without_secrets, without_secrets
from elmo_cli.text.chunks import STDIN


def line_with_sentence(context: click.Context, sentence: str) -> str:
    """The line that pipes a sentence, which was typed in place of a path, to the command."""
    words = [STDIN if word == sentence else word for word in console.running.words]
    shown = shortened(without_secrets(sentence))
    return f"echo {_quoted(shown)} | {context.command_path} {shell_line(words)}"


def line_with_missing(context: click.Context, missing: click.Parameter) -> str:
    """The line that was typed, with a parameter that it lacks.

    A single word too many is taken as the value of a missing option: `elmo evaluate DIR FILE`
    becomes `elmo evaluate DIR --test FILE`.
    """
    words = list(console.running.words)
    value = missing.make_metavar(context)
    if isinstance(missing, click.Argument):
        return " ".join([context.command_path, *_shown(words), value])
    _, surplus, _ = context.command.make_parser(context).parse_args(list(words))
    if len(surplus) == 1 and words.count(surplus[0]) == 1:  # an option may have an equal value
        words.remove(surplus[0])
        [value] = _shown(surplus)
    n_before_dashes = words.index("--") if "--" in words else len(words)
    shown = _shown(words)
    shown[n_before_dashes:n_before_dashes] = [min(missing.opts, key=len), value]
    return " ".join([context.command_path, *shown])


def shell_line(words: Sequence[str]) -> str:
    """Words as one types them in a shell, without the secrets of URLs."""
    return " ".join(_shown(words))


def _shown(words: Sequence[str]) -> list[str]:
    return [shlex.quote(url_without_secrets(word)) for word in words]


def _quoted(sentence: str) -> str:
    """Quote a sentence for the shell: with double quotes, if possible.

    `shlex.quote` makes an apostrophe, which is common in sentences, hard to read.
    """
    has_special = any(character in '"$`\\!' for character in sentence)
    return shlex.quote(sentence) if has_special else f'"{sentence}"'
