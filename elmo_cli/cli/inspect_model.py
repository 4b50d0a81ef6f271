"""What `elmo inspect` prints of a model: facts, problems and the commands that use it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from elmo_cli.cli import console
from elmo_cli.messages import format_bytes

_USE_IT = "use it:"
_USE_WITH_SETTINGS = "use it with the settings of the published models, unless it has others:"
_NOT_COMPUTED = "not computed; --verify reads all weights"


def print_model(path: str, options: str | None, *, verify: bool) -> None:
    """Print the facts of a model; then raise its first error, if there is one.

    Args:
        path: what `-m` takes.
        options: an options.json that is used instead of the one next to the weights.
    """
    from elmo_cli.pretrained.load import ModelSource
    from elmo_cli.pretrained.model_inspection import inspect_model

    inspected = inspect_model(ModelSource(path, options), verify=verify)
    console.print_result(inspected.facts, partial(_show, path, inspected.facts))
    if inspected.errors:
        raise inspected.errors[0]


def _show(path: str, facts: dict[str, Any]) -> None:
    """Print the facts as aligned lines, then the commands."""
    # A model with problems has commands only if nothing but its settings is missing.
    heading = _USE_WITH_SETTINGS if facts["problems"] else _USE_IT
    print_rows(path, dict(_rows(facts)), heading, facts["next"])


def print_rows(path: str, rows: Mapping[str, str], heading: str, lines: Sequence[str]) -> None:
    """Print facts about a path as aligned lines, then other lines under a heading if there are any.

    With --quiet, nothing is printed.
    """
    if console.running.quiet:
        return
    width = max(len(name) for name in rows)
    console.say(path)
    for name, row in rows.items():
        console.say(f"  {name:<{width}}  {row}")
    if lines:
        console.say(heading)
        for line in lines:
            console.say(f"    {line}")


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the facts for people, by name."""
    yield "family", facts["family_name"]
    yield "name", facts["name"]
    files = [f"{file['name']} ({format_bytes(file['bytes'])})" for file in facts["files"]]
    yield "files", ", ".join(files)
    if facts["notes"]:
        yield "notes", "; ".join(facts["notes"])
    if facts["options"] is not None:
        stated = dict(_flat(facts["options"]))
        for option in facts["assumed"]:
            stated.pop(option, None)
        yield "layers", f"{facts['layers']} of {facts['dim']} dimensions"
        yield "options", _listed(stated)
        yield "assumed", _listed(facts["assumed"]) or "none"
        yield "characters", facts["characters"]
        yield "softmax", _types(facts["softmax"])
        yield "vocabulary", _types(facts["vocabulary"])
        yield "warm state", "yes" if facts["warm_state"] else "none"
        yield "optimizer", facts["optimizer"] or "no state"
        if facts["layer_mix"]:
            yield "layer mix", f"--layers {facts['layer_mix']}"
        if facts["parameters"] is not None:
            yield "parameters", f"{facts['parameters']:,}"
        yield "sha256", facts["sha256"] or _NOT_COMPUTED
    yield "problems", "; ".join(facts["problems"]) or "none"


def _flat(options: Mapping[str, Any], parent: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the options with their paths."""
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{parent}{key}.")
        else:
            yield f"{parent}{key}", value


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {json.dumps(value)}" for name, value in values.items())


def _types(part: Mapping[str, Any] | None) -> str:
    return "none" if part is None else f"{part['types']:,} types, {part['file']}"
