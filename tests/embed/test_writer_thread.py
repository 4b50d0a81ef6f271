"""The threads of a run: their order, Ctrl-C, errors."""

from __future__ import annotations

import errno
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
from elmo_cli.errors import OutputError
from elmo_cli.store import block_log
from elmo_cli.store.block_log import BlockLog
from elmo_cli.store.log_lines import read_log
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
    commit = BlockLog._commit

    def slow(self: BlockLog, *args: Any) -> None:
        events.append("begin")
        meanwhile()
        time.sleep(seconds)
        commit(self, *args)
        events.append("end")

    monkeypatch.setattr(BlockLog, "_commit", slow)
    return events


def test_a_block_is_computed_while_the_one_before_is_written(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory holds both, but no third one."""
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


def test_checksums_of_a_block_are_computed_while_the_one_before_is_written(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the thread that writes would wait for them between two blocks."""
    is_second_handed_over = threading.Event()
    append = BlockLog.append
    n_handed_over = 0

    def handing_over(self: BlockLog, *args: Any, **facts: Any) -> Any:
        nonlocal n_handed_over
        commit = append(self, *args, **facts)
        n_handed_over += 1
        if n_handed_over == 2:
            is_second_handed_over.set()
        return commit

    def wait() -> None:
        assert is_second_handed_over.wait(timeout=10)

    monkeypatch.setattr(BlockLog, "append", handing_over)
    slow_commits(monkeypatch, 0, wait)
    run_job(job)


@pytest.mark.parametrize("n_presses", [1, 3])
def test_ctrl_c_waits_for_the_blocks_that_are_computed(
    n_presses: int, job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = threading.main_thread().ident or 0

    def press() -> None:
        if events == ["begin"]:
            for _ in range(n_presses):
                time.sleep(0.05)
                signal.pthread_kill(main, signal.SIGINT)

    events = slow_commits(monkeypatch, 0.1, press)
    with pytest.raises(KeyboardInterrupt):
        run_job(job)
    n_committed = events.count("end")
    assert events == ["begin", "end"] * n_committed
    assert n_committed in (1, 2)
    assert read_log(f"{job.output}.part").progress.blocks == n_committed
    monkeypatch.undo()
    monkeypatch.setattr(blocks, "SENTENCES", 8)
    summary = run_job(replace(job, resume=True))
    assert 0 < summary.computed < summary.tokens


@pytest.mark.parametrize("n_good", [0, 1, N_BLOCKS - 1])
@pytest.mark.parametrize("step", ["_write_chunk", "_commit"])
def test_an_error_of_the_system_ends_the_run(
    step: str, n_good: int, job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No later block is committed, though its values are handed over already."""
    name = {"_write_chunk": "write_chunk", "_commit": "write_at"}[step]
    write = getattr(block_log, name)

    def fill(descriptor: int, *args: Any) -> Any:
        if logs[0].progress.blocks == n_good and (step == "_write_chunk" or is_line(args[0])):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, *args)

    def is_line(content: bytes) -> bool:
        return b'"sentences"' in content

    logs: list[BlockLog] = []
    create = BlockLog.create

    def creating(self: BlockLog, *args: Any, **options: Any) -> None:
        logs.append(self)
        create(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(BlockLog, "create", creating)
        patch.setattr(block_log, name, fill)
        with pytest.raises(OutputError, match="No space left") as caught:
            run_job(job)
    assert caught.value.resumable == (n_good > 0)
    assert not Path(job.output).exists()
    part = Path(f"{job.output}.part")
    assert part.exists() == (n_good > 0)
    if n_good:
        assert read_log(part).progress.blocks == n_good
    summary = run_job(replace(job, resume=True))
    assert (summary.computed < summary.tokens) == (n_good > 0)


@pytest.mark.parametrize("n_good", [1, 2, N_BLOCKS - 1])
def test_an_error_while_checksums_are_computed_keeps_the_blocks_before(
    n_good: int, job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are still being written then, and the block after it is computed already."""
    append = EmbeddingsWriter.append_block
    n_appended = 0

    def failing(self: EmbeddingsWriter, *args: Any, **facts: Any) -> Any:
        nonlocal n_appended
        n_appended += 1
        if n_appended == n_good + 1:
            raise OutputError("a value is beyond the range", "")
        return append(self, *args, **facts)

    slow_commits(monkeypatch, 0.05)
    monkeypatch.setattr(EmbeddingsWriter, "append_block", failing)
    with pytest.raises(OutputError, match="beyond the range"):
        run_job(job)
    assert read_log(f"{job.output}.part").progress.blocks == n_good


def test_an_error_of_the_display_of_progress_ends_the_run(job: EmbedJob) -> None:
    """The thread that writes calls it; nobody would see the error."""

    def show(done: int, total: int | None) -> None:
        if done:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run_job(job, progress=show)
    assert read_log(f"{job.output}.part").progress.blocks == 1
