"""The examples in docstrings of public names run, and their arrays have the shapes that they state.

Examples in the help of commands are those of the pages of the commands.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from command_line import made
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch.utils.data import DataLoader

import elmo_cli
from elmo_cli import ElmoMix, open_embeddings

MODULES = ["elmo_cli", "elmo_cli.interop.allennlp", "elmo_cli.interop.sklearn"]
EXAMPLE = re.compile(r"^Example:\n((?: +.*\n?|\n)+)", re.M)
SHAPE = re.compile(r"^ *(\w+) = .*  # \(([^)]*)\)", re.M)
TEXT = "The cat sat\nA dog slept\n"
SIZES = {"batch": 2, "token": 3, "dim": 1024}  # of this text and of the bundled model


def examples() -> list[Any]:
    """The code of each example, with the name of its class or function."""
    found = {}
    for module in map(import_module, MODULES):
        for name in module.__all__:
            docstring = inspect.getdoc(getattr(module, name)) or ""
            for code in EXAMPLE.findall(docstring):
                found[name] = dedent(code)
    return [pytest.param(code, id=name) for name, code in found.items()]


def test_all_examples_are_found() -> None:
    sources = (Path(elmo_cli.__file__).parent).rglob("*.py")
    in_help = Path(elmo_cli.__file__).parent / "cli"
    n_examples = 0
    for source in sources:
        if in_help not in source.parents:
            n_examples += source.read_text("utf-8").count("    Example:\n")
    assert len(examples()) == n_examples


@pytest.mark.parametrize("code", examples())
def test_an_example_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("corpus.txt").write_text(TEXT, encoding="utf-8")
    made("embed", "corpus.txt", "-o", "train.hdf5", "-q", "-m", "elmo-en")
    names: dict[str, Any] = {"DataLoader": DataLoader, "make_pipeline": make_pipeline}
    names |= {"LogisticRegression": LogisticRegression, "tags": [list("XYX"), list("YXY")]}
    for module in map(import_module, MODULES):
        names |= {name: getattr(module, name) for name in module.__all__}
    with open_embeddings("train.hdf5") as embeddings:
        names |= {"embeddings": embeddings, "mix": ElmoMix(n_layers=3)}
        exec(compile(code, "example", "exec"), names)
    for name, shape in SHAPE.findall(code):
        expected = [SIZES.get(size) or int(size) for size in shape.split(", ")]
        assert list(names[name].shape) == expected
