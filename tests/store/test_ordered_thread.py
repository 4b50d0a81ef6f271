"""OrderedThread: order, errors, Ctrl-C; and a run of EmbeddingsWriter that uses no thread."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from writer_runs import WAYS, array, run, sentences, spec

from elmo_cli.store import block_log, block_values
from elmo_cli.store.ordered_thread import OrderedThread
from elmo_cli.store.writer import EmbeddingsWriter


class CallsAtOnce:
    """The plain way: each call is made when it is submitted, in the thread of the caller."""

    is_idle = True

    def __init__(self, max_waiting: int) -> None:
        """No call waits."""

    def submit(self, call: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(call(*args))
        return future

    def wait(self) -> None:
        """All calls are finished."""

    def close(self) -> None:
        """There is no thread."""


def append_all(out: Path, way: str) -> None:
    """Write a file of several blocks, none of which is waited for."""
    everything = sentences(12, way)
    with EmbeddingsWriter.open(out, spec(way)) as writer:
        for begin in range(0, 12, 3):
            block = everything[begin : begin + 3]
            arrays = [array(sentence, way) for sentence in block]
            writer.append_block(block, arrays, text_sha256=f"{begin}")
        writer.finish({"text_sha256": "all"})


@pytest.mark.parametrize("way", WAYS)
def test_a_thread_writes_the_bytes_of_a_run_without_one(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks and lines of several blocks wait for the thread at the same time."""
    monkeypatch.setattr(block_values, "_CHUNK_BYTES", 1)
    monkeypatch.setattr(block_values, "_MAX_CHUNK_BYTES", 100)
    write_chunk = block_log.write_chunk

    def slow(*args: Any) -> None:
        time.sleep(0.002)
        write_chunk(*args)

    monkeypatch.setattr(block_log, "write_chunk", slow)
    append_all(tmp_path / "thread.hdf5", way)
    monkeypatch.setattr(block_log, "OrderedThread", CallsAtOnce)
    append_all(tmp_path / "plain.hdf5", way)
    assert (tmp_path / "thread.hdf5").read_bytes() == (tmp_path / "plain.hdf5").read_bytes()


@pytest.mark.parametrize("finish", [False, True])
def test_blocks_that_nobody_waited_for_are_committed(finish: bool, out: Path) -> None:
    """Leaving the `with` commits them too."""
    everything = sentences(6, "flat")
    with EmbeddingsWriter.open(out, spec("flat")) as writer:
        for sentence in everything:
            writer.append_block([sentence], [array(sentence)], text_sha256="")
        if finish:
            writer.finish({})
    assert (writer.progress.blocks, writer.progress.sentences) == (6, 6)
    run(out, "flat", n=6, resume=True)


def test_finish_raises_the_error_of_a_commit(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file would lack blocks."""

    def fail(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    block = sentences(2, "flat")
    with EmbeddingsWriter.open(out, spec("flat")) as writer:
        monkeypatch.setattr(block_log, "write_chunk", fail)
        failed = writer.append_block(block[:1], [array(block[0])], text_sha256="")
        monkeypatch.undo()
        later = writer.append_block(block[1:], [array(block[1])], text_sha256="")
        for commit in (failed.result, later.result, lambda: writer.finish({})):
            with pytest.raises(Exception, match="Input/output error"):
                commit()
        assert writer.progress.blocks == 0
    assert not out.exists()


def test_calls_are_made_in_order() -> None:
    made: list[int] = []
    with closing(OrderedThread(max_waiting=100)) as thread:
        assert thread.is_idle
        for number in range(100):
            thread.submit(made.append, number)
        thread.wait()
        assert thread.is_idle
        assert thread.submit(len, made).result() == 100
    assert made == list(range(100))


def test_only_some_calls_wait() -> None:
    """Each holds values, which a slow disk would let pile up in memory."""
    is_free = threading.Event()
    n_submitted = 0
    thread = OrderedThread(max_waiting=2)

    def submit_all() -> None:
        nonlocal n_submitted
        for _ in range(6):
            thread.submit(is_free.wait)
            n_submitted += 1

    caller = threading.Thread(target=submit_all)
    caller.start()
    time.sleep(0.1)
    n_at_first = n_submitted
    is_free.set()
    caller.join()
    thread.close()
    assert (n_at_first, n_submitted) == (3, 6)  # one of the three is being made


def test_no_call_is_made_after_one_that_failed() -> None:
    made: list[int] = []
    error = ValueError("first")
    thread = OrderedThread(max_waiting=100)

    def fail() -> None:
        raise error

    futures = [
        thread.submit(made.append, 1),
        thread.submit(fail),
        thread.submit(made.append, 2),
        thread.submit(made.append, 3),
    ]
    assert [future.exception() for future in futures] == [None, error, error, error]
    with pytest.raises(ValueError, match="first"):
        thread.wait()
    thread.close()
    assert made == [1]


def test_ctrl_c_while_the_thread_is_closed_interrupts_no_call() -> None:
    made: list[int] = []
    main = threading.main_thread().ident or 0
    thread = OrderedThread(max_waiting=100)

    def press() -> None:
        for _ in range(3):
            time.sleep(0.02)
            signal.pthread_kill(main, signal.SIGINT)
        time.sleep(0.05)
        made.append(1)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    thread.submit(press)
    thread.close()
    assert made == [1]
