"""merge_shards: the shards of a run become the file of the undivided run, or are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_files import BLOCK, DIM, HEADER, content, documents, lines, write, write_types

from elmo_cli.errors import ElmoError, EmbeddingsFileError, OutputError, UsageError
from elmo_cli.store import merge, stream
from elmo_cli.store import writer as writer_module
from elmo_cli.store.merge import merge_shards
from elmo_cli.store.shards import parse_shard, shard_name, shard_range
from elmo_cli.store.stream import MapTexts
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence

PARTS = documents("bc/cctv/00/cctv_0000_0", "bc/cctv/00/cctv_0000_1", "bc/cnn/00/cnn_0_0")
DOCUMENTS = documents("z", "a/b", "c", n_places=4)
BARE = lines(blank=False, repeats=False)

RUNS: dict[str, tuple[list[Sentence], dict[str, Any]]] = {
    "allennlp": (lines(), {"layout": "allennlp"}),
    "allennlp, float16": (lines(), {"layout": "allennlp", "dtype": "float16"}),
    "allennlp, one layer": (lines(), {"layout": "allennlp", "layers": None}),
    "allennlp, pooled": (lines(), {"layout": "allennlp", "pool": True}),
    "allennlp, no map": (lines(), {"layout": "allennlp", "forget_sentences": True}),
    "allennlp, blanks skipped": (lines(blank=False), {"layout": "allennlp"}),
    "allennlp, sentences": (BARE, {"layout": "allennlp", "keys": "sentence"}),
    "bilm": (lines(), {"layout": "bilm"}),
    "bilm, pooled": (lines(), {"layout": "bilm", "pool": True, "layers": None}),
    "e2e-coref": (DOCUMENTS, {"layout": "e2e-coref"}),
    "e2e-coref, one layer": (DOCUMENTS, {"layout": "e2e-coref", "layers": None}),
    "lsgn": (DOCUMENTS, {"layout": "lsgn"}),
    "lsgn, ontonotes": (PARTS, {"layout": "lsgn"}),
    "dygie": (DOCUMENTS, {"layout": "dygie"}),
    "dygie, pooled": (DOCUMENTS, {"layout": "dygie", "pool": True}),
    "manylangs": (lines(blank=False), {"layout": "manylangs", "layers": None}),
    "manylangs, no first line": (lines(blank=False)[1:], {"layout": "manylangs", "layers": None}),
    "flat": (lines(), {"layout": "flat"}),
    "flat, int8": (lines(), {"layout": "flat", "dtype": "int8"}),
    "flat, int8, pooled": (DOCUMENTS, {"layout": "flat", "dtype": "int8", "pool": True}),
    "flat, blanks skipped": (lines(blank=False), {"layout": "flat"}),
    "flat, pooled, documents": (DOCUMENTS, {"layout": "flat", "pool": True}),
}


def shards(folder: Path, sentences: list[Sentence], n: int, **options: Any) -> list[Path]:
    """The run in `n` files, cut between blocks, as `--shard` cuts."""
    n_blocks = -(-len(sentences) // BLOCK)
    paths = []
    for i in range(1, n + 1):
        blocks = shard_range(n_blocks, i, n)
        part = sentences[blocks.start * BLOCK : blocks.stop * BLOCK]
        rest = sentences[blocks.start * BLOCK :]
        header = {**options.pop("header", {}), "shard": f"{i}/{n}"}
        paths.append(
            write(
                folder / f"{shard_name(i, n)}.hdf5",
                part,
                header=header,
                first_sentence=rest[0].key if rest else sentences[-1].key + 1,
                **options,
            )
        )
    return paths


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_merged_is_undivided(
    tmp_path: Path, run: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The definition of equality: every array, attribute and their order; here even every byte."""
    monkeypatch.setattr(stream, "BLOCK_SENTENCES", BLOCK)
    sentences, options = RUNS[run]
    whole = write(tmp_path / "whole.hdf5", sentences, **options)
    paths = shards(tmp_path, sentences, n, **options)
    done = merge_shards(list(reversed(paths)), tmp_path / "merged.hdf5")
    assert content(tmp_path / "merged.hdf5") == content(whole)
    assert (tmp_path / "merged.hdf5").read_bytes() == whole.read_bytes()
    attributes = dict(content(whole)[0])
    assert (done["sentences"], done["tokens"]) == (attributes["sentences"], attributes["tokens"])
    assert done["bytes"] == whole.stat().st_size
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["whole.hdf5", "merged.hdf5", *(path.name for path in paths)]
    )


def test_blocks_of_the_usual_size_give_the_same_arrays(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.hdf5", lines(), layout="allennlp")
    merge_shards(shards(tmp_path, lines(), 3, layout="allennlp"), tmp_path / "m.hdf5")
    assert content(tmp_path / "m.hdf5") == content(whole)


def test_types(tmp_path: Path) -> None:
    """Rows of a vocabulary have no sentences, but their number is kept as tokens."""
    whole = write_types(tmp_path / "whole.hdf5", 3)
    paths = []
    for i in (1, 2):
        path = tmp_path / f"{i}.hdf5"
        header = {**HEADER, "shard": f"{i}/2"}
        options = {"layout": "bilm-types", "header": header, "first_sentence": (0, 2)[i - 1]}
        with EmbeddingsWriter.create(path, **options) as writer:
            for key in ((0, 1), (2,))[i - 1]:
                writer.append(Sentence((f"t{key}",), key), np.full(DIM, key, np.float32))
            writer.finish({})
        paths.append(path)
    merge_shards(paths, tmp_path / "m.hdf5")
    assert content(tmp_path / "m.hdf5") == content(whole)


@given(
    st.lists(st.sampled_from("abcdefg"), max_size=30),
    st.lists(st.integers(0, 30), max_size=3).map(sorted),
)
def test_maps_of_shards_join_to_the_map_of_the_run(texts: list[str], cuts: list[int]) -> None:
    """A shard's map is silent about lines that come again; the joined one must not show it."""
    whole: dict[str, str] = {}
    for number, text in enumerate(texts):
        whole[text] = str(number)
    joined: dict[str, str] = {}
    for begin, end in zip([0, *cuts], [*cuts, len(texts)], strict=True):
        part: dict[str, str] = {}
        for number in range(min(begin, len(texts)), min(end, len(texts))):
            part[texts[number]] = str(number)
        lent = MapTexts(part)
        for number in range(min(begin, len(texts)), min(end, len(texts))):
            joined[lent.text(number)] = str(number)
    assert list(joined.items()) == list(whole.items())


def test_a_map_that_no_string_can_hold_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was an error at the end of a run of months, and nothing helped but to compute it anew."""
    sentences, options = RUNS["allennlp"]
    small = shards(tmp_path, sentences, 3, **options)
    lengths = []
    for path in small:
        with h5py.File(path) as file:
            lengths.append(len(file["sentence_to_index"][0]))
    n_bytes = max(lengths)
    monkeypatch.setattr(writer_module, "MAX_BYTES", n_bytes)
    done = merge_shards(small, tmp_path / "merged.hdf5")
    [warning] = done["warnings"]
    assert warning.startswith(f"{tmp_path}/merged.hdf5: has no sentence_to_index, which would have")
    monkeypatch.setattr(writer_module, "MAX_BYTES", n_bytes - 1)
    (tmp_path / "again").mkdir()
    lacking = shards(tmp_path / "again", sentences, 3, **options)
    monkeypatch.undo()
    again = merge_shards(lacking, tmp_path / "again.hdf5")
    assert "has no sentence_to_index, as " in again["warnings"][0]
    whole = write(tmp_path / "whole.hdf5", sentences, **options)
    with h5py.File(whole, "r+") as file:
        del file["sentence_to_index"]
    for name in ("merged", "again"):
        assert content(tmp_path / f"{name}.hdf5") == content(whole)


def test_versions_may_differ_and_are_all_kept(tmp_path: Path) -> None:
    """Shards come from several machines; their numpy need not be the same one."""
    for i in (1, 2):
        write(
            tmp_path / f"{i}.hdf5",
            lines()[i - 1 : i],
            layout="bilm",
            header={"shard": f"{i}/2"},
            attributes={"sources": [], "numpy_version": f"2.{i}", "h5py_version": "3.16"},
            first_sentence=i - 1,
        )
    merge_shards([tmp_path / "1.hdf5", tmp_path / "2.hdf5"], tmp_path / "m.hdf5")
    attributes = dict(content(tmp_path / "m.hdf5")[0])
    assert attributes["numpy_version"] == '["2.1", "2.2"]'
    assert attributes["h5py_version"] == "3.16"


# -- refusals -------------------------------------------------------------------------------------


def refused(paths: list[Path], out: Path, kind: type[ElmoError] = EmbeddingsFileError) -> str:
    """The message; nothing may be left of the output."""
    before = sorted(out.parent.iterdir())
    with pytest.raises(kind) as caught:
        merge_shards(paths, out)
    assert caught.value.hint
    assert sorted(out.parent.iterdir()) == before
    return caught.value.message


@pytest.fixture
def three(tmp_path: Path) -> list[Path]:
    return shards(tmp_path, lines(), 3, layout="allennlp")


def test_gap(tmp_path: Path, three: list[Path]) -> None:
    message = refused([three[0], three[2]], tmp_path / "m.hdf5")
    assert message == "2 of 3 shards given: shard 2 of 3 missing"
    assert refused(three[1:2], tmp_path / "m.hdf5").endswith("shards 1, 3 of 3 missing")


def test_double(tmp_path: Path, three: list[Path]) -> None:
    message = refused([*three, three[1]], tmp_path / "m.hdf5")
    assert message == f"{three[1]}: shard 2/3 is there twice, also as {three[1]}"


def test_none(tmp_path: Path) -> None:
    assert refused([], tmp_path / "m.hdf5", UsageError) == "no shards given"


def test_unfinished_and_missing_shard(tmp_path: Path, three: list[Path]) -> None:
    with h5py.File(three[1], "a") as file:
        del file.attrs["complete"]
    message = refused(three, tmp_path / "m.hdf5")
    assert message == f"{three[1]}: no end mark, its run did not finish"
    with pytest.raises(EmbeddingsFileError) as caught:
        merge_shards(three, tmp_path / "m.hdf5")
    assert caught.value.hint == "run that shard again with `--resume`, then `elmo merge` once more"
    three[2].unlink()
    assert refused([three[2]], tmp_path / "m.hdf5") == f"{three[2]}: no such file"


def test_no_shard(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="bilm")
    message = refused([path], tmp_path / "m.hdf5")
    assert message == f"{path}: not a shard, it has no attribute `shard`"


@pytest.mark.parametrize(
    ("change", "name", "values"),
    [
        ({"header": {"model_sha256": "9ab0"}}, "model_sha256", f"'9ab0', that of .* is '{'6c1f'}"),
        ({"header": {"state": "warm"}}, "state", "'warm', that of .* is 'zero'"),
        ({"layers": 2, "header": {"layers": "0,1"}}, "layers", "'0,1', that of .* is 'all'"),
        ({"dtype": "float16"}, "dtype", "'float16', that of .* is 'float32'"),
        ({"layout": "bilm"}, "layout", "'bilm', that of .* is 'allennlp'"),
        ({"header": {"shard": "2/4"}}, "number of shards", "4, that of .* is 3"),
        ({"header": {"blank": "skip"}}, "blank", "'skip', that of .* is None"),
        ({"attributes": {"sources": []}}, "sources", r"\[\], that of .* is \[\['in.txt', 0\]\]"),
    ],
)
def test_other_settings_are_named_with_both_values(
    tmp_path: Path, three: list[Path], change: dict[str, Any], name: str, values: str
) -> None:
    header = {"shard": "2/3", **change.get("header", {})}
    options = {"layout": "allennlp", "first_sentence": 5, **change, "header": header}
    three[1].unlink()
    write(three[1], lines()[5:10], **options)
    with pytest.raises(EmbeddingsFileError, match=rf"2-of-00003.hdf5: {name} is {values}"):
        merge_shards(three, tmp_path / "m.hdf5")


def test_shards_of_different_cuts(tmp_path: Path, three: list[Path]) -> None:
    three[0].unlink()
    write(three[0], lines()[:7], layout="allennlp", header={"shard": "1/3"})
    message = refused(three, tmp_path / "m.hdf5")
    assert message == f"{three[1]}: begins with sentence 5, but {three[0]} goes on to 6"


def test_a_shard_without_sentences_has_no_place(tmp_path: Path) -> None:
    """It counts sentences, the one before it lines: skipped blank lines must not part them."""
    late = [replace(sentence, key=sentence.key + 20) for sentence in lines(blank=False)]
    whole = write(tmp_path / "w.hdf5", late, layout="allennlp")
    paths = [tmp_path / "1.hdf5", tmp_path / "2.hdf5"]
    for i, (path, part, first) in enumerate(zip(paths, (late, []), (20, 11), strict=True)):
        header = {"shard": f"{i + 1}/2"}
        write(path, part, layout="allennlp", header=header, first_sentence=first)
    merge_shards(paths, tmp_path / "m.hdf5")
    assert content(tmp_path / "m.hdf5") == content(whole)


def test_output_that_is_there_is_kept(tmp_path: Path, three: list[Path]) -> None:
    out = tmp_path / "m.hdf5"
    out.write_text("mine")
    assert refused(three, out, OutputError) == f"{out}: exists"
    assert out.read_text() == "mine"
    merge_shards(three, out, overwrite=True)
    assert content(out) == content(write(tmp_path / "w.hdf5", lines(), layout="allennlp"))


def test_output_that_is_a_shard(tmp_path: Path, three: list[Path]) -> None:
    with pytest.raises(UsageError, match="is one of the shards"):
        merge_shards(three, three[0], overwrite=True)
    assert three[0].exists()


def test_an_error_in_between_leaves_nothing(
    tmp_path: Path, three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it a merge that failed would block the next one with a part file."""
    with h5py.File(three[2], "a") as file:
        address = h5py.h5o.get_info(file["11"].id).addr
    with three[2].open("r+b") as raw:
        raw.seek(address)
        raw.write(b"\xff" * 40)
    assert "'11' can't be read" in refused(three, tmp_path / "m.hdf5")
    monkeypatch.setattr(merge, "map_texts", lambda _: 1 / 0)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ZeroDivisionError):
        merge_shards(three, tmp_path / "m.hdf5")
    assert sorted(tmp_path.iterdir()) == before


# -- shards ---------------------------------------------------------------------------------------


@given(st.integers(0, 200), st.integers(1, 40))
def test_ranges_are_all_blocks_once_and_about_equal(n_blocks: int, n: int) -> None:
    ranges = [shard_range(n_blocks, i, n) for i in range(1, n + 1)]
    assert [block for part in ranges for block in part] == list(range(n_blocks))
    sizes = [len(part) for part in ranges]
    assert max(sizes) - min(sizes) <= 1


def test_names() -> None:
    assert shard_name(3, 16) == "part-00003-of-00016"
    assert parse_shard("3/16") == (3, 16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0/3", "--shard 0/3: there is no shard 0"),
        ("4/3", "--shard 4/3: i = 4 is greater than n = 3"),
        ("3", "--shard 3: not of the form i/n"),
        ("a/b", "--shard a/b: not of the form i/n"),
        ("-1/3", "--shard -1/3: not of the form i/n"),
        ("1/3/5", "--shard 1/3/5: not of the form i/n"),
        ("1.0/3", "--shard 1.0/3: not of the form i/n"),
        ("", "--shard : not of the form i/n"),
        ("1/200000", "--shard 1/200000: 200000 shards, at most 99999"),
        ("٣/٤", "--shard ٣/٤: not of the form i/n"),
    ],
)
def test_nonsense(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_shard(text)
    assert caught.value.message == message
    assert caught.value.hint
