"""The warm state: where the biLM stands after some English, as one state for every sentence.

A model may hold its own (`state.hdf5` beside the weights). Otherwise the state is computed from the
text below, which never changes, so that it is a function of the weights alone.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch

from elmo_cli.embed.state_policy import state_bytes
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.state import State
from elmo_cli.text.batching import TypeNumbers
from elmo_cli.text.characters import CharacterIds

_VERSION = 1  # of TEXT and of how it is read; another makes another state of the same weights
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
    """The state of one row that the model stores, or that the fixed text leaves; float32, CPU.

    Raises:
        ModelError: the stored one is not that of these weights.
    """
    if bilm.warm_state_error is not None:
        raise bilm.warm_state_error
    if bilm.warm_state is not None:
        return bilm.warm_state
    return state_after(bilm, [line.split() for line in TEXT])


def warm_sha256(bilm: BiLM, state: State) -> str:
    """What tells one warm state from others, on every machine alike.

    The last bits of a state that is computed differ from one kind of processor to another, and
    files of both belong together, as vectors of both do. So it is known by what it is computed
    from; one that is stored, or of weights that were never in a file, by its bits.

    Args:
        state: `warm_state` of `bilm`.
    """
    content = state_bytes(state)
    if bilm.warm_state is None and bilm.sha256:
        content = "\n".join([f"computed, version {_VERSION}", bilm.sha256, *TEXT]).encode()
    return hashlib.sha256(content).hexdigest()


@torch.inference_mode()
def state_after(bilm: BiLM, sentences: list[list[str]]) -> State:
    """The state of one row that reads sentences one after the other, from zeros."""
    device = next(bilm.parameters()).device
    types = TypeNumbers()
    rows = [types.numbers_of(tokens) for tokens in sentences]
    ids = torch.from_numpy(CharacterIds(bilm.options.max_characters).tokens(types.types))
    vectors = bilm.char_cnn(ids.to(device))  # (type, projection)
    state = State.zeros(bilm.options, 1, device=device)
    for row in rows:
        numbers = torch.from_numpy(row.astype(np.int64)).to(device)
        lengths = torch.tensor([len(row)], device=device)
        _, state = bilm.forward_from_vectors(vectors[numbers].unsqueeze(0), lengths, state)
    return state.to("cpu")
