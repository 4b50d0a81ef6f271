"""The command line `elmo`: its commands, `main`, which runs one of them, and error reports."""

from __future__ import annotations

import os
import sys
import traceback
from dataclasses import dataclass
from importlib import import_module
from io import TextIOWrapper

import click
from click.core import ParameterSource

from elmo_cli.cli import console
from elmo_cli.cli.command_groups import COMMAND_NAMES, write_command_groups
from elmo_cli.cli.completed_line import line_with_missing
from elmo_cli.cli.console import with_options
from elmo_cli.cli.interruption import interrupted_hint
from elmo_cli.errors import ElmoError, UsageError
from elmo_cli.files import NO_SPACE
from elmo_cli.messages import url_without_secrets
from elmo_cli.version import __version__

_PACKAGE = "elmo_cli"
_VARIABLES = {"model": "ELMO_MODEL", "device": "ELMO_DEVICE"}  # of parameters
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class LazyGroup(click.Group):
    """Commands that are imported when they are called: torch alone takes seconds."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMAND_NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMAND_NAMES:
            return None
        module = import_module(f"elmo_cli.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from elmo_cli.cli.unknown_command import unknown_command_hint

            hint = unknown_command_hint(ctx, args)
            if not hint:
                raise
            name = url_without_secrets(args[0])
            raise UsageError(f"no such command {name!r}", hint) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_command_groups(formatter)


@click.group(
    cls=LazyGroup,
    commands=dict.fromkeys(COMMAND_NAMES),  # of which click suggests one that is nearly the same
    context_settings=_SETTINGS,
    epilog="`elmo COMMAND --help` shows examples. Environment: ELMO_MODEL, ELMO_DEVICE, ELMO_HOME, "
    "ELMO_OFFLINE, NO_COLOR.",
)
@click.version_option(__version__, "--version", prog_name="elmo")
@click.option("--debug", is_flag=True, help="Show a traceback on errors.")
def cli(debug: bool) -> None:
    """Contextual word embeddings (ELMo) from the command line.

    \b
    Examples:
      elmo embed corpus.txt -o corpus.hdf5
      xz -dc corpus.xz | elmo embed - --tokenize -o corpus.hdf5
      elmo inspect corpus.hdf5
    """


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit.

    The exit codes are 0 done, 1 failed, 2 wrong command line, 3 done except for skipped input, and
    130 interrupted. The code is 0 if a reader such as `head` closes the pipe early.
    """
    if args is None:
        args = sys.argv[1:]
    console.running.typed = tuple(args)
    args, debug = _without_debug(args)
    if args[:1] == ["help"]:
        args = [*args[1:], "--help"]
    if isinstance(sys.stdout, TextIOWrapper):  # in a locale that lacks a character
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        cli.main(args, prog_name="elmo", standalone_mode=False)
        if sys.stdout is not None:  # as it is where it was closed before the start
            sys.stdout.flush()
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except SystemExit:  # click and rich end in this way where the reader of a pipe has gone
        sys.exit(0)
    except (Exception, KeyboardInterrupt) as error:
        if debug and not isinstance(error, click.ClickException):
            trace = "".join(traceback.format_exception(error))
            console.alert(*trace.splitlines())
        sys.exit(_report(error))
    sys.exit(0)


def _without_debug(args: list[str]) -> tuple[list[str], bool]:
    """The arguments without `--debug`, which may be anywhere before `--`, and whether it is set."""
    n_words = args.index("--") if "--" in args else len(args)
    words = [word for word in args[:n_words] if word != "--debug"]
    has_debug = len(words) < n_words
    return words + args[n_words:], has_debug


@dataclass(frozen=True)
class _Report:
    """What is printed of an error, in two lines or, without a hint, in one."""

    exit_code: int
    message: str
    hint: str

    def print(self) -> None:
        console.alert(f"error: {self.message}")
        if self.hint:
            console.alert(f"hint: {self.hint}")


def _report(error: BaseException) -> int:
    """Print what went wrong and what to do next; return the exit code."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        console.alert(*error.format_message().splitlines())
        return 2
    if isinstance(error, BrokenPipeError):
        return 0  # the reader, such as `head`, needs no more
    report = _explain(error)
    report.print()
    return report.exit_code


def _explain(error: BaseException) -> _Report:
    if isinstance(error, ElmoError):
        return _explain_own(error)
    if isinstance(error, click.ClickException):
        return _explain_usage(error)
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return _Report(130, "interrupted", interrupted_hint())
    if isinstance(error, ImportError) and not (error.name or "").startswith(_PACKAGE):
        return _explain_import(error)
    if isinstance(error, OSError) and _is_unloaded_library(error):
        return _explain_import(error)
    if _is_out_of_memory(error):
        return _Report(1, "out of memory", _out_of_memory_hint())
    if isinstance(error, OSError) and error.strerror:
        return _explain_system(error, error.strerror)
    hint = "internal error of elmo: please report it with the output of `elmo --debug …`"
    return _Report(1, f"{type(error).__name__}: {error}", hint)


def _out_of_memory_hint() -> str:
    if "batch_size" in console.option_names():
        return "choose a smaller `--batch-size` or a smaller model"
    return "choose a smaller model, or less text at a time"


def _explain_own(error: ElmoError) -> _Report:
    """An error of the library, whose parameters become options of the command."""
    message = with_options(error.problem)
    if error.where:
        message = f"{with_options(error.where)}: {message}"
    hints = [with_options(error.hint), *_variable_hints(error)]
    return _Report(error.exit_code, message, "; ".join(hint for hint in hints if hint))


def _variable_hints(error: ElmoError) -> list[str]:
    """The environment variables that gave the parameters of an error their values."""
    context = console.running.context
    if context is None:
        return []
    parameter_names = {parameter.name for parameter in context.command.params}
    hints = []
    for name, variable in _VARIABLES.items():
        is_typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        value = os.environ.get(variable)
        if name in error.parameters and name in parameter_names and value and not is_typed:
            hints.append(f"${variable} is `{value}`")
    return hints


def _explain_usage(error: click.ClickException) -> _Report:
    """A message of click as one line without its type names and full stop."""
    context = getattr(error, "ctx", None) or console.running.context
    message = error.format_message().replace("a valid integer range", "a whole number")
    message = message.replace("a valid float range", "a number")
    message = message.replace("\n", " ").replace(". (", " (").rstrip(".")
    name = context.command_path if context else "elmo"
    hint = f"see `{name} --help`"
    missing = error.param if isinstance(error, click.MissingParameter) else None
    if context is not None and missing is not None:
        hint = f"`{line_with_missing(context, missing)}`; {hint}"
    return _Report(2, message[:1].lower() + message[1:], hint)


def _is_unloaded_library(error: OSError) -> bool:
    """Whether ctypes cannot load a shared library, as where a file of torch is missing.

    Such an error has no number; only its traceback contains that it was raised by ctypes.
    """
    if error.errno is not None:
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__") == "ctypes"


def _explain_import(error: ImportError | OSError) -> _Report:
    """A library that elmo needs, such as torch, is missing or broken."""
    reason = str(error).strip().partition("\n")[0]
    hint = "`elmo info` lists the installed versions; install elmo in a new environment"
    return _Report(1, f"a library cannot be imported ({reason})", hint)


def _explain_system(error: OSError, reason: str) -> _Report:
    """An error of a file, of standard output or of anything else of the system."""
    if error.filename is not None:
        return _Report(1, f"{error.filename}: {reason}", "check the path and its permissions")
    if error.errno in NO_SPACE:
        hint = "free some space, or redirect the output to another disk"
        return _Report(1, f"standard output: cannot be written ({reason})", hint)
    return _Report(1, reason, "`elmo --debug …` shows where")


def _is_out_of_memory(error: BaseException) -> bool:
    if sys.modules.get("torch") is None:
        return isinstance(error, MemoryError)
    from elmo_cli.engine.runtime import is_out_of_memory

    return is_out_of_memory(error)
