"""Weight updates in parts: gradient accumulation, several processes, bfloat16."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from command_line import made
from disks import disk_of
from forked_command import ForkedElmo
from make_weights import MODELS
from tiny_run import (
    SENTENCES,
    SETTINGS,
    evaluations,
    log,
    losses,
    new_model,
    trainer,
    weights,
    write_texts,
)

from elmo_cli.errors import DeviceError, TrainingError, UsageError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.distributed import ProcessGroup, process_group
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.step import TrainStep
from elmo_cli.training.run_folder import LOG_FILE

STILL = replace(SETTINGS, dropout=0.0, log_steps=1, max_steps=8)
SAMPLED = replace(STILL, negative_samples=6)


@pytest.mark.parametrize("settings", [STILL, SAMPLED], ids=["full", "sampled"])
def test_gradient_accumulation_equals_a_larger_batch(
    settings: TrainSettings, tmp_path: Path
) -> None:
    whole = trainer(tmp_path / "whole", replace(settings, batch_size=4))
    parts = trainer(
        tmp_path / "parts", replace(settings, batch_size=2, gradient_accumulation_steps=2)
    )
    whole.train()
    parts.train()
    assert parts.progress.tokens == whole.progress.tokens
    assert losses(tmp_path / "parts") == pytest.approx(losses(tmp_path / "whole"), abs=1e-6)
    torch.testing.assert_close(weights(parts), weights(whole), atol=1e-5, rtol=0)


def command(out: Path, *more: str) -> list[str]:
    text = write_texts(out.parent, 60)
    sizes = out.with_name("sizes.json")
    sizes.write_text(json.dumps(MODELS["tiny"]))
    words = "--threads 1 --dropout 0 --max-steps 6 --log-steps 1"
    files = [str(text), "-o", str(out), "--heldout", str(text.with_name("dev.txt"))]
    return ["pretrain", *files, "--options-file", str(sizes), *words.split(), *more]


def compare(found: Path, expected: Path) -> None:
    """Compare losses and held-out perplexities of two runs."""
    assert losses(found) == pytest.approx(losses(expected), abs=1e-6)
    found_averages = [average for _, average in evaluations(found)]
    expected_averages = [average for _, average in evaluations(expected)]
    assert found_averages == pytest.approx(expected_averages, rel=1e-5)


def test_two_processes_equal_one(tmp_path: Path) -> None:
    """Gradients averaged, negative samples shared, clipped once."""
    with_one = tmp_path / "one"
    with_two = tmp_path / "two"
    sampled = ("--negative-samples", "8")
    first, second = run_two_processes(command(with_two, "--batch-size", "2", *sampled))
    assert (first.exit_code, second.exit_code) == (0, 0), first.stderr + second.stderr
    assert "trained on" in first.stderr
    assert "trained on" not in second.stderr
    made(*command(with_one, "--batch-size", "4", *sampled))
    compare(with_two, with_one)


def test_all_processes_fail_if_the_first_can_not_save(tmp_path: Path) -> None:
    """The others would wait for a process that is gone."""
    words = command(tmp_path / "two", "--batch-size", "2", "-q")
    with disk_of(20_000):
        first, second = run_two_processes(words)
    assert (first.exit_code, second.exit_code) == (1, 1)
    assert "checkpoint.pt: no space left (File too large)" in first.stderr
    assert second.stderr.splitlines()[0] == "error: the first process failed"


def test_the_other_process_ends_if_one_is_killed(tmp_path: Path) -> None:
    """With an error of ours: that of torch names a file of its source and a port."""
    out = tmp_path / "two"
    first, second = start_two_processes(command(out, "--batch-size", "2", "--max-steps", "100000"))
    while not (out / LOG_FILE).exists():
        assert first.poll() is None
        time.sleep(0.01)
    second.kill()
    assert second.wait() == -signal.SIGKILL
    _, stderr = first.communicate()
    assert first.returncode == 1
    error, hint = stderr.splitlines()[-2:]
    assert error == "error: another process of the run has ended"
    assert "`--resume`" in hint


class EndedProcess(NamedTuple):
    exit_code: int
    stderr: str


def run_two_processes(words: list[str]) -> list[EndedProcess]:
    """Run a command in two processes."""
    ended = []
    for process in start_two_processes(words):
        _, stderr = process.communicate()
        ended.append(EndedProcess(process.wait(), stderr))
    return ended


def start_two_processes(words: list[str]) -> list[ForkedElmo]:
    """Start a command in two processes, with the environment that torchrun gives them."""
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    processes = []
    for rank in ("0", "1"):
        own = {**group, "RANK": rank, "LOCAL_RANK": rank}
        processes.append(ForkedElmo(*words, environment=own))
    return processes


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


@pytest.mark.slow
def test_torchrun_and_a_resumed_run(tmp_path: Path) -> None:
    """The second part of a run has as many processes, or one with all streams."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m"]
    with_one = tmp_path / "one"
    with_two = tmp_path / "two"
    for words in (["--max-steps", "3"], ["--max-steps", "6", "--resume"]):
        arguments = command(with_two, "--batch-size", "2", *words)
        ended = subprocess.run([*launcher, "elmo_cli", *arguments], capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        made(*command(with_one, "--batch-size", "4", *words))
    compare(with_two, with_one)
    made(*command(with_two, "--batch-size", "4", "--max-steps", "8", "--resume"))
    assert log(with_two)[-1]["step"] == 8


@pytest.mark.parametrize(
    ("world_size", "device", "error", "message"),
    [
        ("1", "cuda", DeviceError, "device=cuda"),
        ("2", "cuda:1", UsageError, "`device=cuda:1`: one device for 2 processes"),
        ("2", "cpu", TrainingError, "the 2 processes can't find each other"),
        ("two", "cpu", UsageError, r"\$WORLD_SIZE: `two` is not a number of processes"),
        ("0", "cpu", UsageError, r"\$WORLD_SIZE: `0` is not a number of processes"),
        ("", "cuda", DeviceError, "device=cuda"),
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


def test_a_process_that_never_starts_is_not_awaited_for_hours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An evaluation may take that long, but a process is started within minutes."""
    monkeypatch.setattr("elmo_cli.lm.distributed._JOIN_TIMEOUT", timedelta(seconds=1))
    group = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    for name, value in group.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TrainingError, match="can't find each other"), process_group("cpu"):
        pass


class OneOfTwo(ProcessGroup):
    """A process of two; the numbers of the other one are given."""

    def __init__(self, rank: int, of_other: list[float]) -> None:
        super().__init__(rank, 2)
        self.of_other = of_other

    def _sum(self, values: list[float]) -> list[float]:
        return [own + other for own, other in zip(values, self.of_other, strict=True)]


def test_numbers_are_those_of_the_first_process_and_any_may_stop() -> None:
    """A signal reaches one of them, and the others would wait for it."""
    assert OneOfTwo(0, [0, 0, 0]).from_first([5.0, 7.0], stop=False) == ([5, 7], False)
    assert OneOfTwo(0, [0, 0, 1]).from_first([5.0, 7.0], stop=False) == ([5, 7], True)
    assert OneOfTwo(1, [3, 4, 0]).from_first([5.0, 7.0], stop=False) == ([3, 4], False)
    assert OneOfTwo(1, [3, 4, 0]).from_first([5.0, 7.0], stop=True) == ([3, 4], True)
    assert OneOfTwo(0, [1.0]).mean(3.0) == 2
    done: list[int] = []
    OneOfTwo(0, [0.0]).run_on_first(lambda: done.append(0))
    OneOfTwo(1, [0.0]).run_on_first(lambda: done.append(1))
    assert done == [0]


def step_of(rank: int, size: int) -> TrainStep:
    corpus = Corpus.read(SENTENCES)
    return TrainStep(new_model(corpus), corpus, SAMPLED, ProcessGroup(rank, size))


def test_processes_share_negative_samples_and_no_dropout_masks() -> None:
    """Equal masks would be one mask for all streams; each reads streams of its own."""
    steps = [step_of(rank, 2) for rank in (0, 1)]
    assert [step.own_streams for step in steps] == [slice(0, 4), slice(4, 8)]
    first, second = (step._sampler_rng.get_state() for step in steps)
    assert torch.equal(first, second)
    masks = [step._dropout.generator.get_state() for step in steps]
    assert not torch.equal(*masks)
    saved = {**step_of(0, 1).state_dict(), "dropout_rng": masks[::-1]}
    for step, mask in zip(steps, masks[::-1], strict=True):
        step.load_state_dict(saved, 3)
        assert torch.equal(step._dropout.generator.get_state(), mask)
    saved["dropout_rng"] = masks[:1]  # of another number of processes
    steps[0].load_state_dict(saved, 3)
    after_three = steps[0]._dropout.generator.get_state()
    steps[0].load_state_dict(saved, 4)
    after_four = steps[0]._dropout.generator.get_state()
    states = [masks[0], after_three, after_four]
    assert not any(torch.equal(*pair) for pair in combinations(states, 2))


@pytest.mark.parametrize(
    ("device", "selected", "backend", "own"),
    [
        ("cuda", ["cuda", "cuda:1"], "nccl", [torch.device("cuda:1")]),
        ("cpu", ["cpu"], "gloo", []),
    ],
)
def test_each_process_has_a_gpu_of_its_own(
    device: str,
    selected: list[str],
    backend: str,
    own: list[torch.device],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That of its number on its machine, which is not its number among all."""
    names: list[str] = []
    backends: list[str] = []
    devices: list[torch.device] = []

    def select(name: str) -> torch.device:
        names.append(name)
        return torch.device(name)

    def join(name: str, **others: object) -> None:
        backends.append(name)
        raise ValueError("no others")

    for name, value in (("WORLD_SIZE", "4"), ("RANK", "3"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("elmo_cli.lm.distributed.select_device", select)
    monkeypatch.setattr(torch.cuda, "set_device", devices.append)
    joined = [(None, 3, 4)]  # store, rank and number of processes
    monkeypatch.setattr("elmo_cli.lm.distributed.rendezvous", lambda *_, **__: iter(joined))
    monkeypatch.setattr(torch.distributed, "init_process_group", join)
    message = r"the 4 processes can't find each other \(no others\)"
    with pytest.raises(TrainingError, match=message), process_group(device):
        pass
    assert (names, backends, devices) == (selected, [backend], own)


def test_bfloat16_is_close_to_float32(tmp_path: Path) -> None:
    """Products may lose digits, cells and sums may not."""
    settings = replace(SAMPLED, max_steps=40, learning_rate=0.05, warmup_steps=10)
    for precision in ("float32", "bf16"):
        run = trainer(tmp_path / precision, replace(settings, precision=precision))
        run.train()
        assert {weight.dtype for weight in weights(run)} == {torch.float32}
    float32 = losses(tmp_path / "float32")
    bf16 = losses(tmp_path / "bf16")
    assert bf16 != float32
    assert bf16[0] == pytest.approx(float32[0], abs=0.02)
    assert bf16[-1] <= 1.1 * float32[-1]
    assert bf16[-1] < 0.8 * bf16[0]
