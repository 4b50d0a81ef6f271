"""run_job in parts: shards and resumed runs end in the same bytes, or are refused."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_jobs import changed, run_until, shards_of

from elmo_cli.embed.finished_run import summary_if_finished
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import run_job
from elmo_cli.errors import ResumeError
from elmo_cli.pretrained.load import ModelSource
from elmo_cli.store.shard_number import ShardNumber
from elmo_cli.store.shards import merge_shards
from elmo_cli.store.unfinished import log_path, part_path
from elmo_cli.text.input import InputSettings

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.usefixtures("small_blocks"),
]


@pytest.mark.parametrize(
    ("changes", "n_shards"),
    [
        ({}, 3),
        ({"layout": "flat"}, 9),  # more shards than blocks
        ({"state": "warm", "layout": "flat"}, 3),
        ({"state": "document", "layout": "bilm"}, 3),
        ({"state": "document"}, 9),
        ({"layers": "top", "dtype": "float16", "text": InputSettings(blank="skip")}, 3),
        ({"layers": "mix:0.2,0.3,0.5,2", "dtype": "float16"}, 3),
    ],
)
def test_shards_merged_are_the_whole(
    changes: dict[str, Any], n_shards: int, job: EmbedJob, tmp_path: Path
) -> None:
    job = changed(job, **changes)
    run_job(job)
    shards = shards_of(job, n_shards)
    for shard in shards:
        run_job(shard)
    merge_shards([shard.output for shard in shards[::-1]], tmp_path / "merged.hdf5")
    assert (tmp_path / "merged.hdf5").read_bytes() == Path(job.output).read_bytes()


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        ({}, [0, 1, 3, 6]),
        ({"layout": "flat"}, [3]),
        ({"state": "warm"}, [2]),
        ({"state": "carry"}, [1, 4]),
        ({"state": "document"}, [1, 2]),
        ({"shard": ShardNumber(2, 2)}, [1]),
        ({"shard": ShardNumber(2, 2), "state": "document"}, [1]),
    ],
)
def test_repeated_and_resumed_at_any_block_are_the_same_bytes(
    changes: dict[str, Any], ends: list[int], job: EmbedJob, tmp_path: Path
) -> None:
    job = changed(job, **changes)
    whole = run_job(job)
    expected = Path(job.output).read_bytes()
    assert run_job(replace(job, overwrite=True)).computed == whole.tokens
    assert Path(job.output).read_bytes() == expected
    for block in ends:
        again = run_until(block, replace(job, output=f"{tmp_path}/resumed{block}.hdf5"))
        assert not Path(again.output).exists()
        calls: list[int] = []

        def count(done: int, total: int | None, calls: list[int] = calls) -> None:
            calls.append(done)

        summary = run_job(again, progress=count)
        assert Path(again.output).read_bytes() == expected
        assert summary.tokens == whole.tokens == calls[0] + summary.computed == calls[-1]
        assert (summary.computed < whole.tokens) == (block > 0)
        finished = run_job(again)
        assert (finished.computed, finished.sentences) == (0, whole.sentences)


def test_a_state_that_is_none_of_the_model(job: EmbedJob) -> None:
    """Its checksum may be right, as whoever can write the log can make it so."""
    again = run_until(2, changed(job, state="carry"))
    log = log_path(part_path(job.output))
    *lines, last = log.read_bytes().splitlines(keepends=True)
    record = json.loads(last.rpartition(b" ")[0])
    record["state"] = record["state"][:8]
    content = json.dumps(record).encode()
    log.write_bytes(b"".join([*lines, b"%s %08x\n" % (content, zlib.crc32(content))]))
    with pytest.raises(ResumeError, match="its state is not one of this model"):
        run_job(again)


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "carry", "batch_size": None},
        {"precision": "int8", "layers": "2,0"},
        {"pool": "mean", "dtype": "float16"},
        {"text": InputSettings(blank="skip"), "layout": "manylangs", "layers": "top"},
    ],
)
def test_a_finished_file_is_recognized_without_the_model(
    changes: dict[str, Any], job: EmbedJob
) -> None:
    """A setting that is recorded in another way would be called another one."""
    job = changed(job, **changes)
    whole = run_job(job)
    again = replace(job, resume=True)
    files = job.locate_model()
    known = summary_if_finished(again, files)
    assert known is not None
    assert (known.sentences, known.tokens, known.computed, known.duplicates, known.bytes) == (
        *(whole.sentences, whole.tokens, 0, whole.duplicates, whole.bytes),
    )
    assert summary_if_finished(job, files) is None
    Path(job.inputs[1]).write_text("another text\n")
    assert summary_if_finished(again, files) is None


@pytest.mark.parametrize("n_shards", [3, 9])
def test_each_shard_lists_all_skipped_lines(n_shards: int, job: EmbedJob) -> None:
    for path in map(Path, job.inputs):
        lines = path.read_bytes().split(b"\n")
        lines[::5] = [b"\xff"] * len(lines[::5])
        path.write_bytes(b"\n".join(lines))
    job = replace(job, text=InputSettings(on_error="skip"))
    whole = run_job(job).report.skipped
    assert len(whole) > 10
    for shard in shards_of(job, n_shards):
        for again in (shard, replace(shard, resume=True)):
            assert run_job(again).report.skipped == whole
            assert Path(shard.skipped_list).read_text().count("\n") == len(whole)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"layers": "top"}, "layers"),
        ({"dtype": "float16"}, "dtype"),
        ({"state": "warm"}, "state"),
        ({"state": "document"}, "state"),
        ({"pool": "mean"}, "pool"),
        ({"layout": "bilm"}, "layout"),
        ({"forget_sentences": True}, "sentence"),
        ({"sentence_map": "occurrences"}, "sentence map: last, now occurrences"),
        ({"shard": ShardNumber(1, 2)}, "shard"),
        ({"precision": "bf16"}, "precision"),
        ({"text": InputSettings(blank="skip")}, "blank"),
        ({"text": InputSettings(tokenize=True)}, "tokenizer"),
        ({"text": InputSettings(format="conll", column=1)}, "format"),
        ({"text": InputSettings(format="conllu", rows="all")}, "format"),
        ({"model": ModelSource("odd")}, "model"),
        ({"state": "carry", "batch_size": 8}, "batch"),
    ],
)
def test_resume_refuses_other_settings(
    changes: dict[str, Any], named: str, job: EmbedJob, odd: Path
) -> None:
    if changes.get("state") == "carry":
        job = changed(job, state="carry")
    if "model" in changes:
        changes = {"model": ModelSource(str(odd))}
    again = run_until(1, job)
    before = Path(f"{job.output}.part").read_bytes()
    with pytest.raises(ResumeError) as caught:
        run_job(changed(again, **changes))
    assert named in caught.value.message
    assert Path(f"{job.output}.part").read_bytes() == before


def test_resume_refuses_another_column(job: EmbedJob, tmp_path: Path) -> None:
    text = tmp_path / "text.conll"
    text.write_text("the DT\ncat NN\n\n" * 20)
    first = InputSettings(format="conll", column=1)
    again = run_until(1, replace(job, inputs=(str(text),), text=first))
    with pytest.raises(ResumeError, match="column: 1, now 2"):
        run_job(replace(again, text=replace(first, column=2)))


def with_a_longer_line(text: str) -> str:
    return text.replace("\n", " more\n", 1)


def with_another_line(text: str) -> str:
    return "\n" + text


def only_the_beginning(text: str) -> str:
    return text[: len(text) // 20]


def nothing(text: str) -> str:
    return ""


@pytest.mark.parametrize("is_finished", [False, True])
@pytest.mark.parametrize(
    "change", [with_a_longer_line, with_another_line, only_the_beginning, nothing]
)
def test_resume_refuses_another_text(
    change: Callable[[str], str], is_finished: bool, job: EmbedJob
) -> None:
    again = run_until(3, job)
    if is_finished:
        run_job(again)
    Path(job.inputs[1]).write_text("")
    first = Path(job.inputs[0])
    first.write_text(change(first.read_text()))
    with pytest.raises(ResumeError, match=r"whole\.hdf5.*: made from a different text"):
        run_job(again)


def test_resume_accepts_a_text_with_more_at_its_end(job: EmbedJob, tmp_path: Path) -> None:
    again = run_until(3, job)
    with open(job.inputs[1], "a", encoding="utf-8") as file:
        file.write("one more\n")
    run_job(again)
    fresh = replace(job, output=str(tmp_path / "fresh.hdf5"))
    run_job(fresh)
    assert Path(job.output).read_bytes() == Path(fresh.output).read_bytes()
