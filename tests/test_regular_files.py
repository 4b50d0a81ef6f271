"""Files of settings: regular, of limited size, and without a key that occurs twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elmo_cli.errors import ElmoError, OptionsError
from elmo_cli.lm.pretrain_config import PretrainConfig
from elmo_cli.model.options import Options
from elmo_cli.plot.training_curves import read_run
from elmo_cli.pretrained.catalogue import bundled_dir
from elmo_cli.pretrained.load import ModelSource, locate
from elmo_cli.pretrained.model_files import sha256_of
from elmo_cli.regular_files import read_json
from elmo_cli.text.vocabulary import Vocabulary

BUNDLED = bundled_dir() or Path()


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b'[{"a": 1, "b": {"d": 2, "c": 2, "e": 2, "c": 2}}]', "'c' occurs twice"),
        (b'"' + b"x" * (1 << 20) + b'"', "larger than 1 MiB"),
        (b"[" * 100_000, "not JSON"),
        (b'"\xff"', "not JSON"),
    ],
)
def test_json_that_is_refused(content: bytes, part: str, tmp_path: Path) -> None:
    """Of a key that occurs twice, parsers keep the last silently."""
    (tmp_path / "in.json").write_bytes(content)
    with pytest.raises(OptionsError, match=part) as caught:
        read_json(tmp_path / "in.json", OptionsError, "fix it")
    assert caught.value.message.count("in.json: ") == 1
    assert caught.value.hint == "fix it"


def test_json_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": {"b": 1}, "b": "' + b"x" * (1 << 19) + b'"}')
    assert read_json(path, OptionsError, "")["a"] == {"b": 1}
    largest = b'"' + b"x" * ((1 << 20) - 2) + b'"'
    path.write_bytes(largest)
    assert len(read_json(path, OptionsError, "")) == (1 << 20) - 2
    path.write_bytes(largest + b" ")
    with pytest.raises(OptionsError, match="larger than 1 MiB"):
        read_json(path, OptionsError, "")
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none.json", OptionsError, "")
    with pytest.raises(OptionsError, match="can't be read"):
        read_json(tmp_path, OptionsError, "")


def locate_weights(path: Path) -> object:
    return locate(ModelSource(options=BUNDLED / "options.json", weights=path))


READERS = {
    "recipe": PretrainConfig.read,
    "sha256": sha256_of,
    "options": Options.from_file,
    "model": locate,
    "weights": locate_weights,
    "vocabulary": Vocabulary.read,
    "training log": read_run,
}


@pytest.mark.parametrize("reader", READERS)
def test_a_pipe_or_a_device_is_refused_at_once(reader: str, tmp_path: Path) -> None:
    """A pipe would be waited for, a device read until memory ends."""
    fifo = tmp_path / "fifo.json"
    device = tmp_path / "device.json"
    os.mkfifo(fifo)
    device.symlink_to("/dev/zero")
    for path in (fifo, device):
        with pytest.raises(ElmoError, match="not a regular file") as caught:
            READERS[reader](path)
        assert caught.value.hint
