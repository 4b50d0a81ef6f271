"""The weights of the best look at the held-out text, kept beside the checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch

from elmo_cli.lm import torch_file


def best_path(folder: Path, step: int) -> Path:
    """Where the weights of a best look are kept."""
    return folder / f"best-{step}.pt"


def bests(folder: Path) -> list[Path]:
    """The weights of best looks in a folder."""
    return [path for path in folder.glob("best-*.pt") if path.stem.removeprefix("best-").isdigit()]


def save_best(folder: Path, model: torch.nn.Module, step: int) -> None:
    """Keep the weights of a best look beside the checkpoint.

    The file of the look before it stays until `drop_other_bests`, because the checkpoint that is
    there still names that one.

    Raises:
        OutputError: the file can't be written.
    """
    torch_file.write(best_path(folder, step), model.state_dict())


def load_best(folder: Path, model: torch.nn.Module, step: int) -> None:
    """Take the weights of a best look.

    Raises:
        ResumeError: the file is gone or damaged.
    """
    with torch_file.told(best_path(folder, step)):
        model.load_state_dict(torch_file.read(best_path(folder, step)))


def drop_other_bests(folder: Path, step: int) -> None:
    """Remove the weights of all best looks but the one of `step`."""
    for path in bests(folder):
        if path != best_path(folder, step):
            path.unlink(missing_ok=True)
