"""take_sample: which sentences of a file are computed again, and which cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedding_files import DIM, array, foreign, lines, write, write_types

from elmo_cli.errors import ElmoError, EmbeddingsFileError, UsageError
from elmo_cli.store.sample import take_sample

NO_MAP: dict[str, Any] = {"layout": "allennlp", "forget_sentences": True}


@pytest.mark.parametrize(("n", "keys"), [(1, [0]), (3, [0, 6, 11]), (99, list(range(12)))])
@pytest.mark.parametrize("layout", ["allennlp", "flat"])
def test_sentences_are_evenly_spread(tmp_path: Path, layout: str, n: int, keys: list[int]) -> None:
    """Lines that occur again are taken like others."""
    path = write(tmp_path / "a.hdf5", lines(), layout=layout)
    sample = take_sample(path, n)
    assert [key for key, _, _ in sample.sentences] == keys
    assert (sample.passed_over, sample.dtype) == (0, "float32")
    for key, tokens, values in sample.sentences:
        assert tokens == lines()[key].tokens
        np.testing.assert_array_equal(values, array(lines()[key]))


def test_sentences_whose_tokens_are_not_recorded_are_counted(tmp_path: Path) -> None:
    """A map of another program has only the last of equal lines: `a b` is sentence 4."""
    names = {"a b": "4", "c": "2"}
    values = {str(i): np.ones((3, 1 if i == 2 else 2, DIM), "f4") for i in range(5)}
    path = foreign(tmp_path / "a.hdf5", {**values, "sentence_to_index": [json.dumps(names)]})
    sample = take_sample(path, 5)
    assert [(key, tokens) for key, tokens, _ in sample.sentences] == [(2, ("c",)), (4, ("a", "b"))]
    assert sample.passed_over == 3


def test_a_text_gives_the_tokens(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), **NO_MAP)
    sample = take_sample(path, 3, lines())
    assert [tokens for _, tokens, _ in sample.sentences] == [lines()[i].tokens for i in (0, 6, 11)]


@pytest.mark.parametrize(
    ("options", "text", "kind"),
    [
        (NO_MAP, None, UsageError),
        (NO_MAP, lines()[1:], EmbeddingsFileError),
        ({"layout": "bilm"}, [*lines()[:11], lines()[5]], None),
        ({"layout": "flat", "run_settings": {"state": "carry"}}, None, UsageError),
    ],
)
def test_refused(
    tmp_path: Path, options: dict[str, Any], text: Any, kind: type[ElmoError] | None
) -> None:
    path = write(tmp_path / "a.hdf5", lines(), **options)
    if kind is None:  # a sentence that the file does not have
        with h5py.File(path, "r+") as file:
            file.move("5", "99")
        kind = EmbeddingsFileError
    with pytest.raises(kind) as caught:
        take_sample(path, 12, text)
    assert caught.value.message.startswith(f"{path}: ")
    assert caught.value.hint


def test_types_and_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds types"):
        take_sample(write_types(tmp_path / "a.hdf5", 3), 1)
    assert take_sample(write(tmp_path / "b.hdf5", [], layout="flat"), 3).sentences == []
