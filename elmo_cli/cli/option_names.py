"""Options of a command in messages of the library, which name parameters."""

from __future__ import annotations

import re

import click

_PARAMETER = re.compile(r"`([a-z_]+)(?:=([^`]*))?`")


def with_options(text: str, command: click.Command | None = None) -> str:
    """A message in which parameters, such as `overwrite=True`, are options.

    Args:
        command: whose options they are; by default the command that runs.
    """
    context = click.get_current_context(silent=True)
    if command is None and context is not None:
        command = context.command
    parameters = () if command is None else command.params
    options = {one.name: max(one.opts, key=len) for one in parameters}

    def as_option(found: re.Match[str]) -> str:
        name, value = found[1], (found[2] or "").strip("'\"")
        option = options.get(name, options.get(f"label_{name}", ""))
        if not option.startswith("-"):
            return found[0]
        return f"`{option}`" if value in ("", "True") else f"`{option} {value}`"

    return _PARAMETER.sub(as_option, text)
