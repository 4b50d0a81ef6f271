"""Fixtures that several packages share: synthetic biLMs, frozen outputs, engines, a seed."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hdf5_arrays import read_arrays
from hypothesis import settings
from make_weights import MODELS, weight_arrays, write_model
from model_pairs import MakePair
from oracle import Oracle

from elmo_cli.errors import ElmoError
from elmo_cli.isolate import run_isolated
from elmo_cli.model.bilm import BiLM
from elmo_cli.weightfile import open_weights
from elmo_cli.weightfile.read import read_bilm

GOLDEN = Path(__file__).parent / "golden"

# The same examples in every run, and no failure because a machine is busy.
settings.register_profile("suite", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("suite")

# Models of these sizes are slower on two threads; one test asks for them.
torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def tried_once() -> Iterator[None]:
    """A child process reads a valid weight file once, not each time that a model is loaded.

    A corrupt copy of a file has other content, so it is read in a child process as well.
    """
    valid: set[bytes] = set()

    def try_once(
        work: Callable[[], None], files: Sequence[Path], error_class: type[ElmoError]
    ) -> None:
        (path,) = map(Path, files)
        digest = b""  # of a large or missing file, which is tried each time
        with suppress(OSError):
            if path.is_file() and path.stat().st_size < 1 << 24:
                digest = hashlib.sha256(path.read_bytes()).digest()
        if digest not in valid:
            run_isolated(work, files, error_class)
            if digest:
                valid.add(digest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_weights, "run_isolated", try_once)
        yield


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of frozen outputs."""
    return GOLDEN


@pytest.fixture(scope="session")
def lines() -> list[list[str]]:
    """Tokens of the 41 sentences that the frozen outputs were made from."""
    text = (GOLDEN / "sentences.txt").read_text(encoding="utf-8")
    return [line.split() for line in text.split("\n")[:-1]]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `tiny`: two layers, relu, residual link."""
    return write_model(tmp_path_factory.mktemp("models") / "tiny", MODELS["tiny"], "tiny")


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `odd`: three layers, tanh, no residual link, tight clips."""
    return write_model(tmp_path_factory.mktemp("models") / "odd", MODELS["odd"], "odd")


@pytest.fixture(scope="session")
def tiny_bilm(tiny: Path) -> BiLM:
    return read_bilm(tiny / "options.json", tiny / "weights.hdf5")


@pytest.fixture(scope="session")
def odd_bilm(odd: Path) -> BiLM:
    return read_bilm(odd / "options.json", odd / "weights.hdf5")


@pytest.fixture(scope="session")
def oracle() -> Callable[[dict[str, Any], Path], Oracle]:
    """From options and a weight file to their oracle."""

    def made(options: dict[str, Any], weights: Path) -> Oracle:
        return Oracle(options, read_arrays(weights))

    return made


@pytest.fixture(scope="session")
def paired(tmp_path_factory: pytest.TempPathFactory) -> MakePair:
    """From options to a biLM of made-up weights, read from its files once, and its oracle."""
    pairs: dict[str, tuple[BiLM, Oracle]] = {}

    def made(options: dict[str, Any], model: str = "any") -> tuple[BiLM, Oracle]:
        key = json.dumps([model, options])
        if key not in pairs:
            folder = write_model(tmp_path_factory.mktemp("paired"), options, model)
            bilm = read_bilm(folder / "options.json", folder / "weights.hdf5")
            pairs[key] = (bilm, Oracle(options, weight_arrays(options, model)))
        bilm, oracle = pairs[key]
        return copy.deepcopy(bilm), oracle  # tests change models

    return made


@pytest.fixture(params=["plain", "fast"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine's name."""
    return str(request.param)


@pytest.fixture
def seed() -> int:
    """Random numbers of torch and numpy begin here in every test that asks for it."""
    torch.manual_seed(20180215)
    np.random.seed(20180215)
    return 20180215


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder of reference outputs that are too big for the repository."""
    folder = os.environ.get("ELMO_REFERENCE")
    if not folder:
        pytest.skip("$ELMO_REFERENCE is not set: no reference outputs of the published sizes")
    return Path(folder)
