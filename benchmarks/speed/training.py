"""Measure how fast `elmo pretrain` trains on this machine.

    python -m benchmarks.speed.training TEXT… [--size small] [--steps 50] [--json FILE] [-- ARG…]

TEXT is a tokenized text, one sentence per line, plain or compressed (.gz, .xz). A new biLM of a
published size is trained on it, once with few steps and once with `--steps` more of them: the
difference of the two runs is the time of the steps alone, without the start, the reading and the
last evaluation. A token is read in both directions and counts once. Arguments after `--` go to
`elmo pretrain` (`-- --precision bf16`).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.common import (
    ELMO,
    MEMORY,
    SIZES,
    Cost,
    model_path,
    parse_arguments,
    run_timed,
    table,
)
from benchmarks.record import Record

FEW = 3  # steps of the first run
BPTT = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", nargs="+", metavar="TEXT")
    parser.add_argument("--size", action="append", choices=SIZES, help="[default: small]")
    parser.add_argument("--steps", type=int, default=50, metavar="N", help="[default: 50]")
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="[default: 32]")
    given = parse_arguments(parser)
    record = Record(given.json, "benchmarks.speed.training")
    rows = []
    for size in given.size or ["small"]:
        few = pretrain(given, size, FEW)
        many = pretrain(given, size, FEW + given.steps)
        n_tokens = given.steps * given.batch_size * BPTT
        rate = n_tokens / (many.wall - few.wall)
        cpu_s = (many.cpu - few.cpu) / given.steps
        rows.append([size, f"{rate:,.0f}", f"{cpu_s:.3f}", f"{few.wall:.1f}", f"{many.peak:,.0f}"])
        record.add(
            model=size,
            steps=given.steps,
            tokens=n_tokens,
            few_steps=few.as_json(),
            many_steps=many.as_json(),
        )
    header = ["", "tokens/s", "processor time per step, s", f"run of {FEW} steps, s", "peak, MB"]
    print(table(header, rows))


def pretrain(given: argparse.Namespace, size: str, n_steps: int) -> Cost:
    """Train a new model for `n_steps` steps."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        folder = Path(name)
        options = Path(model_path(size, folder), "options.json")
        command = [*ELMO, "pretrain", *given.texts, "-o", folder / "out", "-q", *given.more]
        command += ["--options-file", options, "--batch-size", given.batch_size, "--bptt", BPTT]
        return run_timed([*command, "--max-steps", n_steps])


if __name__ == "__main__":
    main()
