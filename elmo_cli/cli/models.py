"""`elmo models`: list, show and download pretrained models, and write untrained ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from elmo_cli.cli import console
from elmo_cli.cli.click_options import GroupedCommand, argument, output_option, value
from elmo_cli.cli.options import quiet_option, set_mode
from elmo_cli.fields import MOST_SEED

# fmt: off
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.",
                        callback=set_mode, expose_value=False)
# fmt: on


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def models() -> None:
    """List, show and download pretrained models, and write untrained ones.

    \b
    Examples:
      elmo models list
      elmo models show original
      elmo models pull original
      elmo models random --like original -o untrained/
      elmo embed sentences.txt -o out.hdf5 --model original

    Models are stored in $ELMO_HOME (default: ~/.cache/elmo). Only `pull` uses the network, unless
    ELMO_OFFLINE is set; HTTPS_PROXY is honored.
    """


@models.command("list")
@_AS_JSON
def list_models() -> None:
    """List all models that have a name.

    \b
    Examples:
      elmo models list
      elmo models list --json
    """
    from elmo_cli.pretrained.catalogue import CATALOGUE
    from elmo_cli.pretrained.load import summary

    rows = [summary(model) for model in CATALOGUE]
    columns = ("name", "size", "dim", "language", "where")
    shown = [row | {"size": _size(row), "dim": str(row["dim"] or "?")} for row in rows]
    cells = [[row[name] for name in columns] for row in shown]
    console.print_result(rows, lambda: console.table(columns, cells))


@models.command("show")
@argument("name", metavar="NAME|PATH")
@_AS_JSON
def show_model(name: str) -> None:
    """Show the sizes, license, files and hashes of a model.

    NAME is a name from `elmo models list`; PATH is a folder, an archive or a weight file.

    \b
    Examples:
      elmo models show original-5.5b
      elmo models show small --json
      elmo models show ./mine
    """
    from elmo_cli.pretrained.load import describe_model

    facts = describe_model(name)
    console.print_result(facts, lambda: console.say(*_lines(facts)))


@models.command("pull")
@argument("name", metavar="NAME")
@click.option(
    "-f", "--overwrite", is_flag=True, help="Download again even if the model is present."
)
@quiet_option
def pull_model(name: str, overwrite: bool) -> None:
    """Download a model and verify it.

    An interrupted download continues where it stopped. A file gets its final name only after its
    size and its sha256, where one is published, have been verified.

    \b
    Examples:
      elmo models pull small
      elmo models pull original --overwrite
    """
    from elmo_cli.pretrained.catalogue import find_model, no_such_model
    from elmo_cli.pretrained.download import pull

    model = find_model(name)
    if model is None:
        raise no_such_model(name, "`elmo models list` shows all names")
    waiting = f"waiting for another process that is downloading {model.name}"
    # A progress bar is shown only if something is downloaded.
    with console.ProgressDisplay(None, "bytes") as progress:
        files = pull(
            model,
            overwrite=overwrite,
            on_bytes=lambda done, total: progress.update(done, total or None),
            on_wait=lambda: console.note(waiting),
        )
    console.note(f"{files.name}: {files.origin}, {files.weights.parent}")


@models.command("random", cls=GroupedCommand)
@value("Model", "--like NAME|PATH", "Model whose sizes are copied.", required=True)
@value("Model", "--seed N", "Random seed.", type=click.IntRange(0, MOST_SEED), default=0)
@output_option("DIR", "New or empty folder for the model.", required=True)
@quiet_option
def random_model(like: str, seed: int, output: str) -> None:
    """Write a model with the architecture of another one and random weights.

    An untrained model is a control for experiments: what its vectors encode comes from the
    architecture and the characters of the tokens, not from training. The weights are the initial
    values of `elmo pretrain`; the same seed gives the same files. NAME is a name from `elmo models
    list`; PATH is a folder, an archive or a weight file.

    \b
    Examples:
      elmo models random --like elmo-en -o untrained/
      elmo models random --like ./mine --seed 1 -o untrained-1/
      elmo embed sentences.txt -o untrained.hdf5 --model untrained/
    """
    from elmo_cli.lm.language_model import write_untrained

    n_parameters = write_untrained(like, Path(output), seed=seed)
    console.note(f"{output}: {n_parameters:,} random weights, seed {seed}, sizes of {like}")


def _lines(facts: dict[str, Any]) -> list[str]:
    rows = {name: value for name, value in facts.items() if isinstance(value, (str, int))}
    del rows["bytes_are_exact"]
    rows |= {name: json.dumps(one) for name, one in facts.get("options", {}).items()}
    rows |= {"aliases": ", ".join(facts.get("aliases", ())), "bytes": _size(facts)}
    lines = []
    for name, fact in rows.items():
        if fact:
            shown = "yes" if fact is True else f"{fact:,}" if isinstance(fact, int) else fact
            lines.append(f"{name:<11} {shown}")
    for file in facts["files"]:
        lines += ["", file["name"], *(f"  {address}" for address in file.get("addresses", ()))]
        lines.append(f"  bytes  {file['bytes'] or 'not stated'}")
        lines.append(f"  sha256 {file['sha256'] or 'not stated'}")
    return lines


def _size(facts: dict[str, Any]) -> str:
    if not facts["bytes"]:
        return "?"
    return f"{'' if facts['bytes_are_exact'] else 'about '}{facts['bytes'] / 1e6:,.1f} MB"
