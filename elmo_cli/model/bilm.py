"""BiLM: two language models that share their token vectors, read in opposite directions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from elmo_cli.errors import ElmoError
from elmo_cli.model.char_cnn import CharCNN
from elmo_cli.model.lstm import ProjectedLSTM
from elmo_cli.model.options import Options
from elmo_cli.model.state import State


class DirectionLM(nn.Module):
    """The LSTM layers of one direction, with the residual link between them (3.4)."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.layers = nn.ModuleList(ProjectedLSTM(options) for _ in range(options.n_layers))

    def forward(
        self, x: Tensor, lengths: Tensor, h: Tensor, c: Tensor
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        """Read token vectors in the order given.

        Args:
            x: (batch, token, projection).
            lengths: (batch,) int64.
            h: (layer, batch, projection).
            c: (layer, batch, cell).
        Returns:
            The output of each layer, (batch, token, projection); h and c after the last tokens.
        """
        outputs, new_h, new_c = [], [], []
        for k, layer in enumerate(self.layers):
            y, h_k, c_k = layer(x, lengths, h[k], c[k])
            # The residual is added to what goes on, never to h that the layer itself reads again;
            # the first layer has none from the token vectors.
            x = y + x if self.options.skip and k > 0 else y  # (batch, token, projection)
            outputs.append(x)
            new_h.append(h_k)
            new_c.append(c_k)
        return outputs, torch.stack(new_h), torch.stack(new_c)


class BiLM(nn.Module):
    """Character CNN, forward LM and backward LM.

    Attributes:
        options: the sizes.
        name: what the model is called in messages.
        sha256: hash of its files, "" for a model that was never in a file.
        files: what it was read from, so that nothing writes there.
        warm: the state that sentences may start from (one row), None when none is stored.
        warm_error: raised by who starts from it: it is not the one written with these weights.
        warm_warning: nothing states that it belongs to these weights.

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
        self.warm: State | None = None
        self.warm_error: ElmoError | None = None
        self.warm_warning = ""

    def token_vectors(self, ids: Tensor) -> Tensor:
        """Vectors of tokens without context: (batch, token, char) -> (batch, token, projection)."""
        flat = self.char_cnn(ids.flatten(0, 1))  # (batch * token, projection)
        vectors: Tensor = flat.unflatten(0, ids.shape[:2])  # (batch, token, projection)
        return vectors

    def forward(
        self, ids: Tensor, lengths: Tensor, state: State | None = None
    ) -> tuple[Tensor, State]:
        """All layers of a batch of rows.

        Args:
            ids: character ids, (batch, token, char) int64, the sentence borders among the tokens.
            lengths: tokens of each row with its borders, (batch,) int64.
            state: before the first token of each row (for the backward direction: before the last
                one, which it reads first); zeros when None.
        Returns:
            Layers (layer, batch, token, dim), layer 0 the token vector twice, layers after it
            forward | backward, arbitrary past a row's end; and the state that each row left.
        """
        vectors = self.token_vectors(ids)  # (batch, token, projection)
        return self.layers_of(vectors, lengths, state)

    def layers_of(
        self, vectors: Tensor, lengths: Tensor, state: State | None = None
    ) -> tuple[Tensor, State]:
        """As `forward`, from token vectors (batch, token, projection)."""
        if state is None:
            state = State.zeros(
                self.options, vectors.shape[0], device=vectors.device, dtype=vectors.dtype
            )
        ahead, h_f, c_f = self.forward_lm(vectors, lengths, state.h[:, 0], state.c[:, 0])
        turned = reverse_rows(vectors, lengths)  # (batch, token, projection)
        back, h_b, c_b = self.backward_lm(turned, lengths, state.h[:, 1], state.c[:, 1])
        layers = [torch.cat([vectors, vectors], 2)]  # (batch, token, dim)
        for f, b in zip(ahead, back, strict=True):
            layers.append(torch.cat([f, reverse_rows(b, lengths)], 2))  # (batch, token, dim)
        left = State(torch.stack([h_f, h_b], 1), torch.stack([c_f, c_b], 1))
        return torch.stack(layers), left  # (layer, batch, token, dim)


def reverse_rows(x: Tensor, lengths: Tensor) -> Tensor:
    """Turn each row around within its length: (batch, token, size) -> the same shape."""
    places = torch.arange(x.shape[1], device=x.device)  # (token,)
    mirrored = lengths.unsqueeze(1) - 1 - places  # (batch, token)
    index = torch.where(mirrored >= 0, mirrored, places)  # (batch, token)
    return x.gather(1, index.unsqueeze(2).expand_as(x))
