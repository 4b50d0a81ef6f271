"""Checkpoints of bilm-tf: which one is meant, what it computes, and what is refused by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from command_line import elmo, made, refused
from families.checkpoint_files import DATA, GOLDEN, INDEX, PREFIX, checkpoint, write_bundle

from elmo_cli import Embedder
from elmo_cli.errors import ModelError, OptionsError, WeightFileError
from elmo_cli.families.tensor_bundle import TensorBundle
from elmo_cli.families.tf_checkpoint import _unroll_steps
from elmo_cli.pretrained.load import ModelSource, load, locate

SENTENCES = [line.split() for line in (GOLDEN / "sentences.txt").read_text("utf-8").splitlines()]
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint("full", tmp_path_factory.mktemp("checkpoints") / "full")


# -- what it computes -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["full", "onelayer"])
@pytest.mark.parametrize("engine", ["plain", "fast"])
def test_vectors_of_bilm_tf(name: str, engine: str, tmp_path: Path) -> None:
    """Against its equations in float64."""
    embedder = Embedder(load(checkpoint(name, tmp_path / name)), engine=engine)
    with np.load(GOLDEN / "vectors.npz") as expected:
        keys = [key for key in expected if key.startswith(f"{name}_")]
        assert len(keys) >= 3
        for key in keys:
            layers = embedder.embed(SENTENCES[int(key.removeprefix(f"{name}_"))])
            np.testing.assert_allclose(layers, expected[key], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["sharded", "partitioned", "snappy"])
def test_other_arrangements_are_the_same_model(name: str, full: Path, tmp_path: Path) -> None:
    other = load(checkpoint(name, tmp_path / name))
    expected = load(full)
    assert other.sha256 == expected.sha256
    for parameter, value in expected.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[parameter], value)


@pytest.mark.parametrize("name", ["full", "onelayer"])
def test_perplexity_of_bilm_tf(name: str, tmp_path: Path) -> None:
    """The softmax is in the checkpoint, the vocabulary next to it."""
    folder = checkpoint(name, tmp_path / name)
    words = ["-m", folder, "--state", "carry", "--json", "--device", "cpu"]
    done = made("perplexity", GOLDEN / "heldout.txt", *words)
    measured = json.loads(done.out)["perplexity"]
    expected = EXPECTED[name]["float64_batch_size_1"]
    assert measured["average"] == pytest.approx(expected["perplexity"], rel=2e-6)
    assert measured["forward"] == pytest.approx(expected["forward"], rel=2e-6)
    (folder / "vocab.txt").rename(tmp_path / "types")
    refused(elmo("perplexity", GOLDEN / "heldout.txt", *words), 1, str(folder), "vocab.txt")
    done = made("perplexity", GOLDEN / "heldout.txt", *words, "--vocabulary", tmp_path / "types")
    assert json.loads(done.out)["perplexity"] == measured


def test_a_converted_copy_gives_the_same_file(full: Path, tmp_path: Path) -> None:
    """Vectors and the identity of the model; bilm-tf's own dump has the same arrays."""
    folder = tmp_path / "converted" / "full"
    folder.parent.mkdir()
    done = made("models", "convert", full, "-o", folder)
    assert "not stated by the files of the model, so assumed: lstm.forget_bias 1.0" in done.err
    assert {path.name for path in folder.iterdir()} == {
        "options.json",
        "parts.json",
        "softmax.hdf5",
        "vocab.txt",
        "weights.hdf5",
    }
    bundle = TensorBundle(full / INDEX)
    with h5py.File(folder / "weights.hdf5") as file, h5py.File(folder / "softmax.hdf5") as softmax:
        names = {
            "char_embed": "char_embed",
            "CNN_high_1/W_carry": "CNN_high_1/W_carry",
            "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0": (
                "RNN_1/rnn/multi_rnn_cell/cell_1/lstm_cell/projection/kernel"
            ),
        }
        for name, variable in names.items():
            np.testing.assert_array_equal(file[name], bundle.read(f"lm/{variable}"))
        np.testing.assert_array_equal(softmax["softmax/W"], bundle.read("lm/softmax/W"))
    outputs = []
    for source in (full, folder):
        output = tmp_path / f"{len(outputs)}.hdf5"
        made("embed", GOLDEN / "sentences.txt", "-m", source, "-o", output, "--device", "cpu", "-q")
        outputs.append(output)
    with h5py.File(outputs[0]) as original, h5py.File(outputs[1]) as copy:
        assert original.attrs["model_sha256"] == copy.attrs["model_sha256"]
        assert original.attrs["model_family"] == "tf-checkpoint"
        assert "model_family" not in copy.attrs
        for key in original:
            np.testing.assert_array_equal(original[key], copy[key])
    assert load(folder).sha256 == locate(full).sha256 == load(full).sha256
    words = ["perplexity", GOLDEN / "heldout.txt", "--json", "--device", "cpu", "-m"]
    figures = [json.loads(made(*words, source).out)["perplexity"] for source in (full, folder)]
    assert figures[0] == figures[1]


def test_the_identity_of_a_converted_copy_ends_with_its_weights(full: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    made("models", "convert", full, "-o", folder, "-q")
    assert locate(folder).sha256 == locate(full).sha256
    (folder / "parts.json").unlink()
    assert locate(folder).sha256 != locate(full).sha256


def test_a_vocabulary_of_another_size_is_refused(tmp_path: Path) -> None:
    folder = checkpoint("full", tmp_path / "full")
    types = (folder / "vocab.txt").read_text("utf-8")
    (folder / "vocab.txt").write_text(f"{types}another\n", "utf-8")
    done = elmo("models", "convert", folder, "-o", tmp_path / "copy")
    refused(done, 1, f"{folder / 'vocab.txt'}: has 42 types, the softmax layer 41", "vocabulary")
    assert not (tmp_path / "copy").exists()
    done = elmo("perplexity", GOLDEN / "heldout.txt", "-m", folder)
    refused(done, 1, f"{folder / INDEX}: lm/softmax/W is of shape (41, 8)", "vocabulary")


# -- which one is meant ---------------------------------------------------------------------------


def test_names_of_a_checkpoint(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder, the prefix, or any of its files; also without a separator in the name."""
    expected = locate(full)
    assert (expected.name, expected.family.key) == ("full", "tf-checkpoint")
    assert expected.weights == full / INDEX
    assert expected.paths == (full / "options.json", full / INDEX, full / DATA, full / "vocab.txt")
    for name in (PREFIX, INDEX, DATA, f"{PREFIX}.meta", "checkpoint"):
        assert locate(full / name).paths == expected.paths
        assert locate(str(full / name)).name == "full"
    monkeypatch.chdir(full)
    assert locate(PREFIX).weights == Path(INDEX)
    with pytest.raises(ModelError, match=r"no model named `model.ckpt-61`"):
        locate("model.ckpt-61")
    with pytest.raises(ModelError, match="no such file or folder"):
        locate("./model.ckpt-61")


def with_another(folder: Path, prefix: str) -> None:
    for name in (INDEX, DATA):
        shutil.copy(folder / name, folder / name.replace(PREFIX, prefix))


def test_the_newest_of_several_is_read(tmp_path: Path) -> None:
    """The file `checkpoint` names it, with a path of another machine or none."""
    folder = checkpoint("full", tmp_path / "full")
    with_another(folder, "model.ckpt-50")
    assert locate(folder).weights.name == INDEX
    for path in ("model.ckpt-50", "/home/x/model.ckpt-50"):
        (folder / "checkpoint").write_text(f'model_checkpoint_path: "{path}"\n')
        assert locate(folder).weights.name == "model.ckpt-50.index"
    (folder / "checkpoint").unlink()
    with pytest.raises(
        ModelError, match=r"2 checkpoints \(model.ckpt-50, model.ckpt-60\)"
    ) as caught:
        locate(folder)
    assert str(folder / PREFIX) in caught.value.hint
    assert locate(folder / PREFIX).weights.name == INDEX


def test_the_only_one_is_read_with_a_note(tmp_path: Path) -> None:
    folder = checkpoint("full", tmp_path / "full")
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-70"\n')
    (note,) = locate(folder).notes
    assert "model.ckpt-70, is not in the folder; model.ckpt-60 is read" in note
    (folder / "checkpoint").unlink()
    assert locate(folder).notes == ()


def test_weights_in_hdf5_next_to_a_checkpoint(full: Path, tiny: Path, tmp_path: Path) -> None:
    """The checkpoint is read, and the command says so; the HDF5 file if it is named."""
    folder = checkpoint("full", tmp_path / "full")
    made("models", "convert", full, "-o", tmp_path / "copy", "-q")
    shutil.copy(tmp_path / "copy" / "weights.hdf5", folder)
    note = f"{folder}: the checkpoint {PREFIX} is read, and not weights.hdf5"
    assert locate(folder).notes == (note,)
    text = tmp_path / "a.txt"
    text.write_text("the cat\n")
    assert note in made("embed", text, "-m", folder, "-o", tmp_path / "a.hdf5").err
    assert locate(folder / "weights.hdf5").family.key == "bilm-tf"
    (folder / INDEX).unlink()
    assert locate(folder).family.key == "bilm-tf"


def test_options_of_another_place(tmp_path: Path) -> None:
    folder = checkpoint("full", tmp_path / "full")
    options = shutil.move(folder / "options.json", tmp_path / "o.json")
    with pytest.raises(ModelError, match=r"no options.json next to it") as caught:
        locate(folder)
    assert caught.value.where == str(folder / INDEX)
    for name in (folder, folder / PREFIX):
        assert locate(ModelSource(name, options)).sha256
    text = tmp_path / "a.txt"
    text.write_text("the cat\n")
    words = ["-m", folder, "--options-file", options, "-o", tmp_path / "a.hdf5", "-q"]
    made("embed", text, *words)


@pytest.mark.parametrize(
    ("content", "steps"),
    [({"unroll_steps": 7}, 7), ({}, 20), ({"unroll_steps": 999_999}, 999_999)],
)
def test_the_window_of_the_training(content: dict[str, int], steps: int, tmp_path: Path) -> None:
    """By default that of bilm-tf."""
    (tmp_path / "o.json").write_text(json.dumps(content))
    assert _unroll_steps(tmp_path / "o.json") == steps


@pytest.mark.parametrize("steps", [0, -3, 1_000_000, 2.5, True, "20", None])
def test_a_window_that_none_is(steps: object, tmp_path: Path) -> None:
    """The sums would be divided by its square."""
    (tmp_path / "o.json").write_text(json.dumps({"unroll_steps": steps}))
    with pytest.raises(OptionsError, match=f"unroll_steps is {steps!r}, not a whole number"):
        _unroll_steps(tmp_path / "o.json")


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("word", "a word-input model without characters"),
        ("wordshared", "a word-input model without characters"),
        ("forward", "a model of one direction"),
    ],
)
def test_other_models_of_bilm_tf_are_refused_by_name(
    name: str, problem: str, tmp_path: Path
) -> None:
    folder = checkpoint(name, tmp_path / name)
    for command in (
        ["models", "show", folder],
        ["models", "convert", folder, "-o", tmp_path / "c"],
    ):
        refused(elmo(*command), 1, f"{folder / INDEX}: {problem}", "options.json can be read")


def test_other_checkpoints_are_refused(tmp_path: Path) -> None:
    write_bundle(tmp_path / PREFIX, {"resnet/kernel": np.zeros(3, "<f4")})
    with pytest.raises(ModelError, match="no variable lm/char_embed among 1, so bilm-tf did not"):
        locate(tmp_path)


def test_a_v1_checkpoint_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / PREFIX).write_bytes(bytes(100) + bytes.fromhex("57fb808b247547db"))
    (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{PREFIX}"\n')
    for path in (tmp_path, tmp_path / PREFIX):
        with pytest.raises(ModelError, match="a TensorFlow V1 checkpoint") as caught:
            locate(path)
        assert caught.value.hint


def without_the_index(folder: Path) -> None:
    (folder / INDEX).unlink()


def without_the_data(folder: Path) -> None:
    (folder / DATA).unlink()


def with_other_sizes(folder: Path) -> None:
    options = json.loads((folder / "options.json").read_text())
    options["lstm"]["dim"] = 17
    (folder / "options.json").write_text(json.dumps(options))


def with_a_corrupt_index(folder: Path) -> None:
    (folder / INDEX).write_bytes((folder / INDEX).read_bytes()[:-1])


def with_a_corrupt_value(folder: Path) -> None:
    content = bytearray((folder / DATA).read_bytes())
    content[30_000] ^= 1
    (folder / DATA).write_bytes(content)


def with_options_that_are_none(folder: Path) -> None:
    (folder / "options.json").write_text("{}")


@pytest.mark.parametrize(
    ("damage", "error", "problem"),
    [
        (without_the_index, ModelError, "a TensorFlow model without its index"),
        (without_the_data, WeightFileError, "cannot be read"),
        (with_other_sizes, WeightFileError, "lstm_cell/kernel is of shape (16, 64), expected"),
        (with_a_corrupt_index, WeightFileError, "it does not end like a table of LevelDB"),
        (with_a_corrupt_value, WeightFileError, "is wrong: its values have changed"),
        (with_options_that_are_none, OptionsError, "char_cnn is missing"),
    ],
)
def test_a_damaged_checkpoint_is_refused(
    damage: Callable[[Path], None],
    error: type[ModelError | OptionsError | WeightFileError],
    problem: str,
    tmp_path: Path,
) -> None:
    folder = checkpoint("full", tmp_path / "full")
    damage(folder)
    with pytest.raises(error) as caught:
        load(folder)
    assert problem in caught.value.problem
    assert caught.value.hint
