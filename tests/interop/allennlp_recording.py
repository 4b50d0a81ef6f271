"""Outputs of AllenNLP 0.9.0's classes that were recorded, and their comparison with ours.

The folder `tests/golden/allennlp_api` has a part of them, which fits in the repository. The rest is
in the folder of the reference outputs, in the same format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from make_weights import write_model
from tolerance import ATOL

from elmo_cli.interop.allennlp import Elmo, batch_to_ids

Gradients = Mapping[str, list[float]]
# The settings of each case of `Elmo`; `mix_parameters` and `vocab` are completed by the inputs.
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "mix_loaded": {},
    "layer_norm": {"do_layer_norm": True},
    "boundaries": {"keep_sentence_boundaries": True},
    "boundaries_layer_norm": {"keep_sentence_boundaries": True, "do_layer_norm": True},
    "mix_parameters": {},
    "vocab": {},
    "requires_grad": {"requires_grad": True},
    "requires_grad_layer_norm": {"requires_grad": True, "do_layer_norm": True},
}
WITHOUT_MIX_VALUES = ("default", "mix_parameters")
# Largest differences of the sum, the absolute sum and the norm of gradients: of a parameter of the
# biLM as a fraction of its absolute sum, of a mix as a fraction of the loss.
BILM_GRADIENTS = 5e-5
MIX_GRADIENTS = 1e-6


@dataclass(frozen=True)
class Recording:
    """What was recorded of one model.

    Attributes:
        folder: of the recorded outputs.
        model: tiny, odd or odd_skip.
        model_folder: with its options.json and weights.hdf5.
    """

    folder: Path
    model: str
    model_folder: Path

    @classmethod
    def of(cls, folder: Path, model: str, tmp_path: Path) -> Recording:
        """Write the model and read what was recorded of it."""
        models = json.loads((folder / "models.json").read_text())
        written = write_model(tmp_path / model, models[model]["options"], models[model]["seed"])
        return cls(folder, model, written)

    @property
    def files(self) -> tuple[Path, Path]:
        return self.model_folder / "options.json", self.model_folder / "weights.hdf5"

    @cached_property
    def inputs(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / "inputs.json").read_text("utf-8"))
        return loaded

    def arrays(self, kind: str) -> dict[str, np.ndarray]:
        """The arrays of `embedder` or `elmo`."""
        with np.load(self.folder / f"{kind}_{self.model}.npz") as file:
            return dict(file)

    def gradients(self) -> dict[str, list[dict[str, Any]]]:
        path = self.folder / f"gradients_{self.model}.json"
        loaded: dict[str, list[dict[str, Any]]] = json.loads(path.read_text())
        return loaded

    def elmo(self, case: str, **settings: Any) -> Elmo:
        """`Elmo` with two representations, as it was made for a case."""
        kind = self.model.partition("_")[0]
        settings = {**CASES.get(case, {}), **settings}
        if case == "mix_parameters":
            settings["scalar_mix_parameters"] = self.inputs["scalar_mix_parameters"][kind]
        if case == "vocab":
            settings["vocab_to_cache"] = self.inputs["vocab_to_cache"]
        elmo = Elmo(*self.files, 2, dropout=0, **settings)
        if case not in WITHOUT_MIX_VALUES:
            for number in ("0", "1"):
                mix = elmo.get_submodule(f"scalar_mix_{number}")
                values = self.inputs["mix_values"][kind][number]
                with torch.no_grad():
                    mix.gamma.fill_(self.inputs["mix_values"]["gamma"][number])
                    for parameter, value in zip(mix.scalar_parameters, values, strict=True):
                        parameter.fill_(value)
        return elmo

    def word_inputs(self, case: str, batch: list[list[str]]) -> torch.Tensor | None:
        if case != "vocab":
            return None
        return word_ids(batch, self.inputs["vocab_to_cache"])


def word_ids(batch: list[list[str]], vocabulary: list[str]) -> torch.Tensor:
    """The positions of words in a list, padded with 0."""
    ids = torch.zeros(len(batch), max(map(len, batch)), dtype=torch.int64)
    for row, sentence in enumerate(batch):
        for position, word in enumerate(sentence):
            ids[row, position] = vocabulary.index(word)
    return ids


def stacked_outputs(elmo: Elmo, *inputs: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The representations (2, …, token, dim) and the mask."""
    output = elmo(*inputs)
    assert output["mask"].dtype == torch.int64
    return torch.stack(output["elmo_representations"]), output["mask"]


def call_elmo(
    recording: Recording, elmo: Elmo, case: str, call: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    """One of the recorded calls, in training or evaluation."""
    elmo.train(call["mode"] == "train")
    batch = call["batch"]
    return stacked_outputs(elmo, batch_to_ids(batch), recording.word_inputs(case, batch))


def loss_of(representations: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Sum over k of (k + 1) times the squared norm of representation k where there are tokens."""
    squares = (representations.square().sum(-1) * mask).flatten(1).sum(1)
    weights = torch.tensor([1.0, 2.0], dtype=squares.dtype)
    return (weights * squares).sum()


def summary_of(gradient: torch.Tensor) -> list[float]:
    if gradient.numel() == 1:
        return [gradient.item()]
    values = gradient.double()
    return [values.sum().item(), values.abs().sum().item(), values.norm().item()]


def check_gradients(elmo: Elmo, recorded: Gradients, loss: float) -> None:
    """The gradients of all parameters that have some, by AllenNLP's names."""
    gradients = {}
    for name, parameter in elmo.named_parameters():
        if parameter.grad is not None:
            gradients[name] = parameter.grad
    assert set(gradients) == set(recorded)
    for name, expected in recorded.items():
        tolerance = MIX_GRADIENTS * loss
        if "scalar_mix" not in name:
            tolerance = BILM_GRADIENTS * abs(expected[1] if len(expected) > 1 else expected[0])
        found = summary_of(gradients[name])
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance, err_msg=name)


def close_to_recorded(found: object, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=ATOL["fast", "float32"])
