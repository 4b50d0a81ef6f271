"""Checkpoints: a corrupt, foreign or missing one is refused and changes nothing."""

from __future__ import annotations

import contextlib
import io
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_run import SETTINGS, equal, trainer, weights

from elmo_cli.errors import ResumeError
from elmo_cli.pretrained.model_files import CHECKPOINT_FILE
from elmo_cli.training.tensors import write_tensors

FIRST = replace(SETTINGS, dropout=0.1, max_steps=1)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A checkpoint after one step."""
    folder = tmp_path_factory.mktemp("run")
    trainer(folder, FIRST).train()
    return (folder / CHECKPOINT_FILE).read_bytes()


def loaded(content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True)
    return found


def flipped(content: bytes) -> bytes:
    """One bit of a large weight, which torch alone would read."""
    start = content.index(
        loaded(content)["model"]["bilm.char_cnn.embedding.weight"].numpy().tobytes()
    )
    return content[:start] + bytes([content[start] ^ 4]) + content[start + 1 :]


def stored_as_deflated(content: bytes) -> bytes:
    method = content.rindex(b"PK\x01\x02") + 10
    return content[:method] + bytes([8]) + content[method + 1 :]


def changed(*keys: str, value: object) -> Callable[[bytes], bytes]:
    """The checkpoint with another value at nested keys."""

    def change(content: bytes) -> bytes:
        part = whole = loaded(content)
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value
        file = io.BytesIO()
        torch.save(whole, file)
        return file.getvalue()

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"not a checkpoint",
        lambda content: pickle.dumps({"version": 6}),
        lambda content: content[: len(content) // 2],
        flipped,
        stored_as_deflated,
        changed("version", value=5),
        changed("version", value=Path("code")),
        changed("sampler_rng", value=torch.zeros(3, dtype=torch.uint8)),
        changed("progress", "more", value=1),
    ],
    ids=[*"abcdefghi"],
)
def test_a_corrupt_checkpoint_is_refused(
    change: Callable[[bytes], bytes], content: bytes, tmp_path: Path
) -> None:
    """In one sentence, without the advice of torch to load it unsafely."""
    (tmp_path / CHECKPOINT_FILE).write_bytes(change(content))
    run = trainer(tmp_path)
    before = weights(run)
    with pytest.raises(ResumeError) as caught:
        run.resume()
    what = f"{tmp_path / CHECKPOINT_FILE}: corrupt, or written by another version of elmo"
    assert caught.value.message == what
    assert "`overwrite=True`" in caught.value.hint
    assert equal(weights(run), before)


@pytest.mark.parametrize(
    ("settings", "options", "name"),
    [
        ({"seed": 9}, {}, "seed 0, now 9"),
        ({"batch_size": 2}, {}, "batch_size 4, now 2"),
        ({"shuffle": "documents"}, {}, "shuffle sentences, now documents"),
        ({"keep_best": True}, {}, "keep_best False, now True"),
        ({}, {"lstm_dim": 24}, "options "),
        ({}, {"has_lstm_projection": False, "lstm_dim": 16}, "options "),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(
    settings: dict[str, Any], options: dict[str, Any], name: str, content: bytes, tmp_path: Path
) -> None:
    with pytest.raises(ResumeError, match=r"checkpoint\.pt: missing"):
        trainer(tmp_path).resume()
    (tmp_path / CHECKPOINT_FILE).write_bytes(content)
    with pytest.raises(ResumeError, match=f"made with {name}"):
        trainer(tmp_path, replace(FIRST, **settings), **options).resume()


def test_settings_and_devices_that_may_change(content: bytes, tmp_path: Path) -> None:
    """The random numbers of another kind of device have states of another length."""
    content = changed("dropout_rng", value=[torch.zeros(16, dtype=torch.uint8)])(content)
    (tmp_path / CHECKPOINT_FILE).write_bytes(changed("device", value="cuda")(content))
    free = {"learning_rate": 1.0, "precision": "bf16", "log_steps": 1}
    other = {"batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": 3, "eval_steps": 2}
    run = trainer(tmp_path, replace(FIRST, **free, **other))
    run.resume()
    run.train()
    assert run.progress.step == 3


def test_ctrl_c_is_not_reported_as_an_error_of_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The zip writer of torch raises its own RuntimeError after the interrupt."""

    class Interrupted(io.BytesIO):
        def write(self, data: Any) -> int:
            if self.tell() > 1_000:
                raise KeyboardInterrupt
            return super().write(data)

    file = contextlib.nullcontext(Interrupted())
    monkeypatch.setattr("elmo_cli.lm.checkpoint.new_file", lambda *_, **__: file)
    with pytest.raises(KeyboardInterrupt):
        write_tensors(tmp_path / "a.pt", torch.zeros(1_000))
