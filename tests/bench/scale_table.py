"""What a million, a billion and a trillion tokens take, from rates that were measured.

    python tests/bench/embed_speed.py TEXT --json > speed.json
    python tests/bench/write_speed.py --json > writing.json
    python tests/bench/scale_table.py TEXT --speed speed.json --writing writing.json

One machine is what the rates were measured on. How many machines keep one shared disk or the one
task that reads the text busy follows from the rates; beyond that, more machines only wait.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path

from embed_speed import SIZES
from vectors import table

from elmo_cli.cluster.source import pieces, survey_of
from elmo_cli.embed.job import EmbedJob

TOKENS = {"10^6": 1e6, "10^9": 1e9, "10^12": 1e12}
FORMS = {  # layers, bytes a value
    "all layers, float32": (3, 4.0),
    "all layers, float16": (3, 2.0),
    "all layers, int8 (flat)": (3, 1.0),
    "one layer, float16": (1, 2.0),
}


@dataclass(frozen=True)
class Rates:
    """Of one machine.

    Attributes:
        tokens_s: computed, by size of the model.
        read_tokens_s: by the task that reads the text and cuts it.
        written_bytes_s: into the flat layout.
    """

    tokens_s: dict[str, float]
    read_tokens_s: float
    written_bytes_s: float


def reading_rate(text: Path) -> float:
    """Tokens a second of reading a text twice, as a cluster's reader does, and of cutting it."""
    job = EmbedJob(inputs=(str(text),), output="nowhere/")
    begun = time.perf_counter()
    found, _ = survey_of(job)
    total = sum(piece.n_tokens for piece in pieces(job, found))
    return total / (time.perf_counter() - begun)


def span(seconds: float) -> str:
    """Seconds in the unit that a person would take."""
    for unit, size in (("years", 365.25 * 86400), ("days", 86400), ("hours", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.0f} s"


def size(n_bytes: float) -> str:
    """Bytes in the unit that a disk is sold in."""
    for unit, one in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9)):
        if n_bytes >= one:
            return f"{n_bytes / one:,.1f} {unit}"
    return f"{n_bytes / 1e6:,.0f} MB"


def tables(rates: Rates, disk: float, cores: int) -> str:
    """Time of one machine and the bytes of each form; how many machines are of use."""
    lines = []
    for name, tokens_s in rates.tokens_s.items():
        dim = SIZES[name].dim
        rows = [
            [tokens, span(n / tokens_s), f"{n / tokens_s / 3600 * cores:,.0f}"]
            + [size(n * layers * dim * width) for layers, width in FORMS.values()]
            for tokens, n in TOKENS.items()
        ]
        head = ["tokens", "one machine", "core hours", *FORMS]
        lines += [f"**{name}**, {dim} dimensions, {tokens_s:,.0f} tokens/s a machine", ""]
        lines += [table(head, rows), ""]
        rows = []
        for form, (layers, width) in FORMS.items():
            a_token = layers * dim * width
            rows.append(
                [
                    form,
                    f"{a_token:,.0f}",
                    f"{tokens_s * a_token / 1e6:,.1f}",
                    f"{disk / (tokens_s * a_token):,.0f}",
                    f"{100 * tokens_s * a_token / rates.written_bytes_s:,.1f}",
                ]
            )
        head = ["form", "bytes a token", "MB/s a machine"]
        head += [f"machines that fill {disk / 1e9:g} GB/s", "% of its time one machine writes"]
        lines += [table(head, rows), ""]
        lines += [f"One reader feeds {rates.read_tokens_s / tokens_s:,.0f} of these machines.", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--speed", type=Path, required=True, metavar="FILE")
    parser.add_argument("--writing", type=Path, required=True, metavar="FILE")
    parser.add_argument("--disk", type=float, default=1e9, help="bytes a second of a shared one")
    given = parser.parse_args()
    speed = json.loads(given.speed.read_text())
    writing = json.loads(given.writing.read_text())
    rates = Rates(
        {of["model"]: of["steady, tokens/s"] for of in speed},
        reading_rate(given.text),
        1e6 * writing["flat, float32, MB of float32/s"],
    )
    print(f"reading and cutting: {rates.read_tokens_s:,.0f} tokens/s; ", end="")
    print(f"writing: {rates.written_bytes_s / 1e6:,.0f} MB/s; ", end="")
    print(f"{speed[0]['threads']} cores a machine\n")
    print(tables(rates, given.disk, speed[0]["threads"]))


if __name__ == "__main__":
    main()
