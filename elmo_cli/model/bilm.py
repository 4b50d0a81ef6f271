"""BiLM and its State: section 3 of the paper, written to be read.

`engine` computes the same function faster; `lm.lstm` adds a backward pass of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.errors import OptionsError
from elmo_cli.model.options import CHARACTERS_FILE, Options
from elmo_cli.text.characters import CharacterIds, TokenIds


class CharCNN(nn.Module):
    """Character embeddings, filters, maximum over positions, highway layers, projection.

    In a model with words, the projection reads the embedding of the word and the filters.

    Source: Peters et al. 2018, 3.4 (after Kim et al. 2015); bilm-tf `bilm/model.py`. With words:
    ELMoForManyLangs `elmoformanylangs/modules/token_embedder.py`.
    """

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.embedding = nn.Embedding(options.n_characters, options.char_dim)
        self.filters = nn.ModuleList(
            nn.Conv1d(options.char_dim, count, width) for width, count in options.filters
        )
        self.highways = nn.ModuleList(Highway(options.n_filters) for _ in range(options.n_highway))
        self.words = nn.Embedding(options.n_words, options.word_dim) if options.word_dim else None
        self.projection: nn.Module = nn.Identity()
        if options.has_cnn_projection:
            n_features = options.word_dim + options.n_filters
            self.projection = nn.Linear(n_features, options.projection_dim)

    def forward(self, ids: Tensor) -> Tensor:
        """The vector of each token.

        Args:
            ids: (token, id) int64, from the `TokenIds` of the model.
        Returns:
            (token, projection_dim), in the dtype of the weights.
        """
        character_ids = ids[:, : self.options.max_characters]  # (token, char)
        characters = self.embedding(character_ids).transpose(1, 2)  # (token, char_dim, char)
        # The maximum is over all positions: padding has a vector of its own and takes part.
        features = [conv(characters).amax(2) for conv in self.filters]  # each (token, count)
        if self.words is not None:
            features.insert(0, self.words(ids[:, -1]))  # (token, word_dim)
        return self.from_features(torch.cat(features, 1))  # (token, projection_dim)

    def from_features(self, features: Tensor) -> Tensor:
        """From the word embedding, if there is one, and the filters' maxima to vectors:
        (token, word_dim + filter) -> (token, projection_dim)."""
        activation = torch.relu if self.options.activation == "relu" else torch.tanh
        word_dim = self.options.word_dim
        x = activation(features[:, word_dim:])  # (token, filter)
        for highway in self.highways:
            x = highway(x)  # (token, filter)
        if word_dim:
            x = torch.cat([features[:, :word_dim], x], 1)  # (token, word_dim + filter)
        vectors: Tensor = self.projection(x)  # (token, projection_dim)
        return vectors


class Highway(nn.Module):
    """One gated layer: a part of the input is carried through, the rest is transformed.

    Source: Srivastava et al. 2015; bilm-tf `bilm/model.py`, whose `carry` gate is the weight of the
    transformed input, and which uses relu here whatever the activation of the convolutions is.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.carry = nn.Linear(size, size)
        self.transform = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        """(token, filter) -> (token, filter)."""
        gate = torch.sigmoid(self.carry(x))  # (token, filter)
        transformed = torch.relu(self.transform(x))  # (token, filter)
        mixed: Tensor = gate * transformed + (1 - gate) * x  # (token, filter)
        return mixed


class ProjectedLSTM(nn.Module):
    """One LSTM layer, one direction, with cell clip, projection and projection clip.

    Gates are in the order of the file: input i, candidate j, forget f, output o.
    Source: Peters et al. 2018, 3.4; the cell is TensorFlow's `LSTMCell` with `num_proj`.
    """

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        n_gate_values = 4 * options.lstm_dim
        self.input = nn.Linear(options.projection_dim, n_gate_values)
        self.recurrent = nn.Linear(options.projection_dim, n_gate_values, bias=False)
        self.projection: nn.Module = nn.Identity()
        if options.has_lstm_projection:
            self.projection = nn.Linear(options.lstm_dim, options.projection_dim, bias=False)

    def step(self, from_input: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Read one token of each row.

        Args:
            from_input: input times weights plus bias, (batch, 4 * lstm_dim).
            h: (batch, projection_dim), before the token.
            c: (batch, lstm_dim), before the token.
        Returns:
            h and c after the token.
        """
        gates = from_input + self.recurrent(h)  # (batch, 4 * lstm_dim)
        i, j, f, o = gates.chunk(4, 1)  # each (batch, lstm_dim)
        kept = torch.sigmoid(f + self.options.forget_bias) * c  # (batch, lstm_dim)
        added = torch.sigmoid(i) * torch.tanh(j)  # (batch, lstm_dim)
        c = kept + added
        if self.options.cell_clip is not None:
            # The clipped cell is the one that is carried over.
            c = c.clamp(-self.options.cell_clip, self.options.cell_clip)  # (batch, lstm_dim)
        h = self.projection(torch.sigmoid(o) * torch.tanh(c))  # (batch, projection_dim)
        if self.options.has_lstm_projection and self.options.proj_clip is not None:
            h = h.clamp(-self.options.proj_clip, self.options.proj_clip)  # (batch, projection_dim)
        return h, c

    def forward(
        self, x: Tensor, lengths: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read the rows of a batch from their first token to their last.

        Args:
            x: (batch, token, projection_dim), rows padded at their end.
            lengths: tokens of each row, (batch,) int64; a row of 0 keeps its state.
            h: (batch, projection_dim), before the first token.
            c: (batch, lstm_dim), before the first token.
        Returns:
            Outputs (batch, token, projection_dim), arbitrary past a row's end; h and c after each
            row's last token.
        """
        from_input = self.input(x)  # (batch, token, 4 * lstm_dim)
        outputs = []
        for t in range(x.shape[1]):
            new_h, new_c = self.step(from_input[:, t], h, c)
            running = (t < lengths).unsqueeze(1)  # (batch, 1)
            h = torch.where(running, new_h, h)  # (batch, projection_dim)
            c = torch.where(running, new_c, c)  # (batch, lstm_dim)
            outputs.append(h)
        return torch.stack(outputs, 1), h, c


class DirectionLM(nn.Module):
    """The LSTM layers of one direction, with residual connections between them (3.4)."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.layers = nn.ModuleList(ProjectedLSTM(options) for _ in range(options.n_layers))

    def forward(
        self, x: Tensor, lengths: Tensor, h: Tensor, c: Tensor
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        """Read token vectors in the order given.

        Args:
            x: (batch, token, projection_dim).
            lengths: (batch,) int64.
            h: (layer, batch, projection_dim).
            c: (layer, batch, lstm_dim).
        Returns:
            The output of each layer, (batch, token, projection_dim); h and c after the last tokens.
        """
        outputs = []
        final_h = []
        final_c = []
        for k, layer in enumerate(self.layers):
            y, h_k, c_k = layer(x, lengths, h[k], c[k])  # y: (batch, token, projection_dim)
            # The residual is added to the layer's output, never to the h that the layer reads
            # again; the first layer has none from the token vectors.
            has_residual = self.options.residual and k > 0
            x = y + x if has_residual else y  # (batch, token, projection_dim)
            outputs.append(x)
            final_h.append(h_k)
            final_c.append(c_k)
        return outputs, torch.stack(final_h), torch.stack(final_c)


@dataclass(frozen=True)
class State:
    """h and c of every layer and direction, for each row of a batch; direction 0 is forward."""

    h: Tensor  # (layer, direction, batch, projection_dim)
    c: Tensor  # (layer, direction, batch, lstm_dim)

    @classmethod
    def zeros(
        cls,
        options: Options,
        batch: int,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> State:
        """The state before the first token."""

        def zeros(size: int) -> Tensor:
            return torch.zeros(options.n_layers, 2, batch, size, device=device, dtype=dtype)

        return cls(zeros(options.projection_dim), zeros(options.lstm_dim))

    def select_rows(self, index: Tensor | slice) -> State:
        """The state of some rows, in the order of `index`."""
        return State(self.h[:, :, index], self.c[:, :, index])

    def expand(self, batch: int) -> State:
        """Copies of a single row's state for each row of a batch."""
        h = self.h.expand(-1, -1, batch, -1).contiguous()
        c = self.c.expand(-1, -1, batch, -1).contiguous()
        return State(h, c)

    def with_rows(self, index: Tensor | slice, other: State) -> State:
        """A copy whose rows `index` are those of `other`."""
        h = self.h.clone()
        c = self.c.clone()
        h[:, :, index] = other.h
        c[:, :, index] = other.c
        return State(h, c)

    def with_rows_added(self, batch: int) -> State:
        """At least `batch` rows; the new ones are zero."""
        n_more = max(0, batch - self.h.shape[2])
        h = functional.pad(self.h, (0, 0, 0, n_more))
        c = functional.pad(self.c, (0, 0, 0, n_more))
        return State(h, c)

    def to(self, device: torch.device | str) -> State:
        """The same state on another device."""
        return State(self.h.to(device), self.c.to(device))

    def to_bytes(self) -> bytes:
        """float32 values of h, then of c."""
        h: bytes = self.h.cpu().float().numpy().tobytes()
        c: bytes = self.c.cpu().float().numpy().tobytes()
        return h + c

    @classmethod
    def from_bytes(cls, content: bytes, options: Options) -> State:
        """The state of `to_bytes`, with as many rows as it has.

        Raises:
            ValueError: these are not the bytes of a state of such a model.
        """
        values_per_row = 2 * options.n_layers * (options.projection_dim + options.lstm_dim)
        n_rows, n_bytes_left = divmod(len(content), 4 * values_per_row)
        if not n_rows or n_bytes_left:
            raise ValueError(
                f"{len(content)} bytes are no state of rows of {values_per_row} values"
            )
        values = torch.frombuffer(bytearray(content), dtype=torch.float32)
        n_h = 2 * options.n_layers * n_rows * options.projection_dim
        h = values[:n_h].view(options.n_layers, 2, n_rows, options.projection_dim)
        c = values[n_h:].view(options.n_layers, 2, n_rows, options.lstm_dim)
        return cls(h, c)


class BiLM(nn.Module):
    """Character CNN, forward LM and backward LM.

    Args:
        token_ids: by default those of bytes.
    Attributes:
        options: the sizes.
        token_ids: from tokens to the ids that `forward` takes.
        name: the model's name in messages.
        sha256: hash of its files, "" for a model that was never in a file.
        family: of its files, see `families`; "" for a model that was never in a file.
        files: the files that it was read from, which nothing may overwrite.
        vocabulary_file: the one of these with the types that its softmax predicts; "" if none.
        warm_state: the stored state that sentences may start from (one row), or None.
        warm_state_warning: set if nothing states that `warm_state` belongs to these weights.

    Source: Peters et al. 2018, 3.1 and 3.4.
    """

    def __init__(self, options: Options, token_ids: TokenIds | None = None) -> None:
        super().__init__()
        self.options = options
        if token_ids is None and options.is_unicode:
            problem = f"{CHARACTERS_FILE} is a dictionary, which is in the folder of a model"
            raise OptionsError(problem, "load the folder; only models of bytes are trained")
        self.token_ids: TokenIds = token_ids or CharacterIds(options.max_characters)
        self.char_cnn = CharCNN(options)
        self.forward_lm = DirectionLM(options)
        self.backward_lm = DirectionLM(options)
        self.name = ""
        self.sha256 = ""
        self.family = ""
        self.files: tuple[str, ...] = ()
        self.vocabulary_file = ""
        self.warm_state: State | None = None
        self.warm_state_warning = ""

    def __repr__(self) -> str:
        """Its sizes; the tree of modules is that of its parts, such as `forward_lm`."""
        options = self.options
        n_parameters = sum(values.numel() for values in self.parameters())
        return (
            f"BiLM({self.name!r}, layers={1 + options.n_layers}, dim={options.dim}, "
            f"parameters={n_parameters:_}, filters={options.n_filters}, "
            f"lstm_dim={options.lstm_dim}, projection_dim={options.projection_dim})"
        )

    def forward(
        self, ids: Tensor, lengths: Tensor, state: State | None = None
    ) -> tuple[Tensor, State]:
        """All layers of a batch of rows.

        Args:
            ids: from `token_ids`, (batch, token, id) int64, including the sentence boundaries.
            lengths: tokens of each row, including its boundaries, (batch,) int64.
            state: before the first token of each row (for the backward direction: before the last
                one, which it reads first); zeros when None.
        Returns:
            Layers (layer, batch, token, dim): layer 0 is the token vector twice, the layers after
            it are forward | backward; values past a row's end are arbitrary. And the final state
            of each row.
        """
        vectors = self.char_cnn(ids.flatten(0, 1)).unflatten(0, ids.shape[:2])
        return self.forward_from_vectors(vectors, lengths, state)

    def forward_from_vectors(
        self, vectors: Tensor, lengths: Tensor, state: State | None = None
    ) -> tuple[Tensor, State]:
        """Like `forward`, from token vectors (batch, token, projection_dim)."""
        if state is None:
            state = State.zeros(
                self.options, len(vectors), device=vectors.device, dtype=vectors.dtype
            )
        forward, forward_h, forward_c = self.forward_lm(
            vectors, lengths, state.h[:, 0], state.c[:, 0]
        )
        reversed_vectors = reverse_rows(vectors, lengths)  # (batch, token, projection_dim)
        backward, backward_h, backward_c = self.backward_lm(
            reversed_vectors, lengths, state.h[:, 1], state.c[:, 1]
        )
        layers = [torch.cat([vectors, vectors], 2)]  # (batch, token, dim)
        for forward_outputs, backward_outputs in zip(forward, backward, strict=True):
            in_order = reverse_rows(backward_outputs, lengths)  # (batch, token, projection_dim)
            layers.append(torch.cat([forward_outputs, in_order], 2))  # (batch, token, dim)
        final_h = torch.stack([forward_h, backward_h], 1)  # (layer, direction, batch, …)
        final_c = torch.stack([forward_c, backward_c], 1)
        return torch.stack(layers), State(final_h, final_c)  # (layer, batch, token, dim)


def reverse_rows(x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse each row within its length: (batch, token, size) -> the same shape."""
    positions = torch.arange(x.shape[1], device=x.device)  # (token,)
    mirrored = lengths.unsqueeze(1) - 1 - positions  # (batch, token)
    index = torch.where(mirrored >= 0, mirrored, positions)  # (batch, token)
    return x.gather(1, index.unsqueeze(2).expand_as(x))


class NextTokenSoftmax(nn.Module):
    """Log-likelihood of the next token: a softmax over the vocabulary, tied over both directions.

    Source: Peters et al. 2018, 3.1; bilm-tf `bilm/training.py`.
    """

    def __init__(self, n_types: int, projection_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_types, projection_dim))
        self.bias = nn.Parameter(torch.zeros(n_types))
        nn.init.normal_(self.weight, std=projection_dim**-0.5)

    def forward(self, h: Tensor, targets: Tensor) -> Tensor:
        """Log-likelihoods over the full vocabulary, (prediction,), natural logarithm.

        Args:
            h: the top layer's output in one direction, (prediction, projection_dim).
            targets: ids of the next tokens, (prediction,) int64.
        """
        scores = functional.linear(h, self.weight, self.bias)  # (prediction, type)
        return -functional.cross_entropy(scores, targets, reduction="none")
