"""Pieces of a text and their shards, without a cluster: what any number of workers agrees on."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_cli.cluster import source
from elmo_cli.cluster.actor import EmbedActor
from elmo_cli.cluster.folder import folder_of
from elmo_cli.cluster.home import go_home
from elmo_cli.cluster.sink import renew, store
from elmo_cli.cluster.source import Piece, n_pieces_of, pieces, survey_of
from elmo_cli.cluster.unfinished import UNFINISHED
from elmo_cli.embed import blocks
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedderSettings, EmbedJob, ModelSource
from elmo_cli.embed.run import make_embedder, run_job
from elmo_cli.errors import WeightFileError
from elmo_cli.pretrained.load import load
from elmo_cli.store.merge import merge_shards
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import finished_attributes
from elmo_cli.text.input import InputSettings

LINES = [f"line {i} has {'some ' * (i % 4)}tokens ." for i in range(25)]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 3 sentences, shards of 2 blocks."""
    monkeypatch.setattr(blocks, "SENTENCES", 3)
    monkeypatch.setattr(source, "BLOCKS_PER_SHARD", 2)


@pytest.fixture
def job(tmp_path: Path, tiny: Path) -> EmbedJob:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("\n".join(LINES[:10]) + "\n")
    two.write_text("\n".join(LINES[10:]) + "\n")
    inputs = (str(one), str(two))
    return EmbedJob(inputs=inputs, output=str(tmp_path / "shards"), model=ModelSource(str(tiny)))


def taken(job: EmbedJob) -> list[Piece]:
    found, _ = survey_of(job)
    return list(pieces(job, found))


def keys(given: list[Piece]) -> list[int]:
    return [s.key for piece in given for block in piece.blocks for s in block.sentences]


def stored(job: EmbedJob, given: list[Piece]) -> list[Path]:
    """The shards of pieces, each under its name."""
    embedder, (found, _) = make_embedder(job), survey_of(job)
    folder, paths = folder_of(job, "."), []
    for piece in given:
        store(job, embedder, found, piece, folder, piece.name({}))
        paths.append(Path(job.output) / piece.name({}))
    return paths


def same(one: Path, other: Path) -> None:
    """Every array and every attribute, bit for bit."""
    with open_embeddings(one) as a, open_embeddings(other) as b:
        assert list(a) == list(b)
        np.testing.assert_equal(a.attributes, b.attributes)
        for key in a:
            assert a[key].tobytes() == b[key].tobytes()


def test_all_sentences_once_and_in_order(job: EmbedJob) -> None:
    """What two pieces share, or none has, would be there twice or lost."""
    found = taken(job)
    assert [piece.number for piece in found] == [1, 2, 3, 4, 5]
    assert keys(found) == list(range(25))
    assert {piece.n_pieces for piece in found} == {n_pieces_of(survey_of(job)[0])} == {5}
    assert [len(piece.blocks) for piece in found] == [1, 2, 2, 2, 2]


@pytest.mark.parametrize("layout", ["allennlp", "flat"])
def test_merged_shards_are_the_file_of_one_process(
    job: EmbedJob, tmp_path: Path, layout: str
) -> None:
    """The one promise: a cluster gives no other vectors."""
    job = replace(job, file=FileSpec(layout))
    shards = stored(job, taken(job)[::-1])  # in whatever order workers are done
    whole, merged = tmp_path / "whole.hdf5", tmp_path / "merged.hdf5"
    run_job(replace(job, output=str(whole)))
    merge_shards(shards, merged)
    same(merged, whole)
    assert not list((Path(job.output) / UNFINISHED).iterdir())


def test_names_follow_from_content_place_and_settings(job: EmbedJob) -> None:
    """A name that says less would let a shard of another text or model be taken for this one."""
    names = [piece.name({"dtype": "float32"}) for piece in taken(job)]
    assert len(set(names)) == 5
    assert names == [piece.name({"dtype": "float32"}) for piece in taken(job)]
    assert names[0].startswith("part-00001-of-00005-")
    assert names[0] != taken(job)[0].name({"dtype": "float16"})
    Path(job.inputs[1]).write_text("\n".join([*LINES[10:20], "changed", *LINES[21:]]) + "\n")
    changed = [piece.name({"dtype": "float32"}) for piece in taken(job)]
    assert [a == b for a, b in zip(names, changed, strict=True)] == [True, True, True, False, True]


def test_a_line_that_cannot_be_read_holds_its_place(job: EmbedJob) -> None:
    """The other shards must be those of the mended text, or all would be made again."""
    before = taken(job)
    content = Path(job.inputs[0]).read_bytes().split(b"\n")
    content[5] += b"\xff"
    Path(job.inputs[0]).write_bytes(b"\n".join(content))
    found = taken(job)
    assert [piece.error for piece in found if piece.number != 2] == [None] * 4
    assert str(found[1].error) == f"{job.inputs[0]}, line 6: 0xFF at byte 25 is not UTF-8"
    for old, new in zip(before, found, strict=True):
        assert (old.name({}) == new.name({})) == (new.number != 2)
    left_out = taken(replace(job, text=InputSettings(on_error="skip")))
    assert not any(piece.error for piece in left_out)
    assert keys(left_out) == [key for key in range(25) if key != 5]


@pytest.mark.parametrize("end", [[], ["bad", "bad", ""]])
def test_a_sentence_with_two_bad_lines_holds_one_place(job: EmbedJob, end: list[str]) -> None:
    """With a place for each line, all shards after it would be made again when they are mended."""
    text = Path(job.inputs[0]).with_name("text.conll")
    job = replace(job, inputs=(str(text),))
    rows = [row for line in LINES for row in (*line.split(), "")] + end
    text.write_text("\n".join(rows) + "\n")
    before = taken(job)
    for i in (0, 2, *range(rows.index("7"), rows.index("7") + 3)):
        rows[i] += "\udcff"
    rows = [row.replace("bad", "\udcff") for row in rows]
    text.write_text("\n".join(rows) + "\n", errors="surrogateescape")
    after = taken(job)
    broken = [1, 2, *[5] * bool(end)]
    assert [piece.number for piece in after if piece.error] == broken
    assert keys(after) == keys(before)
    for old, new in zip(before, after, strict=True):
        assert (old.name({}) == new.name({})) == (new.number not in broken)


def test_names_that_are_absolute_need_no_working_folder(
    job: EmbedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that lacks the folder would do nothing, or what stands in another of its names."""
    monkeypatch.chdir(tmp_path)
    away = str(tmp_path / "nowhere")
    assert go_home(replace(job, output="memory://b/"), away) is None
    relative = replace(job, inputs=(job.inputs[0], "two.txt"))
    assert go_home(relative, str(tmp_path)) is None
    broken = go_home(relative, away)
    assert str(broken) == (
        f"{away}: can't be entered here (No such file or directory), and two.txt is relative to it"
    )
    model = str(go_home(replace(job, model=ModelSource("mine.tar.gz")), away))
    assert model.endswith("and mine.tar.gz is relative to it")
    assert go_home(replace(job, model=ModelSource("small")), away) is None
    found, _ = survey_of(job)
    batch = {"piece": [pickle.dumps(piece) for piece in pieces(job, found, broken)]}
    assert list(EmbedActor(job, found, away, 1)(batch)["error"]) == [str(broken)] * 5
    batch = {"piece": [pickle.dumps(piece) for piece in pieces(job, found)]}
    assert list(EmbedActor(relative, found, away, 1)(batch)["error"]) == [str(broken)] * 5
    assert list(EmbedActor(job, found, away, 1)(batch)["error"]) == [""] * 5


@pytest.mark.parametrize("how", ["gone", "shorter", "longer", "other"])
def test_a_text_that_is_no_longer_as_it_was_looked_at(job: EmbedJob, how: str) -> None:
    """Shards of another text, under the checksum of this one, would be merged with those of it."""
    before, (found, _), second = taken(job), survey_of(job), Path(job.inputs[1])
    text = second.read_text()
    if how == "gone":
        second.unlink()
    else:
        second.write_text({"shorter": text[:-9], "longer": text + text}.get(how, text.upper()))
    after = list(pieces(job, found))
    n_same = {"gone": 0, "other": 2}.get(how, 4)
    assert [piece.name({}) for piece in after[:n_same]] == [p.name({}) for p in before[:n_same]]
    assert not any(piece.error for piece in after[:n_same])
    errors = [str(piece.error) for piece in after[n_same:]]
    says = "no such file" if how == "gone" else "has changed since the run began"
    assert errors == [f"{second}: {says}"] * (5 - n_same)


def test_shards_of_a_mended_text_are_renewed_and_merged(job: EmbedJob, tmp_path: Path) -> None:
    """They hold a checksum of the whole text, which the mended line has changed."""
    good = Path(job.inputs[0]).read_bytes()
    Path(job.inputs[0]).write_bytes(good.replace(b"line 4 ", b"line \xff "))
    first = [piece for piece in taken(job) if not piece.error]
    shards = stored(job, first)
    Path(job.inputs[0]).write_bytes(good)
    [missing] = [piece for piece in taken(job) if piece.name({}) not in {p.name for p in shards}]
    found, _ = survey_of(job)
    facts = {"sources": [list(s) for s in found.report.sources], "text_sha256": found.text_sha256}
    for path in shards:
        assert finished_attributes(str(path))["text_sha256"] != found.text_sha256
        renew(folder_of(job, "."), path.name, facts)
        kept = path.stat().st_mtime_ns
        renew(folder_of(job, "."), path.name, facts)
        assert path.stat().st_mtime_ns == kept
    shards += stored(job, [missing])
    whole, merged = tmp_path / "whole.hdf5", tmp_path / "merged.hdf5"
    run_job(replace(job, output=str(whole)))
    merge_shards(shards, merged)
    same(merged, whole)


def test_nothing_is_left_of_a_shard_that_failed(job: EmbedJob) -> None:
    """Half a shard under its name would be taken for a whole one."""
    [first, *_] = taken(job)
    bilm, (found, _) = load(job.model.name_or_path), survey_of(job)
    with torch.no_grad():
        bilm.backward_lm.layers[1].input.bias.fill_(float("nan"))
    embedder = Embedder(bilm)
    with pytest.raises(WeightFileError):
        store(job, embedder, found, first, folder_of(job, "."), first.name({}))
    assert [path.name for path in Path(job.output).rglob("*")] == [UNFINISHED]


def test_shards_without_sentences_have_no_place_in_the_text(
    job: EmbedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document that spans several pieces leaves some of them empty, in the middle of the text."""
    monkeypatch.setattr(blocks, "_OPEN_DOCUMENT", 1)
    for name, lines in zip(job.inputs, (LINES[:18], LINES[18:24]), strict=True):
        Path(name).write_text("\n".join(lines) + "\n")
    job = replace(job, embedder=EmbedderSettings("document"))
    found = taken(job)
    assert [len(piece.blocks) for piece in found] == [6, 0, 0, 2]
    merged, whole = tmp_path / "merged.hdf5", tmp_path / "whole.hdf5"
    merge_shards([str(path) for path in stored(job, found)], merged)
    run_job(replace(job, output=str(whole)))
    same(merged, whole)


def test_documents_stay_whole(job: EmbedJob) -> None:
    """With --state document a shard that began within one would have other vectors."""
    Path(job.inputs[0]).write_text("\n".join([*LINES[:4], "", *LINES[4:]]) + "\n")
    found = taken(replace(job, embedder=EmbedderSettings("document")))
    begins = [piece.blocks[0].sentences[0] for piece in found if piece.blocks]
    assert all(sentence.starts_document for sentence in begins)


def test_what_was_read_ahead_holds_its_place_too(job: EmbedJob) -> None:
    """A sentence would be missing from a finished shard, and nobody told of it."""
    text = Path(job.inputs[0]).with_name("text.conll")
    job = replace(job, inputs=(str(text),))
    good = b"a\n\nb\n\nc\nc\n\nd\ne\n\nf\ng\n"
    text.write_bytes(good)
    before = keys(taken(job))
    text.write_bytes(good.replace(b"c\nc\n", b"c\n\xff\n"))
    after = taken(job)
    assert keys(after) == before
    assert [str(piece.error) for piece in after] == [f"{text}, line 6: 0xFF at byte 1 is not UTF-8"]
