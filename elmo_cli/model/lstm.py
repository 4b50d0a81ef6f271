"""ProjectedLSTM: one layer in one direction, written to be read.

`engine.lstm` computes the same function faster; `lm.forward` adds its own backward pass.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from elmo_cli.model.options import Options

FORGET_BIAS = 1.0  # TensorFlow's cell adds it at run time; no file contains it


class ProjectedLSTM(nn.Module):
    """One LSTM layer, one direction, with cell clip, projection and projection clip.

    Gates are in the order of the file: input i, candidate j, forget f, output o.
    Source: Peters et al. 2018, 3.4; the cell is TensorFlow's `LSTMCell` with `num_proj`.
    """

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        gates = 4 * options.lstm_dim
        self.input = nn.Linear(options.projection_dim, gates)
        self.recurrent = nn.Linear(options.projection_dim, gates, bias=False)
        self.projection: nn.Module = nn.Identity()
        if options.has_lstm_projection:
            self.projection = nn.Linear(options.lstm_dim, options.projection_dim, bias=False)

    def step(self, from_input: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """New h, (batch, projection_dim), and c, (batch, lstm_dim), after one token.

        Args:
            from_input: input times weights plus bias, (batch, 4 * lstm_dim).
        """
        i, j, f, o = (from_input + self.recurrent(h)).chunk(4, 1)  # each (batch, lstm_dim)
        c = torch.sigmoid(f + FORGET_BIAS) * c + torch.sigmoid(i) * torch.tanh(j)
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
