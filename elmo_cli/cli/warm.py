"""The warm state of a model that a command has made."""

from __future__ import annotations

from pathlib import Path

from elmo_cli.embed.warm import TEXT, state_after
from elmo_cli.pretrained.folder import STATE_FILE
from elmo_cli.pretrained.load import load
from elmo_cli.pretrained.parts import remove_parts, write_parts
from elmo_cli.weightfile.write import write_state


def write_warm_state(folder: Path) -> None:
    """Write `state.hdf5` beside the weights of a model folder, as those weights give it.

    Raises:
        OutputError: it can't be written.
    """
    bilm = load(folder)
    state = state_after(bilm, [line.split() for line in TEXT])
    remove_parts(folder)
    write_state(state, folder / STATE_FILE)
    write_parts(folder)
