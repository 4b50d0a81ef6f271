"""What the measuring scripts share: models of random weights, texts, timed processes, tables."""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
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
_MEASURED = Path(__file__).with_name("measured.py")
_PEAK_UNITS_PER_MB = 1024**2 if sys.platform == "darwin" else 1024
_NUMERIC = "0123456789.,%+-e"  # characters of a number
ELMO = (sys.executable, "-m", "elmo_cli")


class Cost(NamedTuple):
    """What a process took: seconds of wall time, seconds of user and system time, peak MB."""

    wall: float
    cpu: float
    peak: float

    def as_json(self) -> dict[str, float]:
        """The figures for a record, each name with its unit."""
        return {"wall_s": self.wall, "cpu_s": self.cpu, "peak_mb": self.peak}


def parse_arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments of a script, among them `--json`, which all scripts have.

    `more` are those after `--`, for the `elmo` command.
    """
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write every measurement to this file, with the machine, the versions and the date",
    )
    words = sys.argv[1:]
    n_own = words.index("--") if "--" in words else len(words)
    more = words[n_own + 1 :]
    return parser.parse_args(words[:n_own], argparse.Namespace(more=more))


def run_timed(command: Sequence[object], **options: Any) -> Cost:
    """Run a command, and measure it from the start of its process to its end.

    Args:
        options: of `subprocess.run`.

    Raises:
        SystemExit: the command failed.
    """
    words = [str(word) for word in command]
    reading, writing = os.pipe()
    measured = [sys.executable, "-I", "-S", str(_MEASURED), str(writing), *words]
    with os.fdopen(reading) as pipe:
        try:
            done = subprocess.run(measured, pass_fds=(writing,), **options)
        finally:
            os.close(writing)
        figures = pipe.read().split()
    if done.returncode:
        raise SystemExit(f"failed with exit code {done.returncode}: {' '.join(words)}")
    wall_s, cpu_s, peak = map(float, figures)
    return Cost(wall=wall_s, cpu=cpu_s, peak=peak / _PEAK_UNITS_PER_MB)


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
    n_written = 0
    with path.open("w", encoding="utf-8") as file:
        for names in rounds:
            for sentence in read_sentences(names):
                if n_tokens is not None and n_written >= n_tokens:
                    return n_written
                n_written += len(sentence.tokens)
                file.write(" ".join(sentence.tokens) + "\n")
    return n_written


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; columns of numbers are aligned to the right."""
    body = [[str(cell) for cell in row] for row in rows]
    columns = [
        _table_column(name, [row[number] for row in body]) for number, name in enumerate(header)
    ]
    lines = []
    for cells in zip(*columns, strict=True):
        lines.append("|" + "|".join(cells) + "|")
    return "\n".join(lines)


def _table_column(name: str, cells: Sequence[str]) -> list[str]:
    """The name, the line below it and the cells of a column, all of one width."""
    is_number = "".join(cells).strip(_NUMERIC) == ""
    width = max(3, len(name), *(len(cell) for cell in cells))
    line = "-" * (width + 1) + (":" if is_number else "-")
    padded = []
    for cell in (name, *cells):
        padded.append(f" {cell.rjust(width) if is_number else cell.ljust(width)} ")
    return [padded[0], line, *padded[1:]]
