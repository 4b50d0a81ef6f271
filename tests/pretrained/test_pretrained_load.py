"""From a name, a folder or a pair of files to a biLM."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
from pathlib import Path

import pytest
import torch
from tiny_model import OPTIONS, write_tiny_model

from elmo_cli.errors import ModelError, OptionsError, UsageError
from elmo_cli.pretrained import bundled
from elmo_cli.pretrained.load import load, locate


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("loading a model used the network")

    monkeypatch.setattr(socket, "create_connection", refuse)


def test_a_folder_becomes_a_bilm(tmp_path: Path) -> None:
    """The main road: name, hash and numbers of the model all arrive."""
    folder = write_tiny_model(tmp_path / "mine")
    bilm = load(folder)
    assert (bilm.name, bilm.options.projection_dim, bilm.warm_state) == ("mine", 4, None)
    assert bilm.sha256 == locate(folder).sha256
    assert not any(p.requires_grad for p in bilm.parameters())


def test_the_warm_state_is_read(tmp_path: Path) -> None:
    """A model with a state beside it starts from there when asked."""
    from elmo_cli.model.state import State
    from elmo_cli.weightfile.write import write_state

    folder = write_tiny_model(tmp_path / "mine")
    write_state(
        State(torch.full((2, 2, 1, 4), 0.5), torch.zeros(2, 2, 1, 6)), folder / "state.hdf5"
    )
    bilm = load(folder)
    assert bilm.warm_state is not None
    assert bilm.warm_state.h.unique().tolist() == [0.5]


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ("options.json", "weights.hdf5"),
        ("options.json", "model.hdf5"),
        ("elmo_2x_options.json", "elmo_2x_weights.hdf5"),
        ("elmo_2x_options.json", "elmo_2x_weights_PubMed_only.hdf5"),
        ("elmo_pt_options.json", "other.h5"),
        ("options.json", "mimic_wiki.hdf5"),
    ],
)
def test_names_of_the_published_forms(tmp_path: Path, options: str, weights: str) -> None:
    """AllenNLP, bilm-tf and NLPL name their files each in their way."""
    folder = write_tiny_model(tmp_path / "m", options=options, weights=weights)
    shutil.copy(folder / weights, folder / "elmo_2x_softmax_weights.hdf5")
    files = locate(folder)
    assert (files.options.name, files.weights.name) == (options, weights)
    assert files.softmax == folder / "elmo_2x_softmax_weights.hdf5"


def test_what_lies_beside_is_found(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "m")
    for name in ("softmax.hdf5", "vocab.txt", "state.hdf5", "README.md"):
        (folder / name).write_bytes(b"")
    files = locate(folder)
    found = (files.softmax, files.vocabulary, files.warm_state, files.card)
    assert [p.name for p in found if p] == ["softmax.hdf5", "vocab.txt", "state.hdf5", "README.md"]


def test_a_published_vocabulary_name_is_found(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "m")
    (folder / "vocab-2016-09-10.txt").write_bytes(b"")
    assert locate(folder).vocabulary == folder / "vocab-2016-09-10.txt"


def test_embeddings_beside_a_model_are_no_weights(tmp_path: Path) -> None:
    """People embed into the folder of the model."""
    folder = write_tiny_model(tmp_path / "m", weights="elmo.hdf5")
    import h5py

    with h5py.File(folder / "corpus.hdf5", "w") as file:
        file["0"] = [1.0]
    assert locate(folder).weights.name == "elmo.hdf5"


def test_two_models_in_a_folder_are_not_guessed(tmp_path: Path) -> None:
    folder = write_tiny_model(
        tmp_path / "m", options="elmo_a_options.json", weights="elmo_a_weights.hdf5"
    )
    write_tiny_model(folder, options="elmo_b_options.json", weights="elmo_b_weights.hdf5")
    with pytest.raises(ModelError) as caught:
        locate(folder)
    assert caught.value.message == (
        f"{folder}: holds 2 weight files (elmo_a_weights.hdf5, elmo_b_weights.hdf5)"
    )
    files = locate(folder / "elmo_b_weights.hdf5")
    assert (files.name, files.options.name) == ("elmo_b_weights", "elmo_b_options.json")


def test_two_names_that_are_taken_at_once_are_not_guessed(tmp_path: Path) -> None:
    """They share options.json, so that nothing tells which of them it is of."""
    folder = write_tiny_model(tmp_path / "m", weights="model.hdf5")
    write_tiny_model(folder, weights="weights.hdf5", seed=1)
    with pytest.raises(ModelError, match=r"holds 2 weight files \(weights\.hdf5, model\.hdf5\)"):
        locate(folder)
    assert load(folder / "model.hdf5").name == "m"


def test_two_options_are_not_guessed(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "m", options="a_options.json", weights="w.hdf5")
    shutil.copy(folder / "a_options.json", folder / "b_options.json")
    with pytest.raises(ModelError, match=r"2 options files beside it \(a_options.json, b_options"):
        locate(folder)


def test_missing_halves_are_named(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "m")
    (folder / "options.json").unlink()
    with pytest.raises(ModelError, match=r"weights\.hdf5: no options\.json beside it"):
        locate(folder)
    (folder / "weights.hdf5").unlink()
    (folder / "notes.txt").write_text("x")
    with pytest.raises(ModelError, match=r"m: no weight file in it \(notes\.txt\)"):
        locate(folder)
    (folder / "notes.txt").unlink()
    with pytest.raises(ModelError, match=r"\(the folder is empty\)"):
        locate(folder)


def test_a_pair_of_files(tmp_path: Path) -> None:
    """`--options-file` and `--weight-file`, as the AllenNLP command had them."""
    folder = write_tiny_model(tmp_path / "pair", options="o.json")
    bilm = load(options=folder / "o.json", weights=folder / "weights.hdf5")
    assert bilm.name == "pair"


def test_half_a_pair_and_two_models_are_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"w\.hdf5: given without its options"):
        locate(weights="w.hdf5")
    with pytest.raises(UsageError, match="two models are named"):
        locate("small", options="o.json", weights="w.hdf5")


def test_the_hash_is_as_documented(tmp_path: Path) -> None:
    """`--resume` compares it; 261 or 262 and training keys must not change it, a clip must."""
    folder = write_tiny_model(tmp_path / "m")
    weights = hashlib.sha256((folder / "weights.hdf5").read_bytes()).hexdigest()
    first = locate(folder)
    assert first.weights_sha256 == weights
    told = json.loads(json.dumps(OPTIONS))
    told["lstm"] |= {"cell_clip": 3.0, "proj_clip": 3.0}
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    assert first.sha256 == hashlib.sha256(f"{text}\n{weights}".encode()).hexdigest()
    told["char_cnn"]["n_characters"] = 261
    (folder / "options.json").write_text(json.dumps({**told, "n_epochs": 10}))
    assert locate(folder).sha256 == first.sha256
    told["lstm"]["cell_clip"] = 5
    (folder / "options.json").write_text(json.dumps(told))
    assert locate(folder).sha256 != first.sha256


def test_options_that_lie_are_the_readers_to_tell(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "m")
    (folder / "options.json").write_text("{")
    with pytest.raises(OptionsError):
        load(folder)


def test_names_paths_and_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare name is the catalogue's; `./name` is the folder; a folder may be named barely."""
    monkeypatch.chdir(tmp_path)
    write_tiny_model(tmp_path / "small")
    write_tiny_model(tmp_path / "mine")
    assert locate("./small").name == "small"
    assert locate("mine").origin == "path"
    with pytest.raises(ModelError) as caught:
        locate("small")
    assert caught.value.hint.startswith("`./small` for the folder here")
    with pytest.raises(ModelError, match="nowhere/m: no such file or folder"):
        locate("nowhere/m")
    with pytest.raises(ModelError, match=r"m\.zip: no such file or folder"):
        locate("m.zip")
    with pytest.raises(ModelError, match="no model named `mediun`"):
        locate("mediun")
    with pytest.raises(ModelError, match="the name of the model is empty"):  # not this folder
        locate("")
    with pytest.raises(ModelError, match="an address, not a file"):
        locate("https://example.org/weights.hdf5")


def test_a_model_that_is_not_here_is_never_fetched() -> None:
    with pytest.raises(ModelError) as caught:
        load("original")
    assert caught.value.hint == "`elmo models pull original`"


def test_the_bundled_model_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside the package (a wheel) it comes before the one beside it (a clone)."""
    monkeypatch.setattr(bundled, "_PACKAGE", tmp_path / "elmo_cli")
    with pytest.raises(ModelError, match="`elmo-en` is not in this installation"):
        load()
    write_tiny_model(tmp_path / "weights" / "elmo-en")
    assert load().name == "elmo-en"
    inside = write_tiny_model(tmp_path / "elmo_cli" / "bundled" / "elmo-en")
    files = locate()
    assert (files.origin, files.weights.parent) == ("bundled", inside)


@pytest.mark.parametrize("name", ["elmo-en", "pt", "~"])
def test_a_path_is_never_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A model that was trained into a folder called `pt` would be taken for the published one."""
    monkeypatch.chdir(tmp_path)
    write_tiny_model(tmp_path / name)
    assert locate(Path(name)).weights.parent.resolve() == tmp_path / name
    with pytest.raises(ModelError, match="small: no such file or folder"):
        locate(Path("small"))


def test_a_home_that_is_nobodys_is_told() -> None:
    """A slip of the pen in `~name` would be called a fault of elmo."""
    with pytest.raises(ModelError, match="~nobody-of-this-name/model: no such file or folder"):
        locate("~nobody-of-this-name/model")
