"""The commands that use a model, with a model of each family."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import elmo, made, only_tiny, refused
from embedders import cached_embedder
from families.checkpoint_files import GOLDEN, checkpoint
from families.manylangs_models import copied
from hdf5_arrays import read_arrays

from elmo_cli.analysis import linear
from elmo_cli.embed import blocks
from elmo_cli.embed.embedder import Embedder

ALLENNLP = GOLDEN.parent / "allennlp_archive"
SEQVEC = GOLDEN.parent / "seqvec"
WORDS = ["the", "dog", "saw", "cats", ".", "和"]
RESIDUES = "MNEQYSALRK"
N_SENTENCES = 20  # three blocks of a run
ONE_STEP = ["--max-steps", 1, "--batch-size", 1, "--threads", 1]


def a_checkpoint(folder: Path) -> list[object]:
    return ["-m", checkpoint("full", folder / "checkpoint")]


def a_saved_model(folder: Path) -> list[object]:
    shutil.copytree(GOLDEN / "savedmodel", folder / "module")
    return ["-m", folder / "module", "--options-file", GOLDEN / "full" / "options.json"]


def an_archive(folder: Path) -> list[object]:
    return ["-m", ALLENNLP / "model.tar.gz", "--options-file", ALLENNLP / "options.json"]


def a_model_with_words(folder: Path) -> list[object]:
    return ["-m", copied("cnn-both-clip", folder / "words")]


def a_protein_model(folder: Path) -> list[object]:
    return ["-m", SEQVEC]


@dataclass(frozen=True)
class ModelOfFamily:
    """A model, and what its commands work on.

    Attributes:
        model: the options that name it.
        text: a text that it is meant for.
        folder: a new one, which contains the text and `whole.hdf5`, its vectors.
    """

    model: list[object]
    text: Path
    folder: Path

    def embed(self, *words: object) -> list[object]:
        return ["embed", self.text, *self.model, *words]

    @property
    def whole(self) -> Path:
        return self.folder / "whole.hdf5"


MAKERS: dict[str, Callable[[Path], list[object]]] = {
    "tf-checkpoint": a_checkpoint,
    "saved-model": a_saved_model,
    "allennlp-archive": an_archive,
    "elmoformanylangs": a_model_with_words,
    "proteins": a_protein_model,
}


@pytest.fixture(scope="module", params=MAKERS)
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ModelOfFamily:
    """A model of each family, with the vectors of a text of three blocks."""
    folder = tmp_path_factory.mktemp(request.param)
    is_fasta = request.param == "proteins"
    text = folder / ("text.fasta" if is_fasta else "text.txt")
    lines = []
    for number in range(N_SENTENCES):
        tokens = RESIDUES[: 1 + number % 7] if is_fasta else " ".join(WORDS[: 1 + number % 6])
        lines.append(f">{number}\n{tokens}\n" if is_fasta else f"{tokens}\n")
    text.write_text("".join(lines), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ELMO_HOME", str(folder / "home"))
        patch.setattr(blocks, "SENTENCES", 8)
        model = MAKERS[request.param](folder)
        model_of_family = ModelOfFamily(model=model, text=text, folder=folder)
        command = model_of_family.embed("-o", model_of_family.whole, "--device", "cpu", "-q")
        made(*command)
    return model_of_family


@pytest.fixture(autouse=True)
def small_runs(
    family: ModelOfFamily, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty working directory, blocks of eight sentences, and short training.

    `elmo embed` reads each model once.
    """
    only_tiny(monkeypatch, tiny)
    monkeypatch.setenv("ELMO_HOME", str(family.folder / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(blocks, "SENTENCES", 8)
    monkeypatch.setattr("elmo_cli.embed.run.make_embedder", cached_embedder)
    monkeypatch.setattr(linear, "EPOCHS", 1)
    monkeypatch.setattr(linear, "WEIGHT_DECAYS", (1e-3,))


class RunEnded(BaseException):
    """The process ends here, as far as the run can tell."""


def end_after_one_block(words: list[object]) -> None:
    """Run a command that ends before it computes its second block."""
    embed_block = Embedder.embed_block
    n_started = 0

    def counted(self: Embedder, *args: Any, **settings: Any) -> Any:
        nonlocal n_started
        if n_started == 1:
            raise RunEnded
        n_started += 1
        return embed_block(self, *args, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Embedder, "embed_block", counted)
        with pytest.raises(RunEnded):
            elmo(*words)


def test_runs_in_parts_write_the_same_bytes(family: ModelOfFamily) -> None:
    """The parts are those of an interrupted run, or shards."""
    expected = family.whole.read_bytes()
    end_after_one_block(family.embed("-o", "resumed.hdf5", "-q"))
    assert not Path("resumed.hdf5").exists()
    err = made(*family.embed("-o", "resumed.hdf5", "--resume")).err
    assert Path("resumed.hdf5").read_bytes() == expected
    assert "resuming: " in err
    for number in (1, 2):
        made(*family.embed("-o", f"{number}.hdf5", "--shard", f"{number}/2", "-q"))
    made("merge", "1.hdf5", "2.hdf5", "-o", "merged.hdf5", "-q")
    assert Path("merged.hdf5").read_bytes() == expected


def check_equal_values(path: Path, other: Path) -> None:
    """Check that two files have the same vectors, bit for bit, and the same model."""
    arrays = read_arrays(path)
    others = read_arrays(other)
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name])
    with h5py.File(path) as file, h5py.File(other) as other_file:
        assert file.attrs["model_sha256"] == other_file.attrs["model_sha256"]


def test_a_converted_model_gives_the_same_values(family: ModelOfFamily) -> None:
    _, source, *options = family.model
    made("models", "convert", source, *options, "-o", "converted", "-q")
    made("embed", family.text, "-m", "converted", "-o", "out.hdf5", "-q")
    check_equal_values(Path("out.hdf5"), family.whole)


def test_its_layers_can_be_probed(family: ModelOfFamily) -> None:
    labels = []
    with h5py.File(family.whole) as file:
        for number in range(N_SENTENCES):
            n_tokens = file[str(number)].shape[-2]
            labels.append(" ".join("AB"[position % 2] for position in range(n_tokens)) + "\n")
    Path("tags").write_text("".join(labels))
    words = [
        word for split in ("train", "dev", "test") for word in (f"--{split}", family.whole, "tags")
    ]
    facts = json.loads(made("probe", *words, "--json", "-q").out)
    assert [layer["name"] for layer in facts["layers"]] == ["0", "1", "2"]


def test_inspect_names_the_commands_that_work(family: ModelOfFamily) -> None:
    """The first one is the command that has written `whole.hdf5`."""
    _, source, *options = family.model
    facts = json.loads(made("inspect", source, *options, "--verify", "--json").out)
    with h5py.File(family.whole) as file:
        assert facts["sha256"] == file.attrs["model_sha256"]
    command = ["elmo", "embed", "TEXT", *map(str, family.model), "-o", "OUT.hdf5"]
    assert shlex.split(facts["next"][0]) == command


def finetune_command(family: ModelOfFamily, *words: object) -> list[object]:
    """A command that makes one step on a text of its own, text.txt."""
    lines = [f"the dog saw {number} cats .\n" for number in range(24)]
    Path("text.txt").write_text("".join(lines))
    texts = ("--domain", "text.txt", "-o", "tuned", "--json")
    return ["finetune", *texts, *family.model, *ONE_STEP, *words]


def perplexity_command(family: ModelOfFamily) -> list[object]:
    return ["perplexity", "text.txt", *family.model, "--json"]


@pytest.mark.parametrize("family", ["tf-checkpoint"], indirect=True)
def test_the_softmax_layer_in_the_files_is_used(family: ModelOfFamily) -> None:
    facts = json.loads(made(*finetune_command(family)).out)
    assert facts["softmax"] == "model"
    assert json.loads(made(*perplexity_command(family)).out)["perplexity"]["average"] > 1
    made("embed", "text.txt", "-m", "tuned", "-o", "tuned.hdf5", "-q")


@pytest.mark.parametrize("family", ["saved-model"], indirect=True)
def test_a_softmax_layer_is_fitted_if_there_is_none(family: ModelOfFamily) -> None:
    facts = json.loads(made(*finetune_command(family, "--softmax-tokens", 50)).out)
    assert facts["softmax"] == "fitted"
    perplexity = elmo(*perplexity_command(family))
    assert perplexity.code == 1
    assert "softmax" in perplexity.err
    made("embed", "text.txt", "-m", "tuned", "-o", "tuned.hdf5", "-q")


@pytest.mark.parametrize("family", ["elmoformanylangs"], indirect=True)
def test_a_model_of_unicode_characters_is_no_language_model(family: ModelOfFamily) -> None:
    path = str(family.model[1])
    for command in (finetune_command(family), perplexity_command(family)):
        refused(elmo(*command), 1, path, "`elmo embed` computes its vectors")
