"""Survey: sizes and shards, told before work starts."""

from __future__ import annotations

import json
import lzma
import shutil
from collections import namedtuple
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.embed import blocks
from elmo_cli.embed.survey import FileBytes, Survey, check_space, gib, survey
from elmo_cli.errors import InputError, OutputError
from elmo_cli.store.layouts import LAYOUTS
from elmo_cli.text.input import InputSettings

STARTS = st.lists(st.booleans(), max_size=40)


def survey_of(starts: list[bool]) -> Survey:
    return Survey(0, 0, True, block_tokens=(1,) * len(starts), starts=tuple(starts))


@given(STARTS, st.integers(1, 12), st.sampled_from(["zero", "warm", "document"]))
def test_shards_hold_every_block_once(starts: list[bool], n_shards: int, state: str) -> None:
    """Without it a block would be computed twice, or by none of the shards."""
    found = survey_of(starts)
    shards = [found.shard(i, n_shards, state=state) for i in range(1, n_shards + 1)]
    assert [block for shard in shards for block in shard] == list(range(len(starts)))
    assert shards[0].start == 0
    assert shards[-1].stop == len(starts)
    for before, after in pairwise(shards):
        assert before.stop == after.start


@given(STARTS, st.integers(1, 12))
def test_shards_are_of_like_size(starts: list[bool], n_shards: int) -> None:
    """Without it one machine would do the work of all."""
    found = survey_of(starts)
    sizes = [len(found.shard(i, n_shards, state="zero")) for i in range(1, n_shards + 1)]
    assert max(sizes) - min(sizes) <= 1


@given(STARTS, st.integers(1, 12))
def test_with_state_document_a_shard_begins_a_document(starts: list[bool], n_shards: int) -> None:
    """Without it the first sentences of a shard would start from zeros within a document."""
    found = survey_of(starts)
    for i in range(1, n_shards + 1):
        shard = found.shard(i, n_shards, state="document")
        if 0 < shard.start < len(starts):
            assert starts[shard.start]


def test_what_there_is_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it bar, sizes and shards would be reckoned from other numbers."""
    monkeypatch.setattr(blocks, "SENTENCES", 2)
    (tmp_path / "a.txt").write_text("one two\n.\nthree\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("four five six\n", encoding="utf-8")
    inputs = (str(tmp_path / "a.txt"), str(tmp_path / "b.txt"))
    found = survey(inputs, InputSettings(), state="zero", batch_size=64, whole=True)
    assert found is not None
    assert (found.sentences, found.tokens, found.exact) == (4, 7, True)
    assert found.block_tokens == (3, 4)
    assert found.starts == (True, False)
    assert found.sources == ((inputs[0], 0), (inputs[1], 3))
    documents = survey(inputs, InputSettings(), state="document", batch_size=64, whole=True)
    assert documents is not None
    assert documents.block_tokens == (4, 3)
    assert documents.starts == (True, True)


@pytest.mark.parametrize("blank", ["keep", "skip"])
@pytest.mark.parametrize("text", ["", "\n\n", "a b\n\nc\u00a0d\n", "a b\r\nc", "\ufeffa\tb \n"])
def test_counts_without_shards_are_the_same(blank: str, text: str, tmp_path: Path) -> None:
    """Without it the size estimate and the bar would be of another input than the run's."""
    path = tmp_path / "corpus.txt"
    path.write_bytes(text.encode())
    given_ = InputSettings(blank=blank)
    quick, whole = (
        survey((str(path),), given_, state="zero", batch_size=64, whole=whole)
        for whole in (False, True)
    )
    assert quick is not None
    assert whole is not None
    assert (quick.sentences, quick.tokens) == (whole.sentences, whole.tokens)


def test_standard_input_is_not_looked_at(tmp_path: Path) -> None:
    """Without it the survey would read the text that the run is to embed."""
    settings = {"state": "zero", "batch_size": 64, "whole": False}
    assert survey(("-",), InputSettings(), **settings) is None
    with pytest.raises(InputError, match="no such file"):
        survey((str(tmp_path / "none"),), InputSettings(), **settings)


def test_raw_text_is_reckoned_from_its_beginning(tmp_path: Path) -> None:
    """Without it a large corpus would be tokenised twice before anything is seen."""
    path = tmp_path / "raw.txt"
    path.write_text("The cat sat on the mat, and left. It came back.\n" * 2000, encoding="utf-8")
    raw = InputSettings(tokenize=True)
    found = survey((str(path),), raw, state="zero", batch_size=64, whole=False)
    assert found is not None
    assert not found.exact
    assert found.sentences == pytest.approx(4000, rel=0.1)
    assert found.tokens == pytest.approx(28_000, rel=0.15)
    whole = survey((str(path),), raw, state="zero", batch_size=64, whole=True)
    assert whole is not None
    assert (whole.exact, whole.sentences, whole.tokens) == (True, 4000, 28_000)
    packed = tmp_path / "raw.txt.xz"  # a hundredth of the bytes
    packed.write_bytes(lzma.compress(path.read_bytes()))
    assert survey((str(packed),), raw, state="zero", batch_size=64, whole=False) == found
    path.write_text("One sentence.\n", encoding="utf-8")
    short = survey((str(path),), raw, state="zero", batch_size=64, whole=False)
    assert short is not None
    assert (short.exact, short.sentences, short.tokens) == (True, 1, 3)


def test_raw_text_is_reckoned_by_the_bytes_of_its_lines(tmp_path: Path) -> None:
    """Without it jsonl with much else in it, or UTF-16, is reckoned far too large and refused."""
    text = "The cat sat on the mat, and left. It came back."
    rows = [json.dumps({"title": "x" * 1000, "text": text})] * 1000
    (tmp_path / "raw.jsonl").write_text("\n".join(rows), "utf-8")
    (tmp_path / "raw.txt").write_text(f"{text}\n" * 1000, "utf-16")
    for name, encoding in (("raw.jsonl", "utf-8"), ("raw.txt", "utf-16")):
        raw = InputSettings(tokenize=True, encoding=encoding)
        paths = (str(tmp_path / name),) * 2
        for inputs, n_sentences in ((paths[:1], 2000), (paths, 4000)):
            found = survey(inputs, raw, state="zero", batch_size=64, whole=False)
            assert found is not None
            assert not found.exact
            assert found.sentences == pytest.approx(n_sentences, rel=0.01)
            assert found.tokens == pytest.approx(n_sentences * 7, rel=0.01)


def test_a_sample_of_many_files_ends_in_a_later_one(tmp_path: Path) -> None:
    """Without it the files before it would not be counted as read."""
    paths = [tmp_path / f"{number}.txt" for number in range(4)]
    for path in paths:
        path.write_text("It left. It came.\n" * 200, "utf-8")
    raw = InputSettings(tokenize=True)
    found = survey(tuple(map(str, paths)), raw, state="zero", batch_size=64, whole=False)
    assert found is not None
    assert (found.sentences, found.tokens, found.exact) == (1600, 4800, False)


def test_size_of_the_file() -> None:
    """Without it a disk could be full after hours that the first minute could have told."""
    found = Survey(10, 1000, True)
    bilm = LAYOUTS["bilm"]
    size = found.bytes(bilm, n_kept=3, dim=1024, itemsize=4, pooled=False)
    tokens = size.total
    assert size.peak == tokens + 1000 * 3 * 1024 * 4  # in OUT.part as well
    assert 1000 * 3 * 1024 * 4 <= tokens <= 1000 * 3 * 1024 * 4 + 10 * 1000
    half = found.bytes(bilm, n_kept=3, dim=1024, itemsize=2, pooled=False).total
    assert half < 0.51 * tokens
    pooled = found.bytes(bilm, n_kept=1, dim=1024, itemsize=4, pooled=True).total
    assert 10 * 1024 * 4 <= pooled < 20 * 1024 * 4
    short = Survey(20_000, 20_000, True)
    flat = short.bytes(LAYOUTS["flat"], n_kept=1, dim=1024, itemsize=1, pooled=True)
    assert 21_000_000 < flat.total < flat.peak < 23_000_000
    types = short.bytes(LAYOUTS["bilm-types"], n_kept=1, dim=512, itemsize=2, pooled=False)
    assert 20_000 * 1024 <= types.total < 20_000 * 1040


def test_what_does_not_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the run would end in the middle of the night with a full disk."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(9, 9, 5 << 30))
    out = tmp_path / "out.hdf5"
    check_space(out, FileBytes(5 << 30, 0, is_copied=False))
    check_space(out, FileBytes(7 << 30, 0, is_copied=False), held=2 << 30)
    check_space(out, FileBytes(5 << 29, 0, is_copied=True))
    with pytest.raises(OutputError, match=r"out\.hdf5: about 7\.0 GiB are needed") as caught:
        check_space(out, FileBytes(7 << 30, 0, is_copied=False), smaller=["a smaller dtype"])
    assert caught.value.hint == "a smaller dtype; or write to another disk"
    with pytest.raises(OutputError, match=r"about 6\.0 GiB are needed for a file of 3\.0 GiB"):
        check_space(out, FileBytes(3 << 30, 0, is_copied=True))


def test_a_folder_that_is_not_there_is_left_to_the_writer(tmp_path: Path) -> None:
    """Without it a wrong folder would be told as a lack of space."""
    check_space(tmp_path / "none" / "out.hdf5", FileBytes(1 << 60, 0, is_copied=True))


@pytest.mark.parametrize(
    ("n_bytes", "said"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1 << 10, "1.0 KiB"), (1536 << 20, "1.5 GiB")],
)
def test_bytes_in_words(n_bytes: int, said: str) -> None:
    """Without it sizes would be told in other units than they are."""
    assert gib(n_bytes) == said
    assert gib(5000 << 40) == "5000.0 TiB"
