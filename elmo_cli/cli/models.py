"""`elmo models`: the published models and the bundled one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli.options import argument, quiet_option

if TYPE_CHECKING:
    from elmo_cli.pretrained.catalogue import Model
    from elmo_cli.pretrained.folder import ModelFiles

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def models() -> None:
    """List, show and download pretrained models.

    \b
    Examples:
      elmo models list
      elmo models show original
      elmo models pull original
      elmo embed sentences.txt -o out.hdf5 --model original

    Models are stored in $ELMO_HOME (default: ~/.cache/elmo). Only `pull` uses the network, unless
    ELMO_OFFLINE is set; HTTPS_PROXY is honoured.
    """


@models.command("list")
@_AS_JSON
def list_models(as_json: bool) -> None:
    """List all models that have a name.

    \b
    Examples:
      elmo models list
      elmo models list --json
    """
    from elmo_cli.cli.console import check_stdout
    from elmo_cli.pretrained.catalogue import CATALOGUE
    from elmo_cli.pretrained.describe import summary

    check_stdout()
    rows = [summary(model) for model in CATALOGUE]
    if as_json:
        click.echo(json.dumps(rows))
    else:
        _print_table(rows)


@models.command("show")
@argument("name", metavar="NAME|PATH")
@_AS_JSON
def show_model(name: str, as_json: bool) -> None:
    """Show the sizes, license, files and hashes of a model.

    NAME is a name from `elmo models list`; PATH is a folder, an archive or a weight file.

    \b
    Examples:
      elmo models show original-5.5b
      elmo models show small --json
      elmo models show ./mine
    """
    from elmo_cli.cli.console import check_stdout
    from elmo_cli.pretrained.catalogue import look_up
    from elmo_cli.pretrained.describe import describe, describe_files
    from elmo_cli.pretrained.load import locate

    check_stdout()
    model = look_up(name)
    facts = describe(model) if model is not None else describe_files(locate(name))
    if as_json:
        click.echo(json.dumps(facts))
    else:
        _print_facts(facts)


@models.command("pull")
@argument("name", metavar="NAME")
@click.option(
    "-f", "--overwrite", is_flag=True, help="Download again even if the model is present."
)
@quiet_option
def pull_model(name: str, overwrite: bool, quiet: bool) -> None:
    """Download a model and verify it.

    An interrupted download continues where it stopped. A file gets its final name only after its
    size and its sha256, where one is published, have been verified.

    \b
    Examples:
      elmo models pull small
      elmo models pull original --overwrite
    """
    from elmo_cli.cli import console
    from elmo_cli.pretrained.catalogue import find

    files = _pulled(find(name), overwrite, quiet)
    console.note(f"{files.name}: {files.origin}, {files.weights.parent}", quiet=quiet)


def _pulled(model: Model, overwrite: bool, quiet: bool) -> ModelFiles:
    from elmo_cli.cli import console
    from elmo_cli.pretrained.pull import pull

    with ExitStack() as stack:
        bar: console.Bar | None = None
        so_far = of = 0

        def on_bytes(done: int, total: int) -> None:
            nonlocal bar, so_far, of
            # Not before there is something to fetch; and the next file may be the first whose size
            # is told.
            if bar is None or total != of:
                stack.close()
                bar = stack.enter_context(
                    console.bar(total or None, "bytes", done=done, quiet=quiet)
                )
                so_far, of = done, total
            bar.advance(done - so_far)
            so_far = done

        return pull(
            model,
            force=overwrite,
            on_bytes=on_bytes,
            on_wait=lambda: console.note(f"waiting for another pull of {model.name}", quiet=quiet),
        )


def _print_table(rows: list[dict[str, Any]]) -> None:
    from elmo_cli.cli import console

    columns = ("name", "size", "dim", "language", "where")
    console.table(
        "",
        columns,
        [
            (
                row["name"],
                _size(row),
                str(row["dim"] or "?"),
                row["language"],
                row["where"],
            )
            for row in rows
        ],
    )


def _print_facts(facts: dict[str, Any]) -> None:
    from elmo_cli.cli import console

    lines = [
        f"{name:<11} {value}"
        for name, value in (
            ("name", ", ".join([facts["name"], *facts["aliases"]])),
            ("title", facts["title"]),
            ("language", facts["language"]),
            ("trained on", facts["corpus"]),
            ("parameters", f"{facts['parameters']:,}" if facts["parameters"] else "not stated"),
            ("dim", facts["dim"] or "not stated"),
            ("size", _size(facts)),
            ("licence", facts["licence"]),
            ("citation", facts["citation"]),
            ("note", facts["note"]),
            ("where", facts["where"]),
            ("folder", facts["path"] or facts["put_by_hand_into"]),
            *_of_files(facts),
        )
        if value
    ]
    for file in facts["files"]:
        lines += ["", file["name"], *(f"  {address}" for address in file["addresses"])]
        lines.append(f"  bytes  {file['bytes'] or 'not stated'}")
        lines.append(f"  sha256 {file['sha256'] or 'not stated'}")
    if facts["beside"]:
        lines += ["", "not fetched by `elmo models pull`"]
    for item in facts["beside"]:
        lines.append(
            f"  {item['what']}: " + "; ".join(filter(None, (item["address"], item["note"])))
        )
    console.out().print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _of_files(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows of what the files of a model tell, and a catalogue does not."""
    if "options" not in facts:
        return
    lstm, cnn = facts["options"]["lstm"], facts["options"]["char_cnn"]
    yield "layers", f"{facts['layers']}, of tokens and {lstm['n_layers']} LSTMs"
    yield "cells", f"{lstm['dim']}, projected to {lstm['projection_dim']}"
    clips = (("cells", lstm["cell_clip"]), ("projections", lstm["proj_clip"]))
    yield "clips", ", ".join(f"{what} at {clip}" for what, clip in clips if clip) or "none"
    n_filters = sum(count for _, count in cnn["filters"])
    yield "characters", f"{cnn['max_characters_per_token']}, {n_filters} filters"
    there = [name for name in ("softmax", "vocabulary", "warm_state") if facts[name]]
    yield "beside", ", ".join(there).replace("_", " ") or "no softmax, vocabulary or warm state"
    yield "sha256", f"{facts['sha256']} (of sizes and weights)"


def _size(facts: dict[str, Any]) -> str:
    if not facts["bytes"]:
        return "?"
    return f"{'' if facts['bytes_are_exact'] else 'about '}{facts['bytes'] / 1e6:,.1f} MB"
