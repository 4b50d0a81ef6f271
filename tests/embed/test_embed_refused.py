"""run_job refuses contradictory settings, paths in use and texts that change while being read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_jobs import changed

from elmo_cli.embed import blocks
from elmo_cli.embed.blocks import TextScan, scan_text
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import embed_file, run_job
from elmo_cli.errors import ElmoError, InputError, OutputError, UsageError
from elmo_cli.pretrained.load import load
from elmo_cli.store.shard_number import ShardNumber
from elmo_cli.text.input import InputSettings

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.usefixtures("small_blocks"),
]


@pytest.mark.parametrize(
    "changes", [{}, {"shard": ShardNumber(1, 1)}, {"layout": "bilm", "shard": ShardNumber(1, 2)}]
)
def test_a_text_that_shrinks_while_it_is_read_is_refused(
    changes: dict[str, Any], job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "SENTENCES", 20)
    job = changed(job, **changes)
    run_job(job)
    before = Path(job.output).read_bytes()

    def shrink(done: int, total: int | None) -> None:
        for name in job.inputs:
            Path(name).write_text("")

    line = f"It slept .{' ' * 300}\n"
    longer_than_one_read = line * 120  # also half of the blocks are
    Path(job.inputs[0]).write_text(longer_than_one_read)
    with pytest.raises(InputError, match="changed while it was read"):
        run_job(replace(job, overwrite=True), progress=shrink)
    assert Path(job.output).read_bytes() == before


def test_a_text_that_changes_after_its_scan_is_refused(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its shards would be those of two texts, of as many sentences."""

    def scan_and_change(job: EmbedJob) -> TextScan:
        scan = scan_text(job)
        second = Path(job.inputs[1])
        second.write_text(second.read_text().upper())
        return scan

    monkeypatch.setattr("elmo_cli.embed.run.scan_text", scan_and_change)
    with pytest.raises(InputError, match="changed while it was read"):
        run_job(replace(job, shard=ShardNumber(2, 2)))
    assert not Path(job.output).exists()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"shard": ShardNumber(1, 2), "state": "carry"}, "`shard` and `state=carry`"),
        ({"shard": ShardNumber(1, 2), "inputs": ("-",)}, "`shard`: standard input"),
        ({"layout": "bilm-types", "layers": "top"}, "`layout=bilm-types`"),
        ({"layout": "bilm-types", "pool": "mean"}, "`layout=bilm-types`"),
        ({"layout": "bilm-types", "state": "carry"}, "`layout=bilm-types`"),
        ({"layout": "manylangs"}, "`layout=manylangs`"),
        ({"layout": "manylangs", "layers": "0,2"}, "`layout=manylangs`"),
        ({"layout": "manylangs", "layers": " 0 ,2"}, "`layout=manylangs`"),
        ({"overwrite": True, "resume": True}, "`overwrite=True` and `resume=True`"),
        ({"dtype": "int8"}, "`dtype=int8`"),
    ],
)
def test_settings_that_contradict_each_other(
    changes: dict[str, Any], named: str, job: EmbedJob
) -> None:
    with pytest.raises(UsageError, match=named):
        changed(job, **changes)


def in_place_of_an_input(job: EmbedJob) -> EmbedJob:
    return replace(job, output=job.inputs[0], overwrite=True)


def with_its_list_in_place_of_an_input(job: EmbedJob) -> EmbedJob:
    Path(job.skipped_list).write_text("a line that was left out\n")
    text = InputSettings(format="plain")
    return replace(job, inputs=(job.skipped_list,), text=text, overwrite=True)


def in_place_of_the_model(job: EmbedJob) -> EmbedJob:
    return replace(job, output=f"{job.model.name_or_path}/weights.hdf5", overwrite=True)


def of_a_missing_text(job: EmbedJob) -> EmbedJob:
    return replace(job, inputs=("no.txt",))


def into_a_missing_folder(job: EmbedJob) -> EmbedJob:
    return replace(job, output="no/such/out.hdf5")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (in_place_of_an_input, UsageError),
        (with_its_list_in_place_of_an_input, UsageError),
        (in_place_of_the_model, UsageError),
        (of_a_missing_text, InputError),
        (into_a_missing_folder, OutputError),
    ],
)
def test_paths_are_refused_before_the_model_is_loaded(
    change: Callable[[EmbedJob], EmbedJob],
    error: type[ElmoError],
    job: EmbedJob,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elmo_cli.embed.run.make_embedder", None)
    job = change(job)
    before = Path(job.inputs[0]).read_bytes() if Path(job.inputs[0]).exists() else None
    with pytest.raises(error):
        run_job(job)
    assert before is None or Path(job.inputs[0]).read_bytes() == before


def test_a_file_of_the_model_that_the_job_does_not_name_is_kept(
    tiny: Path, job: EmbedJob, tmp_path: Path
) -> None:
    shutil.copytree(tiny, tmp_path / "model")
    weights = tmp_path / "model" / "weights.hdf5"
    before = weights.read_bytes()
    embedder = Embedder(load(tmp_path / "model"))
    with pytest.raises(UsageError, match=r"weights\.hdf5: is also a file of the model"):
        embed_file(job.inputs[0], weights, embedder, overwrite=True)
    assert weights.read_bytes() == before
