"""Compare `elmo embed --ray` on this machine with one process.

    python -m benchmarks.speed.cluster TEXT… [-m MODEL | --size small] [--tokens N] [--rounds 2]
        [--json FILE]

TEXT is a tokenized text, one sentence per line, plain or compressed (.gz, .xz); it is read as often
as necessary. Outputs are written to $TMPDIR: 3 kB per token with the bundled model. Printed are
tokens per second of one process of 2 threads and of 2 workers of 1 thread, which take turns, and
the ratio of their medians. The time that a text of one line takes is subtracted from each run: it
is that of the start and the end.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import (
    ELMO,
    SIZES,
    model_path,
    parse_arguments,
    run_timed,
    table,
    write_text,
)
from benchmarks.record import Record, describe_text

WORKERS = 2
ALONE = "one process, 2 threads"
ON_RAY = f"{WORKERS} workers, 1 thread each"
OPTIONS = {
    ALONE: ["--threads", 2],
    ON_RAY: ["--ray", "--workers", WORKERS, "--threads", 1],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", nargs="+", metavar="TEXT")
    parser.add_argument("-m", "--model", default="elmo-en", help="[default: elmo-en]")
    parser.add_argument("--size", choices=SIZES, help="a model of this size with random weights")
    parser.add_argument("--tokens", type=int, default=1_200_000, help="[default: 1200000]")
    parser.add_argument("--rounds", type=int, default=2, help="[default: 2]")
    given = parse_arguments(parser)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    record = Record(given.json, "benchmarks.speed.cluster")
    with tempfile.TemporaryDirectory() as name:
        print(side_by_side(given, Path(name), record))


def side_by_side(given: argparse.Namespace, folder: Path, record: Record) -> str:
    """The table of one process and of a cluster, run in turns."""
    text = folder / "text.txt"
    line = folder / "line.txt"
    name = given.size or given.model
    model = model_path(name, folder)
    n_tokens = write_text(given.texts, given.tokens, text)
    line.write_text("One line .\n", encoding="utf-8")
    starts_s = {kind: embed(line, model, words, folder) for kind, words in OPTIONS.items()}
    text_s: dict[str, list[float]] = {kind: [] for kind in OPTIONS}
    rates: dict[str, list[float]] = {kind: [] for kind in OPTIONS}
    for _ in range(given.rounds):
        for kind, words in OPTIONS.items():
            seconds = embed(text, model, words, folder)
            text_s[kind].append(seconds)
            rates[kind].append(n_tokens / (seconds - starts_s[kind]))
    record.add(model=name, text=describe_text(text), one_sentence_s=starts_s, text_s=text_s)
    header = [name, "start and end, s"]
    header += [f"tokens/s, run {number + 1}" for number in range(given.rounds)]
    rows = []
    for kind in OPTIONS:
        shown_rates = [f"{rate:,.0f}" for rate in rates[kind]]
        rows.append([kind, f"{starts_s[kind]:.1f}", *shown_rates])
    ratio = statistics.median(rates[ON_RAY]) / statistics.median(rates[ALONE])
    return f"{n_tokens:,} tokens\n{table(header, rows)}\nratio {ratio:.2f}"


def embed(text: Path, model: str, words: Sequence[object], folder: Path) -> float:
    """Run `elmo embed`, and return its wall time in seconds."""
    output = folder / "output"
    cost = run_timed([*ELMO, "embed", text, "-o", f"{output}/", "-m", model, "-q", *words])
    shutil.rmtree(output)
    return cost.wall


if __name__ == "__main__":
    main()
