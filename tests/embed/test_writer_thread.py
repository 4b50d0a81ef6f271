"""The writer thread of a run: one commit at a time, Ctrl-C, errors."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_jobs import N_BLOCKS

from elmo_cli.embed import blocks
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import run_job
from elmo_cli.store.writer import EmbeddingsWriter

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.usefixtures("small_blocks"),
]


def do_nothing() -> None:
    """Happens while a block is committed, unless a test has something better."""


def slow_commits(
    monkeypatch: pytest.MonkeyPatch, seconds: float, meanwhile: Callable[[], None] = do_nothing
) -> list[str]:
    """Let each commit take a while; what began and ended."""
    events: list[str] = []
    append = EmbeddingsWriter.append_block

    def slow(self: EmbeddingsWriter, *args: Any, **facts: Any) -> None:
        assert events.count("begin") == events.count("end")  # one at a time
        events.append("begin")
        meanwhile()
        time.sleep(seconds)
        append(self, *args, **facts)
        events.append("end")

    monkeypatch.setattr(EmbeddingsWriter, "append_block", slow)
    return events


def test_a_block_is_written_while_the_next_one_is_computed(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = slow_commits(monkeypatch, 0.05)
    embed_block = Embedder.embed_block

    def computing(self: Embedder, *args: Any, **settings: Any) -> Any:
        events.append("compute")
        return embed_block(self, *args, **settings)

    monkeypatch.setattr(Embedder, "embed_block", computing)
    run_job(job)
    computed_before = [
        events[:i].count("compute") for i, event in enumerate(events) if event == "end"
    ]
    assert computed_before == [min(k + 2, N_BLOCKS) for k in range(N_BLOCKS)]


@pytest.mark.parametrize("n_presses", [1, 3])
def test_ctrl_c_waits_for_the_commit(
    n_presses: int, job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = threading.main_thread().ident or 0

    def press() -> None:
        for _ in range(n_presses):
            time.sleep(0.05)
            signal.pthread_kill(main, signal.SIGINT)

    events = slow_commits(monkeypatch, 0.1, press)
    with pytest.raises(KeyboardInterrupt):
        run_job(job)
    assert events == ["begin", "end"]
    monkeypatch.undo()
    monkeypatch.setattr(blocks, "SENTENCES", 8)
    summary = run_job(replace(job, resume=True))
    assert 0 < summary.computed < summary.tokens


@pytest.mark.parametrize("n_good", [0, N_BLOCKS - 1])
def test_an_error_of_the_writer_ends_the_run(
    n_good: int, job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = EmbeddingsWriter.append_block
    n_written = 0

    def fill(self: EmbeddingsWriter, *args: Any, **facts: Any) -> None:
        nonlocal n_written
        if n_written == n_good:
            raise OSError(28, os.strerror(28))
        n_written += 1
        append(self, *args, **facts)

    monkeypatch.setattr(EmbeddingsWriter, "append_block", fill)
    with pytest.raises(OSError, match="No space left"):
        run_job(job)
    assert not Path(job.output).exists()
