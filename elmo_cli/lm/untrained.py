"""Write an untrained model: the sizes of another model, with random weights."""

from __future__ import annotations

import json
import os
from pathlib import Path

from elmo_cli.errors import OutputError
from elmo_cli.files import StrPath, output_errors, write_text
from elmo_cli.lm.initialize import untrained_bilm
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, WEIGHTS_FILE
from elmo_cli.pretrained.load import ModelSource, locate
from elmo_cli.weightfile.write import write_bilm


def write_untrained(like: ModelSource | StrPath, output: Path, *, seed: int = 0) -> int:
    """Write options.json and weights.hdf5 of a biLM with the initial values of pretraining.

    Args:
        like: the model whose sizes are copied.
        output: a folder that is new or empty.
        seed: random seed; the same seed gives the same bytes.
    Returns:
        the number of parameters.
    Raises:
        ModelError, OptionsError: no such model, or not on this machine.
        OutputError: the folder has content or cannot be written to.
    """
    options = locate(like).read_options()
    with output_errors(output):
        output.mkdir(parents=True, exist_ok=True)
        if content := sorted(os.listdir(output)):
            what = f"{output}: contains {content[0]}"
            raise OutputError(what, "choose a new or empty folder with `output`")
    bilm = untrained_bilm(options, seed=seed)
    write_text(output / OPTIONS_FILE, [json.dumps(options.to_dict(), indent=2), "\n"])
    write_bilm(bilm, output / WEIGHTS_FILE)
    return sum(values.numel() for values in bilm.parameters())
