"""What a finished embeddings file says about itself, for a run that asks to go on with it."""

from __future__ import annotations

import os
from typing import IO, Any

from elmo_cli.errors import OutputError, ResumeError
from elmo_cli.hdf5 import open_hdf5
from elmo_cli.store.attributes import read_attributes
from elmo_cli.store.damage import is_from_hdf5
from elmo_cli.store.schema import MAP


def holds_map(out: str) -> bool:
    """Whether OUT, a finished embeddings file, has a sentence map."""
    with open_hdf5(out) as file:
        return MAP in file


def finished_facts(out: str, opened: IO[bytes] | None = None) -> dict[str, Any]:
    """The attributes of OUT.

    Args:
        opened: OUT itself, where it is no file of this machine.
    Raises:
        ResumeError: OUT is not a finished embeddings file.
        OutputError: the system can't read it, so that nobody knows what it is.
    """
    try:
        with open_hdf5(opened or out) as file:
            facts = read_attributes(file)
    except MemoryError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise OutputError(
                f"{out}: exists, and can't be read ({os.strerror(error.errno)})",
                "see to the disk and to who may read the file, then do the same again",
            ) from None
        if not is_from_hdf5(error):
            raise
        facts = {}
    counts = (facts.get("sentences"), facts.get("tokens"), facts.get("duplicates", 0))
    if facts.get("complete") is not True or not all(isinstance(count, int) for count in counts):
        raise ResumeError(
            f"{out}: exists, and is not an embeddings file that a run of elmo finished",
            "`--overwrite` replaces it, `-o` names another file",
        )
    return facts
