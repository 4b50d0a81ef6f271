"""EmbeddingsWriter: resuming, and full disks that end a run which is resumed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import h5py
import pytest
import writer_runs
from disks import small_disk
from writer_runs import SETTINGS, attributes, names, run, spec

from elmo_cli.errors import OutputError, ResumeError
from elmo_cli.store.log_lines import CommittedProgress, read_log
from elmo_cli.store.unfinished import is_finished
from elmo_cli.store.writer import EmbeddingsWriter

OTHER_WEIGHTS = {**SETTINGS, "model_sha256": "77" * 32}
WITH_VOCABULARY = {**SETTINGS, "char_vocabulary_sha256": "ab" * 32}
MIX = "mix:" + "1" * 80
SETTINGS_THAT_DIFFER: list[tuple[dict[str, Any], str]] = [
    ({"layout": "flat"}, "layout: bilm, now flat"),
    ({"dtype": "float16"}, "dtype: float32, now float16"),
    ({"first_sentence": 9}, "first sentence: 0, now 9"),
    ({"run_settings": OTHER_WEIGHTS}, "weights: sha256 6c1f…, now sha256 7777…"),
    ({"run_settings": {**SETTINGS, "state": "x"}}, "state: zero, now x"),
    ({"run_settings": WITH_VOCABULARY}, "char vocabulary: none, now sha256 abab…"),
    ({"run_settings": {**SETTINGS, "layers": MIX}}, f"layers: all, now {MIX[:60]}…"),
    ({"run_settings": {**SETTINGS, "pool": "max"}}, "pool: none, now max"),
    ({"run_settings": {"layers": "all", "state": "zero"}}, "weights: sha256 6c1f…, now none"),
]


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize(("changes", "said"), SETTINGS_THAT_DIFFER)
def test_other_settings_are_not_resumed(
    changes: dict[str, Any], said: str, finished: bool, out: Path
) -> None:
    """The file would be a mixture of two runs, or pass for what was asked for now."""
    run(out, "bilm", finish=finished)
    before = {path: path.read_bytes() for path in out.parent.iterdir()}
    with pytest.raises(ResumeError) as caught:
        run(out, "bilm", resume=True, **changes)
    assert str(caught.value).startswith(f"{out}{'' if finished else '.part'}: ")
    assert f"made with other settings ({said})" in str(caught.value)
    assert {path: path.read_bytes() for path in out.parent.iterdir()} == before


def test_progress_comes_back(out: Path, part: Path) -> None:
    """Hash and state are what the caller continues with."""
    run(out, "bilm", n=4, finish=False)
    log = read_log(part)
    assert log.spec == spec("bilm")
    assert log.progress == CommittedProgress(
        blocks=2, sentences=4, tokens=7, duplicates=0, text_sha256="hash of 4", state=b"state 4"
    )
    with EmbeddingsWriter.open(out, spec("bilm"), resume=True) as writer:
        assert writer.progress == log.progress


def test_resume_of_nothing_begins_and_of_a_finished_file_ends(out: Path) -> None:
    """So a job's script can always say `resume`."""
    assert not run(out, "bilm", resume=True, finish=False, n=2).finished
    assert not is_finished(out)
    run(out, "bilm", resume=True)
    before = out.read_bytes()
    writer = EmbeddingsWriter.open(out, spec("bilm"), resume=True)
    assert writer.finished
    assert (writer.progress.sentences, writer.progress.tokens) == (6, 12)
    assert out.read_bytes() == before


def test_a_finished_file_has_read_the_sentences_that_it_left_out(out: Path) -> None:
    """A run that is repeated with `resume` must report what the first one reported."""
    written = run(out, "manylangs").progress
    with EmbeddingsWriter.open(out, spec("manylangs"), resume=True) as writer:
        assert writer.finished
        progress = writer.progress
    assert (progress.sentences, progress.duplicates, progress.tokens) == (6, 1, 11)
    assert (written.sentences, written.duplicates, written.tokens) == (6, 1, 11)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("complete", False, "has not finished"),
        ("elmo_schema", 1, "has schema version 1"),
        ("keys", 1, "its attributes are not those"),
        ("tokens", "x", "tokens is 'x'"),
    ],
)
def test_only_a_finished_file_of_this_schema_is_resumed(
    name: str, value: object, said: str, out: Path
) -> None:
    """Half a file, or one that this version cannot read, would pass for the result."""
    run(out, "bilm")
    with h5py.File(out, "r+") as file:
        file.attrs[name] = value
    with pytest.raises(ResumeError, match=said):
        run(out, "bilm", resume=True)


def test_a_link_and_its_old_file_stay_until_the_end(tmp_path: Path, out: Path) -> None:
    """A run that fails must leave what existed, and a renaming would replace the link."""
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "out.hdf5").write_text("precious")
    out.symlink_to(tmp_path / "big" / "out.hdf5")
    run(out, "bilm", n=2, overwrite=True, finish=False)
    assert names(tmp_path / "big") == ["out.hdf5", "out.hdf5.part", "out.hdf5.part.log"]
    assert out.read_text() == "precious"
    run(out, "bilm", resume=True)
    assert out.is_symlink()
    assert names(tmp_path / "big") == ["out.hdf5"]


def test_a_link_that_leads_to_nothing_stays(tmp_path: Path, out: Path) -> None:
    """Also while its run is resumed."""
    (tmp_path / "big").mkdir()
    out.symlink_to(tmp_path / "big" / "out.hdf5")
    run(out, "bilm", n=2, finish=False)
    run(out, "bilm", resume=True)
    assert out.is_symlink()
    assert attributes(out)["sentences"] == 6


@pytest.mark.parametrize("way", ["allennlp", "e2e-coref", "flat"])
@pytest.mark.parametrize("more", [100, 20_000])
def test_a_full_disk_while_the_file_is_completed(way: str, more: int, tmp_path: Path) -> None:
    """HDF5 would end the process; the committed part stays, and with space the run is resumed."""
    run(tmp_path / "whole.hdf5", way, n=300, block=100)
    with small_disk(tmp_path / "disk", 8 << 20) as disk:
        out = disk.folder / "out.hdf5"
        run(out, way, n=300, block=100, finish=False)
        filler = disk.folder / "filler"
        with open(filler, "wb") as file:
            free = os.statvfs(disk.folder).f_bavail * os.statvfs(disk.folder).f_frsize
            file.write(bytes(max(0, free - more)))
        with pytest.raises(OutputError, match="no space left") as caught:
            run(out, way, n=300, block=100, resume=True)
        assert caught.value.resumable
        assert names(disk.folder) == ["filler", "out.hdf5.part", "out.hdf5.part.log"]
        filler.unlink()
        run(out, way, n=300, block=100, resume=True)
        assert out.read_bytes() == (tmp_path / "whole.hdf5").read_bytes()


def test_hdf5_on_a_full_disk_is_closed(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the estimate was too small HDF5 itself fails, and must not end the process."""
    run(out, "allennlp", n=300, block=100, finish=False)
    monkeypatch.setattr("os.posix_fallocate", lambda *_: None)

    def full(*_: object) -> int:
        raise OSError(f"unable to write (errno = {errno.ENOSPC}, error message = 'No space left')")

    monkeypatch.setattr("elmo_cli.store.layouts.sentence_datasets.DatasetWriter.add", full)
    with pytest.raises(OutputError, match="no space left") as caught:
        run(out, "allennlp", n=300, block=100, resume=True)
    assert caught.value.resumable
    monkeypatch.undo()
    assert run(out, "allennlp", n=300, block=100, resume=True).finished


@pytest.mark.parametrize("n_committed", [0, 2])
def test_a_full_disk_says_whether_there_is_something_to_resume(
    n_committed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with EmbeddingsWriter.open(tmp_path / "out.hdf5", writer_runs.spec("allennlp")) as writer:
        writer_runs.append(writer, "allennlp", n=n_committed, block=2)
        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(OutputError) as caught:
            writer_runs.append(writer, "allennlp", n=4, block=2)
        monkeypatch.undo()
    assert caught.value.resumable is (n_committed > 0)
    assert ("resume=True" in caught.value.hint) is (n_committed > 0)
