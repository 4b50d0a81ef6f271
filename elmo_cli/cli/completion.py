"""What a shell offers where TAB is pressed."""

from __future__ import annotations

import re

from click.shell_completion import CompletionItem

_FILES = {"FILE", "LOG", "PATH", "SHARD", "TEXT"}
_MODELS = ("MODEL", "NAME|PATH")


def completions(metavar: str | None, incomplete: str) -> list[CompletionItem]:
    """What the shell offers for a parameter that the help calls `metavar`: files, folders, models.

    Once a shell has a completion of ours, it has none of its own.
    """
    words = set(re.findall(r"[A-Z]+", metavar or ""))
    found: list[CompletionItem] = []
    if metavar in _MODELS:
        from elmo_cli.pretrained.catalogue import CATALOGUE

        names = [model.name for model in CATALOGUE]
        found += [CompletionItem(name) for name in names if name.startswith(incomplete)]
    if words & _FILES:
        found.append(CompletionItem(incomplete, type="file"))
    elif "DIR" in words:
        found.append(CompletionItem(incomplete, type="dir"))
    return found
