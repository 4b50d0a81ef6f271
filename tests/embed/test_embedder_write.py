"""Embedder.write: a file from a notebook."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from elmo_cli.embed.embedder import Embedder
from elmo_cli.errors import UsageError
from elmo_cli.model.bilm import BiLM
from elmo_cli.pretrained.load import load
from elmo_cli.store.reader import open_embeddings
from elmo_cli.text.input import InputSettings
from elmo_cli.text.sentence import Sentence


def embedder_of(bilm: BiLM, **settings: object) -> Embedder:
    return Embedder(bilm, device="cpu", **settings)


def test_write_says_what_the_embedder_did(
    tiny_bilm: BiLM, lines: list[list[str]], golden: Path, tmp_path: Path
) -> None:
    """Without it a file would claim the settings of EmbedJob instead of the embedder's own."""
    embedder = embedder_of(tiny_bilm, state="carry", layers="top", dtype="float16", batch_size=3)
    embedder.write(golden / "sentences.txt", tmp_path / "out.hdf5")
    with open_embeddings(tmp_path / "out.hdf5") as embeddings:
        said = embeddings.attributes
        assert (said["state"], said["layers"], said["dtype"]) == ("carry", "top", "float16")
        assert said["batch_size"] == 3
        given = [Sentence(tuple(tokens), key) for key, tokens in enumerate(lines)]
        expected, _ = embedder.embed_block(given, None)
        for key, array in enumerate(expected):
            assert embeddings[key].dtype == np.float16
            np.testing.assert_array_equal(embeddings[key], array)


def test_write_spares_what_it_reads(tiny_bilm: BiLM, golden: Path, tmp_path: Path) -> None:
    """Without it a notebook could lose its text to the file that was to be made of it."""
    text = tmp_path / "text.txt"
    text.write_bytes((golden / "sentences.txt").read_bytes())
    before = text.read_bytes()
    with pytest.raises(UsageError, match="is also one of the inputs"):
        embedder_of(tiny_bilm).write(text, text, overwrite=True)
    assert text.read_bytes() == before


def test_write_spares_the_model(tiny: Path, golden: Path, tmp_path: Path) -> None:
    """Without it the file could take the place of the weights that it was made with."""
    for name in ("options.json", "weights.hdf5"):
        (tmp_path / name).write_bytes((tiny / name).read_bytes())
    weights = tmp_path / "weights.hdf5"
    before = weights.read_bytes()
    embedder = embedder_of(load(tmp_path))
    with pytest.raises(UsageError, match=r"weights\.hdf5: is also a file of the model"):
        embedder.write(golden / "sentences.txt", weights, overwrite=True)
    assert weights.read_bytes() == before


def test_write_takes_a_shard_as_the_command_does(
    tiny_bilm: BiLM, golden: Path, tmp_path: Path
) -> None:
    """What the documents show for the command is what people try in a notebook."""
    for name, shard in (("a.hdf5", "1/1"), ("b.hdf5", (1, 1))):
        embedder_of(tiny_bilm).write(golden / "sentences.txt", tmp_path / name, shard=shard)
    assert (tmp_path / "a.hdf5").read_bytes() == (tmp_path / "b.hdf5").read_bytes()
    with pytest.raises(UsageError, match="`shard=3/2`"):
        embedder_of(tiny_bilm).write(golden / "sentences.txt", tmp_path / "c.hdf5", shard="3/2")


@pytest.mark.parametrize(
    "name",
    [
        *("model", "options", "weights", "state", "layers", "dtype", "pool", "batch_size"),
        *("engine", "precision", "device", "inputs", "output"),
    ],
)
def test_write_does_not_take_what_the_embedder_decides(
    name: str, tiny_bilm: BiLM, golden: Path, tmp_path: Path
) -> None:
    """Without it half of them would be passed over without a word: `engine="plain"` ran fast."""
    with pytest.raises(TypeError, match=f"write does not take {name}: .* the embedder decides"):
        embedder_of(tiny_bilm).write(
            golden / "sentences.txt", tmp_path / "out.hdf5", layout="bilm", **{name: None}
        )
    assert not list(tmp_path.iterdir())


def test_write_takes_one_file(tiny_bilm: BiLM, tmp_path: Path) -> None:
    """A list would be looked for under the name that it prints as."""
    embedder = embedder_of(tiny_bilm)
    with pytest.raises(TypeError, match="the name of one file, not list"):
        embedder.write(["a.txt", "b.txt"], tmp_path / "out.hdf5")
    with pytest.raises(TypeError, match="text= takes InputSettings, not str"):
        embedder.write("a.txt", tmp_path / "out.hdf5", text="conllu")


def test_a_file_may_be_named_by_any_path(tiny_bilm: BiLM, tmp_path: Path) -> None:
    """Without it an entry of `os.scandir` is looked for under the name that it prints as."""
    (tmp_path / "a.txt").write_text("The cat\n", "utf-8")
    (entry,) = os.scandir(tmp_path)
    embedder = embedder_of(tiny_bilm)
    assert embedder.write(entry, tmp_path / "out.hdf5").tokens == 2
    assert [sentence.tokens for sentence, _ in embedder.stream(entry)] == [("The", "cat")]
    with pytest.raises(TypeError, match="NoneType"):
        embedder.write(entry, None)


def test_what_would_be_passed_over_is_refused(tiny_bilm: BiLM, tmp_path: Path) -> None:
    """Without it a text is read otherwise than was asked for, or a file is not made anew."""
    embedder = embedder_of(tiny_bilm)
    with pytest.raises(UsageError, match="settings say how a file is read"):
        next(embedder.stream([["a"]], InputSettings(tokenize=True)))
    with pytest.raises(UsageError, match="`overwrite=True` and `resume=True`"):
        embedder.write("a.txt", tmp_path / "out.hdf5", overwrite=True, resume=True)
