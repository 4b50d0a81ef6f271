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


def shell_line(words: Sequence[str]) -> str:
    """Words as one types them in a shell, without the secrets of URLs."""
    return " ".join(shown_words(words))


def shown_words(words: Sequence[str]) -> list[str]:
    """Each word as one types it in a shell, without the secrets of URLs."""
    return [shlex.quote(url_without_secrets(word)) for word in words]


def _quoted(sentence: str) -> str:
    """Quote a sentence for the shell: with double quotes, if possible.

    `shlex.quote` makes an apostrophe, which is common in sentences, hard to read.
    """
    has_special = any(character in '"$`\\!' for character in sentence)
    return shlex.quote(sentence) if has_special else f'"{sentence}"'
