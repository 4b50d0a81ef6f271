"""Tiny models of ELMoForManyLangs, and what its own code computes with them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from hdf5_arrays import read_arrays

from elmo_cli.arrays import FloatArray
from elmo_cli.model.bilm import BiLM

FIXTURES = Path(__file__).resolve().parents[1] / "golden" / "elmoformanylangs"
# A model with words and tight clips, one without words, and one without highways, whose LSTM has a
# projection between equal sizes. The second is in the old form of the files of PyTorch.
NAMES = ("cnn-both-clip", "cnn-char", "cnn-onelayer")
CONFIGURATION = "cnn_50_100_512_4096_sample.json"
SENTENCES: list[list[str]] = json.loads((FIXTURES / "sentences.json").read_text(encoding="utf-8"))


def expected_layers(path: Path) -> dict[str, FloatArray]:
    """The layers of sentences, (layer, token, dim) float64, by their names in a file."""
    return read_arrays(path)


def layers_in_float64(bilm: BiLM, tokens: list[str]) -> FloatArray:
    """All layers of a sentence, by the plain model, in the dtype of its weights."""
    ids = bilm.token_ids.tokens([bilm.token_ids.begin, *tokens, bilm.token_ids.end])
    layers, _ = bilm(torch.from_numpy(ids)[None], torch.tensor([len(ids)]))
    array: FloatArray = layers[:, 0, 1:-1].numpy()
    return array


def copied(name: str, folder: Path) -> Path:
    """A copy of a model, to be changed."""
    return Path(shutil.copytree(FIXTURES / name, folder, copy_function=shutil.copy))


def change_configuration(folder: Path, part: str, changes: Mapping[str, Any]) -> None:
    """Change the configuration of a copy; `...` takes a value out."""
    path = folder / CONFIGURATION
    content = json.loads(path.read_text())
    for name, value in changes.items():
        if value is ...:
            del content[part][name]
        else:
            content[part][name] = value
    path.write_text(json.dumps(content))


def change_tensors(folder: Path, name: str, changes: Mapping[str, torch.Tensor | None]) -> None:
    """Replace tensors of a file of a copy; None takes one out."""
    path = folder / name
    tensors = torch.load(path, weights_only=True, map_location="cpu")
    for tensor, value in changes.items():
        if value is None:
            del tensors[tensor]
        else:
            tensors[tensor] = value
    torch.save(tensors, path)


def contents(name: str) -> dict[str, bytes]:
    """The files of a model by their names."""
    return {file.name: file.read_bytes() for file in files(name)}


def files(name: str) -> list[Path]:
    """The files of a model in alphabetical order."""
    return sorted((FIXTURES / name).iterdir())
