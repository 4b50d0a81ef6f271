"""Models of other families are called by their names, and never opened."""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny_model import write_tiny_model

from elmo_cli.errors import ModelError
from elmo_cli.pretrained.load import locate


class Bomb:
    """Whoever unpickles it fails the test."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return exec, ("raise AssertionError('it was unpickled')",)


PICKLE = pickle.dumps(Bomb())

FOLDERS = {
    "an ELMoForManyLangs model": {
        "config.json": b'{"config_path": "/home/x/cnn.json"}',
        "char.dic": b"",
        "encoder.pkl": PICKLE,
        "token_embedder.pkl": PICKLE,
    },
    "a TensorFlow SavedModel": {"saved_model.pb": b"\x08\x01", "tfhub_module.pb": b"\x08\x03"},
    "a TensorFlow checkpoint": {
        "checkpoint": b'model_checkpoint_path: "model.ckpt-935588"',
        "options.json": b"{}",
        "model.ckpt-935588.index": b"",
        "model.ckpt-935588.data-00000-of-00001": b"",
    },
    "a transformer such as BERT": {"config.json": b'{"model_type": "bert"}', "tf.bin": b""},
    "a transformer": {"bert_config.json": b"{}", "vocab.txt": b"[PAD]"},
    "an AllenNLP archive": {"config.json": b"{}", "weights.th": PICKLE},
    "a flair model": {"final-model.pt": PICKLE, "loss.tsv": b""},
    "a PyTorch file": {"model.pt": PICKLE},
}

FILES = {
    "glove.6B.50d.txt": (b"the " + b" ".join([b"0.418"] * 50) + b"\n", "word vectors"),
    "wiki.vec": (b"2519370 300\nthe 0.1", "word vectors"),
    "news.bin": (b"3000000 300\nin \x00\x01\x02", "word vectors"),
    "cc.en.300.bin": (struct.pack("<ii", 793712314, 12) + b"\0" * 60, "word vectors"),
    "best.th": (PICKLE, "a PyTorch file, which is a pickle and is not opened"),
    "encoder.pkl": (PICKLE, "a pickle, which is not opened"),
    "model.safetensors": (struct.pack("<Q", 40) + b'{"a":{}}', "a safetensors file"),
    "w.npy": (b"\x93NUMPY\x01\x00", "a NumPy array"),
    "weights.hdf5": (b"\n<!DOCTYPE html><title>403", "a web page"),
    "w.hdf5": (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
    "bilm.tgz.part-00": (b"\x1f\x8b\x08", "one part of a split archive"),
    "m.zip.001": (b"PK\x03\x04", "one part of a split archive"),
    "m.rar": (b"Rar!\x1a\x07", "a RAR archive"),
    "model.ckpt-9.index": (b"\0", "a TensorFlow checkpoint"),
}


@pytest.mark.parametrize("family", FOLDERS)
def test_folders(tmp_path: Path, family: str) -> None:
    """ "No options.json" would send people looking for a file that never was."""
    for name, content in FOLDERS[family].items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError) as caught:
        locate(tmp_path)
    assert caught.value.message.startswith(f"{tmp_path}: {family}")
    assert caught.value.message.endswith("not an ELMo biLM")
    assert "`" in caught.value.hint or "config.json" in caught.value.hint


@pytest.mark.parametrize("name", FILES)
def test_files(tmp_path: Path, name: str) -> None:
    """As the model itself, and in the place of the weights of a pair."""
    content, family = FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=family):
        locate(tmp_path / name)
    with pytest.raises(ModelError, match=family):
        locate(options=tmp_path / "options.json", weights=tmp_path / name)


def test_a_file_that_is_nothing_known(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("The cat sat .\n")
    with pytest.raises(ModelError, match=r"notes\.txt: not a model, nor a file of weights"):
        locate(tmp_path / "notes.txt")


def test_weights_dumped_beside_their_checkpoint_are_a_model(tmp_path: Path) -> None:
    """What bilm-tf's dump_weights leaves is a folder of both."""
    for name in FOLDERS["a TensorFlow checkpoint"]:
        (tmp_path / name).write_bytes(b"")
    assert locate(write_tiny_model(tmp_path)).weights.name == "weights.hdf5"


def test_a_real_numpy_file(tmp_path: Path) -> None:
    """The signature is numpy's own, not one that these tests made up."""
    np.save(tmp_path / "w.npy", np.zeros(3))
    with pytest.raises(ModelError, match="a NumPy array"):
        locate(tmp_path / "w.npy")


def test_a_broken_config_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"})[:-3])
    (tmp_path / "x").write_text("")
    with pytest.raises(ModelError, match=r"no weight file in it \(config\.json, x\)"):
        locate(tmp_path)
