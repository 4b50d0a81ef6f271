"""locate() and load(): from a name, a folder or a pair of files to a biLM."""

from __future__ import annotations

import gzip
import hashlib
import json
import pickle
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import pytest

from elmo_cli.errors import ModelError, OptionsError, UsageError, WeightFileError
from elmo_cli.pretrained.load import ModelSource, load, locate

CHECKPOINT = "model.ckpt-9.data-00000-of-00001"


def copy(
    tiny: Path, folder: Path, options: str = "options.json", weights: str = "weights.hdf5"
) -> Path:
    """Copy the two files of a model under these names."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(tiny / "options.json", folder / options)
    shutil.copy(tiny / "weights.hdf5", folder / weights)
    return folder


@pytest.fixture
def folder(tiny: Path, tmp_path: Path) -> Path:
    return copy(tiny, tmp_path / "mine")


def test_a_folder_becomes_a_bilm(folder: Path) -> None:
    bilm = load(folder)
    assert bilm.name == "mine"
    assert bilm.options.projection_dim == 8
    assert bilm.warm_state is None
    assert bilm.sha256 == locate(folder).sha256
    assert bilm.files == (str(folder / "options.json"), str(folder / "weights.hdf5"))
    assert not any(parameter.requires_grad for parameter in bilm.parameters())


def test_the_hash_is_as_documented(folder: Path, tiny: Path) -> None:
    """`--resume` compares it: 261 or 262 and keys for training do not change it, a clip does."""
    weights = hashlib.sha256((folder / "weights.hdf5").read_bytes()).hexdigest()
    options = json.loads((tiny / "options.json").read_text())
    options["lstm"] |= {"cell_clip": 3.0, "proj_clip": 3.0}
    text = json.dumps(options, sort_keys=True, separators=(",", ":"))
    expected = hashlib.sha256(f"{text}\n{weights}".encode()).hexdigest()
    assert (locate(folder).weights_sha256, load(folder).sha256) == (weights, expected)
    options["char_cnn"]["n_characters"] = 261
    (folder / "options.json").write_text(json.dumps({**options, "n_epochs": 10}))
    assert load(folder).sha256 == expected
    options["lstm"]["cell_clip"] = 5
    (folder / "options.json").write_text(json.dumps(options))
    assert load(folder).sha256 != expected


PUBLISHED_NAMES = [
    ("options.json", "model.hdf5"),
    ("elmo_2x_options.json", "elmo_2x_weights_PubMed_only.hdf5"),
    ("elmo_pt_options.json", "other.h5"),
    ("options.json", "mimic_wiki.hdf5"),
]


@pytest.mark.parametrize(("options", "weights"), PUBLISHED_NAMES)
def test_names_of_published_files(tiny: Path, tmp_path: Path, options: str, weights: str) -> None:
    """Also next to the checkpoint that they were converted from."""
    folder = copy(tiny, tmp_path / "m", options, weights)
    (folder / CHECKPOINT).write_bytes(b"")
    for other in ("elmo_2x_softmax_weights.hdf5", "state.hdf5", "optimizer.hdf5"):
        shutil.copy(folder / weights, folder / other)
    (folder / "vocab-2016-09-10.txt").write_text("a\n")
    files = locate(folder)
    assert (files.options.name, files.weights.name) == (options, weights)
    assert files.softmax == folder / "elmo_2x_softmax_weights.hdf5"
    assert files.vocabulary == folder / "vocab-2016-09-10.txt"


def test_optional_files_are_found(folder: Path) -> None:
    names = ["softmax.hdf5", "vocab.txt", "state.hdf5"]
    others = ["my_softmax.hdf5", "weights_softmax_weights.hdf5", "vocab2.txt", "vocab.txt.gz"]
    for name in (*names, *others):
        (folder / name).write_bytes(b"")
    pair = ModelSource(None, folder / "options.json", folder / "weights.hdf5")
    for source in (folder, pair, folder / "weights.hdf5"):
        files = locate(source)
        assert files.name == "mine"
        optional = [files.softmax, files.vocabulary, files.warm_state]
        assert optional == [folder / name for name in names]
        assert [path.name for path in files.paths] == ["options.json", "weights.hdf5", *names]


def test_other_files_next_to_weights_are_passed_over(tiny: Path, tmp_path: Path) -> None:
    """Embeddings, and another model if the weights are named."""
    folder = copy(tiny, tmp_path / "m", "my_options.json", "my_weights.hdf5")
    with h5py.File(folder / "corpus.hdf5", "w") as file:
        file["0"] = [1.0]
    assert locate(folder).weights.name == "my_weights.hdf5"
    copy(tiny, folder, "other_options.json", "other_weights.hdf5")
    shutil.copy(tiny / "options.json", folder)  # of a third one
    files = locate(folder / "my_weights.hdf5")
    assert (files.name, files.options.name) == ("my_weights", "my_options.json")
    with pytest.raises(UsageError, match="expected one model"):
        locate(ModelSource(folder / "my_weights.hdf5", options=folder / "other_options.json"))
    pair = {"options": folder / "other_options.json", "weights": folder / "my_weights.hdf5"}
    assert load(**pair).files == tuple(map(str, pair.values()))
    for name in ("my_softmax_weights.hdf5", "other_softmax_weights.hdf5"):
        (folder / name).touch()
    assert locate(folder / "my_weights.hdf5").softmax == folder / "my_softmax_weights.hdf5"
    pair["options"].write_text("{")
    with pytest.raises(OptionsError):
        load(**pair)
    shutil.copy(folder / "corpus.hdf5", folder / "my_weights.hdf5")
    with pytest.raises(WeightFileError, match="no char_embed in it"):
        load(folder / "my_weights.hdf5")


# Files of a folder, and what the error says.
INCOMPLETE = [
    (["a_weights.hdf5", "b_weights.hdf5"], r"2 possible weight files \(a_weights\.hdf5, b_wei"),
    (["a.h5", "b.h5", "c.h5", "d.h5"], r"4 possible weight files \(a\.h5, b\.h5, c\.h5, d\.h5\)"),
    (["a.h5", "b.h5", "c.h5", "d.h5", "e.h5"], r"5 possible .* \(a\.h5, b\.h5, c\.h5, d\.h5, …\)"),
    (["weights.hdf5", "model.hdf5"], r"2 possible weight files \(model\.hdf5, weights\.hdf5\)"),
    (
        ["w.hdf5", "a_options.json", "b_options.json"],
        r"w\.hdf5: 2 options files \(a_options\.json, b_options\.json\) next to it",
    ),
]


@pytest.mark.parametrize(("names", "problem"), INCOMPLETE)
def test_incomplete_and_ambiguous_folders(tmp_path: Path, names: list[str], problem: str) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ModelError, match=f"^{tmp_path}.*{problem}") as caught:
        locate(tmp_path)
    assert caught.value.hint


class Bomb:
    """Unpickling it fails the test."""

    def __reduce__(self):
        return exec, ("raise AssertionError('it was unpickled')",)


PICKLE = pickle.dumps(Bomb())
FOREIGN: dict[str, tuple[dict[str, bytes], str]] = {
    "ELMoForManyLangs": ({"encoder.pkl": PICKLE}, "an ELMoForManyLangs model without"),
    "SavedModel": ({"saved_model.pb": b"\x08\x01"}, "a TensorFlow model"),
    "checkpoint": ({"checkpoint": b"", "options.json": b"{}", CHECKPOINT: b""}, "a TensorFlow mod"),
    "BERT": ({"config.json": b"{}", "pytorch_model.bin": b""}, "found config.json, pytorch_model"),
    "AllenNLP": ({"config.json": b"{}", "weights.th": PICKLE}, "found config.json, weights.th"),
    "fastText": ({"x.bin": struct.pack("<ii", 793712314, 12)}, "found a fastText model"),
    "PyTorch": ({"best.th": PICKLE}, "found a Python pickle"),
    "web page": ({"w.hdf5": b"\n<HTML><title>403"}, "a web page"),
    "Git LFS": ({"w.hdf5": b"version https://git-lfs.github.com/spec/v1\n"}, "a Git LFS pointer"),
}


@pytest.mark.parametrize(("contents", "kind"), FOREIGN.values(), ids=FOREIGN)
def test_models_of_other_programs_are_described(
    contents: dict[str, bytes], kind: str, tmp_path: Path
) -> None:
    """As a folder, or as a file and as the weights of a pair; none is opened."""
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    sources: list[object] = [tmp_path]
    if len(contents) == 1:
        (name,) = contents
        pair = ModelSource(options=tmp_path / "options.json", weights=tmp_path / name)
        sources = [tmp_path / name, pair]
    for source in sources:
        with pytest.raises(ModelError, match=f"^{tmp_path}.* not an ELMo model") as caught:
            locate(source)
        assert kind in caught.value.message
        assert "`" in caught.value.hint or "browser" in caught.value.hint


def test_names_and_paths(folder: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A string without separator is a name first; `./name` and a `Path` are paths."""
    monkeypatch.chdir(folder.parent)
    for name in ("small", "pt", "~"):
        copy(tiny, folder.parent / name)
    for source in ("./small", "mine", "~", Path("small"), Path("pt"), f"{folder}/"):
        files = locate(source)
        assert (files.origin, files.name) == ("path", Path(source).name)
    with pytest.raises(ModelError, match="the model `small` is not on this machine") as caught:
        locate("small")
    assert "`./small` is a path" in caught.value.hint
    for path in ("nowhere/m", "./m.zip", Path("medium"), "~nobody-x/m"):
        with pytest.raises(ModelError, match=f"{Path(path)}: no such file or folder"):
            locate(path)
    for name in ("mediun", "", "m.zip"):
        with pytest.raises(ModelError, match=f"no model named `{name}`"):
            locate(name)


def test_a_folder_that_cannot_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def iterdir(self: Path):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", iterdir)
    with pytest.raises(ModelError, match=r"mine: cannot be read \(Permission denied\)"):
        locate(folder)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (ModelSource(options="o.json"), "o.json: expected one model"),
        (ModelSource(weights="w.hdf5"), "w.hdf5: expected one model"),
        (ModelSource("small", options="o.json", weights="w.hdf5"), "small, o.json, w.hdf5: expec"),
        (ModelSource("small", options="o.json"), "small, o.json: expected one model"),
        (ModelSource("small", weights="w.hdf5"), "small, w.hdf5: expected one model"),
    ],
)
def test_what_is_not_one_model_is_refused(source: ModelSource, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        locate(source)
    with pytest.raises(UsageError, match=problem):
        load(source.name_or_path, options=source.options, weights=source.weights)


@pytest.mark.parametrize("name", [123, b"s", ["s"]])
def test_a_name_that_is_no_string_is_refused(name: Any) -> None:
    with pytest.raises(TypeError, match="a model is given"):
        load(name)


@pytest.mark.parametrize("name", ["weights.hdf5", "state.hdf5", "softmax.hdf5"])
def test_files_that_crash_hdf5_are_refused(folder: Path, name: str) -> None:
    kept = Path(__file__).parents[1] / "fuzz" / "kept" / "crash-btree.gz"
    (folder / name).write_bytes(gzip.decompress(kept.read_bytes()))
    with pytest.raises(WeightFileError, match=rf"{folder / name}: .*(crashed|corrupt|memory)"):
        locate(folder)


# It takes a second, and seconds on a network drive.
NO_TORCH = """
import sys
from elmo_cli.cli.main import cli
from elmo_cli.errors import ElmoError
from elmo_cli.pretrained.load import locate
cli.main(['models', 'list'], standalone_mode=False)
cli.main(['models', 'show', 'small'], standalone_mode=False)
assert 'h5py' not in sys.modules
locate(None).read_options(); locate(sys.argv[1]).sha256
for bad in ('orginal', 'original', sys.argv[2], sys.argv[3]):
    try: locate(bad)
    except ElmoError: continue
    sys.exit(f'{bad} was found')
sys.exit('torch' in sys.modules)
"""


def test_locating_and_refusing_do_not_import_torch(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "m.zip").write_bytes(b"PK\x03\x04")
    (tmp_path / "empty").mkdir()
    words = [sys.executable, "-c", NO_TORCH, folder, tmp_path / "m.zip", tmp_path / "empty"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stderr.strip(), done.returncode) == ("", 0)
