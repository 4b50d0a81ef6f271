"""The folder of a run: what stands in it, and what may not be written over."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from elmo_cli.errors import OutputError, ResumeError, UsageError
from elmo_cli.lm import checkpoint
from elmo_cli.lm.export import write_options
from elmo_cli.lm.log import FILE_NAME as LOG_NAME
from elmo_cli.lm.model_folder import is_same, refuse_no_folder, remove
from elmo_cli.lm.recipe import FILE_NAME as RECIPE_NAME
from elmo_cli.lm.recipe import Recipe
from elmo_cli.lm.training_text import FILE_NAME as TEXT_NAME
from elmo_cli.lm.training_text import TrainingText
from elmo_cli.lm.tuning_folder import RECORD_NAME
from elmo_cli.model.options import Options
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, WEIGHTS_FILE
from elmo_cli.pretrained.load import locate
from elmo_cli.pretrained.model_files import (
    OTHER_WEIGHTS_FILE,
    SOFTMAX_FILE,
    STATE_FILE,
    VOCABULARY_FILE,
)
from elmo_cli.pretrained.parts import PARTS_FILE
from elmo_cli.text.vocabulary import Vocabulary

OF_A_RUN = (checkpoint.FILE_NAME, LOG_NAME, WEIGHTS_FILE)
_REPLACED = (
    *(OPTIONS_FILE, VOCABULARY_FILE, SOFTMAX_FILE, STATE_FILE, PARTS_FILE),
    *(TEXT_NAME, RECIPE_NAME),
)


def refuse_no_run(folder: Path) -> None:
    """Refuse to go on where there is no run, before a text is read for nothing.

    Raises:
        ResumeError: the folder holds no checkpoint.
    """
    if not (folder / checkpoint.FILE_NAME).exists():
        raise ResumeError(
            f"{folder / checkpoint.FILE_NAME}: no such checkpoint",
            _with_its_weights(folder) or "start without `--resume`",
        )


def keeps_text(folder: Path) -> bool:
    """Whether a run can go on in `folder` without reading its texts again."""
    return (folder / TEXT_NAME).exists()


def only_to_resume(folder: Path) -> list[Path]:
    """The files of a finished run that its model does not need."""
    files = (folder / checkpoint.FILE_NAME, folder / TEXT_NAME)
    return [path for path in files if path.exists()]


def prepare_folder(
    folder: Path,
    options: Options,
    types: Vocabulary,
    recipe: Recipe | None,
    *,
    text: TrainingText | None,
    resume: bool,
) -> None:
    """Write what a resumed run needs besides its checkpoint, and remove what is of other weights.

    Args:
        text: to be kept; None where it stands there already.
        resume: whether the run itself stands there already.
    Raises:
        OutputError: the folder can't be written to.
    """
    if text is not None:  # first, as it is most of what has to find room
        text.keep(folder)
    gone = [folder / STATE_FILE]
    if not resume:  # a checkpoint of another run would be gone on with by the new recipe
        gone += [folder / name for name in (*OF_A_RUN, SOFTMAX_FILE, PARTS_FILE)]
    remove(folder, gone)
    if not resume:
        types.write(folder / VOCABULARY_FILE)
        write_options(folder, options)
    if recipe is not None:
        recipe.write(folder)


def refuse_what_is_there(folder: Path, texts: Sequence[str], *, overwrite: bool) -> None:
    """Refuse a folder where the run would write over something."""
    refuse_no_folder(folder)
    elsewhere = "`-o DIR` names another folder"
    there = {name: folder / name for name in (*OF_A_RUN, *_REPLACED)}
    for name, path in there.items():
        if path.exists() and any(os.path.exists(t) and os.path.samefile(t, path) for t in texts):
            raise UsageError(f"{path}: read as text, and written to as {name}", elsewhere)
    if (folder / OTHER_WEIGHTS_FILE).exists():  # a folder with two is no model
        raise OutputError(f"{folder}: holds the model {OTHER_WEIGHTS_FILE}", elsewhere)
    if (folder / RECORD_NAME).exists():  # the card there would tell of other weights
        raise OutputError(f"{folder}: holds a fine-tuned model", elsewhere)
    for name, path in there.items() if not overwrite else ():
        if not path.exists():
            continue
        if name == checkpoint.FILE_NAME:
            hint = "`--resume` goes on with it, `--overwrite` begins anew"
        else:  # without a checkpoint, which is the first to be looked for
            hint = _with_its_weights(folder) or f"{elsewhere}; or `--overwrite`"
        if name in OF_A_RUN:
            raise OutputError(f"{folder}: holds {name} of an earlier run", hint)
        raise OutputError(f"{folder}: holds {name}, which would be replaced", hint)


def _with_its_weights(folder: Path) -> str:
    """What to do with the model of a run whose checkpoint is gone; "" where there is none."""
    needed = (OPTIONS_FILE, WEIGHTS_FILE, SOFTMAX_FILE, VOCABULARY_FILE)
    if not all((folder / name).exists() for name in needed):
        return ""
    return f"`--init-from {folder} -o DIR` starts from its weights, `--overwrite` starts over here"


def refuse_own_source(folder: Path, model: str) -> None:
    """Refuse the folder of the model that training is to begin with."""
    if is_same(folder, locate(model).weights.parent):
        raise UsageError(
            f"{folder}: holds the model that training is to begin with",
            "`-o DIR` names another folder; the model stays as it is",
        )
