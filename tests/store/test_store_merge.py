"""merge_shards: the shards of a run become the file of the run without shards, or are refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedding_files import BLOCK, FILES, Change, documents, lines, write, write_types
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.errors import ElmoError, EmbeddingsFileError, UsageError
from elmo_cli.store.shard_number import ShardNumber
from elmo_cli.store.shards import merge_shards
from elmo_cli.text.sentence import Sentence

DOCUMENTS = documents("z", "a/b", "c", n_places=4)
ODD = [replace(s, text=f" {s.text}  x") for s in lines()]  # of which tokens cannot be recovered

INT8 = {"layout": "flat", "dtype": "int8"}
RUNS: dict[str, tuple[list[Sentence], dict[str, Any]]] = {
    **{name: FILES[name] for name in FILES if name not in ("bilm, a shard", "bilm-types")},
    "allennlp, odd lines": (ODD, {"layout": "allennlp"}),
    "allennlp, occurrences": (lines(), {"layout": "allennlp", "sentence_map": "occurrences"}),
    "allennlp, no map": (lines(), {"layout": "allennlp", "forget_sentences": True}),
    "e2e-coref, whole blocks": (DOCUMENTS, {"layout": "e2e-coref"}),
    "flat, int8, pooled": (DOCUMENTS, {**INT8, "pool": True}),
    "flat, int8, blanks skipped": (lines(blank=False), INT8),
}


def shards(folder: Path, sentences: list[Sentence], n: int, **options: Any) -> list[Path]:
    """The run in `n` files, cut between blocks, as runs with shards cut."""
    n_blocks = math.ceil(len(sentences) / BLOCK)
    paths = []
    for i in range(1, n + 1):
        number = ShardNumber(i, n)
        blocks = number.blocks_of(n_blocks)
        own = sentences[blocks.start * BLOCK : blocks.stop * BLOCK]
        first = own[0].key if own else sentences[-1].key + 1
        path = folder / f"{number.file_stem}.hdf5"
        settings = {"shard": str(number)}
        paths.append(write(path, own, first_sentence=first, run_settings=settings, **options))
    return paths


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("n", [1, 3, 4])
def test_merged_shards_have_the_bytes_of_the_run(tmp_path: Path, run: str, n: int) -> None:
    """Without it nobody could tell whether a run in shards is the same run. The last of four
    shards has no sentences."""
    sentences, options = RUNS[run]
    whole = write(tmp_path / "whole.hdf5", sentences, **options)
    paths = shards(tmp_path, sentences, n, **options)
    merged = merge_shards(list(reversed(paths)), tmp_path / "merged.hdf5")
    assert (tmp_path / "merged.hdf5").read_bytes() == whole.read_bytes()
    with h5py.File(whole) as file:
        assert merged.n_sentences == file.attrs["sentences"]
        assert merged.n_tokens == file.attrs["tokens"]
    assert merged.n_bytes == whole.stat().st_size
    assert len(list(tmp_path.iterdir())) == n + 2


def test_shards_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """The shell's `part-*` gives 10 before 2, if names have no leading zeros."""
    paths = {}
    for i, sentence in enumerate(lines(), start=1):
        path = tmp_path / f"{i}.hdf5"
        settings = {"shard": f"{i}/12"}
        write(path, [sentence], layout="bilm", first_sentence=i - 1, run_settings=settings)
        paths[str(i)] = path
    merge_shards([paths[number] for number in sorted(paths)], tmp_path / "m.hdf5")
    whole = write(tmp_path / "whole.hdf5", lines(), layout="bilm")
    assert (tmp_path / "m.hdf5").read_bytes() == whole.read_bytes()


def test_types(tmp_path: Path) -> None:
    whole = write_types(tmp_path / "whole.hdf5", 3)
    first = write_types(tmp_path / "1.hdf5", 2, start=0, run_settings={"shard": "1/2"})
    second = write_types(tmp_path / "2.hdf5", 1, start=2, run_settings={"shard": "2/2"})
    merge_shards([first, second], tmp_path / "m.hdf5")
    assert (tmp_path / "m.hdf5").read_bytes() == whole.read_bytes()


def test_versions_may_differ_and_are_all_kept(tmp_path: Path) -> None:
    """Shards come from several machines; their NumPy need not be the same one."""
    paths = [tmp_path / f"{i}.hdf5" for i in range(3)]
    for i, path in enumerate(paths):
        versions = {"sources": [], "numpy_version": f"2.{i == 0:d}", "h5py_version": "3.16"}
        write(path, lines()[i : i + 1], layout="bilm", first_sentence=i,
              run_settings={"shard": f"{i + 1}/3"}, attributes=versions)  # fmt: skip
    merge_shards([paths[1], paths[2], paths[0]], tmp_path / "m.hdf5")
    with h5py.File(tmp_path / "m.hdf5") as file:
        assert file.attrs["numpy_version"] == '["2.1", "2.0"]'
        assert file.attrs["h5py_version"] == "3.16"


@pytest.mark.parametrize("n_tokens", [-1, 1 << 62])
def test_impossible_numbers_of_tokens(n_tokens: int, tmp_path: Path) -> None:
    """HDF5 would be asked for as many rows."""
    paths = shards(tmp_path, lines(), 2, layout="flat")
    with h5py.File(paths[0], "a") as file:
        file.attrs["tokens"] = n_tokens
    refused(paths, tmp_path / "m.hdf5", f"tokens is {n_tokens}", kind=EmbeddingsFileError)


def test_arrays_that_a_program_has_added(tmp_path: Path) -> None:
    paths = shards(tmp_path, lines(), 3, layout="allennlp")
    for path in paths:
        with h5py.File(path, "a") as file:
            file.attrs["label_ids"] = [3, 1, 4]
    merge_shards(paths, tmp_path / "m.hdf5")
    with h5py.File(tmp_path / "m.hdf5") as file:
        assert file.attrs["label_ids"].tolist() == [3, 1, 4]
    with h5py.File(paths[1], "a") as file:
        file.attrs["label_ids"] = [3, 1, 5]
    refused(paths, tmp_path / "n.hdf5", "label_ids is", kind=EmbeddingsFileError)


# -- refusals -------------------------------------------------------------------------------------


def refused(paths: list[Path], out: Path, *parts: str, kind: type[ElmoError]) -> None:
    """Merge, expect an error with these parts, and nothing left of the output."""
    before = sorted(out.parent.iterdir())
    with pytest.raises(kind) as caught:
        merge_shards(paths, out)
    assert all(part in caught.value.message for part in parts), caught.value.message
    assert caught.value.hint
    assert sorted(out.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("picked", "parts"),
    [
        ((0, 2), ("2 of 3 shards", "missing: 2")),
        ((1,), ("1 of 3 shards", "missing: 1, 3")),
        ((0, 1, 2, 1), ("part-00002-of-00003.hdf5: shard 2/3 is given twice",)),
    ],
)
def test_each_shard_once(tmp_path: Path, picked: tuple[int, ...], parts: tuple[str, ...]) -> None:
    paths = shards(tmp_path, lines(), 3, layout="allennlp")
    refused([paths[i] for i in picked], tmp_path / "m.hdf5", *parts, kind=EmbeddingsFileError)


@pytest.mark.parametrize(
    ("n", "missing"), [(9, "2, 3, 4, 5, 6, 7, 8, 9"), (10, "2, 3, 4, 5, 6, 7, 8, 9, …")]
)
def test_only_some_of_many_missing_shards_are_listed(tmp_path: Path, n: int, missing: str) -> None:
    path = write(tmp_path / "1.hdf5", lines(), layout="flat", run_settings={"shard": f"1/{n}"})
    with pytest.raises(EmbeddingsFileError) as caught:
        merge_shards([path], tmp_path / "m.hdf5")
    assert caught.value.message == f"1 of {n} shards given, missing: {missing}"


def lacks_a_sentence(file: h5py.File) -> None:
    del file["7"]


def has_another_sentence(file: h5py.File) -> None:
    file.copy("7", "15")


def has_another_number(file: h5py.File) -> None:
    file.move("9", "15")


def has_swapped_sentences(file: h5py.File) -> None:
    file.move("6", "x")
    file.move("8", "6")
    file.move("x", "8")


def has_a_longer_sentence(file: h5py.File) -> None:
    values = file["6"][()]
    del file["6"]
    file["6"] = np.concatenate([values, values[:, :1]], axis=1)


def has_another_value(file: h5py.File) -> None:
    file["8"][0, 0, 0] = 7


def has_another_map(file: h5py.File) -> None:
    file["sentence_to_index"][0] = '{"Yes .": "9"}'


def has_no_map(file: h5py.File) -> None:
    del file["sentence_to_index"]


# The second of three shards, which has the sentences 5 to 9.
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lacks_a_sentence, "sentences that are missing: 7"),
        (has_another_sentence, "it has 6 sentences, expected 5"),
        (has_another_number, "sentence_to_index names"),
        (has_swapped_sentences, "sentence 6 is corrupt"),
        (has_a_longer_sentence, "sentence 6 is corrupt"),
        (has_another_value, "sentence 8 is corrupt"),
        (has_another_map, "sentence_to_index"),
        (has_no_map, "sentence_to_index is missing"),
    ],
)
def test_a_damaged_shard_is_refused(damage: Change, message: str, tmp_path: Path) -> None:
    """The merged file would lack a sentence, or have vectors of another one, with exit code 0."""
    paths = shards(tmp_path, lines(), 3, layout="allennlp")
    with h5py.File(paths[1], "r+") as file:
        damage(file)
    refused(paths, tmp_path / "m.hdf5", message, "part-00002", kind=EmbeddingsFileError)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sentence_crc32", "it has 0 checksums"),
        ("token_digests", "no token digests"),
        ("shard", "not a shard"),
        ("complete", "not finished"),
    ],
)
def test_a_shard_without_an_attribute_is_refused(name: str, message: str, tmp_path: Path) -> None:
    paths = shards(tmp_path, lines(), 3, layout="allennlp")
    with h5py.File(paths[1], "r+") as file:
        del file.attrs[name]
    refused(paths, tmp_path / "m.hdf5", message, "part-00002", kind=EmbeddingsFileError)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sentences", 4, "it has 5 sentences, expected 4"),
        ("tokens", 99, "tokens, not 99"),
        ("tokens", "x", "tokens is 'x'"),
        ("shard", "x", "`shard` is 'x'"),
        ("shard", "2/4", "n is 4, that of"),
        ("dtype", "cubes", "its attributes are not those that"),
        ("dtype", "float16", "it has float32 values, expected float16"),
        ("sentence_crc32", np.zeros(4, "u4"), "4 checksums"),
        ("token_digests", np.zeros(4, "u8"), "4 token digests"),
        ("token_digests", np.zeros(5, "u8"), "contradict each other"),
        ("model_sha256", "9ab0", "model_sha256 is '9ab0', that of"),
        ("layout", "bilm", "layout is 'bilm', that of"),
        ("sources", "[]", "sources is [], that of"),
    ],
)
def test_a_shard_with_a_wrong_attribute_is_refused(
    name: str, value: object, message: str, tmp_path: Path
) -> None:
    paths = shards(tmp_path, lines(), 3, layout="allennlp")
    with h5py.File(paths[1], "r+") as file:
        file.attrs[name] = value
    refused(paths, tmp_path / "m.hdf5", message, "part-00002", kind=EmbeddingsFileError)


def test_output_paths(tmp_path: Path) -> None:
    paths = shards(tmp_path, lines(), 2, layout="allennlp")
    with pytest.raises(UsageError):
        merge_shards(paths, paths[0], overwrite=True)
    assert paths[0].exists()
    paths[1].unlink()
    refused(paths, tmp_path / "n.hdf5", f"{paths[1]}: ", kind=EmbeddingsFileError)


# -- shards ---------------------------------------------------------------------------------------


@given(st.integers(0, 200), st.integers(1, 40))
def test_ranges_are_all_blocks_once_and_about_equal(n_blocks: int, n: int) -> None:
    ranges = [ShardNumber(i, n).blocks_of(n_blocks) for i in range(1, n + 1)]
    assert [block for part in ranges for block in part] == list(range(n_blocks))
    sizes = [len(part) for part in ranges]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    "text", ["0/3", "4/3", "3", "a/b", "-1/3", "1/3/5", "1.0/3", "", "1/200000", "٣/٤"]
)
def test_no_shard(text: str) -> None:
    with pytest.raises(UsageError, match="shard=") as caught:
        ShardNumber.parse(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "shard"),
    [("1/1", (1, 1)), (" 3/16 ", (3, 16)), ("12/12", (12, 12)), ("99999/99999", (99_999, 99_999))],
)
def test_a_shard(text: str, shard: tuple[int, int]) -> None:
    assert ShardNumber.parse(text) == ShardNumber(*shard)
    assert str(ShardNumber(*shard)) == text.strip()
