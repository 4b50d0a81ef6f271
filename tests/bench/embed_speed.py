"""How fast `elmo embed` is on this machine, where the time goes, and how near the limit it comes.

    python tests/bench/embed_speed.py TEXT… [--size small] [--size original] [--precision int8]

TEXT is a tokenised text, a sentence a line, .xz or .gz as well. The models have random weights of
the published sizes: speed does not depend on their values. Machine figures are taken in the same
run, before and after, since only ratios to them can be compared between machines.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from elmo_cli.embed.blocks import cut
from elmo_cli.embed.embedder import Embedder
from elmo_cli.engine.device import is_quick_in_bf16
from elmo_cli.engine.memory import keep_freed_memory
from elmo_cli.engine.products import PRECISIONS
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import Options
from elmo_cli.text.characters import CharacterIds
from elmo_cli.text.formats import read_sentences
from elmo_cli.text.sentence import Sentence
from elmo_cli.text.settings import InputSettings
from elmo_cli.train.initial import new_model
from elmo_cli.weightfile.read import read_bilm
from elmo_cli.weightfile.write import write_bilm

_TIMED = """
import resource, subprocess, sys, time
begun = time.perf_counter()
subprocess.run(sys.argv[1:], check=True)
print(time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
SIZES = {
    "small": Options(filters=FILTERS, cell=1024, projection=128, n_highway=1),
    "medium": Options(filters=FILTERS, cell=2048, projection=256, n_highway=1),
    "original": Options(filters=FILTERS, cell=4096, projection=512, n_highway=2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--size", action="append", choices=SIZES)
    parser.add_argument("--precision", action="append", choices=PRECISIONS[1:], default=[])
    parser.add_argument("--tokens", type=int, help="stop reading after so many")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    keep_freed_memory()  # as the command does
    results = []
    for size, text in itertools.product(given.size or ["small"], given.texts):
        with tempfile.TemporaryDirectory() as folder:
            facts = measured(size, text, given.tokens, Path(folder), given.precision)
        results.append(facts)
        if given.json:
            continue
        print(f"\n{size}, {text}: {facts['tokens']:,} tokens, {facts['threads']} threads")
        for name, value in facts.items():
            if name not in ("size", "text", "tokens", "threads"):
                shown = f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
                print(f"  {name:44}{shown:>14}")
    if given.json:
        print(json.dumps(results))


def measured(
    size: str, text: str, n_tokens: int | None, folder: Path, precisions: list[str]
) -> dict[str, Any]:
    """All figures of one model on one text."""
    options = SIZES[size]
    make_model(options, folder / "model")
    corpus = folder / "corpus.txt"
    total = write_text(text, n_tokens, corpus)
    facts: dict[str, Any] = {
        "size": size,
        "text": text,
        "tokens": total,
        "threads": torch.get_num_threads(),
        "float32 products before, GFLOP/s": product_rate(torch.float32),
        "bfloat16 products, GFLOP/s": product_rate(torch.bfloat16),
        "int8 products, GFLOP/s": whole_rate(),
        "writing to this disk, MB/s": disk_rate(folder),
    }
    line = folder / "line.txt"
    line.write_text(corpus.read_text(encoding="utf-8").partition("\n")[0] + "\n", encoding="utf-8")
    start_up = min(whole_command(line, folder)[0] for _ in range(3))
    seconds, peak = whole_command(corpus, folder)
    facts["end to end, tokens/s"] = total / seconds
    facts["end to end, peak MB"] = peak
    steady, shares, n_types = stages(corpus, folder / "model")
    facts["steady, tokens/s"] = total / steady
    facts["a command of one sentence, s"] = start_up
    facts["end to end without that, over steady, %"] = 100 * ((seconds - start_up) / steady - 1)
    facts |= {f"  share of {name}": share for name, share in shares.items()}
    after = product_rate(torch.float32)
    facts["float32 products after, GFLOP/s"] = after
    rate = (facts["float32 products before, GFLOP/s"] + after) / 2
    naive = cnn_flop(options, 50) + lstm_flop(options)
    facts["end to end, tokens/s per GFLOP/s"] = total / seconds / rate
    facts["steady, tokens/s per GFLOP/s"] = total / steady / rate
    facts["naive MFLOP a token"] = naive / 1e6
    facts["steady, naive products / product rate"] = naive * total / steady / rate / 1e9
    facts["distinct types"] = n_types
    done = work_done(corpus, folder / "model", total)
    facts["MFLOP a token that are done"] = done / total / 1e6
    facts["steady, products done / product rate"] = done / steady / rate / 1e9
    facts |= apart(corpus, folder / "model")
    for precision in precisions:
        facts |= in_bits(precision, corpus, folder / "model", total, steady)
    return facts


def in_bits(
    precision: str, corpus: Path, model: Path, total: int, exact_s: float
) -> dict[str, float]:
    """What products in fewer bits bring, and what they cost on the first block."""
    if precision == "bf16" and not is_quick_in_bf16(torch.device("cpu")):
        return {"bf16: this processor only imitates it": 0.0}
    before = times_as_fast(precision)
    seconds, _, _ = stages(corpus, model, precision)
    after = times_as_fast(precision)
    facts = {
        f"{precision}, steady, tokens/s": total / seconds,
        f"{precision}, steady, times float32's": exact_s / seconds,
        f"{precision}, its products / float32's, before": before,
        f"{precision}, its products / float32's, after": after,
    }
    bilm = read_bilm(model / "options.json", model / "weights.hdf5")
    block = next(iter(cut(sentences_of(corpus), state="zero", batch_size=64))).sentences[:300]
    arrays = []
    for chosen in ("float32", precision):
        embedder = Embedder(bilm, device="cpu", precision=chosen)
        arrays.append(np.concatenate(embedder.embed_block(block, None)[0], 1))
    exact, found = arrays  # (layer, token, dim)
    distance = np.linalg.norm(found - exact, axis=-1) / np.linalg.norm(exact, axis=-1)
    for layer in range(len(distance)):
        worst = float(np.percentile(distance[layer], 99))
        facts[f"{precision}, layer {layer} off by, %, 99 of 100 tokens"] = 100 * worst
    return facts


def work_done(corpus: Path, model: Path, total: int) -> float:
    """Operations in products: of all types, and of the LSTMs as on the first block."""
    bilm = read_bilm(model / "options.json", model / "weights.hdf5")
    types = {token for sentence in sentences_of(corpus) for token in sentence.tokens}
    block = next(iter(cut(sentences_of(corpus), state="zero", batch_size=64)))
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the counter sees its own thread alone
    try:
        embedder = Embedder(bilm, device="cpu")
        with FlopCounterMode(display=False) as of_types:
            embedder.engine.token_vectors(sorted(types))
        embedder.embed_block(block.sentences, None)  # its types are kept from now on
        with FlopCounterMode(display=False) as of_block:
            embedder.embed_block(block.sentences, None)
    finally:
        torch.set_num_threads(n_threads)
    return of_types.get_total_flops() + of_block.get_total_flops() / block.n_tokens * total


def cnn_flop(options: Options, n_places: int) -> int:
    """Operations of the character CNN for a token with so many places."""
    width = sum(count for _, count in options.filters)
    filters = sum(2 * w * options.char_dim * n * (n_places - w + 1) for w, n in options.filters)
    return filters + options.n_highway * 4 * width**2 + 2 * width * options.projection


def lstm_flop(options: Options) -> int:
    """Operations of the LSTMs for a token, both directions."""
    gates = 2 * 2 * options.projection * 4 * options.cell
    return 2 * options.n_layers * (gates + 2 * options.cell * options.projection)


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


def product_rate(dtype: torch.dtype) -> float:
    """GFLOP/s of a product of two square matrices, best of some."""
    # A processor without bfloat16 instructions takes a minute for the larger one.
    quick = dtype == torch.float32 or is_quick_in_bf16(torch.device("cpu"))
    side = 2048 if quick else 512
    matrix = torch.randn(side, side).to(dtype)
    seconds = min(timed(lambda: torch.mm(matrix, matrix)) for _ in range(20))
    return 2 * side**3 / seconds / 1e9


def whole_rate() -> float:
    """GOP/s of a product of two square matrices of 8 bits, best of some."""
    side = 2048
    rows = torch.randint(1, 127, (side, side), dtype=torch.uint8)
    columns = torch.randint(-127, 127, (side, side), dtype=torch.int8)
    packed = torch.ops.onednn.qlinear_prepack(columns, None)
    scales, zeros = torch.ones(side), torch.zeros(side, dtype=torch.int64)
    tail = (1.0, 0, torch.float32, "none", [], "")

    def multiply() -> None:
        torch.ops.onednn.qlinear_pointwise(rows, 1.0, 64, packed, scales, zeros, None, *tail)

    return 2 * side**3 / min(timed(multiply) for _ in range(6)) / 1e9


def times_as_fast(precision: str) -> float:
    """The rate of large products in a precision over that in float32, taken in turns."""
    rates = []
    for _ in range(3):
        exact = product_rate(torch.float32)
        chosen = whole_rate() if precision == "int8" else product_rate(torch.bfloat16)
        rates.append(chosen / exact)
    return statistics.median(rates)


def disk_rate(folder: Path) -> float:
    """MB/s of writing 256 MB and of having them on the disk."""
    content = os.urandom(1 << 20) * 256

    def write() -> None:
        with (folder / "disk").open("wb") as file:
            file.write(content)
            os.fsync(file.fileno())

    return len(content) / timed(write) / 1e6


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def whole_command(corpus: Path, folder: Path) -> tuple[float, float]:
    """Seconds and peak MB of the command, from the start of the process to its end."""
    words = [sys.executable, "-m", "elmo_cli", "embed", "-q", str(corpus)]
    words += ["-m", str(folder / "model"), "-o", str(folder / "out.hdf5"), "--overwrite"]
    # A child's peak begins with that of the process which started it, so a small one starts it.
    between = [sys.executable, "-c", _TIMED, *words]
    told = subprocess.run(between, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return float(told[-2]), float(told[-1]) / 1024


def sentences_of(corpus: Path) -> Iterator[Sentence]:
    return read_sentences([str(corpus)], InputSettings())


class Timed:
    """An engine that adds up the time of its two halves."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.options = engine, engine.options
        self.types_s = self.lstm_s = 0.0

    def token_vectors(self, types: Any) -> Any:
        start = time.perf_counter()
        vectors = self.engine.token_vectors(types)
        self.types_s += time.perf_counter() - start
        return vectors

    def run_alike(self, *given: Any, **named: Any) -> Any:
        start = time.perf_counter()
        layers = self.engine.run_alike(*given, **named)
        self.lstm_s += time.perf_counter() - start
        return layers


def stages(
    corpus: Path, model: Path, precision: str = "float32"
) -> tuple[float, dict[str, float], int]:
    """Seconds of computing all blocks once the model is there, shares of the stages, types."""
    bilm = read_bilm(model / "options.json", model / "weights.hdf5")
    embedder = Embedder(bilm, device="cpu", precision=precision)
    embedder.embed(["warm", "up"])
    timer = Timed(embedder.engine)
    embedder.engine = timer  # type: ignore[assignment]
    types: set[str] = set()
    reading = 0.0
    start = time.perf_counter()
    blocks = iter(cut(sentences_of(corpus), state="zero", batch_size=64))
    while True:
        begun = time.perf_counter()
        block = next(blocks, None)
        reading += time.perf_counter() - begun
        if block is None:
            break
        embedder.embed_block(block.sentences, None)
    seconds = time.perf_counter() - start
    for sentence in sentences_of(corpus):
        types.update(sentence.tokens)
    shares = {
        "token vectors": timer.types_s / seconds,
        "LSTMs": timer.lstm_s / seconds,
        "reading": reading / seconds,
        "batches and output": 1 - (timer.types_s + timer.lstm_s + reading) / seconds,
    }
    return seconds, shares, len(types)


def apart(corpus: Path, model: Path) -> dict[str, float]:
    """What sharing the character CNN between equal tokens and sorting by length bring, each alone,
    on the first block."""
    bilm = read_bilm(model / "options.json", model / "weights.hdf5")
    block = next(iter(cut(sentences_of(corpus), state="zero", batch_size=64)))
    tokens = [token for sentence in block.sentences for token in sentence.tokens]
    few = tokens[: len(tokens) // 8]
    every = timed(lambda: every_token(bilm, few)) / len(few) * len(tokens)
    engine = Embedder(bilm, device="cpu").engine
    engine.token_vectors(["warm-up"])
    once = timed(lambda: engine.token_vectors(list(dict.fromkeys(tokens))))
    seconds = {}
    for state in ("zero", "carry"):  # carry keeps the order of the text
        embedder = Embedder(bilm, device="cpu", state=state)
        embedder.engine.token_vectors(list(dict.fromkeys(tokens)))
        seconds[state] = min(
            timed(lambda e=embedder: e.embed_block(block.sentences, None)) for _ in range(2)
        )
    return {
        "token vectors once a type, times as fast": every / once,
        "LSTMs sorted by length, times as fast": seconds["carry"] / seconds["zero"],
    }


@torch.inference_mode()
def every_token(bilm: BiLM, tokens: list[str]) -> None:
    """The character CNN as it stands, for every token."""
    ids = torch.from_numpy(CharacterIds(50).tokens(tokens))
    for part in ids.split(1024):
        bilm.char_cnn(part)


if __name__ == "__main__":
    main()
