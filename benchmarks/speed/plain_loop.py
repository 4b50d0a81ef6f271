"""Compare `elmo embed` with a plain PyTorch loop over the same weights, run in turns.

    python -m benchmarks.speed.plain_loop --text FILE [--size small] [--pairs 5] [--json FILE]

The loop is what one would write without elmo: sentences sorted by length, batches of 64, every
token through the character CNN, one LSTM step after the other, one data set per sentence. Its time
starts when the model is loaded and ends when the file is closed, over the first 12,000
tokens. That of `elmo embed` is the whole command over the whole text, from the start of the process
to the closed file. Both use `--threads` threads and write to memory if there is such a disk. The
vectors of the first pair are compared too.
"""

from __future__ import annotations

import argparse
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

from benchmarks.common import (
    ELMO,
    MEMORY,
    SIZES,
    model_path,
    parse_arguments,
    run_timed,
    write_text,
)
from benchmarks.record import Record, describe_text

BATCH = 64
CLIP = 3
LOOP_TOKENS = 12_000
# Ids of characters, from 1: a byte is its value plus 1.
BEGIN_TEXT = 257
END_TEXT = 258
BEGIN_WORD = 259
END_WORD = 260
PADDING = 261
MAX_CHARACTERS = 50  # of a token, with the boundaries of the word


class PlainModel:
    """The biLM of a folder of random weights: relu, residual links, clips of 3."""

    def __init__(self, folder: str) -> None:
        options = json.loads(Path(folder, "options.json").read_text(encoding="utf-8"))
        self.cnn = options["char_cnn"]
        self.lstm = options["lstm"]
        with h5py.File(Path(folder, "weights.hdf5")) as file:
            self.weights: dict[str, Tensor] = {}
            file.visititems(self._read)
        zero = torch.zeros(1, self.cnn["embedding"]["dim"])
        self.characters = torch.cat([zero, self.weights["char_embed"]])

    def _read(self, name: str, item: h5py.Dataset | h5py.Group) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        weight = torch.from_numpy(item[()])
        if name.startswith("CNN/W"):  # (1, width, char, filter) → (filter, char, width)
            weight = weight[0].permute(2, 1, 0).contiguous()
        self.weights[name] = weight

    def token_vectors(self, ids: Tensor) -> Tensor:
        """From ids of characters, (token, 50), to (token, projection)."""
        w = self.weights
        x = self.characters[ids].transpose(1, 2)  # (token, char dim, 50)
        pooled = []
        for k in range(len(self.cnn["filters"])):
            convolved = conv1d(x, w[f"CNN/W_cnn_{k}"], w[f"CNN/b_cnn_{k}"])
            pooled.append(convolved.amax(2))
        y = torch.relu(torch.cat(pooled, 1))  # (token, filter)
        for k in range(self.cnn["n_highway"]):
            gate = y @ w[f"CNN_high_{k}/W_carry"] + w[f"CNN_high_{k}/b_carry"]
            y_new = y @ w[f"CNN_high_{k}/W_transform"] + w[f"CNN_high_{k}/b_transform"]
            y = y + torch.sigmoid(gate) * (torch.relu(y_new) - y)
        return y @ w["CNN_proj/W_proj"] + w["CNN_proj/b_proj"]

    def direction(self, x: Tensor, number: int) -> list[Tensor]:
        """The output of each LSTM layer, (sentence, token, projection)."""
        outputs: list[Tensor] = []
        for layer in range(self.lstm["n_layers"]):
            y = self.lstm_layer(x, f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell")
            x = y if layer == 0 else y + x  # a residual link, except around the first layer
            outputs.append(x)
        return outputs

    def lstm_layer(self, x: Tensor, name: str) -> Tensor:
        """The output of the LSTM with this name, (sentence, token, projection)."""
        w_x, w_h = self.weights[f"{name}/W_0"].chunk(2)
        bias = self.weights[f"{name}/B"]
        w_out = self.weights[f"{name}/W_P_0"]  # (cell, projection)
        h = x.new_zeros(len(x), w_out.shape[1])
        c = x.new_zeros(len(x), len(w_out))
        z = x @ w_x + bias  # (sentence, token, 4 × cell)
        steps = []
        for t in range(x.shape[1]):
            i, j, f, o = (z[:, t] + h @ w_h).chunk(4, 1)
            c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(j)
            c = c.clamp(-CLIP, CLIP)
            h = ((torch.sigmoid(o) * torch.tanh(c)) @ w_out).clamp(-CLIP, CLIP)
            steps.append(h)
        return torch.stack(steps, 1)

    def layers(self, sentences: list[list[str]]) -> Tensor:
        """(sentence, layer, token, dim), with the sentence boundaries and padding."""
        lengths = [len(tokens) + 2 for tokens in sentences]
        n_sentences = len(sentences)
        n_tokens = max(lengths)
        ids = torch.zeros(n_sentences, n_tokens, MAX_CHARACTERS, dtype=torch.long)
        for row, tokens in enumerate(sentences):
            ids[row, : lengths[row]] = torch.tensor(sentence_ids(tokens))
        x = self.token_vectors(ids.view(-1, MAX_CHARACTERS)).view(n_sentences, n_tokens, -1)
        layers = [torch.cat([x, x], 2)]
        forward = self.direction(x, 0)
        backward = self.direction(reverse(x, lengths), 1)
        for y_forward, y_backward in zip(forward, backward, strict=True):
            layers.append(torch.cat([y_forward, reverse(y_backward, lengths)], 2))
        return torch.stack(layers, 1)


def sentence_ids(tokens: list[str]) -> list[list[int]]:
    """Ids of characters with the sentence boundaries, 50 for each token."""
    words = [[BEGIN_TEXT]]
    for token in tokens:
        characters = token.encode()[: MAX_CHARACTERS - 2]
        words.append([byte + 1 for byte in characters])
    words.append([END_TEXT])
    rows = []
    for word in words:
        row = [BEGIN_WORD, *word, END_WORD]
        rows.append(row + [PADDING] * (MAX_CHARACTERS - len(row)))
    return rows


def reverse(x: Tensor, lengths: list[int]) -> Tensor:
    """Each sentence in reverse order, its padding where it was."""
    rows = []
    for row, length in zip(x, lengths, strict=True):
        rows.append(torch.cat([row[:length].flip(0), row[length:]]))
    return torch.stack(rows)


def read_beginning(text: Path, n_tokens: int) -> list[list[str]]:
    """The first sentences of a text, until they have `n_tokens` tokens."""
    sentences = []
    n_read = 0
    for line in text.read_text(encoding="utf-8").splitlines():
        if n_read >= n_tokens:
            break
        sentences.append(line.split())
        n_read += len(sentences[-1])
    return sentences


@torch.inference_mode()
def run_loop(folder: str, text: Path, n_tokens: int, n_threads: int, output: Path) -> float:
    """Embed the first tokens of a text; return tokens per second, loading not counted."""
    torch.set_num_threads(n_threads)
    sentences = read_beginning(text, n_tokens)
    lengths = [len(tokens) for tokens in sentences]
    model = PlainModel(folder)
    order = sorted(range(len(sentences)), key=lengths.__getitem__)
    start_s = time.perf_counter()
    with h5py.File(output, "w") as file:
        for first in range(0, len(order), BATCH):
            numbers = order[first : first + BATCH]
            layers = model.layers([sentences[number] for number in numbers]).numpy()
            for row, number in enumerate(numbers):
                file[str(number)] = layers[row, :, 1 : lengths[number] + 1]
    return sum(lengths) / (time.perf_counter() - start_s)


def largest_difference(loop: Path, ours: Path) -> float:
    """The largest absolute difference of the vectors that both files have."""
    largest = 0.0
    with h5py.File(loop) as loop_file, h5py.File(ours) as our_file:
        for key in loop_file:
            differences = np.abs(loop_file[key][()] - our_file[key][()])
            largest = max(largest, float(differences.max(initial=0)))
    return largest


def compare(size: str, given: argparse.Namespace, folder: Path, record: Record) -> None:
    """Run the pairs of one size, and print and record their ratios."""
    model = model_path(size, folder)
    text = folder / "text.txt"
    n_tokens = write_text([str(given.text)], None, text)
    loop = folder / "loop.hdf5"
    ours = folder / "ours.hdf5"
    command = [*ELMO, "embed", text, "-o", ours, "-f", "-q", "-m", model]
    command += ["--threads", given.threads]
    ratios: list[float] = []
    pairs = []
    print(f"{size}: {n_tokens:,} tokens, {given.threads} threads")
    for number in range(given.pairs):
        # A process of its own, whose threads and memory nobody has used before.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            plain = pool.apply(run_loop, (model, text, LOOP_TOKENS, given.threads, loop))
        cost = run_timed(command)
        rate = n_tokens / cost.wall
        ratio = rate / plain
        ratios.append(ratio)
        pairs.append({"loop_tokens_per_s": plain, "embed": cost.as_json()})
        print(f"  elmo embed {rate:,.0f}, plain loop {plain:,.0f} tokens/s: {ratio:.2f}")
        if number == 0 and largest_difference(loop, ours) > 1e-3:
            raise SystemExit("the plain loop and elmo compute different vectors")
    print(f"  median {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    record.add(
        model=size,
        text={"name": str(given.text), **describe_text(text)},
        threads=given.threads,
        pairs=pairs,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True, metavar="FILE")
    parser.add_argument("--size", action="append", choices=SIZES, help="[default: small, original]")
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="[default: 5]")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="[default: 2]")
    given = parse_arguments(parser)
    record = Record(given.json, "benchmarks.speed.plain_loop")
    for size in given.size or ["small", "original"]:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            compare(size, given, Path(folder), record)


if __name__ == "__main__":
    main()
