"""BiLM: two language models that share token vectors and read in opposite directions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.model.char_cnn import CharCNN
from elmo_cli.model.lstm import ProjectedLSTM
from elmo_cli.model.options import Options
from elmo_cli.model.state import State


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
        outputs, new_h, new_c = [], [], []
        for k, layer in enumerate(self.layers):
            y, h_k, c_k = layer(x, lengths, h[k], c[k])
            # The residual is added to the layer's output, never to the h that the layer reads
            # again; the first layer has none from the token vectors.
            x = y + x if self.options.residual and k > 0 else y  # (batch, token, projection_dim)
            outputs.append(x)
            new_h.append(h_k)
            new_c.append(c_k)
        return outputs, torch.stack(new_h), torch.stack(new_c)


class BiLM(nn.Module):
    """Character CNN, forward LM and backward LM.

    Attributes:
        options: the sizes.
        name: the model's name in messages.
        sha256: hash of its files, "" for a model that was never in a file.
        files: the files that it was read from, which nothing may overwrite.
        warm_state: the stored state that sentences may start from (one row), or None.
        warm_state_warning: set if nothing states that `warm_state` belongs to these weights.

    Source: Peters et al. 2018, 3.1 and 3.4.
    """

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.char_cnn = CharCNN(options)
        self.forward_lm = DirectionLM(options)
        self.backward_lm = DirectionLM(options)
        self.name = ""
        self.sha256 = ""
        self.files: tuple[str, ...] = ()
        self.warm_state: State | None = None
        self.warm_state_warning = ""

    def token_vectors(self, ids: Tensor) -> Tensor:
        """Context-free token vectors: (batch, token, char) -> (batch, token, projection_dim)."""
        vectors: Tensor = self.char_cnn(ids.flatten(0, 1)).unflatten(0, ids.shape[:2])
        return vectors

    def forward(
        self, ids: Tensor, lengths: Tensor, state: State | None = None
    ) -> tuple[Tensor, State]:
        """All layers of a batch of rows.

        Args:
            ids: character ids, (batch, token, char) int64, including the sentence boundaries.
            lengths: tokens of each row, including its boundaries, (batch,) int64.
            state: before the first token of each row (for the backward direction: before the last
                one, which it reads first); zeros when None.
        Returns:
            Layers (layer, batch, token, dim): layer 0 is the token vector twice, the layers after
            it are forward | backward; values past a row's end are arbitrary. And the final state
            of each row.
        """
        return self.forward_from_vectors(self.token_vectors(ids), lengths, state)

    def forward_from_vectors(
        self, vectors: Tensor, lengths: Tensor, state: State | None = None
    ) -> tuple[Tensor, State]:
        """Like `forward`, from token vectors (batch, token, projection_dim)."""
        if state is None:
            device, dtype = vectors.device, vectors.dtype
            state = State.zeros(self.options, len(vectors), device=device, dtype=dtype)
        forward, h_f, c_f = self.forward_lm(vectors, lengths, state.h[:, 0], state.c[:, 0])
        reversed_vectors = reverse_rows(vectors, lengths)  # (batch, token, projection_dim)
        h, c = state.h[:, 1], state.c[:, 1]
        backward, h_b, c_b = self.backward_lm(reversed_vectors, lengths, h, c)
        layers = [torch.cat([vectors, vectors], 2)]  # (batch, token, dim)
        for f, b in zip(forward, backward, strict=True):
            layers.append(torch.cat([f, reverse_rows(b, lengths)], 2))  # (batch, token, dim)
        final = State(torch.stack([h_f, h_b], 1), torch.stack([c_f, c_b], 1))
        return torch.stack(layers), final  # (layer, batch, token, dim)


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
        """Log-likelihoods over the full vocabulary.

        Args:
            h: the top layer's output in one direction, (prediction, projection_dim).
            targets: ids of the next tokens, (prediction,) int64.
        Returns:
            (prediction,), natural logarithm.
        """
        scores = functional.linear(h, self.weight, self.bias)  # (prediction, type)
        return -functional.cross_entropy(scores, targets, reduction="none")
