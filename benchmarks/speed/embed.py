"""Measure how fast `elmo embed` is on this machine, and what a lower precision brings and costs.

    python -m benchmarks.speed.embed TEXT… [--size small] [--size original] [-m elmo-en]
        [--precision bf16] [--precision int8] [--device cuda] [--tokens N] [--rounds N]
        [--json FILE] [-- ARG…]

TEXT is a tokenized text, one sentence per line, plain or compressed (.gz, .xz). Models of a size
have random weights: speed does not depend on their values. The error of a lower precision does,
hence -m. The rate of large matrix products is measured before and after, because only ratios to it
can be compared between machines. Arguments after `--` go to the measured `elmo embed` command
(`-- --layout flat --dtype float16`), whose output is written to memory if there is such a disk.
With `--rounds N`, everything is measured N times, and the medians are printed.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.common import (
    ELMO,
    MEMORY,
    SIZES,
    Cost,
    model_path,
    parse_arguments,
    run_timed,
    table,
    write_text,
)
from benchmarks.record import Record, describe_text
from elmo_cli import BiLM, Embedder, load, read_sentences

_COMPARED = 300  # sentences that precisions are compared on


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", nargs="+", metavar="TEXT")
    parser.add_argument("--size", action="append", choices=SIZES, default=[])
    parser.add_argument("-m", "--model", action="append", default=[], help="as for `elmo embed`")
    parser.add_argument("--precision", action="append", choices=("bf16", "int8"), default=[])
    parser.add_argument("--device", default="cpu", help="cpu or cuda  [default: cpu]")
    parser.add_argument("--tokens", type=int, metavar="N", help="length of the text in tokens")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="[default: 1]")
    parser.add_argument("--folder", default=MEMORY, help="for the output  [default: /dev/shm]")
    given = parse_arguments(parser)
    record = Record(given.json, "benchmarks.speed.embed")
    models = given.size + given.model
    for name, text in itertools.product(models or ["small"], given.texts):
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            run = Run(name, text, Path(folder), given)
            facts = {"model": name, "text": {"name": text, **describe_text(run.text)}}
            # The commands come first: this process does not hold a model yet.
            facts["commands"] = [run.command() for _ in range(given.rounds)]
            facts["computing"] = [run.computing() for _ in range(given.rounds)]
            record.add(**facts)
        rows = [[figure, f"{value:,.2f}"] for figure, value in figures_of(facts).items()]
        print(f"{text}, {run.n_tokens:,} tokens, {torch.get_num_threads()} threads")
        print(table([name, ""], rows) + "\n")


class Run:
    """The measurements of one model on one text; files are written to `folder`."""

    def __init__(self, name: str, text: str, folder: Path, given: argparse.Namespace) -> None:
        self.model = model_path(name, folder)
        self.folder = folder
        self.more = given.more
        self.device = given.device
        self.precisions = given.precision
        self.text = folder / "text.txt"
        write_text([text], given.tokens, self.text)
        self.sentences = [list(sentence.tokens) for sentence in read_sentences(str(self.text))]
        self.n_tokens = sum(len(tokens) for tokens in self.sentences)

    def command(self) -> dict[str, Any]:
        """Measure the command for the text once, and for one sentence three times."""
        line = self.folder / "line.txt"
        line.write_text(" ".join(self.sentences[0]) + "\n", encoding="utf-8")
        return {
            "one_sentence": [self.embed(line).as_json() for _ in range(3)],
            "text": self.embed(self.text).as_json(),
        }

    def embed(self, text: Path) -> Cost:
        output = self.folder / "out.hdf5"
        words = ["-o", output, "-m", self.model, "--device", self.device, "-q", *self.more]
        cost = run_timed([*ELMO, "embed", text, *words])
        output.unlink()
        return cost

    def computing(self) -> dict[str, Any]:
        """Measure an `Embedder` alone: no start, no reading, no writing."""
        bilm = load(self.model)
        before = product_rates(self.device)
        facts: dict[str, Any] = {
            "float32_s": self.stream_seconds(bilm, layers="all"),
            "float32_types_s": self.stream_seconds(bilm, layers="0"),
            "product_gflops_before": before,
            "product_gflops_after": product_rates(self.device),
        }
        for precision in self.precisions:
            facts[f"{precision}_s"] = self.stream_seconds(bilm, precision=precision)
            facts[f"{precision}_errors"] = self.errors(bilm, precision)
        return facts

    def embedder(self, bilm: BiLM, **settings: str) -> Embedder:
        embedder = Embedder(bilm, device=self.device, **settings)  # type: ignore[arg-type]
        embedder.embed(["warm", "up"])
        return embedder

    def stream_seconds(self, bilm: BiLM, **settings: str) -> float:
        """Seconds of computing the whole text, once the engine is ready."""
        embedder = self.embedder(bilm, **settings)
        return timed(lambda: deque(embedder.stream(self.sentences), maxlen=0))

    def errors(self, bilm: BiLM, precision: str) -> list[float]:
        """Relative error of each layer's vectors beside float32, in percent."""
        exact = self.vectors(bilm, "float32")
        differences = self.vectors(bilm, precision) - exact
        errors = np.linalg.norm(differences, axis=-1) / np.linalg.norm(exact, axis=-1)
        return [100 * float(error) for error in np.percentile(errors, 99, axis=1)]

    def vectors(self, bilm: BiLM, precision: str) -> npt.NDArray[np.float32]:
        """The vectors of the first sentences, (layer, token, dim)."""
        embedder = self.embedder(bilm, precision=precision)
        arrays, _ = embedder.embed_batch(self.sentences[:_COMPARED])
        return np.concatenate(arrays, axis=1)


def timed(work: Callable[[], object]) -> float:
    """Seconds of work, including what a GPU still has to do."""
    start_s = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start_s


def product_rates(device: str) -> list[float]:
    """GFLOP/s of 20 float32 products of two large square matrices."""
    side = 2048 if device == "cpu" else 8192
    matrix = torch.randn(side, side, device=device)
    n_operations = 2 * side**3
    rates = []
    for _ in range(20):
        seconds = timed(lambda: matrix @ matrix)
        rates.append(n_operations / seconds / 1e9)
    return rates


def figures_of(facts: dict[str, Any]) -> dict[str, float]:
    """The figures of a measurement, medians of its rounds, by a description with the unit."""
    n_tokens = facts["text"]["tokens"]
    commands = facts["commands"]
    computing = facts["computing"]
    seconds = median_of(computing, "float32_s")
    types_s = median_of(computing, "float32_types_s")
    figures = {
        "elmo embed, tokens/s": n_tokens / median(run["text"]["wall_s"] for run in commands),
        "elmo embed, processor time, s": median(run["text"]["cpu_s"] for run in commands),
        "elmo embed, peak memory, MB": median(run["text"]["peak_mb"] for run in commands),
        "elmo embed of one sentence, s": median(
            min(cost["wall_s"] for cost in run["one_sentence"]) for run in commands
        ),
        "computing alone, tokens/s": n_tokens / seconds,
        "computing alone, time for types (layer 0), %": 100 * types_s / seconds,
        "products of 2048 × 2048 (8192 on a GPU), GFLOP/s, before": median(
            max(run["product_gflops_before"]) for run in computing
        ),
        "the same, after": median(max(run["product_gflops_after"]) for run in computing),
    }
    for precision in ("bf16", "int8"):
        if f"{precision}_s" not in computing[0]:
            continue
        lower_s = median_of(computing, f"{precision}_s")
        figures[f"{precision}, computing alone, tokens/s"] = n_tokens / lower_s
        figures[f"{precision}, times as fast as float32"] = seconds / lower_s
        for layer, error in enumerate(computing[0][f"{precision}_errors"]):
            figures[f"{precision}, error of layer {layer}, 99th percentile, %"] = error
    return figures


def median_of(runs: list[dict[str, Any]], name: str) -> float:
    return median(run[name] for run in runs)


if __name__ == "__main__":
    main()
