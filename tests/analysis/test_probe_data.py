"""Train, dev and test together: which files fit, and which labels are of use."""

from __future__ import annotations

import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest
from embeddings_files import layers, make_sentences, write, write_conllu, write_lines

from elmo_cli.analysis.labelled_vectors import LabelSettings
from elmo_cli.analysis.probe_data import UNKNOWN_LABEL, read_probe_data, split_dev
from elmo_cli.errors import EmbeddingsFileError, InputError, UsageError

TEXT = ["a b", "c", "d e f", "a", "b c"]
LABELS = [["X", "Y"], ["X"], ["Y", "Y", "X"], ["Y"], ["X", "X"]]
SPLITS = ("train", "dev", "test")


def stored(path: Path, name: str = "all", *, is_foreign: bool = False, **header: object) -> str:
    """Embeddings of the text with the layers NAME, with or without attributes."""
    sentences = make_sentences(TEXT)
    arrays = [layers(sentence) for sentence in sentences]
    if name == "top":
        arrays = [array[2] for array in arrays]
    elif name != "all":
        arrays = [array[list(map(int, name.split(",")))] for array in arrays]
    if not is_foreign:
        return str(write(path, sentences, arrays, header={"layers": name, **header}))
    with h5py.File(path, "w") as file:
        for key, array in enumerate(arrays):
            file[str(key)] = array[0] if len(array) == 1 else array
    return str(path)


def read(tmp_path, layers=(), *, own_dev=True, labels=LABELS, column=None, **files):
    """The data of three equal splits, where `files` are other embeddings files."""
    tags = str(write_lines(tmp_path / "a.tags", labels))
    if column is not None:
        tags = str(write_conllu(tmp_path / "a.conllu", make_sentences(TEXT), labels))
    default = None if len(files) == 3 else stored(tmp_path / "a.hdf5")
    pairs = {name: (files.get(name, default), tags) for name in SPLITS}
    pairs["dev"] = pairs["dev"] if own_dev else None
    return read_probe_data(**pairs, labels=LabelSettings(column=column), layers=layers)


def test_labels_of_train_have_ids(tmp_path):
    sentences = make_sentences(["a z", "b"])
    test = (
        str(write(tmp_path / "t.hdf5", sentences)),
        str(write_lines(tmp_path / "t.tags", [["X", "Z"], ["Y"]])),
    )
    train = stored(tmp_path / "a.hdf5"), str(write_lines(tmp_path / "a.tags", LABELS))
    data = read_probe_data(train, test, train)
    assert data.labels == ("X", "Y")
    assert data.targets["train"].tolist() == [0, 1, 0, 1, 1, 0, 1, 0, 0]
    assert data.targets["test"].tolist() == [0, UNKNOWN_LABEL, 1]
    assert data.is_unseen.tolist() == [False, True, False]
    assert data.unit == "tokens"
    assert data.column is None
    assert data.model == "m"
    assert data.state == "zero"
    assert data.layers == (0, 1, 2)
    assert data.has_own_dev
    again = pickle.loads(pickle.dumps(data))  # it comes out of a child process
    assert again == data
    np.testing.assert_array_equal(again.vectors(1)["train"], data.vectors(1)["train"])


def keys_of(split):
    return [sentence.key for sentence in split.sentences]


def test_without_dev_every_tenth_sentence_is_split_off(tmp_path):
    text = [" ".join([f"w{k}"] * (k % 3 + 1)) for k in range(25)]
    path = write(tmp_path / "a.hdf5", make_sentences(text))
    labels_path = write_lines(tmp_path / "a.tags", [line.split() for line in text])
    files = (str(path), str(labels_path))
    data = read_probe_data(files, files)
    train = data.splits["train"]
    dev = data.splits["dev"]
    assert keys_of(dev) == [9, 19]
    assert sorted(keys_of(train) + keys_of(dev)) == list(range(25))
    assert dev.labels == dev.words == [*text[9].split(), *text[19].split()]
    whole = data.splits["test"].vectors(1)
    parts = np.concatenate([train.vectors(1), dev.vectors(1)])
    assert sorted(map(tuple, whole.tolist())) == sorted(map(tuple, parts.tolist()))
    assert not data.has_own_dev
    few = train.select([3, 5, 8])
    assert [len(split.sentences) for split in split_dev(few)] == [2, 1]


@pytest.mark.parametrize(
    ("names", "chosen", "expected"),
    [
        (("all", "all", "all"), (), (0, 1, 2)),
        (("all", "all", "all"), (2, 0, 2), (2, 0)),
        (("all", "all", "0,1,2"), (), (0, 1, 2)),
        (("top", "top", "top"), (), ("top",)),
        (("-0,1,2", "all", "0,1"), (1,), (1,)),
        (("2", "2,1", "all"), (), (2,)),
    ],
)
def test_layers_are_numbers_of_the_model(tmp_path, monkeypatch, names, chosen, expected):
    """And the same in all files."""
    monkeypatch.chdir(tmp_path)
    data = read(tmp_path, chosen, **files_with_layers(names))
    assert data.layers == expected
    for layer in data.layers:
        number = {"top": 2, "unknown": 1}.get(layer, layer)
        whole = np.concatenate([layers(sentence)[number] for sentence in make_sentences(TEXT)])
        for vectors in data.vectors(layer).values():
            np.testing.assert_array_equal(vectors, whole)


@pytest.mark.parametrize(
    ("names", "chosen", "message"),
    [
        (("all", "2,1", "2,1"), (0,), "dev: `layer=0`: the file has layers 2, 1"),
        (("all", "2,1", "2,1"), (), "dev: `layer=0`: the file has layers 2, 1"),
        (("top", "all", "all"), (), "dev: `layer=top`: the file has layers 0, 1, 2"),
        (("-1", "-1", "-1"), (1,), "train: `layer=1`: the file has layer unknown"),
    ],
)
def test_layers_that_a_file_lacks_are_refused(tmp_path, monkeypatch, names, chosen, message):
    monkeypatch.chdir(tmp_path)
    files = files_with_layers(names)
    with pytest.raises(UsageError, match=message):
        read(tmp_path, chosen, **files)


def files_with_layers(names):
    """Embeddings with these layers for each split, "-" as those of another program.

    Another program does not record which layer it stored.
    """
    files = {}
    for split, name in zip(SPLITS, names, strict=True):
        files[split] = stored(Path(split), name.strip("-"), is_foreign=name.startswith("-"))
    return files


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"model_sha256": "9ab0"}, "model_sha256 is '9ab0', that of .* is '6c1f"),
        ({"state": "carry"}, "state is 'carry', that of .* is 'zero'"),
    ],
)
def test_other_settings_are_refused(tmp_path, header, message):
    path = stored(tmp_path / "b.hdf5", **header)
    with pytest.raises(EmbeddingsFileError, match=rf"b\.hdf5: {message}"):
        read(tmp_path, test=path)


@pytest.mark.parametrize(
    ("labels", "column", "own_dev", "message"),
    [
        ([["X"] * len(line) for line in LABELS], None, True, "fewer than two different labels"),
        ([["X"] * len(line) for line in LABELS[:4]] + [["Y", "Y"]], None, False, "fewer than two"),
        (LABELS, "deprel", True, "a.conllu: no token has a label in column deprel"),
        ([["X"] * len(line) for line in LABELS], "feats", True, "two different labels, only '_'"),
        (LABELS, "form", True, "a.conllu, line 2: `column=2` is the column of the tokens"),
    ],
)
def test_labels_without_use_are_refused(tmp_path, labels, column, own_dev, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, labels=labels, column=column, own_dev=own_dev)


def test_text_without_labels_is_refused(tmp_path):
    blank = str(write(tmp_path / "b.hdf5", make_sentences(["", ""])))
    tags = str(write_lines(tmp_path / "b.tags", [[], []]))
    train = stored(tmp_path / "a.hdf5"), str(write_lines(tmp_path / "a.tags", LABELS))
    with pytest.raises(InputError, match=r"b\.tags: has no labels for .*b\.hdf5"):
        read_probe_data(train, (blank, tags), train)


def in_train(split: str, counts: str = "5 of 5 (100.0%)") -> str:
    """The warning of sentences of train in another split."""
    about = f"sentences of {split} that are also in train"
    return f"{about}: {counts}; scores on them say little about new text"


def test_what_looks_wrong_is_warned_of(tmp_path):
    sentences = make_sentences(TEXT, [0, 1, 2, 3, 5])
    bare = str(write(tmp_path / "b.hdf5", sentences, layout="bilm"))
    lines = write_lines(tmp_path / "b.tags", [*LABELS[:4], ["X"], LABELS[4]])
    columns = write_conllu(tmp_path / "c.conllu", make_sentences(TEXT), [["_", "Y"], *LABELS[1:]])
    train = stored(tmp_path / "a.hdf5"), str(columns)
    data = read_probe_data(train, (bare, str(lines)), train)
    assert data.warnings == (
        f"{columns}: 1 of 9 labels, such as '_', mean that there is none, and are left out",
        f"{columns}: 1 of 9 labels, such as '_', mean that there is none, and are left out",
        f"{tmp_path / 'a.hdf5'}: {in_train('dev')}",
        f"{bare}: labeled sentences that are missing: 1",
        f"{bare}: {in_train('test')}",
    )
    assert data.splits["train"].labels == ["Y", *LABELS[1], *LABELS[2], *LABELS[3], *LABELS[4]]
    assert data.vectors(0)["train"].shape[0] == len(data.targets["train"]) == 8
    assert len(data.splits["train"].words) == 8
    assert data.splits["train"].counts_by_sentence == [1, 1, 3, 1, 2]
    assert data.words is None
    assert data.is_unseen is None


@pytest.mark.parametrize(
    ("n_words", "joined", "is_warned"), [(20, "", True), (20, "_NN", True), (19, "", False)]
)
def test_labels_that_are_words_are_warned_of(tmp_path, n_words, joined, is_warned):
    """A probe finds them in the layer that is not contextual: it learns the words by heart."""
    sentences = make_sentences([" ".join(f"w{number}" for number in range(n_words))] * 2)
    labels = [[f"{token}{joined}" for token in sentence.tokens] for sentence in sentences]
    pair = (
        str(write(tmp_path / "w.hdf5", sentences)),
        str(write_lines(tmp_path / "w.tags", labels)),
    )
    warnings = read_probe_data(pair, pair, pair).warnings
    problem = f"as many different labels as words ({n_words} and {n_words})"
    assert any(problem in warning for warning in warnings) == is_warned
    labels[0][0] = labels[1][0] = labels[0][1]  # one label fewer than words
    write_lines(tmp_path / "w.tags", labels)
    assert not any("as many" in warning for warning in read_probe_data(pair, pair, pair).warnings)


def test_files_that_record_no_digests_are_not_taken_for_equal_texts(tmp_path):
    """Otherwise each probe on files of other programs would be said to test on train."""
    foreign = stored(tmp_path / "b.hdf5", is_foreign=True)
    assert read(tmp_path, train=foreign, dev=foreign, test=foreign).warnings == ()


@pytest.mark.parametrize(("n_repeated", "counts"), [(0, ""), (1, ""), (2, "2 of 10 (20.0%)")])
def test_sentences_of_train_in_test_are_warned_of(
    tmp_path: Path, n_repeated: int, counts: str
) -> None:
    """The rest of the two texts is different."""
    train_text = [f"train {number}" for number in range(10)]
    test_text = [*train_text[:n_repeated], *(f"test {n}" for n in range(10 - n_repeated))]
    labels = write_lines(tmp_path / "a.tags", [["X", "Y"]] * 10)
    pairs = []
    for name, text in {"train": train_text, "test": test_text}.items():
        vectors = write(tmp_path / f"{name}.hdf5", make_sentences(text))
        pairs.append((str(vectors), str(labels)))
    expected = [f"{pairs[1][0]}: {in_train('test', counts)}"] if counts else []
    assert list(read_probe_data(*pairs).warnings) == expected


@pytest.mark.parametrize(("n_labels", "counts"), [(40, "0 of 40 (0.0%)"), (20, "")])
def test_labels_that_are_not_repeated_are_warned_of(
    tmp_path: Path, n_labels: int, counts: str
) -> None:
    """Such as the numbers of a column of measurements."""
    lines = [[str(2 * n % n_labels), str((2 * n + 1) % n_labels)] for n in range(20)]
    labels = write_lines(tmp_path / "a.tags", lines)
    pairs = []
    for name in ("train", "test", "dev"):
        text = make_sentences([f"{name} {number}" for number in range(20)])
        pairs.append((str(write(tmp_path / f"{name}.hdf5", text)), str(labels)))
    hint = "not '0'; are the labels in another column or field? A model learns little from one"
    about = f"{labels}: labels of train that occur more than once: {counts}, {hint} example"
    warnings = [text for text in read_probe_data(*pairs).warnings if "more than once" in text]
    assert warnings == ([about] if counts else [])
