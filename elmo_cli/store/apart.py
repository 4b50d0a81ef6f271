"""Apart: a run must not write to what it reads."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from elmo_cli.errors import UsageError
from elmo_cli.store.place import part_path, real_path, side_files

_STDIN, _STDOUT = 0, 1
_Identity = tuple[int, int]


def check_apart(
    output: str,
    inputs: Iterable[str],
    models: Iterable[str | None] = (),
    *,
    what: str = "one of the inputs",
    beside: Iterable[str] = (),
) -> None:
    """Refuse an output that is one of the inputs, whatever names and links lead to it.

    Args:
        output: the file to make, or "-" for standard output.
        inputs: the files that are read; "-" is standard input, which may come from a file.
        models: files and folders that the model is read from.
        what: each of the inputs is, for the message.
        beside: other names that the run writes to, as `beside_embeddings` has them.
    Raises:
        UsageError: writing would destroy what is read.
    """
    names = [output, *beside] if output != "-" else [_STDOUT]
    written = dict(filter(None, map(_identified, names)))
    for name in inputs:
        _check(written, output, name, what)
    for place in filter(None, models):
        members = sorted(Path(place).iterdir()) if os.path.isdir(place) else [Path(place)]
        for member in members:
            _check(written, output, str(member), "a file of the model")


def _check(written: dict[_Identity, str], output: str, name: str, what: str) -> None:
    found = _identified(name if name != "-" else _STDIN)
    if found is None or found[0] not in written:
        return
    place = written[found[0]]
    if output == "-":
        raise UsageError(
            f"{name}: {what}, and standard output goes there too", "send it to another file"
        )
    if place != output:
        beside = os.path.basename(place)
        raise UsageError(
            f"{output}: made by way of {beside}, which is {what}", "`-o` names another file"
        )
    also = "" if name == place else f", there called {name if name != '-' else 'standard input'}"
    raise UsageError(f"{place}: is {what}{also}", "`-o` names another file")


def beside_embeddings(output: str) -> list[str]:
    """The names that a run which makes an embeddings file writes to besides its own."""
    part = part_path(real_path(output))
    return [skipped_list(output), *map(str, (part, *side_files(part)))]


def skipped_list(output: str) -> str:
    """Where a run lists the input that `--on-error skip` left out."""
    return f"{output}.skipped.tsv"


def _identified(name: str | int) -> tuple[_Identity, str] | None:
    """What a regular file is by, whatever it is called; None for anything else."""
    with suppress(OSError, ValueError):
        status = os.stat(name)
        if stat.S_ISREG(status.st_mode):
            return (status.st_dev, status.st_ino), str(name)
    return None
