"""A file and its text: how they differ, and sentences that are computed again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedding_files import BARE, DIM, FILES, ONE, array, foreign, lines, made, write, write_types

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.inspection import compare_with_text
from elmo_cli.store.sentence_sample import take_sample
from elmo_cli.text.sentence import Sentence

COMPARED = [name for name in FILES if name not in ("bilm-types", "bilm, a shard")]


@pytest.mark.parametrize("name", COMPARED)
def test_another_text_is_found_by_its_tokens(tmp_path: Path, name: str) -> None:
    """A text with as many tokens in each sentence would pass for that of the file."""
    sentences, _ = FILES[name]
    path = made(tmp_path / "a.hdf5", name)
    assert compare_with_text(path, sentences).listed == []
    last = sentences[-1]
    other = replace(last, tokens=("x", *last.tokens[1:]))
    if "sentences" in name or name == "manylangs":  # the key is the line, or are the tokens
        other = replace(other, text=" ".join(other.tokens))
    problems = compare_with_text(path, [*sentences[:-1], other])
    assert f"sentence {last.key}: " in problems.listed[0]
    more = replace(last, key=last.key + 1, place=99, tokens=("more",), text="more")
    assert compare_with_text(path, [*sentences, more]).count == 2
    assert compare_with_text(path, sentences[:-1]).count == 1


def test_a_text_that_repeats_a_line_lacks_another(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", BARE[:2], layout="allennlp", keys="sentence")
    text = [BARE[0], replace(BARE[0], key=1)]
    assert compare_with_text(path, text).listed == ["the text lacks 1 sentence of the file"]


def test_what_differs_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="flat")
    text = lines()
    text[1] = replace(text[1], tokens=("A", "cat"))
    text[3] = replace(text[3], tokens=("Yes", ",", "yes", "."))
    assert compare_with_text(path, [*text, Sentence(("more",), 12)]).listed == [
        "sentence 1: its tokens are not those of the text: token 1 is 'dog', not 'cat'",
        "sentence 3: 2 tokens in the file, 4 in the text",
        "sentence 12: not in the file, 1 token in the text",
        "the file was made from 12 sentences, the text has 13",
    ]
    pooled = write(tmp_path / "b.hdf5", lines(), layout="flat", pool=True)
    text[3] = replace(text[3], tokens=("Yes",))  # the beginning of those of the file
    assert compare_with_text(pooled, text).listed == [
        "sentence 1: its tokens are not those of the text: token 1 is 'dog', not 'cat'",
        "sentence 3: its tokens are not those of the text",
    ]


@pytest.mark.parametrize("layout", ["flat", "bilm", "manylangs"])
def test_a_shard_has_its_own_part_of_the_text(tmp_path: Path, layout: str) -> None:
    text = lines(blank=False)
    options = ONE if layout == "manylangs" else {}
    path = tmp_path / "a.hdf5"
    assert text[2].tokens == text[4].tokens  # manylangs leaves out the second one
    for i, (begin, end) in enumerate([(0, 2), (2, 8), (8, len(text))], start=1):
        write(
            path,
            text[begin:end],
            layout=layout,
            first_sentence=text[begin].key,
            run_settings={"shard": f"{i}/3"},
            **options,
        )
        assert compare_with_text(path, text).listed == []
        wrong = [*text[: end - 1], replace(text[end - 1], tokens=("x",) * 9), *text[end:]]
        assert compare_with_text(path, wrong).count >= 1
        short = compare_with_text(path, text[: end - 1]).listed
        n = end - begin
        made_from = f"the file was made from {n} sentences"
        assert short == [f"{made_from}, the text has {n - 1} for shard {i}/3"]
        if i < 3:
            path.unlink()
    more = compare_with_text(path, [*text, Sentence(("more",), 12)])
    assert "sentence 12: not in the file" in more.listed[0]  # the last shard extends to the end


TWO_ARRAYS = {str(i): np.ones((3, 2, DIM), "f4") for i in range(2)}
TWO_SENTENCES = [Sentence(("a", "b"), 0, "a b"), Sentence(("c", "d"), 1, "c d")]
ANOTHER_TOKEN = [TWO_SENTENCES[0], Sentence(("c", "e"), 1, "c e")]
ONE_TOKEN_LESS = [TWO_SENTENCES[0], Sentence(("c",), 1, "c")]


def test_files_of_other_programs_have_counts_of_tokens(tmp_path: Path) -> None:
    path = foreign(tmp_path / "a.hdf5", TWO_ARRAYS)
    assert compare_with_text(path, ANOTHER_TOKEN).count == 0
    assert compare_with_text(path, ONE_TOKEN_LESS).count == 1


def test_files_of_other_programs_with_a_map_have_lines(tmp_path: Path) -> None:
    index = ['{"a b": "0", "c d": "1"}']
    path = foreign(tmp_path / "a.hdf5", {**TWO_ARRAYS, "sentence_to_index": index})
    assert compare_with_text(path, TWO_SENTENCES).count == 0
    assert compare_with_text(path, ANOTHER_TOKEN).count == 1


def test_files_that_cannot_be_compared(tmp_path: Path) -> None:
    types = foreign(tmp_path / "types.hdf5", {"embedding": np.ones((4, DIM), "f4")})
    with pytest.raises(UsageError, match="records neither tokens nor"):
        compare_with_text(types, TWO_SENTENCES)
    with pytest.raises(EmbeddingsFileError, match=r"missing\.hdf5: "):
        compare_with_text(tmp_path / "missing.hdf5", TWO_SENTENCES)


NO_MAP: dict[str, Any] = {"layout": "allennlp", "forget_sentences": True}


@pytest.mark.parametrize(("n", "keys"), [(1, [0]), (3, [0, 6, 11]), (99, list(range(12)))])
@pytest.mark.parametrize("layout", ["allennlp", "flat"])
def test_sentences_are_evenly_spread(tmp_path: Path, layout: str, n: int, keys: list[int]) -> None:
    """Lines that occur again are taken like others."""
    path = write(tmp_path / "a.hdf5", lines(), layout=layout)
    sample = take_sample(path, n)
    assert [sampled.key for sampled in sample.sentences] == keys
    assert (sample.passed_over, sample.dtype) == (0, "float32")
    for sampled, key in zip(sample.sentences, keys, strict=True):
        assert sampled.tokens == lines()[key].tokens
        np.testing.assert_array_equal(sampled.array, array(lines()[key]))


def test_sentences_whose_tokens_are_not_recorded_are_counted(tmp_path: Path) -> None:
    """A map of another program has only the last of equal lines: `a b` is sentence 4."""
    names = {"a b": "4", "c": "2"}
    values = {str(i): np.ones((3, 1 if i == 2 else 2, DIM), "f4") for i in range(5)}
    path = foreign(tmp_path / "a.hdf5", {**values, "sentence_to_index": [json.dumps(names)]})
    sample = take_sample(path, 5)
    found = {sampled.key: sampled.tokens for sampled in sample.sentences}
    assert found == {2: ("c",), 4: ("a", "b")}
    assert sample.passed_over == 3


def test_a_text_gives_the_tokens(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), **NO_MAP)
    sample = take_sample(path, 3, lines())
    expected = [lines()[i].tokens for i in (0, 6, 11)]
    assert [sampled.tokens for sampled in sample.sentences] == expected


def test_a_text_with_more_sentences_gives_a_sample_too(tmp_path: Path) -> None:
    """It is `compare_with_text` that reports them."""
    path = write(tmp_path / "a.hdf5", lines(), **NO_MAP)
    text = [*lines(), Sentence(("more",), 12, "more")]
    sample = take_sample(path, 3, text)
    assert [sampled.key for sampled in sample.sentences] == [0, 6, 11]


def test_samples_that_cannot_be_recomputed(tmp_path: Path) -> None:
    carried: dict[str, Any] = {"layout": "flat", "run_settings": {"state": "carry"}}
    for path, problem in (
        (write(tmp_path / "a.hdf5", lines(), **NO_MAP), "does not record the tokens"),
        (write(tmp_path / "b.hdf5", lines(), **carried), "made with `state=carry`"),
        (write_types(tmp_path / "c.hdf5", 3), "holds types"),
    ):
        with pytest.raises(UsageError, match=f"^{path}: {problem}") as caught:
            take_sample(path, 12)
        assert caught.value.hint
    with h5py.File(tmp_path / "a.hdf5", "a") as file:
        file.attrs["state"] = [1, 2]
    with pytest.raises(UsageError, match="made with `state="):
        take_sample(tmp_path / "a.hdf5", 12)
    assert take_sample(write(tmp_path / "d.hdf5", [], layout="flat"), 3).sentences == []
    warm: dict[str, Any] = {"dtype": "int8", "run_settings": {"state": "warm"}}
    sample = take_sample(write(tmp_path / "e.hdf5", lines(), layout="flat", **warm), 3)
    assert (len(sample.sentences), sample.dtype) == (3, "int8")
    assert (sample.path, sample.attributes["state"]) == (str(tmp_path / "e.hdf5"), "warm")
