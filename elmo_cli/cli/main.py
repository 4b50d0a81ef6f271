"""The command `elmo`: finds a command, runs it, turns errors into messages and exit codes."""

from __future__ import annotations

import atexit
import gc
import os
import re
import signal
import sys
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import Any

import click

from elmo_cli.cli.console import in_plain_words, named_stdout
from elmo_cli.errors import ElmoError
from elmo_cli.version import __version__

# Name -> (where it is, one line of help). Nothing is imported before it is called, because torch
# alone takes seconds; tests/house holds these lines to the commands' own.
COMMANDS = {
    "embed": ("embed:embed", "Compute embeddings of the sentences in text files."),
    "inspect": ("inspect:inspect", "Describe an embeddings or weight file and verify it."),
    "merge": ("merge:merge", "Join the shards of a run into one file."),
    "convert": (
        "convert:convert",
        "Convert an embeddings file to another layout, dtype or choice of layers.",
    ),
    "models": ("models:models", "List, show and download pretrained models."),
    "tokenize": ("tokenize:tokenize", "Split raw English into sentences and tokens."),
    "vocab": ("vocab:vocab", "Count the types of a text and write a vocabulary file."),
    "pretrain": ("pretrain:pretrain", "Train a biLM from scratch."),
    "finetune": ("finetune:finetune", "Continue training a biLM on your own text."),
    "perplexity": (
        "perplexity:perplexity",
        "Measure the perplexity of a text, forward and backward.",
    ),
    "neighbors": ("neighbors:neighbors", "Find the nearest neighbours of a token."),
    "kwic": ("kwic:kwic", "List the occurrences of a word in context."),
    "probe": ("probe:probe", "Train a linear probe on each layer and report its accuracy."),
    "curves": ("curves:curves", "Plot the training curves of runs."),
}

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_INTERRUPTED = 130
_PARAMETER = re.compile(r"`([a-z_]+)(?:=([^`]*))?`")
_LINE_ENDS = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")


class LazyGroup(click.Group):
    """Commands that are imported when they are called, listed in the house's own order."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(f"elmo_cli.cli.{module}"), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"elmo_cli.cli.{module}.{name} is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"no command named `{args[0]}`{_near(args[0])}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
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


def command() -> None:
    """The process of the command `elmo`: `main`, with a start and an end that take less long.

    torch's modules are some hundred thousand objects that all stay. While they are made, Python
    would look again and again which of them could go, and at the end take them apart one by one:
    together a second. The system lets go of all of them at once.
    """
    gc.set_threshold(100_000)
    for number, default in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_DFL),  # what schedulers of clusters and `timeout` send
    ):
        if signal.getsignal(number) is default:
            signal.signal(number, _interrupt)
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # as `main` found, or closed, or None
            stream.flush()
    os._exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C or SIGTERM: the exception that Python makes of Ctrl-C, or in an import the end.

    Some modules of the libraries swallow an exception while they are imported, others stay half
    made and break what uses them. Nothing is lost by an end at once, as nothing is by `kill -9`.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(_report(KeyboardInterrupt(), []))
        frame = frame.f_back
    raise KeyboardInterrupt


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong command line, 3 done but for
    skipped input, 130 interrupted."""
    args, debug = _without_debug(sys.argv[1:] if args is None else args)
    if args[:1] == ["help"]:
        args = [*args[1:], "--help"]
    try:
        with named_stdout():
            cli.main(args, prog_name="elmo", standalone_mode=False)
            if sys.stdout is not None:  # as it is where somebody closed it
                sys.stdout.flush()
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except BaseException as error:
        if debug and not isinstance(error, (SystemExit, click.ClickException)):
            raise
        sys.exit(_report(error, args))
    sys.exit(0)


def _without_debug(args: list[str]) -> tuple[list[str], bool]:
    """The words of a command line without `--debug`, which may be anywhere before `--`, and whether
    a traceback is wanted."""
    n_words = args.index("--") if "--" in args else len(args)
    words = [word for word in args[:n_words] if word != "--debug"]
    is_wanted = len(words) < n_words or bool(os.environ.get("ELMO_DEBUG"))
    return words + args[n_words:], is_wanted


def _report(error: BaseException, args: list[str]) -> int:
    """Print what went wrong and what to do next; the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, OSError):
        _drop_stdout()
    if isinstance(error, ElmoError):
        hint = "; ".join(filter(None, (error.hint, _variable_named(error.message, args))))
        return _say(_with_options(error.message, args), _with_options(hint, args), error.exit_code)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return 2
    if isinstance(error, click.ClickException):
        return _say(*_usage(error, args), 2)
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return _say(
            "interrupted",
            "`--resume` goes on where the command has it; else give the same command again",
            _INTERRUPTED,
        )
    if isinstance(error, BrokenPipeError):
        return 1  # `| head` has seen enough: not a word, as click does where it sees it first
    if _is_out_of_memory(error):
        return _say(
            "out of memory",
            "a smaller `--batch-size`, or a smaller model",
            1,
        )
    if isinstance(error, OSError) and error.filename is not None:
        return _say(f"{error.filename}: {error.strerror}", "check the path and its rights", 1)
    if isinstance(error, OSError) and error.strerror:
        return _say(f"{error.strerror}", "`elmo --debug …` shows where", 1)
    return _say(
        f"{type(error).__name__}: {error}",
        "this is a fault of elmo: please report it with what `elmo --debug …` prints",
        1,
    )


def _with_options(text: str, args: list[str]) -> str:
    """A message of the library in which parameters, such as `overwrite=True`, are options."""
    command: click.Command = cli
    for arg in args:
        if isinstance(command, click.Group):
            command = command.get_command(click.Context(command), arg) or command
    options = {one.name: max(one.opts, key=len) for one in command.params}

    def as_option(found: re.Match[str]) -> str:
        name, value = found[1], (found[2] or "").strip("'\"")
        option = options.get(name, options.get(f"label_{name}", ""))
        if not option.startswith("-"):
            return found[0]
        return f"`{option}`" if value in ("", "True") else f"`{option} {value}`"

    return _PARAMETER.sub(as_option, text)


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or "torch" not in sys.modules:
        return isinstance(error, MemoryError)
    from elmo_cli.engine.runtime import is_out_of_memory

    return is_out_of_memory(error)


def _drop_stdout() -> None:
    """Let what is still held back for a stream that failed go nowhere.

    Python would write it at its end, fail, complain once more and take another exit code.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _variable_named(message: str, args: list[str]) -> str:
    """Which variable of the environment brought the value that a message begins with."""
    for variable, option in (("ELMO_MODEL", ""), ("ELMO_DEVICE", "device=")):
        value = os.environ.get(variable)
        given = any(value == arg or arg.endswith(f"={value}") for arg in args)
        if value and not given and (option or "`") + value in message[: len(value) + 20]:
            return f"${variable} says `{value}`"
    return ""


def _usage(error: click.ClickException, args: list[str]) -> tuple[str, str]:
    context = getattr(error, "ctx", None)
    name = "elmo"
    if context is not None:
        name = context.command_path
    elif args and args[0] in COMMANDS:
        name += f" {args[0]}"
    of = "commands" if name in ("elmo", "elmo models") else "options and examples"
    message = in_plain_words(error.format_message()).replace("\n", " ").replace(". (", " (")
    hint = f"`{name} --help` shows all {of}"
    return message[:1].lower() + message[1:], hint


def _near(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, 1)
    return f", did you mean `{near[0]}`?" if near else ""


def _say(message: str, hint: str, code: int) -> int:
    def one_line(text: Any) -> str:
        return _LINE_ENDS.sub(" ", str(text)).rstrip()

    click.echo(f"error: {one_line(message)}", err=True)
    if hint:
        click.echo(f"hint: {one_line(hint)}", err=True)
    return code
