"""What a finished embeddings file says about itself, for a run that asks to go on with it."""

from __future__ import annotations

from typing import IO, Any

import h5py

from elmo_cli.errors import ResumeError
from elmo_cli.store.attributes import read_attributes


def finished_facts(out: str, opened: IO[bytes] | None = None) -> dict[str, Any]:
    """The attributes of OUT.

    Args:
        opened: OUT itself, where it is no file of this machine.
    Raises:
        ResumeError: OUT is not a finished embeddings file.
    """
    try:
        with h5py.File(opened or out, "r") as file:
            facts = read_attributes(file)
    except (OSError, ValueError, RuntimeError):
        facts = {}
    counts = (facts.get("sentences"), facts.get("tokens"), facts.get("duplicates", 0))
    if facts.get("complete") is not True or not all(isinstance(count, int) for count in counts):
        raise ResumeError(
            f"{out}: exists, and is not an embeddings file that a run of elmo finished",
            "`--overwrite` replaces it, `-o` names another file",
        )
    return facts
