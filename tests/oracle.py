"""Oracle: the biLM in plain numpy and float64, token by token, after section 3 of the paper.

It shares no line with `elmo_cli`, not even the character ids, so that a mistake would have to be
made twice to pass. Slow on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Lstm = tuple[Floats, Floats]  # h (layer, direction, projection), c (layer, direction, cell)


def sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


def spelled(token: str, places: int = 50) -> list[int]:
    """Begin of word 258, bytes (256, 257 for the borders of a sentence), end 259, padding 260."""
    borders = {"<S>": [256], "</S>": [257]}
    body = borders.get(token) or list(token.encode("utf-8", "ignore"))[: places - 2]
    return ([258, *body, 259] + places * [260])[:places]


class Oracle:
    """One biLM.

    Args:
        options: the content of options.json.
        arrays: the weight file, by HDF5 name.
    """

    def __init__(self, options: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        self.cnn, self.lstm = options["char_cnn"], options["lstm"]
        self.weights = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
        self._vectors: dict[str, Floats] = {}

    def zeros(self) -> Lstm:
        """The state before anything was read."""
        shape = (self.lstm["n_layers"], 2)
        return (
            np.zeros((*shape, self.lstm["projection_dim"])),
            np.zeros((*shape, self.lstm["dim"])),
        )

    def vector(self, token: str) -> Floats:
        """The token's vector without context, (projection,)."""
        if token not in self._vectors:
            self._vectors[token] = self._computed_vector(token)
        return self._vectors[token]

    def read(self, tokens: Sequence[str], state: Lstm | None = None) -> tuple[Floats, Lstm]:
        """Layers (layer, token, dim) of a sentence without its borders, and the state it leaves."""
        vectors = np.stack([self.vector(token) for token in ("<S>", *tokens, "</S>")])
        h, c = (part.copy() for part in state or self.zeros())
        layers = [np.concatenate([vectors, vectors], 1)]
        ahead, back = vectors, vectors[::-1]
        for layer in range(self.lstm["n_layers"]):
            skip = self.lstm["use_skip_connections"] and layer > 0
            read = self.direction(0, layer, ahead, h[layer, 0], c[layer, 0])
            ahead = read + ahead if skip else read
            read = self.direction(1, layer, back, h[layer, 1], c[layer, 1])
            back = read + back if skip else read
            layers.append(np.concatenate([ahead, back[::-1]], 1))
        return np.stack(layers)[:, 1:-1], (h, c)

    def direction(self, way: int, layer: int, x: Floats, h: Floats, c: Floats) -> Floats:
        """Outputs (token, projection) of one layer; h and c are moved on in place."""
        outputs = []
        for token in x:
            h[...], c[...] = self.step(way, layer, token, h, c)
            outputs.append(h.copy())
        return np.stack(outputs)

    def step(self, way: int, layer: int, x: Floats, h: Floats, c: Floats) -> Lstm:
        """One token further in one layer: new h and c."""
        home = f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        gates = np.append(x, h) @ self.weights[f"{home}/W_0"] + self.weights[f"{home}/B"]
        i, j, f, o = gates.reshape(4, -1)
        c = _clipped(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j), self.lstm.get("cell_clip"))
        h = sigmoid(o) * np.tanh(c)
        if f"{home}/W_P_0" in self.weights:
            h = _clipped(h @ self.weights[f"{home}/W_P_0"], self.lstm.get("proj_clip"))
        return h, c

    def _computed_vector(self, token: str) -> Floats:
        characters = self.weights["char_embed"][spelled(token)]  # (char, char_dim)
        activation = np.tanh if self.cnn["activation"] == "tanh" else lambda x: np.maximum(x, 0)
        maxima = []
        for i, (width, _) in enumerate(self.cnn["filters"]):
            windows = np.lib.stride_tricks.sliding_window_view(characters, width, 0)
            scores = np.einsum("pdw,wdn->pn", windows, self.weights[f"CNN/W_cnn_{i}"][0])
            maxima.append(scores.max(0) + self.weights[f"CNN/b_cnn_{i}"])
        x = activation(np.concatenate(maxima))
        for k in range(self.cnn["n_highway"]):
            share = sigmoid(self._affine(x, f"CNN_high_{k}", "carry"))
            transformed = np.maximum(self._affine(x, f"CNN_high_{k}", "transform"), 0)
            x = share * transformed + (1 - share) * x
        return self._affine(x, "CNN_proj", "proj") if "CNN_proj/W_proj" in self.weights else x

    def _affine(self, x: Floats, home: str, name: str) -> Floats:
        product: Floats = x @ self.weights[f"{home}/W_{name}"] + self.weights[f"{home}/b_{name}"]
        return product


def _clipped(x: Floats, bound: float | None) -> Floats:
    return np.clip(x, -bound, bound) if bound else x
