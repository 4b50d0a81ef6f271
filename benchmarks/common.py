"""What the measuring scripts share: models of random weights, texts, timed processes, tables."""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from make_weights import MODELS, options_of, write_model  # noqa: E402

_FILTERS = MODELS["small"]["char_cnn"]["filters"]
SIZES = {
    "tiny": MODELS["tiny"],
    "small": MODELS["small"],
    "medium": options_of(filters=_FILTERS, char_dim=16, cell=2048, projection=256),
    "original": options_of(filters=_FILTERS, char_dim=16, cell=4096, projection=512, n_highway=2),
}
MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None  # a file system in memory
_NUMERIC = "0123456789.,%+-e"  # characters of a number
ELMO = (sys.executable, "-m", "elmo_cli")


class Cost(NamedTuple):
    """What a process took: seconds of wall time, seconds of user and system time, peak MB."""

    wall: float
    cpu: float
    peak: float


def parse_arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments of a script; `more` are those after `--`, for the `elmo` command."""
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    return parser.parse_args(words[:at], argparse.Namespace(more=words[at + 1 :]))


def run_timed(command: Sequence[object], **options: Any) -> Cost:
    """Run a command, and measure it from the start of its process to its end.

    The peak memory of a child is at least that of this process when the child started.

    Args:
        options: of `subprocess.Popen`.

    Raises:
        SystemExit: the command failed.
    """
    words = list(map(str, command))
    begun = time.perf_counter()
    process = subprocess.Popen(words, **options)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"failed with exit code {process.returncode}: {' '.join(words)}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def model_path(name: str, folder: Path) -> str:
    """A new model folder with random weights for a size of `SIZES`, else the name itself."""
    if name not in SIZES:
        return name
    return str(write_model(folder / f"model-{name}", SIZES[name], name))


def write_text(sources: Iterable[str], n_tokens: int | None, path: Path) -> int:
    """Copy the sentences of tokenized texts, one per line; return the number of tokens.

    Args:
        n_tokens: stop after the sentence that reaches it, reading the texts again as often as
            necessary; None copies the texts once.
    """
    from elmo_cli import read_sentences

    texts = list(sources)
    rounds = [texts] if n_tokens is None else itertools.repeat(texts)
    total = 0
    with path.open("w", encoding="utf-8") as file:
        for sentence in itertools.chain.from_iterable(map(read_sentences, rounds)):
            if n_tokens is not None and total >= n_tokens:
                break
            total += len(sentence.tokens)
            file.write(" ".join(sentence.tokens) + "\n")
    return total


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; columns of numbers are aligned to the right."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    is_right = [not "".join(column[1:]).strip(_NUMERIC) for column in zip(*cells, strict=True)]
    marks = ["-" * (w + 1) + (":" if r else "-") for w, r in zip(widths, is_right, strict=True)]
    pads = [str.rjust if is_number else str.ljust for is_number in is_right]
    lines = [
        " | ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True))
        for row in cells
    ]
    head, *body = [f"| {line} |" for line in lines]
    return "\n".join([head, f"|{'|'.join(marks)}|", *body])
