"""Archives of AllenNLP and state dictionaries of its `Elmo`."""

from __future__ import annotations

import io
import json
import lzma
import pickle
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import made

from elmo_cli import Embedder
from elmo_cli.errors import ElmoError, ModelError, WeightFileError
from elmo_cli.families.allennlp_state import _PUBLISHED, AllenNlpState
from elmo_cli.pretrained.load import ModelSource, load, locate

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "allennlp_archive"
ARCHIVE = GOLDEN / "model.tar.gz"
OPTIONS = GOLDEN / "options.json"
PREFIX = "text_field_embedder.token_embedder_elmo._elmo."
State = dict[str, torch.Tensor]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The archive, extracted."""
    with tarfile.open(ARCHIVE) as archive:
        # Python before 3.11.4 has no filters, and ignores the attribute.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def state(folder: Path) -> State:
    loaded: State = torch.load(folder / "weights.th", weights_only=True)
    return dict(loaded)


def packed(path: Path, contents: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_vectors_of_allennlp() -> None:
    """Against its equations in float64; the weights are in no other file."""
    bilm = load(ARCHIVE, options=OPTIONS)
    assert (bilm.name, bilm.family) == ("model", "allennlp")
    embedder = Embedder(bilm)
    sentences = (GOLDEN / "sentences.txt").read_text("utf-8").splitlines()
    with np.load(GOLDEN / "vectors.npz") as expected:
        for key in ("0", "4", "9"):
            layers = embedder.embed(sentences[int(key)].split())
            np.testing.assert_allclose(layers, expected[key], rtol=0, atol=2e-6)
        exponentials = np.exp(expected["mix"])
        numbers = [*(exponentials / exponentials.sum()), expected["gamma"]]
    with locate(ModelSource(ARCHIVE, OPTIONS)).open() as model:
        mix = [float(number) for number in model.layer_mix.removeprefix("mix:").split(",")]
    np.testing.assert_allclose(mix, numbers, rtol=1e-6)


@pytest.mark.parametrize("is_zip", [True, False])
def test_other_files_of_the_same_model(
    is_zip: bool, folder: Path, state: State, tmp_path: Path
) -> None:
    """The folder of a training, and a state dictionary that a user has saved."""
    expected = load(ARCHIVE, options=OPTIONS)
    own = {name.removeprefix(PREFIX): t for name, t in state.items() if name.startswith(PREFIX)}
    assert len(own) < len(state)
    torch.save(own, tmp_path / "mine.pt", _use_new_zipfile_serialization=is_zip)
    shutil.copy(OPTIONS, folder / "options.json")
    for source in (ModelSource(tmp_path / "mine.pt", OPTIONS), ModelSource(folder)):
        assert locate(source).sha256 == expected.sha256


def test_a_converted_copy_is_the_same_model(folder: Path, tmp_path: Path) -> None:
    words = ["models", "convert", ARCHIVE, "--options-file", OPTIONS, "-o", tmp_path / "copy"]
    made(*words, "-q")
    copy = load(tmp_path / "copy")
    original = load(ARCHIVE, options=OPTIONS)
    assert copy.sha256 == original.sha256
    for name, value in original.state_dict().items():
        np.testing.assert_array_equal(copy.state_dict()[name], value)


def test_where_options_come_from(folder: Path, tmp_path: Path) -> None:
    """`fta/` in the archive; the settings of the published models if they are named."""
    with pytest.raises(ModelError, match=r"do not state char_cnn.activation, .* is not in the ar"):
        locate(folder)
    contents = {name: (folder / name).read_bytes() for name in ("config.json", "weights.th")}
    name = "fta/model.text_field_embedder.token_embedders.elmo.options_file"
    archive = packed(tmp_path / "with.tar.gz", {**contents, name: OPTIONS.read_bytes()})
    assert locate(archive).sha256 == locate(ModelSource(ARCHIVE, OPTIONS)).sha256
    url = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/x/elmo_x_options.json"
    config = contents["config.json"].decode()
    config = config.replace("https://example.org/elmo_options.json", url)
    archive = packed(tmp_path / "named.tar.gz", {**contents, "config.json": config.encode()})
    with locate(archive).open() as model:
        assert model.assumed["options_file"] == "elmo_x_options.json"
        assert model.options.to_dict() == json.loads(OPTIONS.read_text()) | model.options.to_dict()


def test_names_of_state_dictionaries(tmp_path: Path, folder: Path) -> None:
    """A model is called after the folder of a training, or after a file that a user named."""
    weights = (folder / "weights.th").rename(tmp_path / "weights")
    names = {"weights.th": "model", "best.th": "model", "my.th": "my", "my.pt": "my"}
    names |= {"my.pth": "my", "my.bin": "my"}
    for name, model in names.items():
        path = folder / name
        shutil.copy(weights, path)
        found = AllenNlpState().find(path)
        assert found is not None
        assert (found.name, found.weights) == (model, path)
        in_folder = AllenNlpState().find(folder)
        assert (in_folder is not None) == (model == "model")
        path.unlink()
    for name in ("best.th", "weights.th"):  # as after a training; the archive has the latter
        shutil.copy(weights, folder / name)
    in_folder = AllenNlpState().find(folder)
    assert in_folder is not None
    assert in_folder.weights.name == "weights.th"


@pytest.mark.parametrize(
    "address",
    [
        "https://allennlp.s3.amazonaws.com/models/elmo/x/y_options.json",
        "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/y_options.json",
    ],
)
def test_addresses_of_published_models(address: str) -> None:
    match = _PUBLISHED.fullmatch(address)
    assert match is not None
    assert match[1] == "y_options.json"


class Shell:
    """Unpickling it fails the test."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise AssertionError('it was unpickled')",)


def with_two_models(state: State) -> object:
    return {**state, **{f"other.{name}": tensor for name, tensor in state.items()}}


def without_a_model(state: State) -> object:
    return {"crf.transitions": torch.zeros(3, 3)}


def of_a_transformer(state: State) -> object:
    return {"_lm._contextualizer.layers.0.weight": torch.zeros(3, 3)}


def with_a_value_that_is_none(state: State) -> object:
    name = f"{PREFIX}_elmo_lstm._token_embedder.char_conv_0.bias"
    return {**state, name: state[name] * float("nan")}


def with_integers(state: State) -> object:
    name = f"{PREFIX}_elmo_lstm._token_embedder.char_conv_0.bias"
    return {**state, name: state[name].int()}


def without_a_layer(state: State) -> object:
    return {name: tensor for name, tensor in state.items() if "forward_layer_1" not in name}


def that_claims_terabytes(state: State) -> object:
    name = f"{PREFIX}_elmo_lstm._token_embedder._char_embedding_weights"
    return {**state, name: torch.zeros(1).expand(1 << 40)}


def a_list(state: State) -> object:
    return [1, 2]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (with_two_models, "holds 2 ELMo models (other.text_field"),
        (without_a_model, "has no tensor _elmo_lstm._token_embedder._char_embedding_weights"),
        (of_a_transformer, "such as a transformer ELMo, which is no biLM"),
        (with_a_value_that_is_none, "char_conv_0.bias has a value of nan"),
        (with_integers, "char_conv_0.bias is missing"),
        (without_a_layer, "forward_layer_1.input_linearity.weight is missing"),
        (that_claims_terabytes, "its tensors are larger than the file"),
        (a_list, "contains a value of type list, not tensors by name"),
    ],
)
def test_other_state_dictionaries_are_refused(
    change: Callable[[State], object], problem: str, state: State, tmp_path: Path
) -> None:
    torch.save(change(state), tmp_path / "mine.pt", _use_new_zipfile_serialization=True)
    with pytest.raises(ElmoError) as caught:
        load(tmp_path / "mine.pt", options=OPTIONS)
    assert problem in caught.value.message
    assert caught.value.hint


def test_no_code_in_a_pickle_is_run(state: State, tmp_path: Path) -> None:
    path = tmp_path / "mine.pt"
    for is_zip in (True, False):
        torch.save({"x": Shell()}, path, _use_new_zipfile_serialization=is_zip)
        with pytest.raises(WeightFileError, match="not a file of tensors that PyTorch reads"):
            load(path, options=OPTIONS)
    path.write_bytes(pickle.dumps(Shell()))
    with pytest.raises(ModelError, match="not an ELMo model; found a Python pickle"):
        load(path, options=OPTIONS)


# -- tar files ------------------------------------------------------------------------------------


def test_unsafe_and_cut_archives_are_refused(folder: Path, tmp_path: Path) -> None:
    weights = (folder / "weights.th").read_bytes()
    path = packed(tmp_path / "a.tar.gz", {"../weights.th": weights})
    with pytest.raises(ModelError, match=r"refused, since '../weights.th' .* outside"):
        locate(path)
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("weights.th")
        member.type = tarfile.SYMTYPE
        member.linkname = "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(ModelError, match="is a link"):
        locate(tmp_path / "b.tar.gz")
    (tmp_path / "c.tar.gz").write_bytes(ARCHIVE.read_bytes()[:-1000])
    with pytest.raises(ModelError, match="not a complete tar file"):
        locate(tmp_path / "c.tar.gz")
    path = packed(tmp_path / "d.tar.gz", {"notes.txt": b"a", "config.json": b"{}"})
    with pytest.raises(ModelError, match=r"not an ELMo model; found config.json, notes.txt"):
        locate(path)


@pytest.mark.parametrize(("compression", "position"), [("gz", -8), ("bz2", -3), ("xz", -10)])
def test_the_checksum_at_the_end_of_an_archive_is_verified(
    compression: str, position: int, folder: Path, tmp_path: Path
) -> None:
    """tarfile itself stops where the last member ends."""
    path = tmp_path / f"a.tar.{compression}"
    with tarfile.open(path, f"w:{compression}") as archive:
        archive.add(folder, "model")
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="not a complete tar file"):
        locate(ModelSource(path, OPTIONS))


def test_an_archive_without_end_is_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.tar.xz"
    with tarfile.open(path, "w:xz") as archive:
        archive.add(folder, "model")
    with lzma.open(path, "ab", preset=0) as file:
        for _ in range(70):
            file.write(bytes(1 << 20))
    with pytest.raises(ModelError, match="too many bytes after its end"):
        locate(ModelSource(path, OPTIONS))
