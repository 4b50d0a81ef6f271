"""EmbeddingsWriter: what it writes, refuses and resumes; and what a changed byte costs."""

from __future__ import annotations

import errno
import os
import random
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from disks import small_disk
from hypothesis import given, settings
from hypothesis import strategies as some
from writer_runs import SETTINGS, WAYS, append, array, run, sentences, spec

from elmo_cli.errors import ElmoError, InputError, OutputError, ResumeError
from elmo_cli.store.derived_file import write_derived_file
from elmo_cli.store.layouts import layout_of_spec
from elmo_cli.store.log_lines import CommittedProgress, read_log
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.spec import read_attributes, write_attributes
from elmo_cli.store.unfinished import is_finished, log_path
from elmo_cli.store.writer import EmbeddingsWriter


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.hdf5"


@pytest.fixture
def part(out: Path) -> Path:
    return Path(f"{out}.part")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def attributes(out: Path) -> dict[str, Any]:
    """Return the attributes of a finished file."""
    with open_embeddings(out) as embeddings:
        return embeddings.attributes


# -- what is written ------------------------------------------------------------------------------


def test_attributes_are_settings_then_facts_then_the_end_mark(out: Path) -> None:
    """`inspect`, `merge` and `resume` find the run there; without the mark it is unfinished."""
    run(out, "bilm", n=5, first_sentence=1024)
    facts = attributes(out)
    checksums = facts.pop("sentence_crc32")
    digests = facts.pop("token_digests")
    assert (checksums.dtype, checksums.shape) == ("<u4", (5,))
    assert (digests.dtype, digests.shape) == ("<u8", (5,))
    assert len(facts.pop("tokens_sha256")) == 64
    assert list(facts.items()) == [
        ("elmo_schema", 2),
        ("layout", "bilm"),
        ("keys", "number"),
        ("forget_sentences", False),
        ("dtype", "float32"),
        ("first_sentence", 1024),
        *SETTINGS.items(),
        ("sentences", 5),
        ("tokens", 1 + 2 + 3 + 1 + 2),
        ("sources", [["in.txt", 0]]),
        ("text_sha256", "hash of 5"),
        ("complete", True),
    ]


@pytest.mark.parametrize("way", WAYS)
def test_what_was_appended_is_read_back_whatever_the_blocks(way: str, tmp_path: Path) -> None:
    """A swapped axis or a neighbor's value would train a wrong model; and shards, resumed and
    repeated runs would differ if bytes depended on blocks, time or place."""
    path = tmp_path / "1.hdf5"
    run(path, way, block=1)
    for block in (2, 6):
        other_path = tmp_path / f"{block}.hdf5"
        run(other_path, way, block=block)
        assert other_path.read_bytes() == path.read_bytes()
    stored = sentences(6, way)
    if way == "manylangs":
        del stored[3]  # of equal sentences the first is kept
    tolerance = 0.1 if way == "int8" else 0
    with open_embeddings(path) as embeddings:
        assert len(embeddings) == len(stored)
        for sentence in stored:
            found = embeddings[embeddings.key_of(sentence)].squeeze()
            expected = array(sentence, way).squeeze()
            np.testing.assert_allclose(found, expected, atol=tolerance)


@pytest.mark.parametrize("way", ["bilm-types", "flat", "int8", "pooled"])
def test_values_that_hdf5_puts_elsewhere_are_copied(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is a forecast: a wrong one must cost a copy, and no byte."""
    run(tmp_path / "in_place.hdf5", way)
    layout = layout_of_spec(spec(way))
    with h5py.File(tmp_path / "in_place.hdf5") as file:
        values = next(iter(file.values()))
        assert values.id.get_offset() == layout.data_start
    for forecast in (0, 4096 * 9):
        monkeypatch.setattr(type(layout), "data_start", forecast)
        run(tmp_path / "copied.hdf5", way, overwrite=True)
        assert (tmp_path / "in_place.hdf5").read_bytes() == (tmp_path / "copied.hdf5").read_bytes()


json_values = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**63), 2**63 - 1) | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
    max_leaves=5,
)


@settings(max_examples=30)
@given(json_values)
def test_any_fact_comes_back(value: object) -> None:
    """A string that looks like JSON, or has a NUL, must not come back as something else."""
    with h5py.File("facts.hdf5", "w", driver="core", backing_store=False) as file:
        write_attributes(file, {"elmo_schema": 2, "fact": value})
        assert read_attributes(file) == {"elmo_schema": 2, "fact": value}


def test_long_facts(out: Path) -> None:
    """Thousands of sources and millions of checksums are one attribute each."""
    facts = {"sources": [[f"é{number}.txt", number] for number in range(20_000)], "n": [1] * 10**5}
    write_derived_file(out, spec("bilm"), [], facts, n_rows=0)
    found = attributes(out)
    assert {name: found[name] for name in facts} == facts


# -- what is refused ------------------------------------------------------------------------------


# Files of the user by their suffix, and the message; "overwrite" replaces the first.
FOREIGN = {
    "out": ([""], "out.hdf5: (exists|not an HDF5 file)"),
    "part": ([".part"], "out.hdf5.part: exists and is"),
    "log": ([".part.log"], "part.log: exists and is"),
    "both": ([".part", ".part.log"], "part.log: exists and is"),
}


@pytest.mark.parametrize("mode", ["", "resume", "overwrite"])
@pytest.mark.parametrize("place", FOREIGN)
def test_files_of_the_user_stay(place: str, mode: str, out: Path) -> None:
    """A file of such a name would be emptied without a word."""
    suffixes, message = FOREIGN[place]
    for suffix in suffixes:
        Path(f"{out}{suffix}").write_bytes(b"precious")
    options = {mode: True} if mode else {}
    if (place, mode) == ("out", "overwrite"):
        run(out, "bilm", **options)
        return
    with pytest.raises((OutputError, ResumeError), match=message):
        run(out, "bilm", **options)
    assert names(out.parent) == sorted(f"out.hdf5{suffix}" for suffix in suffixes)
    assert {path.read_bytes() for path in out.parent.iterdir()} == {b"precious"}


def test_a_temporary_file_of_the_user_stays(tmp_path: Path, out: Path) -> None:
    """OUT.tmp is replaced if a kill of ours left it; what else has this name is not ours."""
    temporary = tmp_path / "out.hdf5.tmp"
    for left_by_kill in (b"", bytes(100), b"\x89HDF\r\n\x1a\n" + bytes(50)):
        temporary.write_bytes(left_by_kill)
        write_derived_file(out, spec("bilm"), [], {}, n_rows=0, overwrite=True)
        assert names(tmp_path) == ["out.hdf5"]
    temporary.write_bytes(b"precious")
    with pytest.raises(OutputError, match="is not an unfinished output of elmo"):
        write_derived_file(out, spec("bilm"), [], {}, n_rows=0, overwrite=True)
    assert temporary.read_bytes() == b"precious"


def test_committed_sentences_are_not_discarded_unasked(out: Path, part: Path) -> None:
    """The choice is the user's; where nothing is committed there is none, and nothing is left."""
    run(out, "bilm", n=0, finish=False)
    assert names(out.parent) == []
    run(out, "bilm", n=4, finish=False)
    with pytest.raises(OutputError, match=r"out.hdf5.part: unfinished, 4 sentences") as caught:
        run(out, "bilm")
    assert caught.value.resumable
    run(out, "bilm", n=2, overwrite=True)
    assert attributes(out)["sentences"] == 2
    assert names(out.parent) == ["out.hdf5"]


OTHER_WEIGHTS = {**SETTINGS, "model_sha256": "77" * 32}
SETTINGS_THAT_DIFFER: list[tuple[dict[str, Any], str]] = [
    ({"layout": "flat"}, "layout: bilm, now flat"),
    ({"dtype": "float16"}, "dtype: float32, now float16"),
    ({"first_sentence": 9}, "first sentence: 0, now 9"),
    ({"run_settings": OTHER_WEIGHTS}, "weights: sha256 6c1f…, now sha256 7777…"),
    ({"run_settings": {**SETTINGS, "state": "x"}}, "state: zero, now x"),
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


def test_two_writers_of_one_file(out: Path) -> None:
    """They would write over each other's bytes."""
    with EmbeddingsWriter.open(out, spec("bilm")) as writer:
        for options in ({"overwrite": True}, {"resume": True}, {}):
            with pytest.raises(OutputError, match="another process is writing it"):
                run(out, "bilm", **options)
        append(writer, "bilm", n=2, block=1)
        writer.finish({})
    assert attributes(out)["sentences"] == 2


@pytest.mark.parametrize("way", ["bilm", "flat"])
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("resumed", [False, True])
def test_a_file_that_appears_meanwhile(way: str, overwrite: bool, resumed: bool, out: Path) -> None:
    """It is replaced only if that was asked for, at the beginning; the work of the run stays."""
    with EmbeddingsWriter.open(out, spec(way), overwrite=overwrite) as writer:
        append(writer, way, n=4, block=2)
        out.write_bytes(b"appeared")
        if not resumed and overwrite:
            writer.finish({})
        elif not resumed:
            with pytest.raises(OutputError, match="was created by another process"):
                writer.finish({})
    if resumed and overwrite:
        run(out, way, resume=True)
    if overwrite:
        assert attributes(out)["sentences"] == (6 if resumed else 4)
        return
    with pytest.raises(ResumeError, match=r"out\.hdf5: not an HDF5 file"):
        run(out, way, resume=True)
    assert out.read_bytes() == b"appeared"
    out.unlink()
    run(out, way, resume=True)
    assert attributes(out)["sentences"] == 6


def test_a_name_that_exists_is_refused_before_the_block_is_computed(out: Path) -> None:
    """It would be found after the model has computed it, or after hours."""
    first, second = sentences(2)
    twice = spec("e2e-coref")
    with EmbeddingsWriter.open(out, twice) as writer:
        writer.check_names([first])
        writer.append_block([first], [array(first)], text_sha256="1")
        with pytest.raises(InputError, match=r"in\.txt, line 1"):
            writer.check_names([first])
    with EmbeddingsWriter.open(out, twice, resume=True) as writer:
        with pytest.raises(InputError, match=r"in\.txt, line 1"):
            writer.append_block([first], [array(first)], text_sha256="1")
        writer.append_block([second], [array(second)], text_sha256="2")
        writer.finish({})
    assert attributes(out)["sentences"] == 2


# -- resuming -------------------------------------------------------------------------------------


def test_progress_comes_back(out: Path, part: Path) -> None:
    """Hash and state are what the caller continues with."""
    run(out, "bilm", n=4, finish=False)
    log = read_log(part)
    assert (log.spec, log.overwrite) == (spec("bilm"), False)
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
    (tmp_path / "big" / "out.hdf5").unlink()  # the link leads to nothing, also while it is resumed
    run(out, "bilm", n=2, finish=False)
    run(out, "bilm", resume=True)
    assert out.is_symlink()
    assert attributes(out)["sentences"] == 6


# -- full disks -----------------------------------------------------------------------------------


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


# -- corruption -----------------------------------------------------------------------------------


class Damage:
    """An unfinished output of four sentences, and the file that the undisturbed run makes."""

    def __init__(self, folder: Path, way: str) -> None:
        self.way = way
        self.out = folder / "out.hdf5"
        self.part = Path(f"{self.out}.part")
        self.log = log_path(self.part)
        self.data_start = layout_of_spec(spec(way)).data_start
        run(self.out, way)
        self.whole = self.out.read_bytes()
        self.out.unlink()
        run(self.out, way, n=4, finish=False)
        self.data = self.part.read_bytes()
        self.lines = self.log.read_bytes()
        self.counts = {"warned": 0, "refused": 0, "silent": 0}

    def resume(self, data: bytes, lines: bytes) -> str:
        """Resume a changed output; it must end in the bytes of the undisturbed run, or an error."""
        for path in self.out.parent.iterdir():
            path.unlink()
        self.part.write_bytes(data)
        self.log.write_bytes(lines)
        try:
            writer = run(self.out, self.way, resume=True)
        except ElmoError as error:
            assert not self.out.exists()
            self.counts["refused"] += 1
            return str(error)
        assert self.out.read_bytes() == self.whole
        assert names(self.out.parent) == ["out.hdf5"]
        self.counts["warned" if writer.warnings else "silent"] += 1
        return "".join(writer.warnings)


def flipped(content: bytes, position: int) -> bytes:
    byte = bytes([content[position] ^ 1 << position % 8])
    return content[:position] + byte + content[position + 1 :]


@pytest.mark.parametrize("way", ["allennlp", "manylangs", "int8"])
def test_a_changed_byte_is_recomputed_or_refused(way: str, tmp_path: Path) -> None:
    """It would be resumed into a finished file without a word."""
    damage = Damage(tmp_path, way)
    step = 31
    for position in range(damage.data_start, len(damage.data), step):
        message = damage.resume(flipped(damage.data, position), damage.lines)
        assert "is corrupt (checksum)" in message, position
    for position in range(random.randrange(step), len(damage.lines), step):
        damage.resume(damage.data, flipped(damage.lines, position))
    assert damage.counts["refused"] <= damage.lines.index(b"\n") // step + 1
    assert damage.counts["silent"] <= 1  # the last line end, as a kill leaves it


@pytest.mark.parametrize("way", ["allennlp", "flat"])
def test_a_cut_is_recomputed_or_refused(way: str, tmp_path: Path) -> None:
    """A power failure cuts what was not yet on the disk."""
    damage = Damage(tmp_path, way)
    for end in range(damage.data_start, len(damage.data), 41):
        assert "is corrupt" in damage.resume(damage.data[:end], damage.lines)
    for end in range(0, len(damage.lines), 41):
        damage.resume(damage.data, damage.lines[:end])
    assert damage.counts["refused"] == 0


def signed(content: bytes) -> bytes:
    return content + b" %08x\n" % zlib.crc32(content)


def changed(line: bytes, old: bytes, new: bytes) -> bytes:
    assert old in line
    return signed(line.rpartition(b" ")[0].replace(old, new))


@pytest.mark.parametrize("replacement", [b"", signed(b"[]"), signed(b"[" * 100_000)])
def test_a_block_that_is_missing_or_none_is_recomputed(replacement: bytes, tmp_path: Path) -> None:
    """A line may have a right checksum and still not be the next one."""
    damage = Damage(tmp_path, "allennlp")
    header, _, second = damage.lines.splitlines(keepends=True)
    message = damage.resume(damage.data, header + replacement + second)
    assert "is corrupt (checksum); computing it and the following ones again" in message


@pytest.mark.parametrize("shape", [b"[3,3,4000000000000]", b"[-3,-3,4]"])
def test_a_block_with_an_impossible_shape_is_recomputed(shape: bytes, tmp_path: Path) -> None:
    """A huge shape must not cause a huge allocation."""
    damage = Damage(tmp_path, "allennlp")
    header, first, second = damage.lines.splitlines(keepends=True)
    lines = header + first + changed(second, b"[3,3,4]", shape)
    message = damage.resume(damage.data, lines)
    assert "is corrupt (checksum); computing it and the following ones again" in message


def test_values_that_vanish_before_the_end(out: Path, part: Path) -> None:
    """Copying what is no longer there would never end."""
    with EmbeddingsWriter.open(out, spec("bilm")) as writer:
        append(writer, "bilm", n=6, block=2)
        os.truncate(part, part.stat().st_size - 5)
        with pytest.raises(OutputError, match="became shorter"):
            writer.finish({})
    assert "block 3 is corrupt" in run(out, "bilm", resume=True).warnings[0]


@pytest.mark.parametrize("header", [b"{}", b"[]", b'{"elmo_block_log":1,"settings":{}}'])
def test_settings_that_cannot_be_read(header: bytes, tmp_path: Path) -> None:
    """Nobody knows then what the values are; `overwrite` starts over."""
    damage = Damage(tmp_path, "allennlp")
    lines = [signed(header), *damage.lines.splitlines(keepends=True)[1:]]
    assert damage.resume(damage.data, b"".join(lines))
    assert damage.counts["refused"] == 1
    if header.startswith(b'{"elmo'):
        with pytest.raises(ResumeError, match="its settings cannot be read"):
            run(damage.out, "allennlp")
        run(damage.out, "allennlp", overwrite=True)
        assert damage.out.read_bytes() == damage.whole


def test_a_log_that_becomes_corrupt_while_it_is_written(out: Path, part: Path) -> None:
    """Hours lie between the commit and the end; the finished file would lack sentences."""
    with EmbeddingsWriter.open(out, spec("bilm")) as writer:
        append(writer, "bilm", n=6, block=2)
        content = log_path(part).read_bytes()
        log_path(part).write_bytes(flipped(content, len(content) - 100))
        with pytest.raises(ResumeError, match="block 3 is corrupt"):
            writer.finish({})
    assert names(out.parent) == ["out.hdf5.part", "out.hdf5.part.log"]
    writer = run(out, "bilm", resume=True)
    assert "block 3 is corrupt" in writer.warnings[0]
    assert attributes(out)["sentences"] == 6
