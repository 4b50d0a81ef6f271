"""Models that `elmo finetune` starts from and has written; a session makes each once."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import h5py
import pytest
import torch
from finetune_command import N_TYPES, NOUNS, VERBS, Facts, Tune, command, digests, run
from make_weights import MODELS, write_model

from elmo_cli.text.vocabulary import Vocabulary


@pytest.fixture(scope="session")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 300 short sentences in two files of 30 documents each."""
    rng = random.Random(3)
    folder = tmp_path_factory.mktemp("domain")
    for name in ("a.txt", "b.txt"):
        lines = []
        for k in range(180):
            is_blank = k % 6 == 0
            sentence = f"the {rng.choice(NOUNS)} {rng.choice(VERBS)} a {rng.choice(NOUNS)} ."
            lines.append("" if is_blank else sentence)
        (folder / name).write_text("\n".join(lines))
    (folder / "notes.tsv").write_text("no\ttext\n")
    return folder


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tiny` with a softmax of 14 types and their vocabulary."""
    folder = tmp_path_factory.mktemp("source") / "whole"
    write_model(folder, MODELS["tiny"], "tiny")
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", *NOUNS[:4], *VERBS, "the", "a", "."])
    assert len(vocabulary) == N_TYPES
    vocabulary.write(folder / "vocab.txt")
    torch.manual_seed(1)
    softmax = torch.nn.Linear(8, N_TYPES)
    with h5py.File(folder / "softmax.hdf5", "w") as file:
        file["softmax/W"] = softmax.weight.detach().numpy()
        file["softmax/b"] = softmax.bias.detach().numpy()
    return folder


@pytest.fixture(scope="session")
def tune(domain: Path, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Tune:
    """Fine-tunes `source`, or another model with other options; the result, and `err`."""

    def tuned(*more: object, model: Path = source, out: Path | None = None) -> Facts:
        out = out or tmp_path_factory.mktemp("tuned") / "out"
        done = run(command(domain, model, out, *more))
        assert done.code == 0, done.err
        return {**json.loads(done.out), "err": done.err}

    return tuned


@pytest.fixture(scope="session")
def usual(tune: Tune) -> Facts:
    """A short run with the softmax of the model; tests copy its folder."""
    return tune()


@pytest.fixture(scope="session")
def learned(tune: Tune, source: Path, domain: Path) -> Facts:
    """The same, long enough to learn from `b.txt`; with the digests of the source before it."""
    before = digests(source)
    tuned = tune("--heldout", domain / "a.txt", "--max-epochs", "9", "--max-steps", "40")
    return {**tuned, "source_before": before}


@pytest.fixture
def finished(usual: Facts, tmp_path: Path) -> Path:
    """A copy of the folder of a finished run."""
    return shutil.copytree(usual["output"], tmp_path / "out")


@pytest.fixture(scope="session")
def fitted(tune: Tune) -> Facts:
    """A short run with a fitted softmax."""
    return tune("--fit-softmax", "--softmax-tokens", "500")
