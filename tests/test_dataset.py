"""EmbeddingsDataset: labels beside vectors, padded batches, worker processes."""

from __future__ import annotations

import math
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from store.embedding_files import LINES, array, lines, write, write_types
from torch.utils.data import DataLoader

from elmo_cli.dataset import EmbeddingsDataset
from elmo_cli.errors import UsageError
from elmo_cli.store.reader import open_embeddings

TAGS = [[f"t{len(token) % 3}" for token in line.split()] for line in LINES]
ROOT = Path(__file__).parents[1]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "lines.hdf5", lines(), layout="flat")


def test_sentences_with_labels_per_token(file: Path) -> None:
    data = EmbeddingsDataset(file, labels=TAGS)
    assert len(data) == len(LINES)
    assert data.label_names == ("t0", "t1", "t2")
    for i, sentence in enumerate(lines()):
        item = data[i]
        np.testing.assert_array_equal(item.layers, array(sentence))
        assert [data.label_names[n] for n in item.labels] == TAGS[i]


@pytest.mark.parametrize("layers", [3, None])
def test_a_batch_is_padded_and_masked(tmp_path: Path, layers: int | None) -> None:
    data = EmbeddingsDataset(
        write(tmp_path / "f.hdf5", lines(), layout="flat", layers=layers), TAGS
    )
    items = [data[i] for i in (1, 2, 0)]  # of 2, 0 and 7 tokens
    batch = data.collate(items)
    assert batch.layers.shape == ((3,) if layers else ()) + (3, 7, items[0].layers.shape[-1])
    assert batch.layers.dtype == torch.float32
    assert batch.mask.sum(1).tolist() == [2, 0, 7]
    for row, item in enumerate(items):
        n = item.layers.shape[-2]
        np.testing.assert_array_equal(batch.layers[..., row, :n, :], item.layers)
        assert not batch.layers[..., row, n:, :].any()
        assert batch.labels[row, :n].tolist() == item.labels.tolist()
        assert (batch.labels[row, n:] == -100).all()
    assert data.collate([data[0]._replace(labels=None)]).labels is None


def test_a_batch_is_float32_whatever_the_default_dtype(file: Path) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        data = EmbeddingsDataset(file, TAGS)
        assert data.collate([data[0]]).layers.dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_one_label_per_sentence_and_numbers(file: Path) -> None:
    numbers = EmbeddingsDataset(file, labels=np.arange(len(LINES)))
    assert numbers.label_names == ()
    assert numbers.collate([numbers[i] for i in (3, 1)]).labels.tolist() == [3, 1]
    scores = EmbeddingsDataset(file, labels={key: key / 2 for key in reversed(range(len(LINES)))})
    assert scores.collate([scores[3]]).labels.tolist() == [1.5]
    tensor = EmbeddingsDataset(file, labels=torch.arange(len(LINES)))
    assert tensor.collate([tensor[i] for i in (3, 1)]).labels.tolist() == [3, 1]
    values = [[i % 2 / 2] * len(line.split()) for i, line in enumerate(LINES)]
    values[0] = [1] * len(values[0])  # integers among floats
    times = EmbeddingsDataset(file, labels=values)
    assert times[0].labels.dtype == np.float32
    assert times.collate([times[0], times[1]]).labels.unique().tolist() == [-100, 0.5, 1]
    names = EmbeddingsDataset(file, labels=["no", "yes"] * 6, label_names=["yes", "maybe", "no"])
    assert names.collate([names[0], names[1]]).labels.tolist() == [2, 0]


def test_a_label_that_losses_ignore_may_stand_for_any_label(file: Path) -> None:
    strings = EmbeddingsDataset(file, labels=["a", "b", -100] * 4)
    numbers = EmbeddingsDataset(file, labels=[0, 1, -100] * 4, label_names=["a", "b"])
    for data in (strings, numbers):
        assert [int(data[i].labels) for i in range(3)] == [0, 1, -100]
        assert data.label_names == ("a", "b")


def test_a_file_without_labels(file: Path) -> None:
    data = EmbeddingsDataset(file)
    assert (len(data), data.label_names) == (len(LINES), ())
    assert data[3].labels is None
    np.testing.assert_array_equal(data[3].layers, array(lines()[3]))


def test_a_mapping_may_have_more_keys_and_another_order(tmp_path: Path) -> None:
    """The labels of a corpus serve for a file of some of its sentences, by their names."""
    sentences = lines(blank=False, repeats=False)
    path = write(tmp_path / "m.hdf5", sentences, layout="manylangs", layers=None)
    keys = list(open_embeddings(path))
    tags = {key: TAGS[s.key] for key, s in zip(keys, sentences, strict=True)}
    data = EmbeddingsDataset(path, {"no such": ["u"], **dict(reversed(tags.items()))})
    assert data.keys == keys
    assert data.label_names == ("t0", "t1", "t2")
    for i, key in enumerate(keys):
        assert [data.label_names[n] for n in data[i].labels] == tags[key]


def test_worker_processes(file: Path) -> None:
    """A forked worker opens the file itself; a spawned one gets a pickled copy."""
    data = EmbeddingsDataset(file, labels=TAGS)
    plain = list(DataLoader(data, 4, collate_fn=data.collate))
    copy = pickle.loads(pickle.dumps(data))
    for loader in (
        DataLoader(data, 4, num_workers=2, multiprocessing_context="fork", collate_fn=data.collate),
        DataLoader(copy, 4, collate_fn=copy.collate),
    ):
        for expected, batch in zip(plain, loader, strict=True):
            assert torch.equal(batch.layers, expected.layers)
            assert torch.equal(batch.mask, expected.mask)
            assert torch.equal(batch.labels, expected.labels)


@pytest.mark.parametrize(
    ("labels", "names", "problem"),
    [
        (TAGS[:-1], (), "12 sentences, but labels for 11"),
        ([["a"], *TAGS[1:]], (), "sentence 0 has 7 tokens, but 1 label"),
        ({1: TAGS[1]}, (), "no labels for sentence 0"),
        (TAGS, ("t0", "t2"), "the label 't1', which is not in `label_names`"),
        ([*range(3), None, *range(8)], (), "sentence 3 has a label that means none: None"),
        ([*range(3), math.nan, *range(8)], (), "sentence 3 has a label that means none: nan"),
        ([*range(3), -1, *range(8)], (), "sentence 3 has a label that means none: -1"),
        ([b"t0", *["t0"] * 11], (), "sentence 0 has the label b't0'"),  # as h5py reads strings
        (["a", "b", 1] * 4, (), "sentence 2 has the label 1, others are strings"),
        ([0, 1, 2] * 4, ("a", "b"), "sentence 2 has the label 2, but `label_names` has 2 names"),
        ([0, -2, 1] * 4, ("a", "b"), "sentence 1 has the label -2, but `label_names` has 2 names"),
        ([0, 0.5, 1] * 4, ("a", "b"), "sentence 1 has the label 0.5, but `label_names` has 2"),
        (["a", "b", "_"] * 4, (), "sentence 2 has a label that means none: '_'"),
        ([[None] * 7, *TAGS[1:]], (), "sentence 0 has a label that means none: None"),
        ([TAGS[0], None, *TAGS[2:]], (), "sentence 1 has a label that means none: None"),
        ([*TAGS[:-1], "t0"], (), "sentence 11 has one label, sentence 0 one label per token"),
        (["t0", *TAGS[1:]], (), "sentence 1 has several labels, sentence 0 one label"),
        ([*TAGS[:-1], [*TAGS[-1], "t0"]], (), "sentence 11 has "),
        ([{"a": 1}] * 12, (), "sentence 0 has "),
    ],
)
def test_labels_that_do_not_fit_are_refused_at_once(
    file: Path, labels: Any, names: Any, problem: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(problem)):
        EmbeddingsDataset(file, labels=labels, label_names=names)


def test_numbers_below_zero_are_values(file: Path) -> None:
    values = EmbeddingsDataset(file, labels=[-1.0, 0.5] * 6)
    assert [float(values[i].labels) for i in range(2)] == [-1, 0.5]
    ignored = EmbeddingsDataset(file, labels=[-100, 1] * 6)
    assert [int(ignored[i].labels) for i in range(2)] == [-100, 1]


def test_files_without_tokens_or_order(tmp_path: Path) -> None:
    for path in (
        write(tmp_path / "pooled.hdf5", lines(), layout="flat", pool=True),
        write_types(tmp_path / "types.hdf5", 3),
    ):
        with pytest.raises(UsageError, match="not of tokens"):
            EmbeddingsDataset(path)
    embeddings = open_embeddings(write(tmp_path / "a.hdf5", lines(), layout="flat"))
    embeddings.attributes["order_unknown"] = True
    with pytest.raises(UsageError, match="order of the text"):
        EmbeddingsDataset(embeddings, labels=TAGS)
    assert len(EmbeddingsDataset(embeddings, labels=dict(enumerate(TAGS)))) == len(TAGS)


def test_the_documented_tagger_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program of docs/guides/task-models.md runs and finds tags that the vectors determine."""
    page = (ROOT / "docs" / "guides" / "task-models.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.S)
    trees = "\n".join(
        "".join(f"{i}\t{token}\t_\tt{len(token) % 3}\n" for i, token in enumerate(line.split(), 1))
        for line in LINES
        if line
    )
    (tmp_path / "train.conllu").write_text(trees, encoding="utf-8")
    write(tmp_path / "train.hdf5", lines(blank=False), layout="flat", dtype="float16")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(1)
    exec(compile(program, "docs/guides/task-models.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    losses = [float(line.split()[-1]) for line in printed[:10]]
    assert losses[-1] < losses[0]
    assert re.fullmatch(r"mix:(\d\.\d+,){3}\d\.\d+", printed[-1])
