"""`elmo models export`: a copy of a model for other programs, complete and in one dtype."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from command_line import elmo, made, refused

from elmo_cli import Embedder
from elmo_cli.lm.language_model import LanguageModel, load_language_model, new_bilm
from elmo_cli.model.options import Options
from elmo_cli.pretrained.load import ModelSource, load
from elmo_cli.pretrained.model_files import write_parts
from elmo_cli.text.vocabulary import Vocabulary

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
TYPES = ["<S>", "</S>", "<UNK>", "the", "cat", "sat"]
SENTENCE = ["the", "cat", "sat", "down"]


def write_whole_model(folder: Path, tiny: Path, dtype: str) -> Path:
    """A language model with its card."""
    folder.mkdir()
    counts = np.ones(len(TYPES))
    bilm, softmax = new_bilm(Options.from_file(tiny / "options.json"), counts, seed=0)
    LanguageModel(bilm, softmax, Vocabulary(TYPES)).write(folder, dtype)
    (folder / "README.md").write_text("# The card\n")
    return folder


@pytest.fixture
def whole(tiny: Path, tmp_path: Path) -> Path:
    """A model stored in float16, as the bundled one is."""
    return write_whole_model(tmp_path / "whole", tiny, "float16")


def dtypes(folder: Path) -> set[str]:
    """The dtypes of the arrays of weights and softmax."""
    found: set[str] = set()

    def visit(_: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found.add(item.dtype.name)

    for name in ("weights.hdf5", "softmax.hdf5"):
        with h5py.File(folder / name) as file:
            file.visititems(visit)
    return found


def test_an_export_is_a_whole_model_in_float32(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = made("models", "export", whole, "-o", out)
    assert done.err.splitlines()[-1].endswith(", softmax of 6 types, vocabulary, card")
    names = {path.name for path in out.iterdir()}
    assert names == {path.name for path in whole.iterdir()}
    assert (dtypes(whole), dtypes(out)) == ({"float16"}, {"float32"})
    assert (out / "README.md").read_text() == "# The card\n"
    original = load_language_model(whole)
    copy = load_language_model(out)
    assert copy.warning == ""  # parts.json is right
    assert copy.bilm.sha256 == original.bilm.sha256
    assert torch.equal(copy.softmax.weight, original.softmax.weight)
    assert copy.vocabulary.types == original.vocabulary.types
    expected = Embedder(original.bilm).embed(SENTENCE)
    assert np.array_equal(Embedder(copy.bilm).embed(SENTENCE), expected)


def test_a_program_that_multiplies_the_softmax_as_it_is(whole: Path, tmp_path: Path) -> None:
    """As LAMA does: rows of the vocabulary file, and `Linear` with the arrays of the file."""
    made("models", "export", whole, "-o", tmp_path / "out")
    layers = torch.from_numpy(Embedder(load(whole)).embed(SENTENCE))
    forward, _ = layers[-1].chunk(2, -1)
    for folder, is_usable in ((whole, False), (tmp_path / "out", True)):
        types = [line.strip() for line in (folder / "vocab.txt").read_text().splitlines()]
        options = json.loads((folder / "options.json").read_text())
        layer = torch.nn.Linear(options["lstm"]["projection_dim"], len(types))
        with h5py.File(folder / "softmax.hdf5") as file:
            layer.weight = torch.nn.Parameter(torch.from_numpy(file["softmax"]["W"][...]))
            layer.bias = torch.nn.Parameter(torch.from_numpy(file["softmax"]["b"][...]))
        if is_usable:
            assert layer(forward).shape == (len(SENTENCE), len(types))
        else:
            with pytest.raises(RuntimeError, match="dtype"):
                layer(forward)


@pytest.mark.parametrize(("stored", "is_same"), [("float16", True), ("float32", False)])
def test_float16_has_the_hash_of_the_original_only_if_it_rounds_nothing(
    stored: str, is_same: bool, tiny: Path, tmp_path: Path
) -> None:
    model = write_whole_model(tmp_path / "model", tiny, stored)
    made("models", "export", model, "-o", tmp_path / "out", "--dtype", "float16")
    assert dtypes(tmp_path / "out") == {"float16"}
    assert (load(tmp_path / "out").sha256 == load(model).sha256) == is_same
    assert load_language_model(tmp_path / "out").warning == ""


def test_an_export_replaces_nothing(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    made("models", "export", whole, "-o", out)
    before = {path: path.read_bytes() for path in out.iterdir()}
    done = elmo("models", "export", whole, "-o", out)
    refused(done, 1, f"{out}: contains ", "`--output`")
    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_a_model_whose_parts_do_not_fit_is_refused(whole: Path, tmp_path: Path) -> None:
    write_parts(whole)
    (whole / "vocab.txt").write_text("\n".join([*TYPES[:-1], "ran\n"]))
    done = elmo("models", "export", whole, "-o", tmp_path / "out")
    refused(done, 1, f"{whole / 'vocab.txt'}: its sha256 is not ", "get the file again")
    assert not (tmp_path / "out").exists()


FAMILIES = {
    "checkpoint": (GOLDEN / "tf_checkpoint" / "full", None),
    "AllenNLP": (
        GOLDEN / "allennlp_archive" / "model.tar.gz",
        GOLDEN / "allennlp_archive" / "options.json",
    ),
    "ELMoForManyLangs": (GOLDEN / "elmoformanylangs" / "cnn-both-clip", None),
    "weights in HDF5": (GOLDEN / "seqvec", None),
}


@pytest.mark.parametrize(("model", "options"), FAMILIES.values(), ids=FAMILIES)
def test_every_family_can_be_exported(model: Path, options: Path | None, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["--options-file", options] if options else []
    err = made("models", "export", model, *words, "-o", out).err
    expected = Embedder(load(ModelSource(model, options).name_or_path, options=options))
    assert np.array_equal(Embedder(load(out)).embed(SENTENCE), expected.embed(SENTENCE))
    assert ("only elmo reads this folder" in err) == (model.name == "cnn-both-clip")


@pytest.mark.parametrize("kind", ["a folder", "a long file"])
def test_a_readme_that_is_no_card_is_left_out(kind: str, whole: Path, tmp_path: Path) -> None:
    card = whole / "README.md"
    card.unlink()
    if kind == "a folder":
        card.mkdir()
    else:
        card.write_bytes(bytes((1 << 20) + 1))
    err = made("models", "export", whole, "-o", tmp_path / "out").err
    assert err.endswith(", vocabulary\n")
    assert not (tmp_path / "out" / "README.md").exists()


def test_names_are_exported_too(whole: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", whole)
    made("models", "export", archive, "-o", tmp_path / "out", "-q")
    assert load(tmp_path / "out").sha256 == load(whole).sha256
