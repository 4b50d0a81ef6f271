"""Files that the bridges to AllenNLP and bilm-tf write, and the modules that `register` makes."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import h5py
import numpy as np
import pytest
from command_line import made
from tolerance import ATOL_ORDER

from elmo_cli.errors import InputError, UsageError
from elmo_cli.interop import allennlp
from elmo_cli.interop.allennlp import ConfigurationError, ElmoEmbedder
from elmo_cli.interop.bilm_tf import dump_bilm_embeddings, dump_token_embeddings
from elmo_cli.store.reader import open_embeddings

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
LINES = ["The cat sat .", " a  dog ", "The cat sat .", "It\tslept"]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def new_embedder(folder: Path, state: str = "carry") -> ElmoEmbedder:
    return ElmoEmbedder(folder / "options.json", folder / "weights.hdf5", state=state)


def arrays_of(path: Path, n_sentences: int = 4) -> list[np.ndarray]:
    with h5py.File(path) as file:
        return [file[str(key)][()] for key in range(n_sentences)]


def all_close(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for array, expected_array in zip(found, expected, strict=True):
        np.testing.assert_allclose(array, expected_array, rtol=0, atol=ATOL_ORDER)


@pytest.mark.parametrize("output_format", ["all", "top", "average"])
def test_a_file_equals_that_of_the_command(
    output_format: str, text: Path, tmp_path: Path, tiny: Path
) -> None:
    words = ["embed", text, "-m", tiny, "--layers", output_format, "--batch-size", 2]
    made(*words, "--state", "carry", "-o", tmp_path / "command.hdf5")
    with open(text, encoding="utf-8") as opened:
        new_embedder(tiny).embed_file(opened, tmp_path / "own.hdf5", output_format, batch_size=2)
        assert opened.closed
    all_close(arrays_of(tmp_path / "own.hdf5"), arrays_of(tmp_path / "command.hdf5"))
    with (
        open_embeddings(tmp_path / "own.hdf5") as found,
        open_embeddings(tmp_path / "command.hdf5") as expected,
    ):
        for name in ("layout", "dtype", "layers", "state", "batch_size", "model_sha256", "tokens"):
            assert found.attributes[name] == expected.attributes[name], name
        assert found.attributes["blank"] == "error"
        assert found["a  dog"].shape == expected["1"].shape
    with h5py.File(tmp_path / "own.hdf5") as file:
        sentence_to_index = json.loads(file["sentence_to_index"][0])
        assert sentence_to_index == {"The cat sat .": "2", "a  dog": "1", "It\tslept": "3"}
    made("inspect", tmp_path / "own.hdf5", "--text", text)


def test_a_file_continues_the_state_and_replaces_the_output(
    text: Path, tmp_path: Path, tiny: Path
) -> None:
    output = tmp_path / "out.hdf5"
    output.write_text("former")
    embedder = new_embedder(tiny)
    embedder.embed_batch([["a"], ["b"]])
    embedder.embed_file(io.StringIO(TEXT), str(output), forget_sentences=True, batch_size=2)
    reference = new_embedder(tiny)
    reference.embed_batch([["a"], ["b"]])
    expected = list(reference.embed_sentences([line.split() for line in LINES], batch_size=2))
    all_close(arrays_of(output), expected)
    all_close(embedder.embed_batch([["c"]]), reference.embed_batch([["c"]]))
    with h5py.File(output) as file:
        assert "sentence_to_index" not in file
    embedder = new_embedder(tiny, state="zero")
    embedder.embed_file(io.StringIO("a b\n"), output)
    with open_embeddings(output) as found:
        assert found.attributes["state"] == "zero"
        assert "batch_size" not in found.attributes


def test_sentences_as_keys(tmp_path: Path, tiny: Path) -> None:
    output = tmp_path / "out.hdf5"
    new_embedder(tiny).embed_file(io.StringIO("a b\nc\n"), output, use_sentence_keys=True)
    with h5py.File(output) as file:
        assert list(file) == ["a b", "c"]
    before = output.read_bytes()
    with pytest.raises(InputError, match="input_file, line 2: the key 'a b' exists"):
        new_embedder(tiny).embed_file(io.StringIO("a b\na b\n"), output, use_sentence_keys=True)
    assert output.read_bytes() == before


def test_texts_and_formats_that_are_refused(tmp_path: Path, tiny: Path) -> None:
    embedder = new_embedder(tiny)
    output = tmp_path / "out.hdf5"
    with pytest.raises(ConfigurationError, match=r"blank lines: 2, 4\n"):
        embedder.embed_file(io.StringIO("a\n\nb\n \n"), output)
    with pytest.raises(ConfigurationError, match=r"blank lines: 1, 2, .*, 20 and 5 more\n"):
        embedder.embed_file(io.StringIO("\n" * 25), output)
    with pytest.raises(ConfigurationError, match=r"blank lines: 1, 2, .*, 19, 20\n"):
        embedder.embed_file(io.StringIO("\n" * 20), output)
    with pytest.raises(ConfigurationError, match="'sum': not an output format"):
        embedder.embed_file(io.StringIO("a\n"), output, "sum")
    assert not output.exists()


def test_dump_bilm_embeddings(text: Path, tmp_path: Path, tiny: Path) -> None:
    """Every line continues the one before; an existing file is replaced."""
    output = tmp_path / "out.hdf5"
    for _ in range(2):
        dump_bilm_embeddings("none.txt", text, tiny / "options.json", tiny / "weights.hdf5", output)
    embedder = new_embedder(tiny)
    all_close(arrays_of(output), [embedder.embed_sentence(line.split()) for line in LINES])


def test_texts_of_bilm_tf_are_plain_whatever_they_look_like(tmp_path: Path, tiny: Path) -> None:
    """A line of columns or of JSON has its tokens, as `line.strip().split()` gives them."""
    lines = ["Anna\tB-PER", "lives\tO", "here\tO", '{"tokens": ["it"]}']
    text = tmp_path / "in.jsonl"
    text.write_text("".join(f"{line}\n" for line in lines))
    paths = (tiny / "options.json", tiny / "weights.hdf5")
    output = tmp_path / "out.hdf5"
    dump_bilm_embeddings("none.txt", text, *paths, output)
    embedder = new_embedder(tiny)
    all_close(arrays_of(output), [embedder.embed_sentence(line.split()) for line in lines])
    words = tmp_path / "words.conllu"
    words.write_text("Anna\nlives\n")
    dump_token_embeddings(words, *paths, output)
    of_words = new_embedder(tiny).embed_sentence(["Anna", "lives"])
    with h5py.File(output) as file:
        all_close([file["embedding"][()]], [of_words[0, :, :8]])  # of one direction


def test_dump_token_embeddings(tmp_path: Path) -> None:
    """The vectors that AllenNLP's and bilm-tf's programs wrote."""
    folder = GOLDEN / "allennlp"
    output = tmp_path / "out.hdf5"
    weights = folder / "lm_weights.hdf5"
    dump_token_embeddings(folder / "vocab_test.txt", folder / "options.json", weights, output)
    with h5py.File(output) as file, h5py.File(folder / "elmo_token_embeddings.hdf5") as expected:
        all_close([file["embedding"][()]], [expected["embedding"][()]])


@pytest.fixture
def without_allennlp() -> Iterator[None]:
    """No name of AllenNLP is registered before and afterwards."""
    forget_allennlp()
    yield
    forget_allennlp()


def forget_allennlp() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "allennlp"]:
        del sys.modules[name]


@pytest.mark.usefixtures("without_allennlp")
def test_registered_names() -> None:
    allennlp.register()
    allennlp.register()
    names = {
        "allennlp.commands.elmo": ["ElmoEmbedder", "DEFAULT_OPTIONS_FILE", "DEFAULT_WEIGHT_FILE"],
        "allennlp.modules": ["Elmo", "ScalarMix"],
        "allennlp.modules.elmo": ["Elmo", "_ElmoBiLm", "batch_to_ids"],
        "allennlp.modules.scalar_mix": ["ScalarMix"],
        "allennlp.modules.token_embedders": ["ElmoTokenEmbedder"],
        "allennlp.nn.util": ["remove_sentence_boundaries"],
        "allennlp.common.checks": ["ConfigurationError"],
    }
    for path, names_of_module in names.items():
        module = import_module(path)
        for name in names_of_module:
            found = getattr(module, name)
            assert found is getattr(allennlp, name)
    code = "import allennlp.modules.elmo as m; from allennlp.modules import elmo; assert m is elmo"
    exec(code, {})
    with pytest.raises(ModuleNotFoundError, match=r"allennlp\.data"):
        import_module("allennlp.data")


@pytest.mark.usefixtures("without_allennlp")
def test_an_installed_allennlp_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "allennlp").mkdir()
    (tmp_path / "allennlp" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="AllenNLP is installed"):
        allennlp.register()
    assert "allennlp" not in sys.modules
    sys.modules["allennlp"] = ModuleType("allennlp")  # that of a test, which has no file
    with pytest.raises(UsageError, match="AllenNLP is installed"):
        allennlp.register()
    del sys.modules["allennlp"]
    import_module("allennlp")
    with pytest.raises(UsageError, match="AllenNLP is installed"):
        allennlp.register()
