"""What tests of the bridge to AllenNLP share: the files of a model, batches and comparisons."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from tolerance import ATOL_ORDER

from elmo_cli.interop.allennlp import Elmo, batch_to_ids

Files = tuple[Path, Path]  # of options and weights
BATCHES = [
    [["the", "cat"], ["a"], ["saw", "the", "cat", "."]],
    [["Zoë"]],
    [["a", "b"], [], ["c"], ["the", "cat"]],
    [[]],
    [["saw"], ["the", "mat"]],
]
IDS = batch_to_ids(BATCHES[0])


def close(found: object, expected: object) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=ATOL_ORDER)


def representation(elmo: Elmo, *inputs: torch.Tensor) -> torch.Tensor:
    """The first one of a batch, without gradients."""
    found: torch.Tensor = elmo(*inputs)["elmo_representations"][0]
    return found.detach()
