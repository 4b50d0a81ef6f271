"""Killed runs: after `kill -9` a resumed run equals an uninterrupted one."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import made
from forked_command import ForkedElmo
from make_weights import MODELS
from tiny_run import log, write_texts

MACHINE = ["--batch-size", "8", "--bptt", "10", "--threads", "1"]
EVALUATIONS = ["--log-steps", "3", "--eval-steps", "4", "--keep-best"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "sizes.json").write_text(json.dumps(MODELS["tiny"]))
    return write_texts(tmp_path, 80)


def arguments(text: Path, out: Path, n_steps: int, *more: str) -> list[str]:
    names = [str(text), "-o", str(out), "--heldout", str(text.with_name("dev.txt"))]
    sizes = ["--options-file", str(text.with_name("sizes.json"))]
    limit = ["--max-steps", str(n_steps)]
    return ["pretrain", *names, *sizes, *MACHINE, *EVALUATIONS, *limit, *more]


def last_step(folder: Path) -> int:
    """The last step in the log, -1 before the first checkpoint."""
    if not (folder / "checkpoint.pt").exists():
        return -1
    path = folder / "log.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return json.loads(lines[-1])["step"] if lines else 0


def wait_for(folder: Path, step: int, process: ForkedElmo) -> None:
    deadline = time.monotonic() + 120
    while last_step(folder) < step and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)


def curve(folder: Path) -> list[dict[str, Any]]:
    """The log without times."""
    return [{name: line[name] for name in line if name != "seconds"} for line in log(folder)]


@pytest.mark.parametrize(
    ("n_kills", "n_steps", "negative_samples"),
    [
        (2, 18, "12"),
        pytest.param(10, 120, "12", marks=pytest.mark.slow),
        pytest.param(10, 120, "0", marks=pytest.mark.slow),
    ],
)
def test_resume_after_kill_gives_an_identical_run(
    n_kills: int, n_steps: int, negative_samples: str, text: Path, tmp_path: Path
) -> None:
    """Lost state, duplicate lines or a partial file would show in log or weights."""
    softmax = ("--negative-samples", negative_samples)
    whole = tmp_path / "whole"
    parts = tmp_path / "parts"
    made(*arguments(text, whole, n_steps, *softmax))
    chance = random.Random(n_kills)
    resume: tuple[str, ...] = ()
    for k in range(n_kills):
        process = ForkedElmo(*arguments(text, parts, n_steps, *softmax, *resume))
        wait_for(parts, (n_steps - 10) * k // n_kills, process)
        time.sleep(chance.random() * 0.1)
        process.kill()
        _, said = process.communicate()
        assert process.returncode == -signal.SIGKILL, said
        resume = ("--resume",)
    made(*arguments(text, parts, n_steps, *softmax, "--resume"))
    assert curve(parts) == curve(whole)
    for name in ("weights.hdf5", "softmax.hdf5"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes()


def test_a_signal_ends_a_run_that_resumes(text: Path, tmp_path: Path) -> None:
    """The step is finished and nothing is lost."""
    out = tmp_path / "model"
    process = ForkedElmo(*arguments(text, out, 100_000, "--eval-steps", "100000"))
    wait_for(out, 3, process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert f"error: {out}: stopped at step" in said
    assert "hint: the same command with `--resume`" in said
    step = curve(out)[-1]["step"]
    made("pretrain", "-o", out, "--resume", "--max-steps", step + 4)
    # A line every three steps, none twice and none missing, and one for the last steps.
    steps = [line["step"] for line in curve(out) if "loss" in line]
    assert steps == [*range(3, step + 4, 3), step + 4]
