"""Checkpoints: a corrupt, foreign or missing one is refused and changes nothing."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_run import SENTENCES, SETTINGS, equal, trainer, weights

from elmo_cli.errors import ResumeError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.pretrained.model_files import CHECKPOINT_FILE
from elmo_cli.text.vocabulary import Vocabulary

FIRST = replace(SETTINGS, dropout=0.1, max_steps=1)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A checkpoint after one step."""
    folder = tmp_path_factory.mktemp("run")
    trainer(folder, FIRST).train()
    return (folder / CHECKPOINT_FILE).read_bytes()


def loaded(content: bytes) -> dict[str, Any]:
    checkpoint: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True)
    return checkpoint


def not_a_checkpoint(content: bytes) -> bytes:
    return b"not a checkpoint"


def a_pickle(content: bytes) -> bytes:
    return pickle.dumps({"version": 6})


def cut_off(content: bytes) -> bytes:
    return content[: len(content) // 2]


def with_a_flipped_bit(content: bytes) -> bytes:
    """One bit of a large weight, which torch alone would read."""
    weight = loaded(content)["model"]["bilm.char_cnn.embedding.weight"]
    changed = bytearray(content)
    changed[content.index(weight.numpy().tobytes())] ^= 4
    return bytes(changed)


def stored_as_deflated(content: bytes) -> bytes:
    method = content.rindex(b"PK\x01\x02") + 10
    changed = bytearray(content)
    changed[method] = 8
    return bytes(changed)


def with_value(content: bytes, keys: tuple[str, ...], value: object) -> bytes:
    """The checkpoint with another value at nested keys."""
    checkpoint = loaded(content)
    part = checkpoint
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    file = io.BytesIO()
    torch.save(checkpoint, file)
    return file.getvalue()


def check_refused(content: bytes, folder: Path) -> None:
    """In one sentence, without the advice of torch to load it unsafely; nothing is changed."""
    path = folder / CHECKPOINT_FILE
    path.write_bytes(content)
    run = trainer(folder)
    before = weights(run)
    with pytest.raises(ResumeError) as caught:
        run.resume()
    assert caught.value.message == f"{path}: corrupt, or written by another version of elmo"
    assert "`overwrite=True`" in caught.value.hint
    assert equal(weights(run), before)


@pytest.mark.parametrize(
    "corrupt", [not_a_checkpoint, a_pickle, cut_off, with_a_flipped_bit, stored_as_deflated]
)
def test_a_corrupt_checkpoint_is_refused(
    corrupt: Callable[[bytes], bytes], content: bytes, tmp_path: Path
) -> None:
    check_refused(corrupt(content), tmp_path)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("version",), 5),
        (("version",), Path("code")),
        (("sampler_rng",), torch.zeros(3, dtype=torch.uint8)),
        (("progress", "more"), 1),
        (("progress", "step"), 1.5),
        (("progress", "state"), (torch.zeros(2, 2, 3, 16), torch.zeros(2, 2, 4, 32))),
        (("progress", "state"), (torch.zeros(2, 2, 4, 16), torch.zeros(2, 2, 3, 32))),
    ],
    ids=["version", "code", "random state", "unknown field", "half a step", "few h", "few c"],
)
def test_a_checkpoint_with_a_wrong_value_is_refused(
    keys: tuple[str, ...], value: object, content: bytes, tmp_path: Path
) -> None:
    check_refused(with_value(content, keys, value), tmp_path)


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


def test_a_checkpoint_of_another_text_or_vocabulary_is_refused(
    content: bytes, tmp_path: Path
) -> None:
    """A vocabulary of the same types in another order would give each type another's row."""
    (tmp_path / CHECKPOINT_FILE).write_bytes(content)
    run = trainer(tmp_path, FIRST)
    step = run.step
    types = step.model.vocabulary.types
    step.model = replace(step.model, vocabulary=Vocabulary([*types[:3], *reversed(types[3:])]))
    with pytest.raises(ResumeError, match="made with vocabulary "):
        run.resume()
    run = trainer(tmp_path, FIRST)
    run.step.corpus = Corpus.read([sentence[::-1] for sentence in SENTENCES])
    with pytest.raises(ResumeError, match="made with text "):
        run.resume()


def test_settings_and_devices_that_may_change(content: bytes, tmp_path: Path) -> None:
    """The random numbers of another kind of device have states of another length."""
    content = with_value(content, ("dropout_rng",), [torch.zeros(16, dtype=torch.uint8)])
    content = with_value(content, ("device",), "cuda")
    (tmp_path / CHECKPOINT_FILE).write_bytes(content)
    free = {"learning_rate": 1.0, "precision": "bf16", "log_steps": 1}
    other = {"batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": 3, "eval_steps": 2}
    run = trainer(tmp_path, replace(FIRST, **free, **other))
    run.resume()
    run.train()
    assert run.progress.step == 3
