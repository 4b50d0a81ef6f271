"""Weight updates in parts: gradient accumulation, several processes, bfloat16."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import made
from disks import disk_of
from tiny_run import SETTINGS, evaluations, log, trainer, weights, write_texts

from elmo_cli.errors import DeviceError, TrainingError, UsageError
from elmo_cli.lm.distributed import process_group
from elmo_cli.lm.settings import TrainSettings

STILL = replace(SETTINGS, dropout=0.0, log_steps=1, max_steps=8)
SAMPLED = replace(STILL, negative_samples=6)


def losses(folder: Path) -> list[float]:
    return [line["loss"] for line in log(folder) if "loss" in line]


@pytest.mark.parametrize("settings", [STILL, SAMPLED], ids=["full", "sampled"])
def test_gradient_accumulation_equals_a_larger_batch(
    settings: TrainSettings, tmp_path: Path
) -> None:
    whole = trainer(tmp_path / "whole", replace(settings, batch_size=4))
    parts = trainer(
        tmp_path / "parts", replace(settings, batch_size=2, gradient_accumulation_steps=2)
    )
    for one in (whole, parts):
        one.train()
    assert parts.progress.tokens == whole.progress.tokens
    assert losses(tmp_path / "parts") == pytest.approx(losses(tmp_path / "whole"), abs=1e-6)
    torch.testing.assert_close(weights(parts), weights(whole), atol=1e-5, rtol=0)


def command(out: Path, *more: str) -> list[str]:
    text = write_texts(out.parent, 90)
    words = "--lstm-dim 24 --projection-dim 12 --threads 1 --dropout 0 --max-steps 6 --log-steps 1"
    files = [str(text), "-o", str(out), "--heldout", str(text.with_name("dev.txt"))]
    return ["pretrain", *files, *words.split(), *more]


def compare(two: Path, one: Path) -> None:
    """Compare losses and held-out perplexities of two runs."""
    assert losses(two) == pytest.approx(losses(one), abs=1e-6)
    averages = [[average for _, average in evaluations(run)] for run in (two, one)]
    assert averages[0] == pytest.approx(averages[1], rel=1e-5)


def test_two_processes_equal_one(tmp_path: Path) -> None:
    """Gradients averaged, negative samples shared, clipped once."""
    one, two, sampled = tmp_path / "one", tmp_path / "two", ("--negative-samples", "8")
    (first, said), (second, others) = run_two_processes(command(two, "--batch-size", "2", *sampled))
    assert (first, second) == (0, 0), said + others
    assert "trained on" in said
    assert "trained on" not in others
    made(*command(one, "--batch-size", "4", *sampled))
    compare(two, one)


def test_all_processes_fail_if_the_first_can_not_save(tmp_path: Path) -> None:
    """The others would wait for a process that is gone."""
    words = command(tmp_path / "two", "--batch-size", "2", "-q")
    with disk_of(20_000):
        (first, said), (second, others) = run_two_processes(words)
    assert (first, second) == (1, 1)
    assert "checkpoint.pt: no space left (File too large)" in said
    assert others.splitlines()[0] == "error: the first process failed"


def run_two_processes(words: list[str]) -> list[tuple[int, str]]:
    """Two processes of one run: the exit code and stderr of each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "elmo_cli", *words],
            env={**os.environ, **group, "RANK": rank, "LOCAL_RANK": rank},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in ("0", "1")
    ]
    said = [process.communicate(timeout=240)[1] for process in processes]
    return [(process.returncode, err) for process, err in zip(processes, said, strict=True)]


@pytest.mark.slow
def test_torchrun_and_a_resumed_run(tmp_path: Path) -> None:
    """The second part of a run has as many processes, or one with all streams."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m"]
    two, one = tmp_path / "two", tmp_path / "one"
    for words in (["--max-steps", "3"], ["--max-steps", "6", "--resume"]):
        arguments = command(two, "--batch-size", "2", *words)
        done = subprocess.run([*launcher, "elmo_cli", *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        made(*command(one, "--batch-size", "4", *words))
    compare(two, one)
    made(*command(two, "--batch-size", "4", "--max-steps", "8", "--resume"))
    assert log(two)[-1]["step"] == 8


@pytest.mark.parametrize(
    ("world_size", "device", "error", "message"),
    [
        ("1", "cuda", DeviceError, "device=cuda"),
        ("2", "cuda:1", UsageError, "`device=cuda:1`: one device for 2 processes"),
        ("2", "cpu", TrainingError, "the 2 processes can't find each other"),
    ],
)
def test_an_incomplete_torchrun_environment_is_refused(
    world_size: str,
    device: str,
    error: type[Exception],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """WORLD_SIZE left over in a shell ends neither in a traceback nor in an endless wait."""
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", world_size)
    if ":" in device:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    with pytest.raises(error, match=message), process_group(device):
        pass


def test_bfloat16_is_close_to_float32(tmp_path: Path) -> None:
    """Products may lose digits, cells and sums may not."""
    settings = replace(SAMPLED, max_steps=40, learning_rate=0.05, warmup_steps=10)
    found: dict[str, Any] = {}
    for precision in ("float32", "bf16"):
        run = trainer(tmp_path / precision, replace(settings, precision=precision))
        run.train()
        assert {weight.dtype for weight in weights(run)} == {torch.float32}
        found[precision] = losses(tmp_path / precision)
    assert found["bf16"] != found["float32"]
    assert found["bf16"][0] == pytest.approx(found["float32"][0], abs=0.02)
    assert found["bf16"][-1] <= 1.1 * found["float32"][-1]
    assert found["bf16"][-1] < 0.8 * found["bf16"][0]
