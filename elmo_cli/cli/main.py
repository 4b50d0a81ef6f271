"""The command line `elmo`: the list of its commands, and `main`, which runs one of them."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from io import TextIOWrapper

import click

from elmo_cli import __version__
from elmo_cli.cli.console import alert
from elmo_cli.cli.error_report import report

# Name -> one line of help. A command is imported when it is called: torch alone takes seconds.
COMMANDS = {
    "embed": "Compute embeddings of the sentences in text files.",
    "inspect": "Describe an embeddings or weight file and verify it.",
    "merge": "Join the shards of a run into one file.",
    "convert": "Convert an embeddings file to another layout, dtype or choice of layers.",
    "models": "List, show and download pretrained models.",
    "tokenize": "Split raw English into sentences and tokens.",
    "vocab": "Count the types of a text and write a vocabulary file.",
    "pretrain": "Train a biLM from scratch.",
    "finetune": "Continue training a biLM on your own text.",
    "train": "Train a task model on embeddings files.",
    "evaluate": "Score the predictions of a task model.",
    "predict": "Apply a task model to new text.",
    "perplexity": "Measure the perplexity of a text, forward and backward.",
    "neighbors": "Find the nearest neighbours of a token.",
    "kwic": "List the occurrences of a word in context.",
    "probe": "Train a linear probe on each layer and report its accuracy.",
    "plot": "Plot embeddings, probes, layer weights and training runs.",
}
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class LazyGroup(click.Group):
    """Commands that are imported when they are called, in the order of COMMANDS."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"elmo_cli.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    commands=COMMANDS,  # of which click suggests one that is nearly the same
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
    """Run the command line and exit: 0 done, 1 failed, 2 wrong command line, 3 done except for
    skipped input, 130 interrupted."""
    args, debug = _without_debug(sys.argv[1:] if args is None else args)
    if args[:1] == ["help"]:
        args = [*args[1:], "--help"]
    if isinstance(sys.stdout, TextIOWrapper):  # in a locale that lacks a character
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        cli.main(args, prog_name="elmo", standalone_mode=False)
        if sys.stdout is not None:  # as it is where it was closed before the start
            sys.stdout.flush()
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except BaseException as error:
        if debug and not isinstance(error, (SystemExit, click.ClickException)):
            alert(*"".join(traceback.format_exception(error)).splitlines())
        sys.exit(report(error, args, cli))
    sys.exit(0)


def _without_debug(args: list[str]) -> tuple[list[str], bool]:
    """The arguments without `--debug`, which may be anywhere before `--`, and whether it is set."""
    n_words = args.index("--") if "--" in args else len(args)
    words = [word for word in args[:n_words] if word != "--debug"]
    is_debug = len(words) < n_words or bool(os.environ.get("ELMO_DEBUG"))
    return words + args[n_words:], is_debug
