"""Shell completion of files, folders and models."""

from __future__ import annotations

import re

from click.shell_completion import CompletionItem

_FILES = {"FILE", "LOG", "PATH", "SHARD", "TEXT"}
_MODELS = ("MODEL", "NAME|PATH")


def completions(metavar: str | None, incomplete: str) -> list[CompletionItem]:
    """Completions of a parameter, according to its metavar: files, folders, models.

    A shell that has a completion function of ours uses none of its own.
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
