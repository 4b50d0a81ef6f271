"""kill -9 at any moment, then `--resume`: the file of the undisturbed run, byte for byte.

Without these a killed run could lose sentences, hold some twice, or differ in a bit, and nobody
would know.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
from contextlib import suppress

import pytest
import torch

import elmo_cli.cli.embed_jobs  # noqa: F401  (imported once here rather than in every child)
from elmo_cli.cli.main import main
from elmo_cli.embed import blocks
from elmo_cli.errors import ResumeError
from elmo_cli.store.log_lines import read_log

N_BLOCKS = 3.3
WORDS = ["the", "of", "and", "river", "bank", "3,000", "naïve", "do", "n't", "北京", "x"]


def write_corpus(path, n_sentences):
    made = random.Random(5)
    lines = [" ".join(made.choices(WORDS, k=made.randint(0, 9))) for _ in range(n_sentences)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


class Run:
    """`elmo embed` in a child that shares this process's imports."""

    def __init__(self, args: list[str]) -> None:
        self.begun = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            torch.set_num_threads(1)
            try:
                main(["embed", *args])
            except SystemExit as done:
                os._exit(done.code)
            finally:
                os._exit(99)

    def wait(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)

    def kill(self) -> int:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return self.wait()


def committed(out) -> int:
    """Sentences that the log of OUT counts; -1 without a log."""
    try:
        return read_log(f"{out}.part").progress.sentences
    except (OSError, ResumeError):
        return -1


def digest(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def until(condition, limit_s=60.0):
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < limit_s
        time.sleep(0.004)
    return time.monotonic()


def until_started(out) -> float:
    """Wait for the unfinished output, or for OUT; the time then, in seconds."""
    part = out.with_name(f"{out.name}.part")
    return until(lambda: part.exists() or out.exists())


def until_committed(out, n_sentences: int) -> float:
    """Wait until a number of sentences is committed, or OUT exists; return the time in seconds."""
    return until(lambda: committed(out) >= n_sentences or out.exists())


def undisturbed(args, out, n_sentences):
    """Run without a kill; its digest, seconds of a block, seconds of its closing."""
    run = Run([*args, "-o", str(out)])
    first = until_started(out)
    last = until_committed(out, n_sentences)
    assert run.wait() == 0
    end = time.monotonic()
    return digest(out), (last - first) / N_BLOCKS, end - last


@pytest.mark.parametrize(
    ("layout", "n_kills", "n_of_a_block"),
    [
        ("allennlp", 5, 150),
        pytest.param("allennlp", 20, 1000, marks=pytest.mark.slow),
        pytest.param("flat", 20, 1000, marks=pytest.mark.slow),
    ],
)
def test_killed_anywhere_and_resumed(tiny, tmp_path, monkeypatch, layout, n_kills, n_of_a_block):
    monkeypatch.setattr(blocks, "SENTENCES", n_of_a_block)
    n_sentences = round(N_BLOCKS * n_of_a_block)
    corpus = tmp_path / "corpus.txt"
    write_corpus(corpus, n_sentences)
    args = [str(corpus), "-m", str(tiny), "--layout", layout, "--threads", "1", "--quiet"]
    wanted, block, closing = undisturbed(args, tmp_path / "whole.hdf5", n_sentences)
    chance = random.Random(len(layout) + n_kills)
    hit = closed = n = 0
    patience = 1.0  # of the measured times; less where the runs are faster than the undisturbed one
    while n < n_kills or hit < n_kills // 2:  # a kill that comes after the end tests nothing
        assert n < 4 * n_kills, f"only {hit} of {n} kills met the run"
        out = tmp_path / f"{n}.hdf5"
        run = Run([*args, "-o", str(out)])
        if n % 5 == 0:  # while it closes and renames
            until_committed(out, n_sentences)
            time.sleep(patience * chance.uniform(0, closing))
            closed += 1
        else:
            until_committed(out, chance.randrange(n_sentences))
            time.sleep(patience * chance.uniform(0, block))
        is_hit = run.kill() == -signal.SIGKILL
        hit += is_hit
        patience = min(1.0, patience * (1.25 if is_hit else 0.75))
        assert Run([*args, "-o", str(out), "--resume"]).wait() == 0
        assert digest(out) == wanted, f"kill {n}"
        assert sorted(p.name for p in tmp_path.glob(f"{n}.hdf5*")) == [out.name]
        out.unlink()
        n += 1
    print(f"{layout}: {n} kills, {hit} met the run, {closed} aimed at its close; all equal")
