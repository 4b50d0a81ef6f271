"""EmbeddingsWriter: where it writes, what it refuses, what it goes on with, its attributes."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import time
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import writer_runs
from hypothesis import given
from hypothesis import strategies as some
from writer_runs import HEADER, array, run, sentences, write

from elmo_cli.errors import OutputError, ResumeError
from elmo_cli.lock import open_locked
from elmo_cli.store.attributes import read_attributes, write_attributes
from elmo_cli.store.describe import describe
from elmo_cli.store.discard import cleared_on_crash, discard, whole_or_nothing
from elmo_cli.store.finished import finished_facts
from elmo_cli.store.journal import journal_path, read_journal
from elmo_cli.store.journaled_file import JournaledFile, roll_back
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.weightfile.read import read_bilm


def facts_of(path: Path) -> dict[str, Any]:
    with h5py.File(path, "r") as file:
        return read_attributes(file)


def unfinished(out: Path, n: int = 4, **options: Any) -> Path:
    """OUT.part with `n` committed sentences."""
    options = {"layout": "bilm", "header": HEADER, **options}
    with EmbeddingsWriter.create(out, **options) as writer:
        write(writer, sentences(n), block=2)
    return Path(f"{out}.part")


def test_attributes_are_the_settings_then_the_facts_then_the_end_mark(tmp_path: Path) -> None:
    """`inspect`, `merge`, `--resume` find the run there; without the mark it is unfinished."""
    out = tmp_path / "out.hdf5"
    run(out, layout="allennlp", n=5, first_sentence=1024)
    facts = facts_of(out)
    assert list(facts.items()) == [
        ("elmo_schema", 1),
        ("layout", "allennlp"),
        ("keys", "number"),
        ("forget_sentences", False),
        ("dtype", "float32"),
        ("first_sentence", 1024),
        *HEADER.items(),
        ("sentences", 5),
        ("tokens", 1 + 2 + 3 + 1 + 2),
        ("sources", [["in.txt", 0]]),
        ("complete", True),
    ]


json_values = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**63), 2**63 - 1) | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
    max_leaves=5,
)


@given(json_values)
def test_any_fact_comes_back(value: object) -> None:
    """A string that looks like JSON, or has a NUL, must not come back as something else."""
    with h5py.File("facts.hdf5", "w", driver="core", backing_store=False) as file:
        write_attributes(file, {"fact": value})
        assert read_attributes(file) == {"fact": value}


def test_long_facts_are_cut(tmp_path: Path) -> None:
    """An attribute of 64 KiB can't be read by HDF5 1.8; thousands of sources make one."""
    sources = [[f"é{number}.txt", number] for number in range(20_000)]
    with h5py.File(tmp_path / "facts.hdf5", "w") as file:
        write_attributes(file, {"sources": sources, "text": "é" * 30_000, "last": 1})
        assert read_attributes(file) == {"sources": sources, "text": "é" * 30_000, "last": 1}
        assert max(len(str(value).encode()) for value in file.attrs.values()) < 60_000
        assert {"text#0", "text#1", "text#2", "last"} <= set(file.attrs)


def test_facts_of_other_hands(tmp_path: Path) -> None:
    """A caller that gives `sentences` or a setting anew would contradict the file."""
    with EmbeddingsWriter.create(tmp_path / "out.hdf5", layout="bilm", header=HEADER) as writer:
        for taken in ("sentences", "layout", "state", "complete"):
            with pytest.raises(ValueError, match=taken):
                writer.finish({taken: 1})
        writer.finish({"versions": {"torch": "2"}})
    with pytest.raises(ValueError, match="complete"):
        EmbeddingsWriter.create(tmp_path / "a.hdf5", layout="bilm", header={"complete": True})


@pytest.mark.parametrize(
    ("layout", "dtype"),
    [("allennlp", "float32"), ("dygie", "float32"), ("flat", "float32"), ("flat", "int8")],
)
def test_two_runs_give_the_same_bytes(tmp_path: Path, layout: str, dtype: str) -> None:
    """HDF5 puts the time into groups and datasets unless told not to."""
    run(tmp_path / "a.hdf5", layout=layout, dtype=dtype)
    time.sleep(1.1)
    run(tmp_path / "b.hdf5", layout=layout, dtype=dtype)
    assert (tmp_path / "a.hdf5").read_bytes() == (tmp_path / "b.hdf5").read_bytes()


def test_hdf5_of_1_8(tmp_path: Path) -> None:
    """A superblock above version 2 can't be opened by HDF5 1.8."""
    out = tmp_path / "out.hdf5"
    run(out, layout="allennlp")
    assert out.read_bytes()[8] == 2


def test_names_in_the_order_of_the_input(tmp_path: Path) -> None:
    """h5py lists names alphabetically (0, 1, 10, 2) unless links keep their order."""
    out = tmp_path / "out.hdf5"
    run(out, layout="bilm", n=12, block=5)
    with h5py.File(out, "r") as file:
        assert list(file) == [str(key) for key in range(12)]


def test_out_is_not_overwritten(tmp_path: Path) -> None:
    """A run of days is not to be lost to a command typed twice."""
    out = tmp_path / "out.hdf5"
    out.write_text("precious")
    with pytest.raises(OutputError) as caught:
        run(out, layout="bilm")
    assert str(caught.value) == f"{out}: exists"
    assert caught.value.hint == "`--overwrite` replaces it, `-o` names another file"
    assert out.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_whole_file_that_is_called_part_stays(tmp_path: Path, overwrite: bool) -> None:
    """Without it a user's own OUT.part is emptied because it begins as ours would."""
    out, part = tmp_path / "out.hdf5", tmp_path / "out.hdf5.part"
    run(part, layout="bilm")
    before = part.read_bytes()
    with pytest.raises(OutputError) as caught:
        run(out, layout="bilm", overwrite=overwrite)
    assert str(caught.value) == f"{part}: is there already, and `elmo embed` did not make it"
    assert part.read_bytes() == before
    assert list(tmp_path.iterdir()) == [part]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("suffix", ["journal", "journal.new", "undo"])
def test_what_lies_beside_and_is_not_ours_stays(
    tmp_path: Path, suffix: str, overwrite: bool
) -> None:
    """Without it a file of that name is removed without a word."""
    out = tmp_path / "out.hdf5"
    beside = tmp_path / f"out.hdf5.part.{suffix}"
    beside.write_text("precious")
    with pytest.raises(OutputError) as caught:
        run(out, layout="bilm", overwrite=overwrite)
    assert str(caught.value) == f"{beside}: is there already, and `elmo embed` did not make it"
    assert beside.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [beside]


def test_a_kill_while_a_file_is_discarded_leaves_the_place_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part without its journal would pass for a user's own file, and refuse the next run."""
    out = tmp_path / "out.hdf5"
    writer = EmbeddingsWriter.create(out, layout="bilm", header=HEADER)
    write(writer, sentences(1), block=1)
    monkeypatch.setattr("elmo_cli.store.discard.remove_side_files", lambda part: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        discard(writer, out)
    run(out, layout="bilm")
    assert list(tmp_path.iterdir()) == [out]


def test_overwrite_keeps_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    """A run that fails half way must leave what was there."""
    out = tmp_path / "out.hdf5"
    out.write_text("precious")
    unfinished(out, overwrite=True)
    assert out.read_text() == "precious"
    run(out, layout="bilm", resume=True)
    assert facts_of(out)["sentences"] == 5


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """Nobody asked to overwrite it, and what the run wrote took hours: both stay."""
    out, part = tmp_path / "out.hdf5", tmp_path / "out.hdf5.part"

    def work(make: Callable[..., AbstractContextManager[EmbeddingsWriter]]) -> None:
        with cleared_on_crash(out), make(out, layout="bilm", header=HEADER) as writer:
            write(writer, sentences(2), block=1)
            out.write_text("precious")
            writer.finish({})

    for make in (whole_or_nothing, EmbeddingsWriter.resume):
        with pytest.raises(OutputError) as caught:
            work(make)
        assert str(caught.value) == f"{out}: another process has made it meanwhile"
        assert caught.value.hint == f"what this run wrote is whole, and kept as {part}: rename it"
        assert out.read_text() == "precious"
    assert describe(part)["only_unnamed"]
    out.unlink()
    with pytest.raises(OutputError, match="whole, only its name is missing"):
        work(whole_or_nothing)
    kept = part.rename(tmp_path / "kept.hdf5")
    assert facts_of(kept)["sentences"] == 2


@pytest.mark.parametrize("begun", [False, True], ids=["new", "resumed"])
def test_overwrite_replaces_also_what_appears_meanwhile(tmp_path: Path, begun: bool) -> None:
    """`--resume` of a run that was to overwrite has to know that it may."""
    out = tmp_path / "out.hdf5"
    if begun:
        unfinished(out, overwrite=True)
        out.write_text("replaced")
        run(out, layout="bilm", resume=True)
    else:
        with EmbeddingsWriter.create(out, layout="bilm", header=HEADER, overwrite=True) as writer:
            write(writer, sentences(5), block=2)
            out.write_text("replaced")
            writer.finish({})
    assert facts_of(out)["sentences"] == 5
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("overwrite", [False, True])
def test_whether_a_resumed_run_may_replace_is_told_at_once(tmp_path: Path, overwrite: bool) -> None:
    """It would be refused at its end, after all the work; or replace a file unasked."""
    out = tmp_path / "out.hdf5"
    for n in (0, 4):  # killed before the first commit, and after it
        unfinished(out, n, overwrite=overwrite)
        out.write_text("appeared meanwhile")
        if overwrite:
            run(out, layout="bilm", resume=True)
            assert facts_of(out)["sentences"] == 5
        else:
            with pytest.raises(OutputError, match=r"out\.hdf5: exists"):
                run(out, layout="bilm", resume=True)
            assert out.read_text() == "appeared meanwhile"
        for path in tmp_path.iterdir():
            path.unlink()


def test_a_kill_between_two_names_leaves_a_finished_file(tmp_path: Path) -> None:
    """OUT.part is then OUT itself: a new run that empties the one would empty the other."""
    out, part = tmp_path / "out.hdf5", tmp_path / "out.hdf5.part"
    run(out, layout="bilm")
    os.link(out, part)
    unfinished(out, overwrite=True)
    assert facts_of(out)["sentences"] == 5
    part.unlink()
    os.link(out, part)
    run(out, layout="bilm", resume=True)
    assert list(tmp_path.iterdir()) == [out]


def test_a_finished_file_can_be_read_as_soon_as_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow disk takes seconds over its folder, in which HDF5 would find the file locked."""
    out, read = tmp_path / "out.hdf5", []

    def look(folder: Path) -> None:
        read.append(facts_of(out)["sentences"])
        with pytest.raises(OutputError, match="another process is writing"):
            open_locked(out, OutputError("another process is writing"))

    monkeypatch.setattr("elmo_cli.store.part._sync_folder", look)
    run(out, layout="bilm")
    assert read == [5]


def test_an_unfinished_part_is_not_thrown_away(tmp_path: Path) -> None:
    """Without an option the choice is the user's."""
    out = tmp_path / "out.hdf5"
    part = unfinished(out)
    with pytest.raises(OutputError) as caught:
        run(out, layout="bilm")
    assert str(caught.value) == f"{part}: unfinished, 4 sentences"
    assert caught.value.hint == "`--resume` goes on, `--overwrite` starts anew"
    run(out, layout="bilm", overwrite=True, n=2)
    assert facts_of(out)["sentences"] == 2
    assert list(tmp_path.iterdir()) == [out]


def test_a_part_with_nothing_committed_is_no_obstacle(tmp_path: Path) -> None:
    """There is nothing to lose, and `--resume` could not tell more."""
    out = tmp_path / "out.hdf5"
    with EmbeddingsWriter.create(out, layout="bilm", header=HEADER) as writer:
        writer.append(sentences(1)[0], array(sentences(1)[0]))
    run(out, layout="bilm", n=3)
    assert facts_of(out)["sentences"] == 3


def test_two_writers_of_one_file(tmp_path: Path) -> None:
    """They would write over each other's bytes."""
    out = tmp_path / "out.hdf5"
    with EmbeddingsWriter.create(out, layout="bilm", header=HEADER) as writer:
        for options in ({"overwrite": True}, {"resume": True}, {}):
            with pytest.raises(OutputError) as caught:
                run(out, layout="bilm", **options)
            assert str(caught.value) == f"{out}.part: another process is writing"
        write(writer, sentences(2), block=1)
        writer.finish({})
    assert facts_of(out)["sentences"] == 2


def test_a_writer_that_was_refused_leaves_what_the_other_one_writes(tmp_path: Path) -> None:
    """Begun together, two of `elmo merge` see no OUT.part; the second would remove the first's."""
    out = tmp_path / "out.hdf5"

    def begin() -> EmbeddingsWriter:
        return EmbeddingsWriter.create(out, layout="bilm", header=HEADER)

    def begin_together() -> None:
        with cleared_on_crash(out):
            begun.append(begin())
            begun.append(begin())

    begun: list[EmbeddingsWriter] = []
    with pytest.raises(OutputError, match="another process"):
        begin_together()
    with begun[0] as first:
        write(first, sentences(4), block=1)
        first.finish({})
    assert facts_of(out)["sentences"] == 4
    assert list(tmp_path.iterdir()) == [out]


def test_what_a_crash_has_left_is_cleared_away(tmp_path: Path) -> None:
    """It can't be gone on with, and would be in the way of the next."""

    def crash() -> None:
        with cleared_on_crash(tmp_path / "out.hdf5"):
            unfinished(tmp_path / "out.hdf5")
            raise EOFError

    with pytest.raises(EOFError):
        crash()
    assert list(tmp_path.iterdir()) == []


def test_progress_comes_back(tmp_path: Path) -> None:
    """Hash and state are what the caller goes on with."""
    out = tmp_path / "out.hdf5"
    unfinished(out, 4)
    with EmbeddingsWriter.resume(out, layout="bilm", header=HEADER) as writer:
        progress = writer.progress
    assert (progress.sentences, progress.tokens, progress.blocks) == (4, 7, 2)
    assert (progress.text_sha256, progress.state) == ("hash of 4", b"state 4")


def test_duplicates_are_counted_over_a_resume(tmp_path: Path) -> None:
    """The count is a fact of the file, not of the process."""
    out = tmp_path / "out.hdf5"
    options: dict[str, Any] = {"layout": "manylangs", "header": HEADER}
    with EmbeddingsWriter.create(out, **options) as writer:
        write(writer, sentences(2)[:1] * 3, block=1, layers=None)
    with EmbeddingsWriter.resume(out, **options) as writer:
        assert writer.duplicates == 2
        writer.append(sentences(1)[0], array(sentences(1)[0], None))
        writer.finish({})
    assert facts_of(out)["duplicates"] == 3


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize(
    ("change", "what"),
    [
        (
            {"header": {**HEADER, "model_sha256": "9ab0" + "f" * 60}},
            "weights (sha256 6c1f…, now 9ab0…)",
        ),
        ({"header": {**HEADER, "layers": [0, 2]}}, "layers (all, now [0, 2])"),
        ({"header": {**HEADER, "batch_size": 8}}, "batch size (none, now 8)"),
        ({"dtype": "float16"}, "dtype (float32, now float16)"),
        ({"layout": "allennlp"}, "layout (bilm, now allennlp)"),
        ({"first_sentence": 7}, "first sentence (0, now 7)"),
    ],
)
def test_other_settings(tmp_path: Path, change: dict[str, Any], what: str, finished: bool) -> None:
    """A file half of one model and half of another looks whole."""
    out = tmp_path / "out.hdf5"
    part = unfinished(out)
    where = f"{part}: unfinished, 4 sentences"
    if finished:
        run(out, layout="bilm", resume=True)
        where = f"{out}: finished"
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ResumeError) as caught:
        EmbeddingsWriter.resume(out, **{"layout": "bilm", "header": HEADER, **change})
    assert str(caught.value) == f"{where}, made with other {what}"
    noun = what.partition(" (")[0]
    assert caught.value.hint == f"`--overwrite` starts anew; `--resume` needs the first {noun}"
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("finished", [False, True])
def test_a_setting_that_is_gone(tmp_path: Path, finished: bool) -> None:
    """A shard, or a file of int8 products, would pass for the whole run that is asked for now."""
    out = tmp_path / "out.hdf5"
    part = unfinished(out)
    where = f"{part}: unfinished, 4 sentences"
    if finished:
        run(out, layout="bilm", resume=True)
        where = f"{out}: finished"
    header = {name: value for name, value in HEADER.items() if name != "state"}
    with pytest.raises(ResumeError) as caught:
        EmbeddingsWriter.resume(out, layout="bilm", header=header)
    assert str(caught.value) == f"{where}, made with other state (zero, now none)"


def test_resume_of_a_finished_file(tmp_path: Path) -> None:
    """The same command again has nothing to do, and clears what a kill after the renaming left."""
    out = tmp_path / "out.hdf5"
    run(out, layout="allennlp")
    before = out.read_bytes()
    Path(f"{out}.part.journal").write_text('{"settings": {"lay')
    Path(f"{out}.part.undo").write_text("UNDO and so on")
    writer = EmbeddingsWriter.resume(out, layout="allennlp", header=HEADER)
    assert writer.finished
    assert (writer.progress.sentences, writer.progress.tokens) == (5, 9)
    assert list(tmp_path.iterdir()) == [out]
    assert out.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"some text", b"\x89HDF\r\n\x1a\n" + bytes(40)])
def test_resume_over_a_foreign_file(tmp_path: Path, content: bytes) -> None:
    """`--resume` is no leave to replace a file that no run of ours made."""
    out = tmp_path / "out.hdf5"
    out.write_bytes(content)
    with pytest.raises(ResumeError) as caught:
        run(out, layout="bilm", resume=True)
    assert str(caught.value) == (
        f"{out}: exists, and is not an embeddings file that a run of elmo finished"
    )
    assert out.read_bytes() == content


def test_a_passing_error_of_the_disk_is_no_reason_to_overwrite() -> None:
    """A good file on a disk that fails for a moment would be replaced, as the hint said."""
    unreadable = "/proc/self/mem"  # gives an input/output error from its beginning on
    if not os.path.exists(unreadable):
        pytest.skip(f"no {unreadable} here")
    with pytest.raises(OutputError) as caught:
        finished_facts(unreadable)
    assert str(caught.value) == f"{unreadable}: exists, and can't be read (Input/output error)"
    assert "--overwrite" not in caught.value.hint


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks(
    code: int, tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written there could not be read: HDF5 says that another program holds its lock."""
    out = tmp_path / "out.hdf5"

    class File(h5py.File):  # type: ignore[misc]
        def __init__(self, name: Any, *args: Any, **options: Any) -> None:
            if isinstance(name, (str, Path)) and options.get("locking") is not False:
                raise OSError(code, f"[Errno {code}] unable to lock file")
            super().__init__(name, *args, **options)

    def no_lock(*_: object) -> None:
        raise OSError(code, "no locks here")

    monkeypatch.setattr(h5py, "File", File)
    monkeypatch.setattr(fcntl, "flock", no_lock)
    assert run(out, layout="bilm").finished
    assert run(out, layout="bilm", resume=True).finished
    with open_embeddings(out) as embeddings, open_embeddings(out) as again:
        assert len(embeddings) == len(again) == 5
    assert read_bilm(tiny / "options.json", tiny / "weights.hdf5").options.n_layers == 2


@pytest.mark.parametrize("renamed", [False, True])
def test_resume_knows_whether_the_finished_file_has_its_map(tmp_path: Path, renamed: bool) -> None:
    """The settings ask for a map; what was too long for HDF5, or lost on the way, is not there."""
    options: dict[str, Any] = {"layout": "allennlp", "header": HEADER}
    for out in (tmp_path / "with.hdf5", tmp_path / "without.hdf5"):
        with EmbeddingsWriter.create(out, **options) as writer:
            if out.name == "without.hdf5":
                writer.leave_out_map("as this test asks")
            write(writer, sentences(3), block=1)
            if not renamed:  # as a kill leaves it before OUT has its name
                out.mkdir()
                with pytest.raises(OutputError):
                    writer.finish({})
                out.rmdir()
            else:
                writer.finish({})
        with EmbeddingsWriter.resume(out, **options) as writer:
            assert writer.finished
            assert writer.has_map == (out.name == "with.hdf5")


def test_resume_of_nothing_begins(tmp_path: Path) -> None:
    """So a job's script can say `--resume` always."""
    out = tmp_path / "out.hdf5"
    run(out, layout="bilm", resume=True)
    assert facts_of(out)["sentences"] == 5


def test_finish_needs_the_sentences_for_the_map(tmp_path: Path) -> None:
    """Otherwise the map would lack the committed ones, and nobody would see it."""
    out = tmp_path / "out.hdf5"
    unfinished(out, layout="allennlp")
    with EmbeddingsWriter.resume(out, layout="allennlp", header=HEADER) as writer:
        with pytest.raises(ValueError, match="4 committed sentences were not remembered"):
            writer.finish({})
        for one in sentences(4):
            writer.remember(one)
        writer.finish({})
    with h5py.File(out, "r") as file:
        assert json.loads(file["sentence_to_index"][0]) == {
            one.text: str(one.key) for one in sentences(4)
        }


def test_the_journal_stays_small(tmp_path: Path) -> None:
    """Only the last state counts; 100,000 blocks of the carried state would be terabytes."""
    out = tmp_path / "out.hdf5"
    with EmbeddingsWriter.create(out, layout="bilm", header=HEADER) as writer:
        for _ in range(50):
            writer.commit("", os.urandom(10_000))
        assert journal_path(f"{out}.part").stat().st_size < 20_000
        assert writer.progress.blocks == 50


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-3],
        lambda text: text.replace(b'"size"', b'"sizf"'),
        lambda text: b"",
        lambda text: b"\xff\xfe",
        lambda text: signed(b"[]"),
        lambda text: signed(b"{}"),
        lambda text: signed(b"[" * 100_000),
        lambda text: signed(text.split(b"\n")[0].replace(b'"blocks": 2', b'"blocks": -2')),
        lambda text: signed(text.split(b"\n")[0].replace(b'"blocks": 2', b'"blocks": "2"')),
        lambda text: signed(text.split(b"\n")[0].replace(b'"state": "', b'"state": "*')),
        lambda text: signed(
            text.split(b"\n")[0].replace(b'"settings": {', b'"settings": 0, "": {')
        ),
    ],
)
def test_a_damaged_journal(tmp_path: Path, damage: Any) -> None:
    """A disk or a hand can write anything there; it is told, not crashed on."""
    out = tmp_path / "out.hdf5"
    part = unfinished(out)
    path = journal_path(part)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ResumeError) as caught:
        EmbeddingsWriter.resume(out, layout="bilm", header=HEADER)
    assert str(caught.value).startswith(f"{path}: damaged, ")
    assert caught.value.hint == "`--overwrite` starts the run anew"
    run(out, layout="bilm", overwrite=True)
    assert facts_of(out)["complete"] is True


def signed(line: bytes) -> bytes:
    return line + b"\ncrc32 %08x\n" % zlib.crc32(line)


def test_half_a_new_journal_is_passed_over(tmp_path: Path) -> None:
    """A kill while the journal is written leaves the one before in force."""
    out = tmp_path / "out.hdf5"
    part = unfinished(out)
    Path(f"{part}.journal.new").write_bytes(b'{"settings": {"lay')
    run(out, layout="bilm", resume=True)
    assert list(tmp_path.iterdir()) == [out]


@given(
    some.lists(
        some.tuples(some.integers(0, 40_000), some.binary(min_size=1, max_size=9_000)), max_size=12
    ),
    some.integers(0, 30_000),
)
def test_a_rollback_gives_the_committed_bytes(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[int, bytes]], cut: int
) -> None:
    """All writes of a block are undone, also those beyond the end and over each other."""
    folder = tmp_path_factory.mktemp("rollback")
    path, undo = folder / "part", folder / "undo"
    committed = np.random.default_rng(0).bytes(20_000)
    path.write_bytes(committed)
    descriptor = os.open(path, os.O_RDWR)
    file = JournaledFile(descriptor, undo, committed=len(committed), block=7)
    expected = bytearray(committed)
    for number, (offset, content) in enumerate(writes):
        file.seek(offset)
        file.write(content)
        expected.extend(bytes(max(0, offset + len(content) - len(expected))))
        expected[offset : offset + len(content)] = content
        if number == 3:
            file.truncate(cut)
            expected = expected[:cut].ljust(cut, b"\0")
        assert file.size == len(expected)
    file.seek(0)
    assert file.read(len(expected)) == expected == path.read_bytes()
    file.close()
    roll_back(descriptor, undo, committed=len(committed), block=7, name="part")
    assert path.read_bytes() == committed
    os.close(descriptor)


def test_undo_of_an_older_block_is_never_applied(tmp_path: Path) -> None:
    """A kill between journal and the emptying of the log leaves old bytes of a committed block."""
    path, undo = tmp_path / "part", tmp_path / "undo"
    path.write_bytes(b"a" * 100)
    descriptor = os.open(path, os.O_RDWR)
    file = JournaledFile(descriptor, undo, committed=100, block=1)
    file.write(b"b" * 50)
    file.close()
    roll_back(descriptor, undo, committed=100, block=2, name="part")
    assert path.read_bytes() == b"b" * 50 + b"a" * 50
    os.close(descriptor)


def test_a_dead_file_reads_what_was_written_to_it(tmp_path: Path) -> None:
    """HDF5 reads back its own metadata while it is closed; it must find them, and the disk rest."""
    path = tmp_path / "part"
    path.write_bytes(b"a" * 100)
    descriptor = os.open(path, os.O_RDWR)
    file = JournaledFile(descriptor, tmp_path / "undo", committed=100, block=0)
    file.fail(OSError("gone"))
    file.seek(90)
    file.write(b"bcd" * 10)
    file.seek(85)
    assert file.read(45) == b"a" * 5 + b"bcd" * 10 + bytes(10)
    file.close()
    os.close(descriptor)
    assert path.read_bytes() == b"a" * 100


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    """Each says what is in the way and what to do."""
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("text")
    folder.mkdir()
    for out, message, hint in [
        (
            tmp_path / "none" / "out.hdf5",
            f"{tmp_path}/none/out.hdf5: there is no folder {tmp_path}/none",
            f"`mkdir -p {tmp_path}/none`",
        ),
        (
            file / "out.hdf5",
            f"{file}/out.hdf5: {file} is not a folder",
            "choose another place with `-o`",
        ),
        (folder, f"{folder}: is a folder", "name a file in it, such as `-o DIR/out.hdf5`"),
        (
            Path("/dev/null"),
            "/dev/null: not a regular file",
            "HDF5 needs a file on a disk, `-o out.hdf5`",
        ),
        (
            tmp_path / ("x" * 300),
            f"{tmp_path}/{'x' * 300}: can't be written (File name too long)",
            "choose another place with `-o`",
        ),
    ]:
        for resume in (False, True):
            with pytest.raises(OutputError) as caught:
                run(out, layout="bilm", resume=resume, **({} if resume else {"overwrite": True}))
            assert (str(caught.value), caught.value.hint) == (message, hint)
    assert sorted(tmp_path.iterdir()) == [file, folder]


def test_a_pipe_of_the_shell_is_no_place() -> None:
    """`-o >(xz > f)` was told that the disk is full."""
    read, write = os.pipe()
    try:
        with pytest.raises(OutputError, match=f"/dev/fd/{write}: not a regular file"):
            EmbeddingsWriter.create(f"/dev/fd/{write}", layout="bilm", header=HEADER)
    finally:
        os.close(read)
        os.close(write)


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's refusal comes out as ours; root is refused nothing, so it is made."""

    def refuse(*_: Any, **__: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    out = tmp_path / "out.hdf5"
    with pytest.raises(OutputError) as caught:
        EmbeddingsWriter.create(out, layout="bilm", header=HEADER)
    assert str(caught.value) == f"{out}.part: can't be written (Permission denied)"
    assert caught.value.hint == "choose a folder that you can write to with `-o`"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """A renaming would put the file in the place of the link, and fill the wrong disk."""
    target, link = tmp_path / "big" / "out.hdf5", tmp_path / "out.hdf5"
    target.parent.mkdir()
    link.symlink_to(target)
    run(link, layout="bilm")
    assert link.is_symlink()
    assert facts_of(target)["complete"] is True


def test_a_closed_writer(tmp_path: Path) -> None:
    """After the end nothing may be added to the file."""
    out = tmp_path / "out.hdf5"
    writer = run(out, layout="bilm")
    before = hashlib.sha256(out.read_bytes()).hexdigest()
    with pytest.raises(ValueError, match="is closed"):
        writer.append(sentences(1)[0], array(sentences(1)[0]))
    with pytest.raises(ValueError, match="is closed"):
        writer.commit("")
    assert hashlib.sha256(out.read_bytes()).hexdigest() == before


def test_read_journal_for_inspect(tmp_path: Path) -> None:
    """`elmo inspect OUT.part` tells how far a run is, without opening the part."""
    part = unfinished(tmp_path / "out.hdf5")
    journal = read_journal(part)
    assert journal is not None
    assert (journal.sentences, journal.tokens, journal.blocks) == (4, 7, 2)
    assert journal.size == part.stat().st_size
    assert journal.settings["layout"] == "bilm"
    assert not journal.finished
    assert read_journal(tmp_path / "none.part") is None


def test_blocks_and_resumes_do_not_change_what_is_in_the_file(tmp_path: Path) -> None:
    """The bytes depend on where commits are, the arrays do not."""
    for block in (1, 3, 100):
        out = tmp_path / f"{block}.hdf5"
        run(out, layout="allennlp", n=7, block=block)
        with h5py.File(out, "r") as file:
            for one in sentences(7):
                np.testing.assert_array_equal(file[str(one.key)][...], writer_runs.array(one))
