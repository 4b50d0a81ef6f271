"""ProjectedLSTM: one layer in one direction; state goes in and comes out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from elmo_cli.model.options import Options

FORGET_BIAS = 1.0  # TensorFlow's cell adds it while running; no file holds it


class ProjectedLSTM(nn.Module):
    """One LSTM layer, one direction, with cell clip, projection and projection clip.

    Gates stand in the order of the file: input i, candidate j, forget f, output o.
    Source: Peters et al. 2018, 3.4; the cell is TensorFlow's `LSTMCell` with `num_proj`.
    """

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        gates = 4 * options.cell
        self.input = nn.Linear(options.projection, gates)
        self.recurrent = nn.Linear(options.projection, gates, bias=False)
        self.projection: nn.Module = nn.Identity()
        if options.lstm_projection:
            self.projection = nn.Linear(options.cell, options.projection, bias=False)

    def step(self, from_input: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """One token further.

        Args:
            from_input: product of input and weights, bias added, (batch, 4 * cell).
            h: (batch, projection).
            c: (batch, cell).
        Returns:
            New h and c.
        """
        i, j, f, o = (from_input + self.recurrent(h)).chunk(4, 1)  # each (batch, cell)
        c = torch.sigmoid(f + FORGET_BIAS) * c + torch.sigmoid(i) * torch.tanh(j)  # (batch, cell)
        if self.options.cell_clip is not None:
            # The clipped cell is the one that is carried on.
            c = c.clamp(-self.options.cell_clip, self.options.cell_clip)  # (batch, cell)
        h = self.projection(torch.sigmoid(o) * torch.tanh(c))  # (batch, projection)
        if self.options.lstm_projection and self.options.proj_clip is not None:
            h = h.clamp(-self.options.proj_clip, self.options.proj_clip)  # (batch, projection)
        return h, c

    def forward(
        self, x: Tensor, lengths: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read the rows of a batch from their first token to their last.

        Args:
            x: (batch, token, projection), rows padded at their end.
            lengths: tokens of each row, (batch,) int64; a row of 0 keeps its state.
            h: (batch, projection), before the first token.
            c: (batch, cell), before the first token.
        Returns:
            Outputs (batch, token, projection), arbitrary past a row's end; h and c after each
            row's last token.
        """
        from_input = self.input(x)  # (batch, token, 4 * cell)
        outputs = []
        for t in range(x.shape[1]):
            new_h, new_c = self.step(from_input[:, t], h, c)
            running = (t < lengths).unsqueeze(1)  # (batch, 1)
            h = torch.where(running, new_h, h)  # (batch, projection)
            c = torch.where(running, new_c, c)  # (batch, cell)
            outputs.append(h)
        return torch.stack(outputs, 1), h, c
