"""Oracle: the biLM in plain numpy and float64, token by token, after section 3 of the paper.

It shares no line with `elmo_cli`, not even the character ids, so that a mistake would have to be
made twice to pass. Slow on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

OracleArray = npt.NDArray[np.float64]
# h (layer, direction, projection) and c (layer, direction, cell), or those of one LSTM.
OracleState = tuple[OracleArray, OracleArray]


def sigmoid(x: OracleArray) -> OracleArray:
    return 1 / (1 + np.exp(-x))


def spelled(token: str, n_characters: int = 50) -> list[int]:
    """Begin of word 258, bytes (256, 257 for sentence boundaries), end of word 259, padding 260."""
    if token == "<S>":
        characters = [256]
    elif token == "</S>":
        characters = [257]
    else:
        characters = list(token.encode("utf-8", "ignore"))[: n_characters - 2]
    word = [258, *characters, 259]
    return word + [260] * (n_characters - len(word))


class Oracle:
    """One biLM.

    Args:
        options: the content of options.json.
        arrays: the weight file, by HDF5 name.
    """

    def __init__(self, options: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        self.cnn = options["char_cnn"]
        self.lstm = options["lstm"]
        self.weights = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
        self._vectors: dict[str, OracleArray] = {}

    def zeros(self) -> OracleState:
        """The state before anything was read."""
        n_layers = self.lstm["n_layers"]
        h = np.zeros((n_layers, 2, self.lstm["projection_dim"]))
        c = np.zeros((n_layers, 2, self.lstm["dim"]))
        return h, c

    def vector(self, token: str) -> OracleArray:
        """The token's vector without context, (projection,)."""
        if token not in self._vectors:
            self._vectors[token] = self._computed_vector(token)
        return self._vectors[token]

    def read(
        self, tokens: Sequence[str], state: OracleState | None = None
    ) -> tuple[OracleArray, OracleState]:
        """Layers (layer, token, dim) of a sentence without its boundaries, and the final state."""
        vectors = np.stack([self.vector(token) for token in ("<S>", *tokens, "</S>")])
        start_h, start_c = self.zeros() if state is None else state
        h = start_h.copy()
        c = start_c.copy()
        layers = [np.concatenate([vectors, vectors], 1)]
        forward = vectors
        backward = vectors[::-1]  # in reading order
        for layer in range(self.lstm["n_layers"]):
            has_residual = self.lstm["use_skip_connections"] and layer > 0
            outputs = self.direction(0, layer, forward, h[layer, 0], c[layer, 0])
            forward = outputs + forward if has_residual else outputs
            outputs = self.direction(1, layer, backward, h[layer, 1], c[layer, 1])
            backward = outputs + backward if has_residual else outputs
            layers.append(np.concatenate([forward, backward[::-1]], 1))
        return np.stack(layers)[:, 1:-1], (h, c)

    def direction(
        self, direction: int, layer: int, x: OracleArray, h: OracleArray, c: OracleArray
    ) -> OracleArray:
        """Outputs (token, projection) of one layer; h and c are updated in place."""
        outputs = []
        for token in x:
            h[...], c[...] = self.step(direction, layer, token, h, c)
            outputs.append(h.copy())
        return np.stack(outputs)

    def step(
        self, direction: int, layer: int, x: OracleArray, h: OracleArray, c: OracleArray
    ) -> OracleState:
        """New h and c of one layer after one more token."""
        group = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        gates = np.append(x, h) @ self.weights[f"{group}/W_0"] + self.weights[f"{group}/B"]
        i, j, f, o = gates.reshape(4, -1)
        c = _clipped(
            sigmoid(f + self.lstm.get("forget_bias", 1)) * c + sigmoid(i) * np.tanh(j),
            self.lstm.get("cell_clip"),
        )
        h = sigmoid(o) * np.tanh(c)
        if f"{group}/W_P_0" in self.weights:
            h = _clipped(h @ self.weights[f"{group}/W_P_0"], self.lstm.get("proj_clip"))
        return h, c

    def _computed_vector(self, token: str) -> OracleArray:
        characters = self.weights["char_embed"][spelled(token)]  # (char, char_dim)
        maxima = []
        for i, (width, _) in enumerate(self.cnn["filters"]):
            windows = np.lib.stride_tricks.sliding_window_view(characters, width, 0)
            scores = np.einsum("pdw,wdn->pn", windows, self.weights[f"CNN/W_cnn_{i}"][0])
            maxima.append(scores.max(0) + self.weights[f"CNN/b_cnn_{i}"])
        x = np.concatenate(maxima)
        x = np.tanh(x) if self.cnn["activation"] == "tanh" else np.maximum(x, 0)
        for k in range(self.cnn["n_highway"]):
            gate = sigmoid(self._affine(x, f"CNN_high_{k}", "carry"))
            transformed = np.maximum(self._affine(x, f"CNN_high_{k}", "transform"), 0)
            x = gate * transformed + (1 - gate) * x
        if "CNN_proj/W_proj" in self.weights:
            x = self._affine(x, "CNN_proj", "proj")
        return x

    def _affine(self, x: OracleArray, group: str, name: str) -> OracleArray:
        weight = self.weights[f"{group}/W_{name}"]
        bias = self.weights[f"{group}/b_{name}"]
        product: OracleArray = x @ weight + bias
        return product


def _clipped(x: OracleArray, bound: float | None) -> OracleArray:
    return np.clip(x, -bound, bound) if bound else x
