"""Compare `elmo embed` with bilm-tf and simple_elmo over the same weights, run in turns.

    python -m benchmarks.speed.peers --python PYTHON --text FILE [--program simple_elmo]
        [--size small] [--tokens 12000] [--pairs 3] [--json FILE]

PYTHON is an interpreter with tensorflow-cpu 2.15.1 and the programs: simple_elmo 0.9.2 from PyPI,
and the folder `bilm` of github.com/allenai/bilm-tf on its path. Both sides embed the same beginning
of the text, from the start of the process to its end, all layers in float32. bilm-tf and elmo write
files to memory if there is such a disk; simple_elmo writes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

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
from benchmarks.speed.peer_process import PROGRAMS

_PROCESS = Path(__file__).with_name("peer_process.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="interpreter that has the programs")
    parser.add_argument("--text", type=Path, required=True, metavar="FILE")
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="[default: both]")
    parser.add_argument("--size", choices=SIZES, default="small", help="[default: small]")
    parser.add_argument("--tokens", type=int, default=12_000, metavar="N", help="[default: 12000]")
    parser.add_argument("--pairs", type=int, default=3, metavar="N", help="[default: 3]")
    given = parse_arguments(parser)
    record = Record(given.json, "benchmarks.speed.peers")
    for program in given.program or PROGRAMS:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            compare(program, given, Path(folder), record)


def compare(program: str, given: argparse.Namespace, folder: Path, record: Record) -> None:
    """Run the pairs of a program and `elmo embed`, and print and record them."""
    model = model_path(given.size, folder)
    text = folder / "text.txt"
    n_tokens = write_text([str(given.text)], given.tokens, text)
    print(f"{program}, {given.size}: {n_tokens:,} tokens")
    pairs = [run_pair(program, given.python, model, text) for _ in range(given.pairs)]
    for pair in pairs:
        elmo_s = pair["elmo"]["wall_s"]
        peer_s = pair["peer"]["wall_s"]
        print(f"  elmo {elmo_s:.1f} s, {program} {peer_s:.1f} s")
    ratio = median(pair["peer"]["wall_s"] / pair["elmo"]["wall_s"] for pair in pairs)
    print(f"  median of the ratios {ratio:.1f}")
    record.add(
        program=program,
        model=given.size,
        text={"name": str(given.text), **describe_text(text)},
        pairs=pairs,
    )


def run_pair(program: str, python: str, model: str, text: Path) -> dict[str, Any]:
    """Run both programs once: their costs, and what `peer_process.py` has printed."""
    output = text.with_name("out.hdf5")
    command = [*ELMO, "embed", text, "-o", output, "-q", "-m", model, "--device", "cpu"]
    elmo = run_timed(command)
    output.unlink()
    printed = text.with_name("printed.txt")
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("PYTHONPATH", None)  # it may name packages of this interpreter
    with printed.open("w") as file:
        peer = run_timed(
            [python, _PROCESS, program, model, text, output],
            stdout=file,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
    output.unlink(missing_ok=True)
    facts = json.loads(printed.read_text().splitlines()[-1])
    return {"elmo": elmo.as_json(), "peer": {**peer.as_json(), **facts}}


if __name__ == "__main__":
    main()
