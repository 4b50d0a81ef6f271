"""How fast `elmo embed` is on this machine, where the time goes, and how near the limit it comes.

    python tests/bench/embed_speed.py TEXT… [--size small] [--size original] [-m elmo-en]
        [--precision bf16] [--precision int8] [--device cuda]

TEXT is a tokenised text, a sentence a line, .xz or .gz as well. Models of a size have random
weights: speed does not depend on their values; what fewer bits cost does, hence -m. Machine figures
are taken in the same run, before and after, since only ratios to them can be compared between
machines. On a GPU all products' rates are the GPU's.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import disk_rate, now, packed_rate, product_rate, timed, times_as_fast
from operations import counter

from elmo_cli.embed.blocks import cut
from elmo_cli.embed.embedder import Embedder
from elmo_cli.engine.contract import PRECISIONS
from elmo_cli.engine.runtime import has_fast_bf16, keep_freed_memory, select_device
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import Options
from elmo_cli.pretrained.load import load
from elmo_cli.text.characters import CharacterIds
from elmo_cli.text.input import InputSettings, read_sentences
from elmo_cli.text.sentence import Sentence
from elmo_cli.train.initial import new_model
from elmo_cli.weightfile.write import write_bilm

_TIMED = """
import resource, subprocess, sys, time
begun = time.perf_counter()
subprocess.run(sys.argv[1:], check=True)
print(time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""

_FEW = 300  # sentences of a comparison

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
SIZES = {
    "small": Options(filters=FILTERS, lstm_dim=1024, projection_dim=128, n_highway=1),
    "medium": Options(filters=FILTERS, lstm_dim=2048, projection_dim=256, n_highway=1),
    "original": Options(filters=FILTERS, lstm_dim=4096, projection_dim=512, n_highway=2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--size", action="append", choices=SIZES, default=[])
    parser.add_argument("-m", "--model", action="append", default=[], help="as of `elmo embed`")
    parser.add_argument("--precision", action="append", choices=PRECISIONS[1:], default=[])
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    parser.add_argument("--tokens", type=int, help="stop reading after so many")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    keep_freed_memory()  # as the command does
    device, results = select_device(given.device), []
    models = given.size + given.model or ["small"]
    for model, text in itertools.product(models, given.texts):
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(model, text, given.tokens, Path(folder), device)
            facts = bench.measured(given.precision)
        results.append(facts)
        if given.json:
            continue
        print(f"\n{model}, {text}: {facts['tokens']:,} tokens, {facts['threads']} threads")
        for name, value in facts.items():
            if name not in ("model", "text", "tokens", "threads"):
                shown = f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
                print(f"  {name:44}{shown:>14}")
    if given.json:
        print(json.dumps(results))


class Bench:
    """One model, one text, one device.

    Args:
        model: a size of `SIZES`, with random weights; or what `elmo embed -m` takes.
        text: a tokenised text.
        n_tokens: where to stop reading.
        folder: for the text and what is made of it.
        device: where to compute.
    """

    def __init__(
        self, model: str, text: str, n_tokens: int | None, folder: Path, device: torch.device
    ) -> None:
        self.facts: dict[str, Any] = {"model": model, "text": text}
        self.folder, self.device = folder, device
        self.model = model
        if model in SIZES:
            self.model = str(folder / "model")
            make_model(SIZES[model], Path(self.model))
        self.bilm = load(self.model)
        self.options = self.bilm.options
        self.corpus = folder / "corpus.txt"
        self.total = write_text(text, n_tokens, self.corpus)
        self.block = next(iter(cut(self.sentences(), state="zero", batch_size=64)))

    def measured(self, precisions: list[str]) -> dict[str, Any]:
        """All figures, by name."""
        facts, total = self.facts, self.total
        facts["tokens"], facts["threads"] = total, torch.get_num_threads()
        rates = {name: product_rate(name, self.device) for name in self.precisions()}
        facts |= {f"{name} products before, GFLOP/s": rate for name, rate in rates.items()}
        if self.device.type == "cpu":
            facts["float32 products of packed weights, GFLOP/s"] = packed_rate()
        facts["writing to this disk, MB/s"] = disk_rate(self.folder)
        line = self.folder / "line.txt"
        first = self.corpus.read_text(encoding="utf-8").partition("\n")[0]
        line.write_text(first + "\n", encoding="utf-8")
        start_up = min(self.whole_command(line)[0] for _ in range(3))
        seconds, peak = self.whole_command(self.corpus)
        facts["end to end, tokens/s"] = total / seconds
        facts["end to end, peak MB"] = peak
        steady, shares, n_types = self.stages("float32")
        facts["steady, tokens/s"] = total / steady
        facts["a command of one sentence, s"] = start_up
        facts["end to end without that, over steady, %"] = 100 * ((seconds - start_up) / steady - 1)
        facts |= {f"  share of {name}": share for name, share in shares.items()}
        after = product_rate("float32", self.device)
        facts["float32 products after, GFLOP/s"] = after
        rate = (rates["float32"] + after) / 2
        naive = cnn_flop(self.options, self.options.max_characters) + lstm_flop(self.options)
        facts["end to end, tokens/s per GFLOP/s"] = total / seconds / rate
        facts["steady, tokens/s per GFLOP/s"] = total / steady / rate
        facts["naive MFLOP a token"] = naive / 1e6
        facts["steady, naive products / product rate"] = naive * total / steady / rate / 1e9
        facts["distinct types"] = n_types
        done = self.work_done()
        facts["MFLOP a token that are done"] = done / total / 1e6
        facts["steady, products done / product rate"] = done / steady / rate / 1e9
        facts |= self.apart()
        for precision in precisions:
            facts |= self.in_bits(precision, steady, done)
        return facts

    def precisions(self) -> Sequence[str]:
        """What the device has products of."""
        return PRECISIONS if self.device.type == "cpu" else ("float32", "bf16")

    def in_bits(self, precision: str, exact_s: float, done: float) -> dict[str, float]:
        """What products in fewer bits bring, and what they cost on the first sentences."""
        if precision not in self.precisions():
            return {f"{precision}: for processors": 0.0}
        if precision == "bf16" and not has_fast_bf16(self.device):
            return {"bf16: this processor only imitates it": 0.0}
        before, rate = times_as_fast(precision, self.device), product_rate(precision, self.device)
        seconds, _, _ = self.stages(precision)
        after = times_as_fast(precision, self.device)
        facts = {
            f"{precision}, steady, tokens/s": self.total / seconds,
            f"{precision}, steady, times float32's": exact_s / seconds,
            f"{precision}, its products / float32's, before": before,
            f"{precision}, its products / float32's, after": after,
            f"{precision}, steady, products done / its product rate": done / seconds / rate / 1e9,
        }
        some = self.block.sentences[:_FEW]
        exact, found = (
            np.concatenate(self.embedder(chosen).embed_block(some, None)[0], 1)
            for chosen in ("float32", precision)
        )  # each (layer, token, dim)
        distance = np.linalg.norm(found - exact, axis=-1) / np.linalg.norm(exact, axis=-1)
        for layer in range(len(distance)):
            worst = float(np.percentile(distance[layer], 99))
            facts[f"{precision}, layer {layer} off by, %, 99 of 100 tokens"] = 100 * worst
        return facts

    def work_done(self) -> float:
        """Operations in products: of all types, and of the LSTMs as on the first block."""
        types = {token for sentence in self.sentences() for token in sentence.tokens}
        n_threads = torch.get_num_threads()
        torch.set_num_threads(1)  # the counter sees its own thread alone
        try:
            embedder = self.embedder()
            with counter() as of_types:
                embedder.engine.embed_types(sorted(types))
            embedder.embed_block(self.block.sentences, None)  # its types are kept from now on
            with counter() as of_block:
                embedder.embed_block(self.block.sentences, None)
        finally:
            torch.set_num_threads(n_threads)
        share = self.total / self.block.n_tokens
        return of_types.get_total_flops() + of_block.get_total_flops() * share

    def whole_command(self, corpus: Path) -> tuple[float, float]:
        """Seconds and peak MB of the command, from the start of the process to its end."""
        words = [sys.executable, "-m", "elmo_cli", "embed", "-q", str(corpus), "-m", self.model]
        words += ["-o", str(self.folder / "out.hdf5"), "--overwrite", "--device", str(self.device)]
        # A child's peak begins with that of the process which started it, so a small one starts it.
        between = [sys.executable, "-c", _TIMED, *words]
        told = subprocess.run(between, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        return float(told[-2]), float(told[-1]) / 1024

    def stages(self, precision: str) -> tuple[float, dict[str, float], int]:
        """Seconds of computing all blocks once the model is there, shares of the stages, types."""
        embedder = self.embedder(precision)
        embedder.embed(["warm", "up"])
        timer = Timed(embedder.engine, self.device)
        embedder.engine = timer  # type: ignore[assignment]
        types: set[str] = set()
        reading = 0.0
        start = time.perf_counter()
        blocks = iter(cut(self.sentences(), state="zero", batch_size=64))
        while True:
            begun = time.perf_counter()
            block = next(blocks, None)
            reading += time.perf_counter() - begun
            if block is None:
                break
            embedder.embed_block(block.sentences, None)
        seconds = time.perf_counter() - start
        for sentence in self.sentences():
            types.update(sentence.tokens)
        shares = {
            "token vectors": timer.types_s / seconds,
            "LSTMs": timer.lstm_s / seconds,
            "reading": reading / seconds,
            "batches and output": 1 - (timer.types_s + timer.lstm_s + reading) / seconds,
        }
        return seconds, shares, len(types)

    def apart(self) -> dict[str, float]:
        """What sharing the character CNN between equal tokens and sorting by length bring, each
        alone, on the first block; and all together, over the plain engine on its first sentences.
        """
        tokens = [token for sentence in self.block.sentences for token in sentence.tokens]
        few = tokens[: len(tokens) // 8]
        every = self.timed(lambda: every_token(self.bilm, few, self.device))
        engine = self.embedder().engine
        engine.embed_types(["warm-up"])
        once = self.timed(lambda: engine.embed_types(list(dict.fromkeys(tokens))))
        seconds = {}
        for state in ("zero", "carry"):  # carry keeps the order of the text
            embedder = Embedder(self.bilm, device=str(self.device), state=state)
            embedder.engine.embed_types(list(dict.fromkeys(tokens)))
            seconds[state] = min(
                self.timed(lambda e=embedder: e.embed_block(self.block.sentences, None))
                for _ in range(2)
            )
        some = self.block.sentences[:_FEW]
        for name in ("plain", "fast"):
            embedder = Embedder(self.bilm, device=str(self.device), engine=name)
            embedder.embed(["warm", "up"])
            seconds[name] = self.timed(lambda e=embedder: e.embed_block(some, None))
        return {
            "token vectors once a type, times as fast": every / len(few) * len(tokens) / once,
            "LSTMs sorted by length, times as fast": seconds["carry"] / seconds["zero"],
            f"times the plain engine, first {len(some)} sentences": seconds["plain"]
            / seconds["fast"],
        }

    def embedder(self, precision: str = "float32") -> Embedder:
        return Embedder(self.bilm, device=str(self.device), precision=precision)

    def sentences(self) -> Iterator[Sentence]:
        return read_sentences([str(self.corpus)], InputSettings())

    def timed(self, work: Callable[[], object]) -> float:
        return timed(work, self.device)


class Timed:
    """An engine that adds up the time of its two halves."""

    def __init__(self, engine: Any, device: torch.device) -> None:
        self.engine, self.options, self.pads = engine, engine.options, engine.pads
        self.device = device
        self.types_s = self.lstm_s = 0.0

    def embed_types(self, types: Any) -> Any:
        start = now(self.device)
        vectors = self.engine.embed_types(types)
        self.types_s += now(self.device) - start
        return vectors

    def forward(self, *given: Any, **named: Any) -> Any:
        start = now(self.device)
        layers = self.engine.forward(*given, **named)
        self.lstm_s += now(self.device) - start
        return layers


def cnn_flop(options: Options, n_places: int) -> int:
    """Operations of the character CNN for a token with so many places."""
    width = sum(count for _, count in options.filters)
    filters = sum(2 * w * options.char_dim * n * (n_places - w + 1) for w, n in options.filters)
    return filters + options.n_highway * 4 * width**2 + 2 * width * options.projection_dim


def lstm_flop(options: Options) -> int:
    """Operations of the LSTMs for a token, both directions."""
    gates = 2 * 2 * options.projection_dim * 4 * options.lstm_dim
    return 2 * options.n_layers * (gates + 2 * options.lstm_dim * options.projection_dim)


def make_model(options: Options, folder: Path) -> None:
    """A model folder with random weights."""
    bilm, _ = new_model(options, np.ones(3), seed=1)
    folder.mkdir()
    (folder / "options.json").write_text(json.dumps(options.to_dict()))
    write_bilm(bilm, folder / "weights.hdf5")


def write_text(source: str, n_tokens: int | None, path: Path) -> int:
    """The first sentences of a text, a line each; how many tokens they have."""
    total = 0
    with path.open("w", encoding="utf-8") as file:
        for sentence in read_sentences([source], InputSettings()):
            if n_tokens is not None and total >= n_tokens:
                break
            total += len(sentence.tokens)
            file.write(" ".join(sentence.tokens) + "\n")
    return total


@torch.inference_mode()
def every_token(bilm: BiLM, tokens: list[str], device: torch.device) -> None:
    """The character CNN as it stands, for every token."""
    char_cnn = bilm.char_cnn.to(device)
    ids = torch.from_numpy(CharacterIds(bilm.options.max_characters).tokens(tokens))
    for part in ids.split(1024):
        char_cnn(part.to(device))


if __name__ == "__main__":
    main()
