"""`elmo info`: describe this installation in a few lines, for a report of a bug."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import GroupedCommand
from elmo_cli.messages import format_bytes

_WIDTH = 10  # of the first column


@dataclass(frozen=True)
class InfoOptions(options.ModelOptions):
    """The values of all options of `elmo info`."""


@click.command(cls=GroupedCommand)
@options.model_options
@options.json_option
def info(**values: Any) -> None:
    """Describe this installation, for a report of a bug.

    Versions, processor, threads, devices, the model that commands use, the folder of downloaded
    models, and environment variables. Neither the user nor the machine is named: the home folder is
    shown as ~. The command works where PyTorch or a model does not.

    \b
    Examples:
      elmo info
      elmo info -m original
      elmo info --json
    """
    from elmo_cli.installation import describe_installation

    chosen = InfoOptions(**values)
    facts = describe_installation(chosen.model_source())
    console.print_result(facts, partial(_print_installation, facts))


def _print_installation(facts: dict[str, Any]) -> None:
    rows = {
        "elmo": ", ".join(facts["elmo"].values()),
        "Python": ", ".join(facts["python"].values()),
        "system": ", ".join(filter(None, facts["system"].values())),
        **_rows_of_processor(facts["processor"]),
        **_rows_of_torch(facts["torch"]),
        "packages": _versions_in_words(facts["packages"]) + f", HDF5 {facts['hdf5'] or 'unknown'}",
        "optional": _versions_in_words(facts["optional"]),
        "model": _model_in_words(facts["model"]),
        "ELMO_HOME": _home_in_words(facts["home"]),
        "variables": _variables_in_words(facts["variables"]),
    }
    for name, text in rows.items():
        console.say(f"{name:<{_WIDTH}} {text}")


def _rows_of_processor(processor: dict[str, Any]) -> dict[str, str]:
    n_usable = processor["usable_cpus"]
    return {
        "processor": f"{processor['name']}, {n_usable} of {processor['cpus']} CPUs usable",
        "features": " ".join(processor["features"]) or "none",
    }


def _rows_of_torch(torch: dict[str, Any]) -> dict[str, str]:
    if "problem" in torch:
        return {"PyTorch": f"{torch['version'] or 'not installed'}: {torch['problem']}"}
    set_by = torch["threads_set_by"] or "PyTorch"
    cuda = torch["cuda"] or "none"
    mps = "yes" if torch["mps"] else "no"
    bf16 = "fast" if torch["fast_bf16"] else "slow, it is emulated"
    return {
        "PyTorch": f"{torch['version']}, {torch['cpu_capability']}, CUDA {cuda}, MPS {mps}",
        "threads": f"{torch['threads']}, set by {set_by}",
        "GPU": _gpus_in_words(torch),
        "device": f"{torch['device']}, {torch['precision']} by default; bf16 is {bf16}",
    }


def _gpus_in_words(torch: dict[str, Any]) -> str:
    counts = Counter((gpu["name"], gpu["bytes"]) for gpu in torch["gpus"])
    shown = []
    for (name, n_bytes), n_gpus in counts.items():
        times = f"{n_gpus} x " if n_gpus > 1 else ""
        shown.append(f"{times}{name}, {format_bytes(n_bytes)}")
    if torch["driver"]:
        shown.append(f"driver {torch['driver']}")
    return ", ".join(shown) or "none"


def _versions_in_words(packages: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {version or 'not installed'}" for name, version in packages.items())


def _model_in_words(model: dict[str, Any]) -> str:
    if "problem" in model:
        return console.with_options(model["problem"])
    source = "bundled" if model["origin"] == "bundled" else model["folder"]
    return f"{model['name']}, {source}, SHA-256 {model['sha256']}"


def _home_in_words(home: dict[str, Any]) -> str:
    if "problem" in home:
        return str(home["problem"])
    models = ", ".join(home["models"]) or "no models"
    return f"{home['folder']}, {format_bytes(home['bytes'])}, {models}"


def _variables_in_words(variables: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in variables.items()) or "none"
