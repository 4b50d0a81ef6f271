"""What the scripts of the model card share: their arguments, and running `elmo` commands."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import ELMO


def parser_of(docstring: str) -> argparse.ArgumentParser:
    """A parser with the arguments that all scripts of the model card have."""
    parser = argparse.ArgumentParser(
        description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the sets, see above")
    parser.add_argument(
        "--work",
        type=Path,
        required=True,
        help="folder for embeddings files, one per model; files that exist are used again",
    )
    parser.add_argument("-m", "--model", default="elmo-en", help="[default: elmo-en]")
    parser.add_argument("--precision", default="float32", help="[default: float32]")
    return parser


def elmo(*words: object) -> Any:
    """Run an `elmo` command with `--json`; return what it prints.

    Raises:
        SystemExit: the command failed.
    """
    command = [*ELMO, *(str(word) for word in words), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(command)}")
    return json.loads(done.stdout)


def embed(given: argparse.Namespace, texts: Sequence[Path], name: str, *words: object) -> Path:
    """Embed texts into one file of `--work`.

    `elmo embed --resume` keeps a file that is complete, after it has checked that model, text and
    settings are the same.
    """
    given.work.mkdir(parents=True, exist_ok=True)
    output: Path = given.work / name
    settings = ["--layout", "flat", "--dtype", "float16", "--precision", given.precision]
    elmo("embed", *texts, "-o", output, "-m", given.model, *settings, "--resume", *words)
    return output
