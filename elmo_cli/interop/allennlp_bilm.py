"""_ElmoBiLm: all layers of a batch with its sentence boundaries, from a state that is carried.

The fast engine computes the layers, and each type once. If a parameter of the biLM requires
gradients, `model.bilm` computes them, under autograd.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.arrays import Int64Array
from elmo_cli.errors import SettingError
from elmo_cli.files import StrPath
from elmo_cli.interop.allennlp_computation import BilmComputation
from elmo_cli.interop.allennlp_files import load_model
from elmo_cli.interop.allennlp_ids import N_IDS, IdStrings, ids_of_tokens
from elmo_cli.interop.allennlp_weights import (
    add_parameters,
    allennlp_options,
    allennlp_tensors,
)
from elmo_cli.model.bilm import State
from elmo_cli.text.batching import TypeNumbers

_STATES = ("carry", "zero")
_WORDS = "_word_embedding"


class _RowsToRead(NamedTuple):
    """What the LSTMs read in a batch.

    Attributes:
        rows: for each row the numbers of its types, with its sentence boundaries.
        types: strings of `IdStrings`, or vectors (type, projection_dim).
        mask: where there are tokens or boundaries, (batch, token + 2), int64.
    """

    rows: tuple[Int64Array, ...]
    types: list[str] | Tensor
    mask: Tensor


class _ElmoBiLm(nn.Module):
    """A biLM with AllenNLP's interface, and its names and arrangement of the parameters.

    Args:
        options_file, weight_file: as of `load_model`; None for the bundled model.
        requires_grad: whether the parameters of the biLM have gradients.
        vocab_to_cache: words whose vectors are computed once, for `word_inputs` of `forward`.
        state: "carry" if row r of a batch continues row r of the batches before, as in AllenNLP;
            "zero" if each batch starts from zeros, so that vectors do not depend on the order of
            batches.
    Attributes:
        num_layers: the number of layers, with the token layer.
        model_name, model_sha256: of the model that was loaded.
    """

    _bos_embedding: Tensor
    _eos_embedding: Tensor

    def __init__(
        self,
        options_file: StrPath | None = None,
        weight_file: StrPath | None = None,
        requires_grad: bool = False,
        vocab_to_cache: Sequence[str] | None = None,
        *,
        state: str = "carry",
    ) -> None:
        super().__init__()
        if state not in _STATES:
            raise SettingError("state", "carry and zero exist", value=state)
        bilm = load_model(options_file, weight_file)
        tensors = allennlp_tensors(bilm)
        self.num_layers = 1 + bilm.options.n_layers
        self.model_name = bilm.name
        self.model_sha256 = bilm.sha256
        self._requires_grad = requires_grad
        self._options = allennlp_options(bilm.options)
        self._id_strings = IdStrings(bilm.options.max_characters)
        self._computation = BilmComputation(self._options)
        # The order of AllenNLP, by which the file of an optimizer numbers parameters.
        self._token_embedder = nn.Module()
        self.register_module(_WORDS, None)
        self._elmo_lstm = CarriedLstm(stateful=state == "carry")
        add_parameters(self, tensors, requires_grad=requires_grad)
        if vocab_to_cache:
            self.create_cached_cnn_embeddings(vocab_to_cache)

    def get_output_dim(self) -> int:
        """The size of a vector, both directions."""
        return self._options.dim

    def forward(
        self, inputs: Tensor, word_inputs: Tensor | None = None
    ) -> dict[str, list[Tensor] | Tensor]:
        """All layers of a batch; its final state becomes the start of the next one.

        Args:
            inputs: from `batch_to_ids`, (batch, token, 50), with zeros behind the tokens of a row.
            word_inputs: positions in `vocab_to_cache`, (batch, token), which replace the ids;
                0 is padding, so the first word of the list cannot be given.
        Returns:
            "activations": each layer, (batch, token + 2, dim), with the sentence boundaries of each
            row and zeros behind it; "mask": (batch, token + 2), int64.
        Raises:
            IndexError: a batch without tokens, or ids that do not exist.
            ValueError: other sizes, or zeros between the tokens of a row.
        """
        layers, mask = self.padded_layers(inputs, word_inputs)
        return {"activations": list(layers.unbind(0)), "mask": mask}

    def padded_layers(
        self, inputs: Tensor, word_inputs: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """`forward` with all layers in one tensor, (layer, batch, token + 2, dim)."""
        if self._word_embedding is not None and word_inputs is not None:
            to_read = self._read_words(word_inputs, self._word_embedding)
        else:
            to_read = self._read_characters(inputs)
        weights = self._weights_of_bilm()
        start = None
        if self._elmo_lstm.stateful:
            start = self._elmo_lstm.start(State.zeros(self._options, len(to_read.rows)), weights)
        layers, final = self._computation.layers(
            weights, to_read.types, to_read.rows, start, n_columns=to_read.mask.shape[1]
        )
        if final is not None:
            self._elmo_lstm.keep(final)
        return layers, to_read.mask.to(layers.device)

    def create_cached_cnn_embeddings(self, tokens: Sequence[str]) -> None:
        """Compute and keep the vectors of words, for `word_inputs` of `forward`."""
        strings = self._id_strings.of_ids(ids_of_tokens(tokens, self._options.max_characters))
        boundaries = [self._id_strings.begin, self._id_strings.end]
        weights = self._weights_of_bilm()
        vectors = self._computation.type_vectors(weights, [*boundaries, *strings])
        self.register_buffer("_bos_embedding", vectors[0].clone(), persistent=False)
        self.register_buffer("_eos_embedding", vectors[1].clone(), persistent=False)
        word_vectors = vectors[2:].clone()
        word_vectors[0] = 0  # of padding
        n_words, dim = word_vectors.shape
        embedding = nn.Embedding(n_words, dim, padding_idx=0, _weight=word_vectors)
        self._word_embedding = embedding.requires_grad_(self._requires_grad)

    def _weights_of_bilm(self) -> dict[str, Tensor]:
        """The parameters without the vectors of words, by AllenNLP's names."""
        weights: dict[str, Tensor] = {}
        for name, parameter in self.named_parameters():
            if not name.startswith(_WORDS):
                weights[name] = parameter
        return weights

    def _read_characters(self, inputs: Tensor) -> _RowsToRead:
        n_ids = self._options.max_characters
        if inputs.ndim < 3 or not len(inputs):
            raise IndexError(f"ids of shape {tuple(inputs.shape)}: no sentence has a token")
        if inputs.ndim != 3 or inputs.shape[2] != n_ids:
            raise ValueError(f"ids of shape {tuple(inputs.shape)}, not (batch, token, {n_ids})")
        ids = inputs.cpu().numpy()
        if ids.size and not 0 <= ids.min() <= ids.max() < N_IDS:
            raise IndexError(f"ids from {ids.min()} to {ids.max()}: they are from 0 to {N_IDS - 1}")
        is_token = (ids > 0).any(2)  # (batch, token)
        lengths = is_token.sum(1)  # (batch,)
        if not np.array_equal(is_token, _is_before(lengths, ids.shape[1])):
            raise ValueError("ids with a row of zeros, which is padding, before a token")
        strings = self._id_strings.of_ids(ids[is_token])
        types = TypeNumbers(self._id_strings)
        rows = []
        first = 0
        for length in lengths.tolist():
            rows.append(types.numbers_of(strings[first : first + length]))
            first += length
        mask = torch.from_numpy(_is_before(lengths + 2, ids.shape[1] + 2).astype(np.int64))
        return _RowsToRead(rows=tuple(rows), types=types.types, mask=mask)

    def _read_words(self, word_inputs: Tensor, embedding: nn.Embedding) -> _RowsToRead:
        """Place the vectors of words and boundaries as AllenNLP does.

        The end follows as many positions as a row has words that are not 0. A 0 before a word is a
        vector of zeros, so that it and the words behind it lose their places.
        """
        words = word_inputs.cpu().numpy()  # (batch, token)
        n_rows, n_columns = words.shape
        used_words, numbers = np.unique(words, return_inverse=True)
        n_words = embedding.num_embeddings
        if used_words.size:
            first_word = used_words[0]  # the words are sorted
            last_word = used_words[-1]
            if first_word < 0 or last_word >= n_words:
                raise IndexError(f"words {first_word} to {last_word}, of a list of {n_words}")
        begin = len(used_words)
        end = len(used_words) + 1
        no_vector = len(used_words) + 2
        is_word = words > 0
        n_words_of_rows = is_word.sum(1)
        vector_numbers = np.full((n_rows, n_columns + 2), no_vector)
        vector_numbers[:, 0] = begin
        vector_numbers[:, 1:-1] = np.where(is_word, numbers.reshape(words.shape), no_vector)
        vector_numbers[np.arange(n_rows), n_words_of_rows + 1] = end
        mask = vector_numbers != no_vector
        rows = []
        for row, length in zip(vector_numbers, mask.sum(1).tolist(), strict=True):
            rows.append(row[:length])
        indices = torch.from_numpy(used_words).to(embedding.weight.device)
        boundaries = torch.stack([self._bos_embedding, self._eos_embedding])
        vectors = torch.cat(
            [
                functional.embedding(indices, embedding.weight, padding_idx=0),
                boundaries.to(embedding.weight),
                embedding.weight.new_zeros(1, embedding.embedding_dim),
            ]
        )
        mask_tensor = torch.from_numpy(mask.astype(np.int64))
        return _RowsToRead(rows=tuple(rows), types=vectors, mask=mask_tensor)


class CarriedLstm(nn.Module):
    """The parameters of the LSTM layers, and the state after the last batch of each row.

    Attributes:
        stateful: whether batches continue that state.
    """

    def __init__(self, *, stateful: bool) -> None:
        super().__init__()
        self.stateful = stateful
        self._states: State | None = None

    def start(self, zeros: State, weights: Mapping[str, Tensor]) -> State:
        """The state from which a batch starts, on the device of the weights.

        Args:
            zeros: of the rows of the batch.
        """
        weight = next(iter(weights.values()))
        states = zeros if self._states is None else self._states
        states = State(states.h.to(weight), states.c.to(weight))
        n_rows = zeros.h.shape[2]
        rows = states.with_rows_added(n_rows).select_rows(slice(0, n_rows))
        # What an engine has computed in inference mode cannot take part in autograd; a copy can.
        return State(rows.h.clone(), rows.c.clone())

    def keep(self, final: State) -> None:
        """Keep the final state of a batch; rows that it does not have stay as they are."""
        kept = State(final.h.detach().clone(), final.c.detach().clone())
        n_rows = kept.h.shape[2]
        if self._states is not None and self._states.h.shape[2] > n_rows:
            before = State(self._states.h.to(kept.h), self._states.c.to(kept.c))
            kept = before.with_rows(slice(0, n_rows), kept)
        self._states = kept

    def reset_states(self, mask: Tensor | None = None) -> None:
        """Start from zeros again: all rows, or those where `mask`, (row,), is not 0.

        Raises:
            ValueError: the mask does not have as many rows as the state.
        """
        if mask is None or self._states is None:
            self._states = None
            return
        n_rows = self._states.h.shape[2]
        if mask.shape != (n_rows,):
            raise ValueError(f"a mask of shape {tuple(mask.shape)} for a state of {n_rows} rows")
        is_reset = mask.to(self._states.h.device).bool().view(n_rows, 1)
        h = self._states.h.masked_fill(is_reset, 0)
        c = self._states.c.masked_fill(is_reset, 0)
        self._states = State(h, c)


def _is_before(lengths: Int64Array, n_columns: int) -> Any:
    """Whether a position is within the length of its row, (row, column)."""
    return np.arange(n_columns) < lengths[:, np.newaxis]
