"""The warm state: the LSTM state after some English text, as one initial state of all sentences.

A model may store its own (`state.hdf5` next to the weights). Otherwise it is computed from the text
below, which never changes, so that it is a function of the weights alone.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch

from elmo_cli.model.bilm import BiLM, State
from elmo_cli.model_folder import STATE_FILE
from elmo_cli.pretrained.load import load
from elmo_cli.pretrained.model_files import remove_parts, write_parts
from elmo_cli.text.batching import TypeNumbers
from elmo_cli.weightfile.write import write_state

_VERSION = 1  # of TEXT and of how it is read; another one gives another state of the same weights
TEXT = (
    "It was still early when the first boats came back to the harbour .",
    "The men carried the boxes up the steps and set them down in the shade .",
    '" You are late again , " she said , but she did not look angry .',
    "In most years the river rises in March and falls again by the end of May .",
    "The committee will meet on Tuesday to discuss the report .",
    "There are two reasons for this , and neither of them is simple .",
    "He had never been to the city before , and he did not know where to go .",
    "Water is made of hydrogen and oxygen .",
)


def warm_state(bilm: BiLM) -> State:
    """The state that the model stores, else the state after TEXT: one row, float32, on the CPU."""
    if bilm.warm_state is not None:
        return bilm.warm_state
    return _computed_state(bilm)


def warm_state_id(bilm: BiLM, state: State) -> str:
    """Identify the `warm_state` of a model by a SHA-256 that is the same on every machine.

    The last bits of a computed state depend on the processor, so it is identified by what it is
    computed from; a stored one, or one of weights that were never in a file, by its bits.
    """
    is_computed = bilm.warm_state is None
    if is_computed and bilm.sha256:
        lines = [f"computed, version {_VERSION}", bilm.sha256, *TEXT]
        content = "\n".join(lines).encode()
    else:
        content = state.to_bytes()
    return hashlib.sha256(content).hexdigest()


def _computed_state(bilm: BiLM) -> State:
    return state_after_text(bilm, [line.split() for line in TEXT])


@torch.inference_mode()
def state_after_text(bilm: BiLM, sentences: list[list[str]]) -> State:
    """The state of one row that has read sentences one after the other, starting from zeros."""
    device = next(bilm.parameters()).device
    types = TypeNumbers(bilm.token_ids)
    rows = [types.numbers_of(tokens) for tokens in sentences]
    ids = torch.from_numpy(bilm.token_ids.tokens(types.types))  # (type, id)
    vectors = bilm.char_cnn(ids.to(device))  # (type, projection_dim)
    state = State.zeros(bilm.options, 1, device=device)
    for row in rows:
        numbers = torch.from_numpy(row.astype(np.int64)).to(device)
        lengths = torch.tensor([len(row)], device=device)
        row_vectors = vectors[numbers].unsqueeze(0)  # (batch=1, token, projection_dim)
        _, state = bilm.forward_from_vectors(row_vectors, lengths, state)
    return state.to("cpu")


def write_warm_state(folder: Path) -> None:
    """Compute the state after TEXT and write it to `state.hdf5` of a model folder; or OutputError.
    parts.json is removed first and written last."""
    state = _computed_state(load(folder))
    remove_parts(folder)
    write_state(state, folder / STATE_FILE)
    write_parts(folder)
