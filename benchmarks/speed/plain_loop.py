"""Compare `elmo embed` with a plain PyTorch loop over the same weights, run in turns.

    python -m benchmarks.speed.plain_loop --text FILE [--size small] [--size original] [--pairs 5]

The loop is what one would write without elmo: sentences sorted by length, batches of 64, every
token through the character CNN, one LSTM step after the other, one data set per sentence. Its time
starts when the model is loaded and ends when the file is closed, over the first 12,000
tokens. That of `elmo embed` is the whole command over the whole text, from the start of the process
to the closed file. Both use `--threads` threads and write to memory if there is such a disk. The
vectors of the first pair are compared too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv1d

from benchmarks.common import ELMO, MEMORY, SIZES, model_path, run_timed, write_text

BATCH = 64
CLIP = 3
LOOP_TOKENS = 12_000
BEGIN_TEXT, END_TEXT, BEGIN_WORD, END_WORD, PADDING = 257, 258, 259, 260, 261  # ids from 1


class PlainModel:
    """The biLM of a folder of random weights: relu, residual links, clips of 3."""

    def __init__(self, folder: str) -> None:
        options = json.loads(Path(folder, "options.json").read_text(encoding="utf-8"))
        self.cnn, self.lstm = options["char_cnn"], options["lstm"]
        with h5py.File(Path(folder, "weights.hdf5")) as file:
            self.weights: dict[str, Tensor] = {}
            file.visititems(self._read)
        zero = torch.zeros(1, self.cnn["embedding"]["dim"])
        self.characters = torch.cat([zero, self.weights["char_embed"]])

    def _read(self, name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset):
            weight = torch.from_numpy(item[()])
            is_filter = name.startswith("CNN/W")  # (1, width, char, filter)
            self.weights[name] = weight[0].permute(2, 1, 0).contiguous() if is_filter else weight

    def token_vectors(self, ids: Tensor) -> Tensor:
        """From ids of characters, (token, 50), to (token, projection)."""
        x, w = self.characters[ids].transpose(1, 2), self.weights
        pooled = [
            conv1d(x, w[f"CNN/W_cnn_{k}"], w[f"CNN/b_cnn_{k}"]).amax(2)
            for k in range(len(self.cnn["filters"]))
        ]
        y = torch.relu(torch.cat(pooled, 1))
        for k in range(self.cnn["n_highway"]):
            gate, y_new = (
                y @ w[f"CNN_high_{k}/W_{name}"] + w[f"CNN_high_{k}/b_{name}"]
                for name in ("carry", "transform")
            )
            y = y + torch.sigmoid(gate) * (torch.relu(y_new) - y)
        return y @ w["CNN_proj/W_proj"] + w["CNN_proj/b_proj"]

    def direction(self, x: Tensor, number: int) -> list[Tensor]:
        """The output of each LSTM layer, (sentence, token, projection)."""
        outputs: list[Tensor] = []
        for layer in range(self.lstm["n_layers"]):
            name = f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
            w, bias, w_out = (self.weights[name + of] for of in ("W_0", "B", "W_P_0"))
            w_x, w_h = w.chunk(2)
            h, c = x.new_zeros(len(x), w_out.shape[1]), x.new_zeros(len(x), len(w_out))
            z, steps = x @ w_x + bias, []
            for t in range(x.shape[1]):
                i, j, f, o = (z[:, t] + h @ w_h).chunk(4, 1)
                c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(j)
                c = c.clamp(-CLIP, CLIP)
                h = ((torch.sigmoid(o) * torch.tanh(c)) @ w_out).clamp(-CLIP, CLIP)
                steps.append(h)
            x = torch.stack(steps, 1) + x if layer else torch.stack(steps, 1)
            outputs.append(x)
        return outputs

    def layers(self, sentences: list[list[str]]) -> Tensor:
        """(sentence, layer, token, dim), with the sentence boundaries and padding."""
        lengths = [len(tokens) + 2 for tokens in sentences]
        ids = torch.zeros(len(sentences), max(lengths), 50, dtype=torch.long)
        for row, tokens in enumerate(sentences):
            ids[row, : lengths[row]] = torch.tensor(sentence_ids(tokens))
        x = self.token_vectors(ids.view(-1, 50)).view(len(sentences), max(lengths), -1)
        forward = [x, *self.direction(x, 0)]
        backward = [x, *(turned(y, lengths) for y in self.direction(turned(x, lengths), 1))]
        return torch.stack([torch.cat(pair, 2) for pair in zip(forward, backward, strict=True)], 1)


def sentence_ids(tokens: list[str]) -> list[list[int]]:
    """Ids of characters with the sentence boundaries, 50 for each token."""
    words = [[byte + 1 for byte in token.encode()[:48]] for token in tokens]
    rows = [[BEGIN_WORD, *word, END_WORD] for word in [[BEGIN_TEXT], *words, [END_TEXT]]]
    return [row + [PADDING] * (50 - len(row)) for row in rows]


def turned(x: Tensor, lengths: list[int]) -> Tensor:
    """Each sentence in reverse order, its padding where it was."""
    return torch.stack([torch.cat([r[:n].flip(0), r[n:]]) for r, n in zip(x, lengths, strict=True)])


@torch.inference_mode()
def run_loop(folder: str, text: Path, n_tokens: int, n_threads: int, output: Path) -> float:
    """Embed the first tokens of a text; return tokens per second, loading not counted."""
    torch.set_num_threads(n_threads)
    sentences = list(map(str.split, text.read_text(encoding="utf-8").splitlines()))
    totals = list(itertools.accumulate(map(len, sentences)))
    del sentences[int(np.searchsorted(totals, n_tokens)) + 1 :]
    model, total = PlainModel(folder), totals[len(sentences) - 1]
    order = sorted(range(len(sentences)), key=lambda number: len(sentences[number]))
    start = time.perf_counter()
    with h5py.File(output, "w") as file:
        for first in range(0, len(order), BATCH):
            numbers = order[first : first + BATCH]
            layers = model.layers([sentences[number] for number in numbers]).numpy()
            for row, number in enumerate(numbers):
                file[str(number)] = layers[row, :, 1 : len(sentences[number]) + 1]
    return total / (time.perf_counter() - start)


def largest_difference(loop: Path, ours: Path) -> float:
    """The largest absolute difference of the vectors that both files have."""
    with h5py.File(loop) as a, h5py.File(ours) as b:
        return max(float(np.abs(a[key][()] - b[key][()]).max(initial=0)) for key in a)


def compare(size: str, given: argparse.Namespace, folder: Path) -> None:
    """Run the pairs of one size, and print their ratios."""
    model, text = model_path(size, folder), folder / "text.txt"
    n_tokens = write_text([str(given.text)], None, text)
    loop, ours = folder / "loop.hdf5", folder / "ours.hdf5"
    command = [*ELMO, "embed", text, "-o", ours, "-f", "-q", "-m", model]
    ratios: list[float] = []
    print(f"{size}: {n_tokens:,} tokens, {given.threads} threads")
    for number in range(given.pairs):
        # A process of its own, whose threads and memory nobody has used before.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            plain = pool.apply(run_loop, (model, text, LOOP_TOKENS, given.threads, loop))
        rate = n_tokens / run_timed([*command, "--threads", given.threads]).wall
        ratios.append(rate / plain)
        print(f"  elmo embed {rate:,.0f}, plain loop {plain:,.0f} tokens/s: {ratios[-1]:.2f}")
        if number == 0 and largest_difference(loop, ours) > 1e-3:
            raise SystemExit("the plain loop and elmo compute different vectors")
    print(f"  median {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True, metavar="FILE")
    parser.add_argument("--size", action="append", choices=SIZES, help="[default: small, original]")
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="[default: 5]")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="[default: 2]")
    given = parser.parse_args()
    for size in given.size or ["small", "original"]:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            compare(size, given, Path(folder))


if __name__ == "__main__":
    main()
