"""parts.json: a softmax, a vocabulary or a state of another model is refused, not used."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch
from command_line import made

from elmo_cli.errors import ModelError
from elmo_cli.lm.language_model import load_language_model
from elmo_cli.model.bilm import NextTokenSoftmax, State
from elmo_cli.pretrained.load import ModelSource, describe_model, load, locate
from elmo_cli.pretrained.model_files import (
    check_parts,
    remove_parts,
    sha256_of,
    write_parts,
)
from elmo_cli.pretrained.model_inspection import inspect_model
from elmo_cli.pretrained.parts_file import PARTS_FILE
from elmo_cli.pretrained.warm_state import TEXT, write_warm_state
from elmo_cli.weightfile.write import write_bilm, write_softmax, write_state

SPECIAL_TYPES = ("<S>", "</S>", "<UNK>")
FILES = {
    "softmax": "softmax.hdf5",
    "vocabulary": "vocab.txt",
    "weights": "weights.hdf5",
    "state": "state.hdf5",
}


def write_model(folder: Path, tiny: Path, *, seed: int) -> Path:
    """Write a model with all its parts; the sizes do not depend on the seed."""
    shutil.copytree(tiny, folder)
    torch.manual_seed(seed)
    bilm = load(folder)
    with torch.no_grad():
        bilm.char_cnn.embedding.weight.mul_(1 + seed)
    write_bilm(bilm, folder / "weights.hdf5")
    write_softmax(NextTokenSoftmax(5, 8), folder / "softmax.hdf5")
    words = ("the", "cat") if seed == 0 else ("cat", "the")
    (folder / "vocab.txt").write_text("\n".join((*SPECIAL_TYPES, *words)))
    write_state(State(torch.randn(2, 2, 1, 8), torch.randn(2, 2, 1, 16)), folder / "state.hdf5")
    write_parts(folder)
    return folder


@pytest.fixture
def model(tmp_path: Path, tiny: Path) -> Path:
    return write_model(tmp_path / "model", tiny, seed=0)


@pytest.fixture
def other(tmp_path: Path, tiny: Path) -> Path:
    return write_model(tmp_path / "other", tiny, seed=1)


@pytest.mark.parametrize("part", FILES)
def test_a_part_of_another_model_is_refused(part: str, model: Path, other: Path) -> None:
    """Another softmax would silently give another perplexity."""
    read = load if part == "state" else load_language_model
    read(model)
    before = json.loads((model / PARTS_FILE).read_text())[part]
    path = shutil.copy(other / FILES[part], model / FILES[part])
    with pytest.raises(ModelError) as caught:
        read(model)
    assert caught.value.message.startswith(f"{path}: its sha256 is not {before[:12]}…")
    assert PARTS_FILE in caught.value.hint
    (error,) = inspect_model(ModelSource(model), verify=True).errors
    assert error.message == caught.value.message
    remove_parts(model)
    read(model)


@pytest.mark.parametrize("recorded", ["", "weights", "softmax"])
def test_parts_without_an_entry_are_used_with_a_warning(recorded: str, model: Path) -> None:
    """Also if there is none of the weights, to which they belong."""
    remove_parts(model)
    if recorded:
        digests = {recorded: sha256_of(model / FILES[recorded])}
        (model / PARTS_FILE).write_text(json.dumps(digests))
    loaded = load_language_model(model)
    assert str(model / "softmax.hdf5") in loaded.warning
    assert str(model / "vocab.txt") in loaded.warning
    assert "state.hdf5" in loaded.bilm.warm_state_warning


@pytest.mark.parametrize("command", ["convert", "export"])
@pytest.mark.parametrize("part", ["softmax", "vocabulary", "state"])
def test_a_copy_of_parts_without_an_entry_is_warned_of(
    part: str, command: str, model: Path, tmp_path: Path
) -> None:
    """The parts.json of the copy states that all of them belong together."""
    complete = made("models", command, model, "-o", tmp_path / "complete")
    assert "warning" not in complete.err
    digests = json.loads((model / PARTS_FILE).read_text())
    del digests[part]
    (model / PARTS_FILE).write_text(json.dumps(digests))
    done = made("models", command, model, "-o", tmp_path / "copy")
    warning = f"warning: {model / FILES[part]}: no {PARTS_FILE} states that this belongs to "
    assert done.err.startswith(warning)


def test_parts_named_by_the_caller_are_used_with_a_warning(model: Path, other: Path) -> None:
    softmax = other / "softmax.hdf5"
    vocabulary = other / "vocab.txt"
    loaded = load_language_model(model, softmax=softmax, vocabulary=vocabulary)
    assert str(softmax) in loaded.warning
    assert str(vocabulary) in loaded.warning
    assert "state.hdf5" not in loaded.bilm.warm_state_warning


def test_a_part_that_is_its_own_needs_no_warning(model: Path) -> None:
    assert load_language_model(model).warning == ""
    facts = describe_model(str(model))
    assert (facts["softmax"], facts["vocabulary"], facts["warm_state"]) == (True, True, True)
    facts = inspect_model(ModelSource(model), verify=True).facts
    assert facts["softmax"] == {"file": "softmax.hdf5", "types": 5}
    assert facts["vocabulary"] == {"file": "vocab.txt", "types": 5}
    assert (facts["warm_state"], facts["sha256"]) == (True, locate(model).sha256)
    assert facts["next"][1:] == [f"elmo perplexity TEXT -m {model}"]
    assert load_language_model(model, softmax=model / "." / "softmax.hdf5").warning == ""
    assert load_language_model().warning == ""  # the bundled model
    files = locate(model)
    remove_parts(model)
    assert check_parts(files, {"softmax": files.weights}) == ""  # a softmax inside the weights
    assert load().warm_state_warning == ""


def test_the_text_of_the_warm_state_never_changes() -> None:
    """A file records what the state is computed from; with another text it would be another one."""
    digest = hashlib.sha256("\n".join(TEXT).encode()).hexdigest()
    assert digest == "f55538294b4e9ce4e7f868159fc1bb4cad126aac86bf22058b8bd8dd87ec0f65"


@pytest.mark.parametrize("is_alone", [True, False])
def test_weights_of_another_model_are_refused(is_alone: bool, model: Path, other: Path) -> None:
    shutil.copy(other / "weights.hdf5", model / "weights.hdf5")
    if is_alone:
        (model / "state.hdf5").unlink()
    with pytest.raises(ModelError, match=PARTS_FILE):
        load(model)


def test_other_weights_of_the_folder_are_not_its_parts(model: Path, other: Path) -> None:
    (model / "state.hdf5").unlink()
    for name in ("options.json", "weights.hdf5"):
        shutil.copy(other / name, model / f"other_{name}")
    bilm = load(model / "other_weights.hdf5")
    assert bilm.sha256 == load(other).sha256


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"weights": "", "weights": ""}', '{"weights": 5}', '{"weigths": ""}']
)
def test_an_invalid_parts_file_is_refused(content: str, model: Path) -> None:
    (model / PARTS_FILE).write_text(content)
    with pytest.raises(ModelError, match=PARTS_FILE) as caught:
        load_language_model(model)
    assert caught.value.hint


def test_what_writes_a_folder_writes_its_parts(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed half way leaves no parts.json rather than a wrong one."""
    loaded = load_language_model(model)
    before = json.loads((model / PARTS_FILE).read_text())
    write_warm_state(model)
    after = json.loads((model / PARTS_FILE).read_text())
    assert [part for part in before if after[part] != before[part]] == ["state"]
    assert load(model).warm_state is not None
    loaded.write(model, "float16")
    assert load_language_model(model).warning == ""

    def stop(*_: object, **__: object) -> None:
        assert not (model / PARTS_FILE).exists()
        raise KeyboardInterrupt

    write_parts(model)
    monkeypatch.setattr("elmo_cli.lm.language_model.write_softmax", stop)
    with pytest.raises(KeyboardInterrupt):
        loaded.write(model)
    write_parts(model)
    monkeypatch.setattr("elmo_cli.pretrained.warm_state.write_state", stop)
    with pytest.raises(KeyboardInterrupt):
        write_warm_state(model)
