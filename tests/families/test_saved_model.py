"""SavedModel modules, and the dumps of bilm-tf that bilm-tf cannot read."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from command_line import elmo, made, refused
from families.checkpoint_files import GOLDEN, checkpoint, write_bundle

from elmo_cli.errors import ModelError
from elmo_cli.families import saved_model
from elmo_cli.families.tensor_bundle import TensorBundle
from elmo_cli.model.options import Options
from elmo_cli.pretrained.load import ModelSource, load, locate

OPTIONS = GOLDEN / "full" / "options.json"
DUMP_LAYER = "RNN/MultiRNNCell/Cell0/LSTMCell"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """The folder of a module with the weights of `full`."""
    shutil.copytree(GOLDEN / "savedmodel", tmp_path / "module")
    return tmp_path / "module"


def test_a_module_is_the_model_of_its_checkpoint(module: Path, tmp_path: Path) -> None:
    """Without the row of `char_embed` that means "no token here"."""
    full = load(checkpoint("full", tmp_path / "full"))
    loaded = load(module, options=OPTIONS)
    assert loaded.sha256 == full.sha256
    assert (loaded.name, loaded.family) == ("module", "saved-model")
    for parameter, value in full.state_dict().items():
        np.testing.assert_array_equal(loaded.state_dict()[parameter], value)
    (module / "saved_model.pb").touch()
    for name in ("variables", "saved_model.pb", "variables/variables.index"):
        assert locate(ModelSource(module / name, OPTIONS)).name == "module"
    shutil.copy(OPTIONS, module)
    assert locate(module).options == module / "options.json"
    assert locate(ModelSource(module, OPTIONS)).options == OPTIONS


def test_without_options_the_settings_of_the_original_are_assumed(
    module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the sizes are its sizes; other sizes are refused with the list of what is missing."""
    done = elmo("models", "show", module)
    problem = "its files do not state char_cnn.activation, char_cnn.max_characters_per_token, "
    refused(done, 1, f"{module}: {problem}", "options.json")
    original = replace(Options.from_file(OPTIONS), cell_clip=3.0, proj_clip=3.0)
    monkeypatch.setattr(saved_model, "_ORIGINAL", original)
    with locate(module).open() as model:
        assert model.options.cell_clip == 3
        assert model.assumed["lstm.proj_clip"] == 3
        assert len(model.assumed) == 6
    facts = json.loads(made("inspect", module, "--json").out)
    assert facts["assumed"]["char_cnn.activation"] == "relu"


def test_the_learned_sum_of_layers(module: Path) -> None:
    bundle = TensorBundle(module / "variables" / "variables.index")
    weights = bundle.read("aggregation/weights").astype(float)
    shares = np.exp(weights) / np.exp(weights).sum()
    with locate(ModelSource(module, OPTIONS)).open() as model:
        numbers = [float(number) for number in model.layer_mix.removeprefix("mix:").split(",")]
    np.testing.assert_allclose(numbers, [*shares, bundle.read("aggregation/scaling")], rtol=1e-6)


def test_the_sum_of_layers_of_deeppavlov(tmp_path: Path) -> None:
    arrays = {
        "elmo_output_ELMo_W": np.array([0, 0, np.log(2)], "<f4"),
        "elmo_output_ELMo_gamma": np.float32(1.5),
    }
    bundle = TensorBundle(write_bundle(tmp_path / "variables", arrays))
    assert saved_model._layer_mix(bundle, 3) == "mix:0.25,0.25,0.5,1.5"
    assert saved_model._layer_mix(bundle, 2) == ""


def test_the_sizes_of_the_original() -> None:
    """They are those of section 3.4 of the paper."""
    options = saved_model._ORIGINAL
    widths = [(width, 32 << max(0, width - 2)) for width in range(1, 8)]
    assert list(options.filters) == widths
    assert (options.projection_dim, options.lstm_dim, options.n_layers) == (512, 4096, 2)
    assert (options.n_highway, options.char_dim, options.max_characters) == (2, 16, 50)
    assert (options.cell_clip, options.proj_clip, options.activation) == (3, 3, "relu")
    assert options.residual


def test_another_module_is_refused(tmp_path: Path) -> None:
    (tmp_path / "variables").mkdir()
    write_bundle(tmp_path / "variables" / "variables", {"dense/kernel": np.zeros(3, "<f4")})
    with pytest.raises(ModelError, match="no variable bilm/char_embed among 1"):
        locate(tmp_path)


def test_a_dump_of_one_layer_is_read(tmp_path: Path) -> None:
    """bilm-tf names its LSTM without a cell number."""
    folder = checkpoint("onelayer", tmp_path / "onelayer")
    made("models", "convert", folder, "-o", tmp_path / "dump", "-q")
    with h5py.File(tmp_path / "dump" / "weights.hdf5", "a") as file:
        for direction in range(2):
            layer = f"RNN_{direction}/{DUMP_LAYER}"
            file.move(layer, f"RNN_{direction}/RNN/LSTMCell")
            del file[f"RNN_{direction}/RNN/MultiRNNCell"]
    (tmp_path / "dump" / "parts.json").unlink()
    expected = load(folder)
    for parameter, value in load(tmp_path / "dump").state_dict().items():
        np.testing.assert_array_equal(value, expected.state_dict()[parameter])


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("embedding", "a word-input model without characters"),
        ("rnn/MultiRNNCell/Cell0/LSTMCell/kernel", "a model of one direction"),
        ("rnn/LSTMCell/kernel", "a model of one direction"),
        ("rnn/multi_rnn_cell/cell_0/lstm_cell/kernel", "a model of one direction"),
        ("rnn/lstm_cell/kernel", "a model of one direction"),
    ],
)
def test_other_dumps_are_refused_by_name(name: str, problem: str, tmp_path: Path) -> None:
    shutil.copy(OPTIONS, tmp_path)
    with h5py.File(tmp_path / "weights.hdf5", "w") as file:
        file[name] = np.zeros((3, 2), "f4")
    with pytest.raises(ModelError, match=problem):
        locate(tmp_path)
