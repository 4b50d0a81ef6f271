"""Models of bilm-tf that are no ELMo models, refused by name: word input, and one direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elmo_cli.errors import ModelError
from elmo_cli.model_folder import OPTIONS_FILE

if TYPE_CHECKING:
    from elmo_cli.weightfile.named_arrays import NamedArrays

# The weights of the first layer of a model of one direction.
_ONE_DIRECTION = (
    "rnn/multi_rnn_cell/cell_0/lstm_cell/kernel",  # in a checkpoint, of several layers
    "rnn/lstm_cell/kernel",  # in a checkpoint, of one layer
    "rnn/MultiRNNCell/Cell0/LSTMCell/kernel",  # in HDF5, of several layers
    "rnn/LSTMCell/kernel",  # in HDF5, of one layer
)


def refuse_other_models(arrays: NamedArrays, prefix: str = "") -> None:
    """Raise a ModelError for the arrays of a model without characters or without a direction.

    Args:
        arrays: by the names in their file.
        prefix: what these names begin with.
    """

    def has(name: str) -> bool:
        return arrays.shape(prefix + name) is not None

    if has("embedding") and not has("char_embed"):
        problem = "a word-input model without characters, which is no ELMo model"
        hint = f"a model that was trained with `char_cnn` in its {OPTIONS_FILE} can be read"
        raise ModelError(problem, hint, where=arrays.where)
    if any(has(name) for name in _ONE_DIRECTION):
        problem = "a model of one direction (`bidirectional` is false); ELMo needs both"
        hint = f"a model that was trained with `bidirectional` true in {OPTIONS_FILE} can be read"
        raise ModelError(problem, hint, where=arrays.where)
