"""unknown_command_hint: what to type instead of a word that is no command, such as a file."""

from __future__ import annotations

import os

import click

from elmo_cli.cli.allennlp_call import AllenNlpCall
from elmo_cli.cli.command_groups import COMMAND_NAMES
from elmo_cli.cli.corrected_line import shell_line
from elmo_cli.cli.embed import embed
from elmo_cli.filetypes import FASTA, GZIP, XZ, identify_file
from elmo_cli.text.input import SUFFIXES, without_compression_suffix

_TEXT_TYPES = (None, FASTA, GZIP, XZ)  # None is plain text
_MOVING_HINT = "docs/guides/moving.md lists what replaces the other calls of AllenNLP"


def unknown_command_hint(ctx: click.Context, words: list[str]) -> str:
    """The hint for a call whose first word is no command; "" if nothing follows from the word.

    Args:
        ctx: of the program.
        words: all words of the call, at least one.
    Raises:
        click.NoSuchOption: the call would be one of `elmo embed` with an option that it lacks.
    """
    # AllenNLP is called with `allennlp elmo FILE …`, which users may change to `elmo elmo FILE …`.
    first, *others = words
    if first == "elmo" and others and others[0] in COMMAND_NAMES:
        return f"`elmo {shell_line(others)}`"
    if first == "elmo":
        return f"{_embed_hint(ctx, others)}; {_MOVING_HINT}"
    if first == "allennlp":
        embed_words = others[1:] if others[:1] == ["elmo"] else []
        return f"{_embed_hint(ctx, embed_words)}; {_MOVING_HINT}"
    if without_compression_suffix(first).endswith(tuple(SUFFIXES)):
        return _embed_hint(ctx, words)
    if not os.path.isfile(first):
        return ""
    kind = identify_file(first)
    return _embed_hint(ctx, words) if kind in _TEXT_TYPES else kind.hint_for(first)


def _embed_hint(ctx: click.Context, words: list[str]) -> str:
    embed_ctx = click.Context(embed, parent=ctx, info_name="embed")
    return AllenNlpCall.of(embed, embed_ctx, words).hint()
