"""Models of ELMoForManyLangs: vectors equal those of its own code, from every form of its files."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from manylangs_models import (
    CONFIGURATION,
    FIXTURES,
    NAMES,
    SENTENCES,
    change_configuration,
    change_tensors,
    copied,
    expected_layers,
    files,
    layers_in_float64,
)

from elmo_cli.embed.embedder import Embedder
from elmo_cli.errors import ElmoError, ModelError, OptionsError, WeightFileError
from elmo_cli.pretrained.load import ModelSource, load, locate
from elmo_cli.text.sentence import Sentence

EXACT = 1e-12  # in float64
FLOAT32 = 1e-6


def close(found: object, expected: object, atol: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol, strict=False)


@pytest.mark.parametrize("name", NAMES)
def test_layers_equal_the_original_in_float64(name: str) -> None:
    """Swapped marks, cut tokens, padding in the maximum, [word ; characters], gates, clips."""
    expected = expected_layers(FIXTURES / "expected" / f"{name}.hdf5")
    assert expected
    bilm = load(FIXTURES / name).double()
    for key, layers in expected.items():
        close(layers_in_float64(bilm, SENTENCES[int(key)]), layers, EXACT)


@pytest.mark.parametrize("name", NAMES)
def test_layers_equal_the_original_in_float32(name: str, engine: str) -> None:
    expected = expected_layers(FIXTURES / "expected" / f"{name}.hdf5")
    embedder = Embedder(load(FIXTURES / name), engine=engine, device="cpu")
    for key, layers in expected.items():
        (found,), _ = embedder.embed_batch([sentence(int(key))])
        close(found, layers, FLOAT32)


def sentence(number: int) -> Sentence:
    """Also one with an empty token, which no reader of a text yields."""
    return Sentence(tuple(SENTENCES[number]), number)


def carried_layers(folder: Path, batches: Path, engine: str) -> dict[str, np.ndarray]:
    """The layers of the listed batches, by call and sentence, with the state carried."""
    calls = json.loads(batches.read_text())["batches_in_order_of_running"]
    embedder = Embedder(load(folder), state="carry", engine=engine, device="cpu")
    state = None
    layers: dict[str, np.ndarray] = {}
    for call, batches_of_call in enumerate(calls):
        for batch in batches_of_call:
            arrays, state = embedder.embed_batch([sentence(number) for number in batch], state)
            for number, array in zip(batch, arrays, strict=True):
                layers[f"{call}/{number}"] = array
    return layers


def test_state_carried_over_the_batches_of_the_original(engine: str) -> None:
    """`e.sents2elmo`, four times: each row continues where that row of the last batch stopped."""
    batches = FIXTURES / "carry_cnn-both-clip.json"
    layers = carried_layers(FIXTURES / "cnn-both-clip", batches, engine)
    expected = expected_layers(FIXTURES / "carry_cnn-both-clip.hdf5")
    assert expected
    for name, array in expected.items():
        close(layers[name], array, FLOAT32)


@pytest.mark.reference
def test_all_models_that_the_original_computes_with(engine: str, reference: Path) -> None:
    folder = reference / "elmoformanylangs"
    for name in (*NAMES, "cnn-both", "trained"):
        embedder = Embedder(load(folder / "models" / name), engine=engine, device="cpu")
        for key, expected in expected_layers(folder / "expected" / f"{name}.hdf5").items():
            (found,), _ = embedder.embed_batch([sentence(int(key))])
            close(found, expected, FLOAT32)
        bilm = load(folder / "models" / name).double()
        for key, expected in expected_layers(folder / "expected" / f"{name}.hdf5").items():
            close(layers_in_float64(bilm, SENTENCES[int(key)]), expected, EXACT)
    for name in ("cnn-both-clip", "cnn-char"):
        batches = folder / "carry" / f"carry_{name}.json"
        layers = carried_layers(folder / "models" / name, batches, engine)
        for key, array in expected_layers(folder / "carry" / f"carry_{name}.hdf5").items():
            close(layers[key], array, FLOAT32)


REFUSED_BY_NAME = {
    "models/cnn-word": "it reads words only",
    "models/lstm-word": "it reads words only",
    "models/cnn-both-lstmenc": "its encoder is `lstm`",
    "unusable/lstm-char": "its token encoder is `lstm`",
    "unusable/lstm-both": "its token encoder is `lstm`",
    "unusable/two-blank-characters": "rows; 2 of its lines have the same blank entry, U+3000",
}


@pytest.mark.reference
@pytest.mark.parametrize("name", REFUSED_BY_NAME)
def test_models_that_are_not_read_are_refused_by_name(name: str, reference: Path) -> None:
    with pytest.raises(ModelError) as caught:
        load(reference / "elmoformanylangs" / name)
    assert REFUSED_BY_NAME[name] in caught.value.message


# -- the files of a model -------------------------------------------------------------------------


def with_tensors_of_a_gpu(folder: Path) -> None:
    """Their storages are tagged `cuda:0`, in the old form of PyTorch's files."""
    path = folder / "encoder.pkl"
    tensors = torch.load(path, weights_only=True)
    torch.save(tensors, path, _use_new_zipfile_serialization=False)
    content = path.read_bytes()
    tag = b"X\x03\x00\x00\x00cpu"
    assert content.count(tag)
    path.write_bytes(content.replace(tag, b"X\x06\x00\x00\x00cuda:0"))


def with_absolute_path(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["config_path"] = f"/home/somebody/{CONFIGURATION}"
    (folder / "config.json").write_text(json.dumps(config))


def with_path_that_exists(folder: Path) -> None:
    """It wins over the file of the same name in the folder."""
    (folder / "configs").mkdir()
    os.rename(folder / CONFIGURATION, folder / "configs" / CONFIGURATION)
    (folder / CONFIGURATION).write_text("{}")
    (folder / "config.json").write_text(json.dumps({"config_path": f"configs/{CONFIGURATION}"}))


def with_reversed_dictionaries(folder: Path) -> None:
    """Ids need not follow the order of lines, and the last line of an entry wins."""
    for name in ("char.dic", "word.dic"):
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
        lines.append(f"{lines[7].split()[0]}\t1")
        (folder / name).write_text("\r\n".join(reversed(lines)), encoding="utf-8", newline="")


SAME_MODELS: list[Callable[[Path], None]] = [
    with_tensors_of_a_gpu,
    with_absolute_path,
    with_path_that_exists,
    with_reversed_dictionaries,
]


@pytest.mark.parametrize("change", SAME_MODELS, ids=lambda change: change.__name__)
def test_other_files_of_the_same_model(change: Callable[[Path], None], tmp_path: Path) -> None:
    folder = copied("cnn-both-clip", tmp_path / "changed")
    change(folder)
    expected = Embedder(load(FIXTURES / "cnn-both-clip"), device="cpu").embed_batch(SENTENCES[:3])
    found = Embedder(load(folder), device="cpu").embed_batch(SENTENCES[:3])
    for array, wanted in zip(found[0], expected[0], strict=True):
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("prefix", ["", "de.model/"])
def test_the_zip_file_as_downloaded(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    path = tmp_path / "142.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files("cnn-both-clip"):
            archive.write(file, f"{prefix}{file.name}")
        archive.writestr(f"{prefix}README", "")
    unpacked = load(FIXTURES / "cnn-both-clip")
    packed = load(path)
    assert packed.name == "142"
    assert packed.sha256 == unpacked.sha256
    for name, parameter in unpacked.state_dict().items():
        assert torch.equal(packed.state_dict()[name], parameter)


@pytest.mark.parametrize(
    "name", ["cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json"]
)
def test_the_published_configuration_is_built_in(name: str, tmp_path: Path) -> None:
    """It is in none of the published files."""
    folder = copied("cnn-both-clip", tmp_path / "changed")
    (folder / CONFIGURATION).unlink()
    (folder / "config.json").write_text(json.dumps({"config_path": f"configs/{name}"}))
    signs = ("char.dic", "word.dic", "token_embedder.pkl", "encoder.pkl")
    for path in (folder, *(folder / file for file in signs)):
        found = locate(path)
        assert found.notes == ("the configuration is that of the published models",)
        assert found.name == "changed"
    options = locate(folder).read_options()
    sizes = (options.lstm_dim, options.projection_dim, options.char_dim, options.word_dim)
    assert sizes == (4096, 512, 50, 100)
    assert (options.n_filters, options.n_highway, options.max_characters) == (2048, 2, 50)
    assert (options.cell_clip, options.proj_clip, options.forget_bias) == (3, 3, 0)
    assert options.residual
    assert options.is_unicode
    with pytest.raises(WeightFileError, match="expected shape"):
        load(folder)


def test_a_configuration_that_is_named_replaces_that_of_the_folder(tmp_path: Path) -> None:
    folder = copied("cnn-both-clip", tmp_path / "changed")
    named = (folder / CONFIGURATION).rename(tmp_path / "named.json")
    (folder / CONFIGURATION).write_text("{}")
    found = locate(ModelSource(folder, named))
    assert (found.options, found.notes) == (named, ())
    assert found.sha256 == locate(FIXTURES / "cnn-both-clip").sha256
    with pytest.raises(OptionsError, match=r"gone\.json: no such file"):
        locate(ModelSource(folder, tmp_path / "gone.json"))


@pytest.mark.parametrize("name", ["char.dic", "word.dic", "token_embedder.pkl", "encoder.pkl"])
def test_the_hash_depends_on_each_file(name: str, tmp_path: Path) -> None:
    folder = copied("cnn-both-clip", tmp_path / "changed")
    before = locate(folder).sha256
    assert before == locate(FIXTURES / "cnn-both-clip").sha256
    content = (folder / name).read_bytes()
    is_dictionary = name.endswith(".dic")
    changed = content.replace(b"\t5\n", b"\t6\n") if is_dictionary else content + b"\0"
    (folder / name).write_bytes(changed)
    assert locate(folder).sha256 != before


# -- what is refused ------------------------------------------------------------------------------

REFUSED_NETWORKS = {
    "words only": ("token_embedder", {"char_dim": 0}, "it reads words only"),
    "encoder lstm": ("encoder", {"name": "lstm"}, "its encoder is `lstm`"),
    "token encoder lstm": ("token_embedder", {"name": "LSTM"}, "its token encoder is `lstm`"),
    "another encoder": ("encoder", {"name": "bert"}, "its encoder is 'bert', not `elmo`"),
    "another token encoder": ("token_embedder", {"name": 3}, "its token encoder is 3, not `cnn`"),
}


@pytest.mark.parametrize("name", REFUSED_NETWORKS)
def test_another_network_is_refused_by_name(name: str, tmp_path: Path) -> None:
    part, changes, problem = REFUSED_NETWORKS[name]
    folder = copied("cnn-both-clip", tmp_path / "changed")
    change_configuration(folder, part, changes)
    with pytest.raises(ModelError) as caught:
        locate(folder)
    assert f"an ELMoForManyLangs model, but {problem}" in caught.value.message
    assert caught.value.hint


def without(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()

    return change


def configured(part: str, name: str, value: object) -> Callable[[Path], None]:
    return lambda folder: change_configuration(folder, part, {name: value})


def with_tensor(file: str, name: str, value: torch.Tensor | None) -> Callable[[Path], None]:
    return lambda folder: change_tensors(folder, file, {name: value})


def with_two_blank_characters(folder: Path) -> None:
    """The original makes one entry of them, and finds that the matrix has one row more."""
    path = folder / "char.dic"
    text = path.read_text(encoding="utf-8")
    assert "\u3000\t" in text
    path.write_text(text.replace("y\t", "\u00a0\t"), encoding="utf-8")


def with_config(content: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "config.json").write_text(content) and None


REFUSED_FILES: dict[str, tuple[Callable[[Path], object], type[ElmoError], str]] = {
    "no encoder": (without("encoder.pkl"), ModelError, "without encoder.pkl"),
    "no config": (without("config.json"), ModelError, "without config.json"),
    "no characters": (without("char.dic"), ModelError, "char.dic: cannot be read"),
    "no words": (without("word.dic"), ModelError, "word.dic: cannot be read"),
    "config is a list": (with_config("[]"), ModelError, "names no config_path"),
    "config_path is a number": (with_config('{"config_path": 3}'), ModelError, "names no"),
    "config_path is missing": (
        with_config('{"config_path": "a/b.json"}'), ModelError, "config_path 'a/b.json' is missing",
    ),
    "config_path has a NUL": (
        with_config('{"config_path": "a\\u0000b"}'), ModelError, "is missing",
    ),
    "no sizes": (configured("encoder", "dim", ...), OptionsError, "lstm.dim is missing"),
    "a null for layers": (
        configured("encoder", "n_layers", None), OptionsError, "encoder.n_layers is missing",
    ),
    "a null for tokens": (
        configured("token_embedder", "max_characters_per_token", None), OptionsError,
        "token_embedder.max_characters_per_token is missing",
    ),
    "huge sizes": (configured("encoder", "dim", 10**9), OptionsError, "lstm.dim is 1000000000"),
    "a huge model": (configured("encoder", "dim", 1 << 24), WeightFileError, "expected shape"),
    "tiny tokens": (
        configured("token_embedder", "max_characters_per_token", 6), OptionsError, "below 7",
    ),
    "words are a text": (
        configured("token_embedder", "word_dim", "ten"), OptionsError, 'words.dim is "ten"',
    ),
    "fewer layers": (configured("encoder", "n_layers", 1), WeightFileError, "layer_1"),
    "more layers": (configured("encoder", "n_layers", 3), WeightFileError, "layer_2"),
    "two blanks": (
        with_two_blank_characters, ModelError, "rows; 2 of its lines have the same blank entry",
    ),
    "a tensor less": (
        with_tensor("token_embedder.pkl", "projection.bias", None), WeightFileError, "is missing",
    ),
    "a tensor more": (
        with_tensor("encoder.pkl", "forward_layer_2.x", torch.ones(3)),
        WeightFileError,
        "holds forward_layer_2.x, which the configuration leaves out",
    ),
    "a word more": (
        with_tensor("token_embedder.pkl", "word_emb_layer.embedding.weight", torch.ones(27, 10)),
        ModelError,
        "word.dic: has 26 entries, token_embedder.pkl 27 rows",
    ),
    "no number": (
        with_tensor("token_embedder.pkl", "projection.weight", torch.full((8, 34), torch.nan)),
        WeightFileError,
        "has a value of nan",
    ),
    "integers": (
        with_tensor("token_embedder.pkl", "projection.bias", torch.ones(8, dtype=torch.int64)),
        WeightFileError,
        "is missing",
    ),
    "a view of one value": (
        with_tensor("token_embedder.pkl", "projection.bias", torch.ones(1).expand(1 << 40)),
        WeightFileError,
        "larger than the file",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_FILES)
def test_files_that_do_not_fit_are_refused(name: str, tmp_path: Path) -> None:
    change, error_class, problem = REFUSED_FILES[name]
    folder = copied("cnn-both-clip", tmp_path / "changed")
    change(folder)
    with pytest.raises(error_class) as caught:
        load(folder)
    assert problem in caught.value.message
    assert str(folder) in caught.value.message
    assert caught.value.hint


class _FolderMaker:
    """What a pickle can ask for when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("new_form", [False, True])
def test_a_pickle_runs_no_code(new_form: bool, tmp_path: Path) -> None:
    folder = copied("cnn-both-clip", tmp_path / "changed")
    content = {"a": _FolderMaker(tmp_path / "ran")}
    torch.save(content, folder / "encoder.pkl", _use_new_zipfile_serialization=new_form)
    with pytest.raises(WeightFileError, match="not a file of tensors that PyTorch reads"):
        load(folder)
    assert not (tmp_path / "ran").exists()
