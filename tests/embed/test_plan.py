"""What a dry run reports: sizes, free space, time; and how a text is divided into shards."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.embed import blocks, plan
from elmo_cli.embed.blocks import BlockInfo, TextScan, TextTotals, scan_text
from elmo_cli.embed.job import EmbedderSettings, EmbedJob
from elmo_cli.embed.plan import (
    FileSize,
    TimedChunk,
    estimate_bytes,
    plan_job,
    space_problem,
    speed_of_full_batch,
)
from elmo_cli.embed.run import make_embedder, run_job
from elmo_cli.errors import InputError
from elmo_cli.messages import format_bytes
from elmo_cli.pretrained.load import ModelSource
from elmo_cli.store.shard_number import ShardNumber
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.input import InputReport, InputSettings
from elmo_cli.text.sentence import Sentence

STARTS = st.lists(st.booleans(), max_size=40)


def scan_of_blocks(starts: list[bool]) -> TextScan:
    """A scan of blocks of one sentence and one token; a block starts a document or not."""
    infos = [
        BlockInfo(
            n_sentences=1,
            n_tokens=1,
            first_key=3 + 2 * number,
            starts_document=starts_document,
            text_sha256="",
        )
        for number, starts_document in enumerate(starts)
    ]
    return TextScan(tuple(infos), InputReport(n_keys=99))


@given(STARTS, st.integers(1, 12), st.sampled_from(["zero", "warm", "document"]))
def test_shards_have_every_block_once(starts: list[bool], n_shards: int, state: str) -> None:
    scan = scan_of_blocks(starts)
    shards = [
        scan.shard(ShardNumber(number, n_shards), state=state) for number in range(1, n_shards + 1)
    ]
    assert [block for shard in shards for block in shard] == list(range(len(starts)))
    assert all(before.stop == after.start for before, after in pairwise(shards))
    for shard in shards:
        assert scan.totals(shard) == (len(shard), len(shard))
        if state == "document" and 0 < shard.start < len(starts):
            assert starts[shard.start]
    sizes = [len(shard) for shard in shards]
    assert state == "document" or max(sizes) - min(sizes) <= 1


@given(STARTS)
def test_the_first_key_of_a_shard_is_that_of_its_first_block(starts: list[bool]) -> None:
    """The first shard begins with key 0, also if the first sentences were skipped."""
    scan = scan_of_blocks(starts)
    n_blocks = len(starts)
    keys_of_later_blocks = [3 + 2 * number for number in range(1, n_blocks)]
    for start, key in enumerate([0, *keys_of_later_blocks]):
        assert scan.first_key(range(start, n_blocks)) == key
    if n_blocks:
        assert scan.first_key(range(n_blocks, n_blocks)) == 99


@pytest.fixture
def job(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> EmbedJob:
    """A job of two texts, in four blocks of two sentences."""
    monkeypatch.setattr(blocks, "SENTENCES", 2)
    (tmp_path / "a.txt").write_text("one two\n.\nthree\n")
    (tmp_path / "b.txt").write_text("four five six\n\nseven\n\nthree\n")
    inputs = (f"{tmp_path}/a.txt", f"{tmp_path}/b.txt")
    settings = EmbedderSettings(device="cpu")
    return EmbedJob(inputs, f"{tmp_path}/out.hdf5", ModelSource(str(tiny)), embedder=settings)


def test_a_scan_of_a_text(job: EmbedJob) -> None:
    scan = scan_text(job)
    assert [(block.n_sentences, block.n_tokens, block.first_key) for block in scan.blocks] == [
        (2, 3, 0),
        (2, 4, 2),
        (2, 1, 4),
        (2, 1, 6),
    ]
    assert scan.report.sources == [(job.inputs[0], 0), (job.inputs[1], 3)]
    skipping = scan_text(replace(job, text=InputSettings(blank="skip")))
    assert (skipping.totals(range(3)), skipping.n_skipped) == ((6, 9), 2)
    documents = scan_text(replace(job, embedder=EmbedderSettings("document")))
    assert [block.starts_document for block in documents.blocks] == [True, True, True, True]
    with pytest.raises(InputError, match="line 2: the key"):
        scan_text(replace(job, file=FileSpec(keys="sentence")))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shard": ShardNumber(2, 3)},
        {"file": FileSpec("flat")},
        {"file": FileSpec("bilm"), "embedder": EmbedderSettings("carry", batch_size=2)},
        {"embedder": EmbedderSettings(layers="top"), "text": InputSettings(blank="skip")},
        {"embedder": EmbedderSettings(pool="mean", dtype="float16")},
    ],
)
def test_a_plan_is_what_the_run_does(changes: dict[str, Any], job: EmbedJob) -> None:
    job = replace(job, **changes)
    embedder = make_embedder(job)
    plan = plan_job(job, embedder, timing_s=0.2)
    assert not list(Path(job.output).parent.glob("out*"))
    done = run_job(job, embedder=embedder)
    assert (plan.sentences, plan.tokens) == (done.sentences, done.tokens)
    assert plan.computed == done.computed
    assert 0 < plan.size.total < 2 * done.bytes
    assert plan.seconds is not None
    estimate, low, high = plan.seconds
    assert 0 < low <= estimate <= high
    finished = plan_job(replace(job, resume=True), embedder, timing_s=0.0)
    assert (finished.computed, finished.committed) == (0, done.sentences)
    replaced = plan_job(replace(job, overwrite=True), embedder, timing_s=0.0)
    assert (replaced.computed, replaced.committed) == (done.computed, 0)


def test_a_plan_has_the_warnings_of_the_input_and_of_the_disk(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=9)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    Path(job.inputs[0]).write_text("Hello, he said.\n")
    embedder = make_embedder(job)
    job = replace(job, inputs=job.inputs[:1])
    of_input, of_disk = plan_job(job, embedder, timing_s=0.0).warnings
    assert "untokenized" in of_input
    assert of_disk.startswith(f"{job.output}: about ")
    assert of_disk.endswith(", 9 bytes are free on its disk")


@pytest.mark.parametrize(
    ("layout", "n_sentences", "changes", "low", "high"),
    [
        ("bilm", 10, {}, 1000 * 3 * 16 * 4, 1000 * 3 * 16 * 4 + 10_000),
        ("bilm", 10, {"dtype": "float16"}, 1000 * 3 * 16 * 2, 1000 * 3 * 16 * 2 + 10_000),
        ("bilm", 10, {"pool": "mean"}, 10 * 3 * 16 * 4, 10 * 3 * 16 * 4 + 10_000),
        ("flat", 1000, {"layers": "top", "dtype": "int8"}, 1000 * 20, 1000 * 20 + 150_000),
        ("bilm-types", 1000, {}, 1000 * 8 * 4, 1000 * 8 * 4 + 40_000),
    ],
)
def test_the_size_of_a_file(
    layout: str, n_sentences: int, changes: dict[str, Any], low: int, high: int, job: EmbedJob
) -> None:
    job = replace(job, file=FileSpec(layout), embedder=EmbedderSettings(**changes))
    totals = TextTotals(n_sentences, n_tokens=1000)
    size = estimate_bytes(job, make_embedder(job), totals)
    assert low <= size.total <= high
    assert not size.is_copied
    assert 2 * size.total - size.peak == low  # only the metadata are written twice
    as_parquet = replace(job, output="out.parquet")
    size = estimate_bytes(as_parquet, make_embedder(job), totals)
    assert size.is_copied
    assert size.peak - size.total == low


@pytest.mark.parametrize(
    ("needed", "free", "held", "fits"),
    [
        (FileSize(400, 500, is_copied=False), 500, 0, True),
        (FileSize(400, 501, is_copied=False), 500, 0, False),
        (FileSize(251, 502, is_copied=True), 500, 0, False),
        (FileSize(251, 501, is_copied=True), 500, 9, True),
    ],
)
def test_free_space(
    needed: FileSize, free: int, held: int, fits: bool, job: EmbedJob,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    usage = shutil.disk_usage("/")._replace(free=free)
    asked: list[Path] = []
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: (asked.append(folder), usage)[1])
    real = Path(job.output).parent / "elsewhere"
    real.mkdir()
    Path(job.output).symlink_to(real / "real.hdf5")
    (real / "real.hdf5.part").write_bytes(bytes(held))
    needed_bytes = f"about {needed.peak} bytes are needed"
    if needed.is_copied:
        needed_bytes += f" for a file of {needed.total} bytes"
    problem = f"{job.output}: {needed_bytes}, {free} bytes are free on its disk"
    assert space_problem(job, needed) == ("" if fits else problem)
    assert asked == [real]


class Clock:
    """An embedder that computes 100 tokens per second, after 5 seconds for the first chunk.

    The first `n_slow_calls` with a number of sentences take 50 seconds more.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n_slow_calls: int = 0) -> None:
        self.seconds = 0.0
        self.n_calls = Counter[int]()  # by number of sentences
        self.types: set[str] = set()
        self.batch_size = 512
        self.engine = SimpleNamespace(n_slow_calls=n_slow_calls)
        monkeypatch.setattr(time, "perf_counter", lambda: self.seconds)

    def embed_block(self, sentences: Sequence[Sentence], state: None) -> None:
        tokens = [token for sentence in sentences for token in sentence.tokens]
        self.types.update(tokens)
        self.seconds += len(tokens) / 100
        if not self.n_calls:
            self.seconds += 5
        self.n_calls[len(sentences)] += 1
        if self.n_calls[len(sentences)] <= self.engine.n_slow_calls:
            self.seconds += 50


@pytest.mark.parametrize("limit", [20.0, 200.0])
def test_the_speed_is_that_of_a_large_chunk(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch, limit: float
) -> None:
    Path(job.inputs[0]).write_text("one two three\n" * 4000)
    clock: Any = Clock(monkeypatch)
    assert plan.measure_speed(job, clock, limit) == pytest.approx(100)
    assert clock.seconds < limit


def test_the_speed_does_not_include_slow_calls(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU, these record graphs; a run has thousands of calls with few numbers of rows."""
    Path(job.inputs[0]).write_text("one two three\n" * 4000)
    clock: Any = Clock(monkeypatch, n_slow_calls=2)
    assert plan.measure_speed(job, clock, 1000.0) == pytest.approx(100)
    assert clock.n_calls[8] == 3


def test_slow_calls_do_not_make_the_types_of_the_text_known(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the character CNN has nothing to compute when the chunk is timed."""
    clock: Any = Clock(monkeypatch, n_slow_calls=2)
    sentences = [Sentence(tokens=("one", "two"), key=0)]
    plan._make_slow_calls(job, clock, sentences)
    assert clock.n_calls[1] == 2
    assert clock.types.isdisjoint({"one", "two"})


@pytest.mark.parametrize(
    ("batch_size", "n_tokens", "seconds"),
    [
        (16, 320, 3.6),  # the last chunk is more than a full batch
        (32, 320, 3.6),
        (64, 640, 5.2),
        (512, 5120, 27.6),
    ],
)
def test_a_full_batch_is_extrapolated_from_the_last_two_chunks(
    batch_size: int, n_tokens: int, seconds: float
) -> None:
    """Chunks of few sentences take 2 s to read the weights, and 0.05 s per sentence."""
    chunks = [TimedChunk(8, 80, 9.0), TimedChunk(16, 160, 2.8), TimedChunk(32, 320, 3.6)]
    assert speed_of_full_batch(chunks, batch_size) == pytest.approx(n_tokens / seconds)


@pytest.mark.parametrize("last_s", [2.0, 0.1])
def test_a_busy_machine_does_not_make_a_full_batch_free(last_s: float) -> None:
    """A larger chunk may take less time than a small one where other programs compute."""
    chunks = [TimedChunk(8, 80, 9.0), TimedChunk(16, 160, 2.8), TimedChunk(32, 320, last_s)]
    speed = speed_of_full_batch(chunks, 512)
    assert speed is not None
    assert speed < 3 * 320 / last_s


def test_a_text_without_tokens_has_no_speed(job: EmbedJob) -> None:
    for path in job.inputs:
        Path(path).write_text("\n\n")
    assert plan.measure_speed(job, make_embedder(job), 1.0) is None


def test_the_range_of_an_estimate() -> None:
    estimate, low, high = plan.seconds_range(1100, speed=10.0)
    assert estimate == pytest.approx(121)
    assert low < estimate / 1.3 < estimate * 1.3 < high


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1 << 10, "1.0 KiB"), (1536 << 20, "1.5 GiB"),
     (5000 << 40, "5000.0 TiB")],
)  # fmt: skip
def test_bytes_in_words(n_bytes: int, text: str) -> None:
    assert format_bytes(n_bytes) == text
