"""Weight updates in parts: gradient accumulation, several processes, bfloat16, no memory."""

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
from click.testing import CliRunner
from disks import disk_of
from tiny_run import SETTINGS, evaluations, log, trainer, weights, write_texts

from elmo_cli.cli.main import cli
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
    for one, other in zip(weights(parts), weights(whole), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


SIZES = ["--lstm-dim", "24", "--projection-dim", "12", "--threads", "1", "--dropout", "0"]


def command(text: Path, out: Path, *more: str) -> list[str]:
    heldout = str(text.with_name("dev.txt"))
    ends = ["--max-steps", "6", "--log-steps", "1", "--heldout", heldout]
    return ["pretrain", str(text), "-o", str(out), *SIZES, *ends, *more]


def compare(two: Path, one: Path) -> None:
    """Compare losses and held-out perplexities of two runs."""
    assert losses(two) == pytest.approx(losses(one), abs=1e-6)
    averages = [[average for _, average in evaluations(run)] for run in (two, one)]
    assert averages[0] == pytest.approx(averages[1], rel=1e-5)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_texts(tmp_path, 90)


def test_two_processes_equal_one(text: Path, tmp_path: Path) -> None:
    """Gradients averaged, negative samples shared, clipped once."""
    sampled = ["--negative-samples", "8"]
    (first, said), (second, others) = run_two_processes(
        command(text, tmp_path / "two", "--batch-size", "2", *sampled)
    )
    assert (first, second) == (0, 0), said + others
    assert "trained on" in said
    assert "trained on" not in others
    done = CliRunner().invoke(cli, command(text, tmp_path / "one", "--batch-size", "4", *sampled))
    assert done.exit_code == 0, done.output
    compare(tmp_path / "two", tmp_path / "one")


def test_all_processes_fail_if_the_first_can_not_save(text: Path, tmp_path: Path) -> None:
    """The others would wait for a process that is gone."""
    with disk_of(20_000):
        (first, said), (second, others) = run_two_processes(
            command(text, tmp_path / "two", "--batch-size", "2", "-q")
        )
    assert (first, second) == (1, 1)
    assert "checkpoint.pt: no space left (File too large)" in said
    assert others.splitlines()[0] == "error: the first process failed"


def run_two_processes(words: list[str]) -> list[tuple[int, str]]:
    """Two processes of one run: the exit code and stderr of each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "elmo_cli", *words],
            env={
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=240)[1] for process in processes]
    return [(process.returncode, err) for process, err in zip(processes, said, strict=True)]


@pytest.mark.slow
def test_torchrun_and_a_resumed_run(text: Path, tmp_path: Path) -> None:
    """The second part of a run has as many processes, or one with all streams."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m"]
    two, one = tmp_path / "two", tmp_path / "one"
    for n_steps, resume in (("3", []), ("6", ["--resume"])):
        arguments = [*command(text, two, "--batch-size", "2"), "--max-steps", n_steps, *resume]
        done = subprocess.run([*launcher, "elmo_cli", *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    for n_steps, resume in (("3", []), ("6", ["--resume"])):
        arguments = [*command(text, one, "--batch-size", "4"), "--max-steps", n_steps, *resume]
        assert CliRunner().invoke(cli, arguments).exit_code == 0
    compare(two, one)
    arguments = [*command(text, two, "--batch-size", "4"), "--max-steps", "8", "--resume"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
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


LIMITED = """
import resource, sys
from dataclasses import replace
from pathlib import Path
from test_distributed import STILL
from tiny_run import trainer
from elmo_cli.errors import DeviceError

run = trainer(Path(sys.argv[1]), replace(STILL, batch_size=4, max_steps=1), lstm_dim=1 << 13)
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (8 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
try:
    run.train()
except DeviceError as error:
    print(error.message, error.hint, sep="\\n")
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_out_of_memory_names_the_settings_that_save_some(tmp_path: Path) -> None:
    """In its own process, because oneDNN keeps failing in one that ran out of memory once."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    message, _, hint = done.stdout.partition("\n")
    assert message.startswith("step 1: out of memory on cpu with 4 streams"), done
    assert "half the `batch_size` and twice the `gradient_accumulation_steps`" in hint
