"""Report of an error on stderr: a message, a hint and an exit code."""

from __future__ import annotations

import errno
import os
import sys

import click

from elmo_cli import INTERRUPTED_HINT
from elmo_cli.cli.console import alert, print_error
from elmo_cli.cli.option_names import with_options
from elmo_cli.errors import ElmoError

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def report(error: BaseException, args: list[str], group: click.Group) -> int:
    """Print what went wrong and what to do next; return the exit code.

    Args:
        args: the command line.
        group: all commands; messages name the options of the command that `args` invoke.
    """
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        alert(*error.format_message().splitlines())
        return 2
    if isinstance(error, BrokenPipeError):
        return 1  # the reader, such as `head`, needs no more
    code, message, hint = _explain(error, args, group)
    print_error(message, hint)
    return code


def _explain(error: BaseException, args: list[str], group: click.Group) -> tuple[int, str, str]:
    """Exit code, message and hint of an error."""
    if isinstance(error, ElmoError):
        hint = "; ".join(filter(None, (error.hint, _variable_hint(error.message, args))))
        message = _with_options(error.message, args, group)
        return error.exit_code, message, _with_options(hint, args, group)
    if isinstance(error, click.ClickException):
        return 2, *_usage(error, args)
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return 130, "interrupted", INTERRUPTED_HINT
    if _is_out_of_memory(error):
        return 1, "out of memory", "a smaller `--batch-size`, or a smaller model"
    if isinstance(error, OSError) and error.strerror:
        if error.filename is not None:
            return 1, f"{error.filename}: {error.strerror}", "check the path and its permissions"
        if error.errno in _NO_SPACE:
            hint = "free some space, or redirect it to a file on another disk"
            return 1, f"standard output: cannot be written ({error.strerror})", hint
        return 1, error.strerror, "`elmo --debug …` shows where"
    hint = "internal error of elmo: please report it with the output of `elmo --debug …`"
    return 1, f"{type(error).__name__}: {error}", hint


def _with_options(text: str, args: list[str], group: click.Group) -> str:
    """A message of the library in which parameters, such as `overwrite=True`, are options."""
    command: click.Command = group
    for arg in args:
        if isinstance(command, click.Group):
            command = command.get_command(click.Context(command), arg) or command
    return with_options(text, command)


def _variable_hint(message: str, args: list[str]) -> str:
    """Which environment variable a value came from that a message names."""
    for variable, option in (("ELMO_MODEL", "`"), ("ELMO_DEVICE", "device=")):
        value = os.environ.get(variable)
        is_given = any(value == arg or arg.endswith(f"={value}") for arg in args)
        if value and not is_given and option + value in message:
            return f"${variable} is `{value}`"
    return ""


def _is_out_of_memory(error: BaseException) -> bool:
    if "torch" not in sys.modules:
        return isinstance(error, MemoryError)
    from elmo_cli.engine.runtime import is_out_of_memory

    return is_out_of_memory(error)


def _usage(error: click.ClickException, args: list[str]) -> tuple[str, str]:
    """A message of click on one line, without its terms for types and a full stop; and a hint."""
    context = getattr(error, "ctx", None)
    name = context.command_path if context is not None else " ".join(["elmo", *args[:1]])
    listed = "commands" if name in ("elmo", "elmo models", "elmo plot") else "options and examples"
    message = error.format_message().replace("a valid integer range", "a whole number")
    message = message.replace("a valid float range", "a number")
    message = message.replace("\n", " ").replace(". (", " (").rstrip(".")
    return message[:1].lower() + message[1:], f"`{name} --help` shows all {listed}"
