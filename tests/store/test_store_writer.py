"""EmbeddingsWriter: what it writes, and what it refuses."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from writer_runs import SETTINGS, WAYS, append, array, attributes, names, run, sentences, spec

from elmo_cli import hdf5
from elmo_cli.errors import InputError, OutputError, ResumeError
from elmo_cli.store import block_log, block_values, log_lines, output_file, recorded_facts
from elmo_cli.store.derived_file import write_derived_file
from elmo_cli.store.layouts import StoredSentence, ValueSink, layout_of_spec, sentence_columns
from elmo_cli.store.layouts.base import SENTENCE_MAP
from elmo_cli.store.layouts.sentence_datasets import DatasetLayout, DatasetWriter
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.spec import FileSpec, read_attributes, write_attributes
from elmo_cli.store.unfinished import log_path, part_path
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence


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
            values = embeddings[embeddings.key_of(sentence)].squeeze()
            expected = array(sentence, way).squeeze()
            np.testing.assert_allclose(values, expected, atol=tolerance)


def is_written_in_place(out: Path, way: str, **changes: Any) -> bool:
    """Whether the unfinished output itself becomes the file."""
    run(out, way, finish=False, overwrite=True)
    inode = os.stat(f"{out}.part").st_ino
    run(out, way, resume=True, **changes)
    return os.stat(out).st_ino == inode


@pytest.mark.parametrize("way", WAYS)
def test_values_that_hdf5_puts_elsewhere_are_copied(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is a forecast: a wrong one must cost a copy, and no byte."""
    assert is_written_in_place(tmp_path / "in_place.hdf5", way)
    expected = (tmp_path / "in_place.hdf5").read_bytes()
    layout = layout_of_spec(spec(way))
    for forecast in (0, 4096 * 9):
        monkeypatch.setattr(type(layout), "data_start", forecast)
        assert not is_written_in_place(tmp_path / "copied.hdf5", way)
        assert (tmp_path / "copied.hdf5").read_bytes() == expected


@pytest.mark.parametrize("way", ["allennlp", "lines", "e2e-coref", "bio-embeddings"])
@pytest.mark.parametrize("n_in_place", [0, 1, 4])
def test_data_sets_that_hdf5_puts_elsewhere_are_copied(
    n_in_place: int, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of data sets is a forecast too, of each of them: here a byte lies between two."""
    run(tmp_path / "in_place.hdf5", way)
    real_add = DatasetWriter.add

    def add(writer: DatasetWriter, stored: StoredSentence) -> None:
        if writer._n_sentences == n_in_place:
            hdf5.create_contiguous(writer.file, SENTENCE_MAP, (1,), np.dtype("u1"))
            del writer.file[SENTENCE_MAP]
            hdf5.create_contiguous(writer.file, SENTENCE_MAP, (3,), np.dtype("u1"))
        real_add(writer, stored)
        if writer._n_sentences == 6:
            del writer.file[SENTENCE_MAP]

    monkeypatch.setattr(DatasetWriter, "add", add)
    assert not is_written_in_place(tmp_path / "copied.hdf5", way)
    with (
        open_embeddings(tmp_path / "in_place.hdf5") as in_place,
        open_embeddings(tmp_path / "copied.hdf5") as copied,
    ):
        assert list(copied.problems()) == []
        assert list(copied) == list(in_place)
        for key in in_place:
            np.testing.assert_array_equal(copied[key], in_place[key])


@pytest.mark.parametrize("way", ["allennlp", "manylangs", "dygie", "flat", "bilm-types"])
def test_an_unfinished_output_of_an_earlier_version_is_resumed(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log does not say where the values begin; in layouts of data sets, it was byte 0."""
    run(tmp_path / "out.hdf5", way)
    expected = (tmp_path / "out.hdf5").read_bytes()
    layout = layout_of_spec(spec(way))
    old = tmp_path / "old.hdf5"
    with monkeypatch.context() as patch:
        if isinstance(layout, DatasetLayout):
            patch.setattr(type(layout), "data_start", 0)
        run(old, way, n=4, finish=False)
    log = log_path(part_path(old))
    header, rest = log.read_bytes().split(b"\n", 1)
    record = json.loads(header.rpartition(b" ")[0])
    del record["data_start"]
    log.write_bytes(log_lines._encode_line(record) + rest)
    writer = run(old, way, resume=True)
    assert writer.warnings == []
    assert old.read_bytes() == expected


@pytest.mark.parametrize("way", ["allennlp", "manylangs", "flat", "int8", "pooled"])
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("_CHUNK_BYTES", 100),
        ("_CHUNK_BYTES", 1),
        ("_MAX_CHUNK_BYTES", 1),
        ("_MAX_CHUNK_ARRAYS", 1),
        ("pwritev", None),
    ],
)
def test_blocks_written_in_chunks_have_the_same_bytes(
    name: str, most: int | None, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread writes chunks; a wrong position would overwrite another chunk."""
    run(tmp_path / "one.hdf5", way, n=13, block=13)
    if most is None:
        monkeypatch.delattr(os, name)  # as on some systems
    else:
        monkeypatch.setattr(block_values, name, most)
    run(tmp_path / "chunks.hdf5", way, n=13, block=13)
    assert (tmp_path / "chunks.hdf5").read_bytes() == (tmp_path / "one.hdf5").read_bytes()


def test_an_error_of_the_system_in_the_last_chunk_is_raised(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread writes it; the log would list values that are not in the file."""
    monkeypatch.setattr(block_values, "_CHUNK_BYTES", 1)
    block = sentences(3)
    arrays = [array(sentence) for sentence in block]
    n_before = sum(values.nbytes for values in arrays[:-1])

    def write(descriptor: int, buffers: Any, position: int, original: Any = os.pwritev) -> int:
        begin = layout_of_spec(spec("flat")).data_start
        if position + sum(buffer.nbytes for buffer in buffers) > begin + n_before:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return int(original(descriptor, buffers, position))

    monkeypatch.setattr(os, "pwritev", write)
    with EmbeddingsWriter.open(out, spec("flat")) as writer:
        with pytest.raises(OutputError, match="No space left"):
            writer.append_block(block, arrays, text_sha256="").result()
        assert writer.progress.sentences == 0


def test_an_error_in_a_chunk_commits_nothing_of_its_block(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_values, "_CHUNK_BYTES", 1)
    block = sentences(9)
    arrays = [array(sentence) for sentence in block]
    arrays[5] = arrays[5] * 1e30
    with EmbeddingsWriter.open(out, spec("flat", dtype="float16")) as writer:
        writer.append_block(block[:3], arrays[:3], text_sha256="").result()
        with pytest.raises(OutputError, match=r"in\.txt, line 6: a value is beyond the range"):
            writer.append_block(block[3:], arrays[3:], text_sha256="")
        assert writer.progress.sentences == 3


@pytest.mark.parametrize("way", ["allennlp", "flat"])
def test_half_a_surrogate_pair_is_stored(way: str, out: Path) -> None:
    """JSON can contain it, UTF-8 cannot."""
    sentence = Sentence(("a\ud800", "b"), 0)
    with EmbeddingsWriter.open(out, spec(way, forget_sentences=way == "allennlp")) as writer:
        writer.append_block([sentence], [array(sentence)], text_sha256="")
        writer.finish({})
    with open_embeddings(out) as embeddings:
        np.testing.assert_array_equal(embeddings[0], array(sentence))


@pytest.mark.parametrize("way", ["allennlp", "manylangs", "flat", "int8"])
def test_what_is_moved_to_the_disk_is_written_as_any_other(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of millions of sentences, checksums, digests and columns are not all in memory."""
    run(tmp_path / "a.hdf5", way, n=12)
    for module in (recorded_facts, sentence_columns):
        monkeypatch.setattr(module, "_MAX_PENDING", 2)
    run(tmp_path / "b.hdf5", way, n=12)
    assert (tmp_path / "b.hdf5").read_bytes() == (tmp_path / "a.hdf5").read_bytes()


@pytest.mark.parametrize(("interval_s", "n_expected"), [(0.0, 6), (3600.0, 0)])
def test_now_and_then_blocks_go_to_the_disk(
    interval_s: float, n_expected: int, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure costs seconds of work; both files are needed."""
    monkeypatch.setattr(block_log, "_FSYNC_INTERVAL_S", interval_s)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    run(out, "bilm", n=6, block=2, finish=False)
    assert len(synced) == n_expected
    assert len(set(synced)) == (2 if n_expected else 0)


def lists_and_objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(values) | st.dictionaries(st.text(), values)


SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
JSON_VALUES = st.recursive(SCALARS, lists_and_objects, max_leaves=5)


@settings(max_examples=30)
@given(JSON_VALUES)
def test_any_fact_comes_back(value: object) -> None:
    """A string that looks like JSON, or has a NUL, must not come back as something else."""
    with h5py.File("facts.hdf5", "w", driver="core", backing_store=False) as file:
        write_attributes(file, {"elmo_schema": 2, "fact": value})
        assert read_attributes(file) == {"elmo_schema": 2, "fact": value}


def test_long_facts(out: Path) -> None:
    """Thousands of sources and millions of checksums are one attribute each."""
    facts = {"sources": [[f"é{number}.txt", number] for number in range(20_000)], "n": [1] * 10**5}
    write_derived_file(out, spec("bilm"), [], facts, n_rows=0)
    stored = attributes(out)
    assert {name: stored[name] for name in facts} == facts


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


def test_few_ends_of_metadata_blocks_stay_unused(out: Path) -> None:
    """HDF5 keeps a record of each in memory, which would grow with the number of sentences."""
    n_sentences = 1500
    values = np.zeros((1, 1024), "f4")  # HDF5 packs smaller values into blocks of their own
    sink = ValueSink(n_sentences, lambda address, values: None)
    with output_file.new_output_file(out, FileSpec(forget_sentences=True), sink) as output:
        for key in range(n_sentences):
            output.add(StoredSentence(Sentence(("a",), key), values, None, crc32=0))
        unused_bytes = output._file.id.get_freespace()
        output.finish({})
    assert unused_bytes < 16 * n_sentences
