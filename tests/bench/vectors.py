"""Vectors for the measuring scripts, from files that `elmo embed` writes, and tables."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from elmo_cli import open_embeddings

Vectors = npt.NDArray[np.float32]


def parser_of(docstring: str) -> argparse.ArgumentParser:
    """The arguments that all measuring scripts have."""
    parser = argparse.ArgumentParser(
        description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the sets, see above")
    parser.add_argument(
        "--work",
        type=Path,
        required=True,
        help="folder for embeddings files, a folder for each model; what is there is used again",
    )
    parser.add_argument("-m", "--model", help="as for `elmo embed`; the bundled model by default")
    parser.add_argument("--dtype", default="float16", help="of the embeddings files")
    parser.add_argument("--precision", default="float32", help="as for `elmo embed`")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    return parser


def prepare(given: argparse.Namespace) -> None:
    """Threads and folders, as the arguments say."""
    if not given.data.is_dir():
        raise SystemExit(f"--data {given.data}: no such folder; `-h` says what it holds")
    torch.set_num_threads(given.threads)
    given.work.mkdir(parents=True, exist_ok=True)


def elmo(*words: object, model: str | None, threads: int) -> str:
    """Standard output of an `elmo` command; the script ends where the command fails."""
    command = [sys.executable, "-m", "elmo_cli", *map(str, words), "--threads", str(threads)]
    if model is not None:
        command += ["-m", model]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(command)}")
    return done.stdout


def embed(
    inputs: Sequence[Path],
    output: Path,
    *words: str,
    model: str | None = None,
    threads: int = 1,
    dtype: str = "float16",
    precision: str = "float32",
) -> Path:
    """Have texts embedded into one file.

    A file that is there already is checked by `elmo embed --resume` against the model, the text
    and the settings, and used again; an unfinished one is finished.
    """
    words = ("--layout", "flat", "--dtype", dtype, "--precision", precision, *words)
    words += ("--resume", "--json")
    elmo("embed", *inputs, "-o", output, *words, model=model, threads=threads)
    return output


def tokens_of(path: Path) -> list[tuple[str, ...]]:
    """The tokens of each sentence in an embeddings file."""
    with open_embeddings(path) as embeddings:
        return [embeddings.tokens(key) or () for key in embeddings]


def unit(vectors: Vectors) -> Vectors:
    """The same vectors at length 1, so that products are cosines; a zero vector stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Vectors = vectors / np.where(lengths > 0, lengths, np.float32(1))
    return scaled


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown; numbers stand on the right."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(3, *(len(row[k]) for row in cells)) for k in range(len(header))]
    right = [all(_is_number(row[k]) for row in cells[1:]) for k in range(len(header))]
    lines = [
        "| "
        + " | ".join(
            cell.rjust(width) if at_right else cell.ljust(width)
            for cell, width, at_right in zip(row, widths, right, strict=True)
        )
        + " |"
        for row in cells
    ]
    rule = ["-" * (width + 1) + (":" if r else "-") for width, r in zip(widths, right, strict=True)]
    return "\n".join([lines[0], "|" + "|".join(rule) + "|", *lines[1:]])


def _is_number(cell: str) -> bool:
    with suppress(ValueError):
        float(cell.replace(",", "").removesuffix("%"))
        return True
    return cell == ""
