"""Embeddings and labels as they are joined: what the command's own tests do not come to."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from labelled_files import write_conllu, write_lines, write_vectors

from elmo_cli.analysis.examples import held_back, read_examples
from elmo_cli.analysis.labels import LabelSettings, read_labels
from elmo_cli.analysis.read_part import read_part
from elmo_cli.errors import ElmoError, EmbeddingsFileError, InputError, UsageError

WORDS = [["a", "b"], ["c"], ["d", "e", "f"], ["a"], ["b", "c"]]
LABELS = [["X", "Y"], ["X"], ["Y", "Y", "X"], ["Y"], ["X", "X"]]


def arrays(words: list[list[str]], layers: int = 2) -> list[np.ndarray]:
    """Of the vectors of sentence k, place n, layer m all values are 100k + 10n + m."""
    return [
        np.array(
            [[[100 * k + 10 * n + m] * 4 for n in range(len(tokens))] for m in range(layers)],
            np.float32,
        ).reshape(layers, len(tokens), 4)
        for k, tokens in enumerate(words)
    ]


def made(folder: Path, **options: Any) -> str:
    return write_vectors(folder / "a.hdf5", WORDS, arrays(WORDS), **options)


@pytest.mark.parametrize("layout", ["flat", "allennlp", "bilm", "e2e"])
def test_vectors_lie_beside_their_labels(tmp_path: Path, layout: str) -> None:
    """One row that is off would be a figure that is off, and nobody would see it."""
    path = made(tmp_path, layout="bilm" if layout == "e2e" else layout)
    if layout == "e2e":  # as another program makes them: documents, layers last
        with h5py.File(path) as file, h5py.File(tmp_path / "b.hdf5", "w") as other:
            for k in range(len(WORDS)):
                other[f"bc:cctv_0000_0/{k}"] = np.moveaxis(file[str(k)][()], 0, -1)
        path = str(tmp_path / "b.hdf5")
    part = read_part(path, write_lines(tmp_path / "a.tags", LABELS))
    assert part.labels == [label for line in LABELS for label in line]
    expected = [100 * k + 10 * n for k, line in enumerate(LABELS) for n in range(len(line))]
    for layer in (0, 1):
        vectors = part.vectors(layer)
        assert vectors.dtype == np.float32
        np.testing.assert_array_equal(vectors, np.array(expected)[:, None] + layer + [[0] * 4])


def test_every_tenth_sentence_is_held_back(tmp_path: Path) -> None:
    words = [[f"w{k}"] * (k % 3 + 1) for k in range(25)]
    path = write_vectors(tmp_path / "a.hdf5", words, arrays(words))
    part = read_part(path, write_lines(tmp_path / "a.tags", words))
    train, dev = held_back(part)
    assert dev.keys == (9, 19)
    assert dev.labels == dev.words == [word for k in (9, 19) for word in words[k]]
    assert sorted(train.keys + dev.keys) == list(range(25))
    np.testing.assert_array_equal(dev.vectors(0)[:, 0], [900, 1900, 1910])
    few = part.sentences([3, 5, 8])
    assert [one.keys for one in held_back(few)] == [(3, 5), (8,)]
    with pytest.raises(InputError, match="one sentence with labels"):
        held_back(part.sentences([4]))


def test_keys_that_go_on_after_a_gap(tmp_path: Path) -> None:
    keys = [0, 1, 4, 5, 7]
    path = write_vectors(tmp_path / "a.hdf5", WORDS, arrays(WORDS), numbers=keys, layout="flat")
    lines: list[list[str]] = [[] for _ in range(8)]
    for key, line in zip(keys, LABELS, strict=True):
        lines[key] = line
    part = read_part(path, write_lines(tmp_path / "a.tags", lines))
    assert (part.keys, part.lacking) == (tuple(keys), 0)
    lines[2] = ["X"]
    assert read_part(path, write_lines(tmp_path / "a.tags", lines)).lacking == 1
    with pytest.raises(InputError, match=r"line 9: sentence 8 has labels"):
        read_part(path, write_lines(tmp_path / "a.tags", [*lines, ["X"]]))


def test_a_shard_has_its_own_sentences_alone(tmp_path: Path) -> None:
    path = write_vectors(
        tmp_path / "a.hdf5", WORDS, arrays(WORDS), numbers=range(3, 8), layout="flat",
        first_sentence=3,
    )  # fmt: skip
    labels = write_lines(tmp_path / "a.tags", [["X"]] * 3 + LABELS)
    with pytest.raises(InputError, match=r"a\.tags, line 1: sentence 0 has labels"):
        read_part(path, labels)
    labels = write_lines(tmp_path / "a.tags", [[]] * 3 + LABELS)
    assert read_part(path, labels).keys == tuple(range(3, 8))


def test_names_that_make_groups_keep_their_order(tmp_path: Path) -> None:
    words = [["a/b"], ["c"], ["a/a"]]
    path = write_vectors(
        tmp_path / "a.hdf5", words, arrays(words), layout="allennlp", keys="sentence"
    )
    labels = [["X"], ["Y"], ["X"]]
    part = read_part(path, write_lines(tmp_path / "a.tags", labels))
    assert part.vectors(1)[:, 0].tolist() == [1, 101, 201]
    part = read_part(path, write_conllu(tmp_path / "a.conllu", words, labels))
    assert part.keys == ("a/b", "c", "a/a")
    assert part.vectors(1)[:, 0].tolist() == [1, 101, 201]


def test_names_that_were_written_without_order(tmp_path: Path) -> None:
    """Files of h5py alone list their sentences by name: lines of labels would go to others'."""
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        for name in ("zebra sat", "apple fell"):
            file[name] = np.ones((3, 2, 4), np.float32)
    with pytest.raises(UsageError, match="loses their order"):
        read_part(str(path), write_lines(tmp_path / "a.tags", [["X", "Y"], ["Y", "Y"]]))


def test_columns_of_labels_for_names_without_order(tmp_path: Path) -> None:
    """Never one after the other: by the names, or not at all."""
    documents, proteins = tmp_path / "e2e.hdf5", tmp_path / "p.hdf5"
    with h5py.File(documents, "w") as file:
        for name in ("z/0", "a/0"):
            file[name] = np.ones((2, 4, 3), np.float32)
    words, labels = [["so", "it"], ["is", "."]], [["X", "Y"], ["Y", "Y"]]
    columns = Path(write_conllu(tmp_path / "a.conllu", words, labels))
    with pytest.raises(UsageError, match=r"a\.conllu, line 2: the sentence has no name"):
        read_part(str(documents), str(columns))
    first, second = columns.read_text().strip().split("\n\n")
    columns.write_text(f"# newdoc id = z\n{first}\n\n# newdoc id = a\n{second}\n\n")
    part = read_part(str(documents), str(columns))
    assert (part.keys, part.labels) == ((("z", 0), ("a", 0)), ["X", "Y", "Y", "Y"])

    with h5py.File(proteins, "w") as file:
        for value, name in enumerate(("P1", "P2", "P10")):
            file[name] = np.full(4, value, np.float32)
    listed = tmp_path / "p.conll"
    listed.write_text("P10\tX\n\nP2\tY\n\nP1\tX\n")
    part = read_part(str(proteins), str(listed))
    assert part.vectors(0)[:, 0].tolist() == [2, 1, 0]


def test_dev_and_test_are_alike_also_where_train_tells_nothing(tmp_path: Path) -> None:
    """A train file of another program with one layer is taken for any layer, but not for two."""
    labels = write_lines(tmp_path / "a.tags", LABELS)
    with h5py.File(tmp_path / "train.hdf5", "w") as file:
        for key, values in enumerate(arrays(WORDS)):
            file[str(key)] = values[0]
    files = {"train": (str(tmp_path / "train.hdf5"), labels)}
    for name, layer in (("dev", "1"), ("test", "2")):
        one = [values[:1] for values in arrays(WORDS)]
        header = {"layers": layer}
        path = write_vectors(tmp_path / f"{name}.hdf5", WORDS, one, header=header, layout="bilm")
        files[name] = (path, labels)
    with pytest.raises(
        EmbeddingsFileError, match=r"test\.hdf5: layers is '2', that of .*dev\.hdf5"
    ):
        read_examples(**files)
    read_examples(files["train"], files["test"], files["test"])


def test_one_label_in_what_is_left_of_train(tmp_path: Path) -> None:
    words = [["a", "b"], ["c", "d", "e"]]
    path = write_vectors(tmp_path / "a.hdf5", words, arrays(words))
    files = (path, write_lines(tmp_path / "a.tags", [["X", "X"], ["Y", "Y", "Y"]]))
    with pytest.raises(InputError, match=r"a\.tags: what is left of it for train has one label"):
        read_examples(files, files)
    assert read_examples(files, files, files).labels == ("X", "Y")


def test_tokens_may_hold_spaces(tmp_path: Path) -> None:
    words = [["10 000", "b"], ["c"]]
    path = write_vectors(tmp_path / "a.hdf5", words, arrays(words))
    part = read_part(path, write_conllu(tmp_path / "a.conllu", words, LABELS[:2]))
    assert part.words == ["10 000", "b", "c"]
    assert part.column == "xpos"


def test_ranges_and_empty_nodes_have_no_labels(tmp_path: Path) -> None:
    path = write_conllu(tmp_path / "a.conllu", WORDS, LABELS)
    found = list(read_labels(path, LabelSettings(column="upos")))
    assert [one.sentence.tokens for one in found] == [tuple(tokens) for tokens in WORDS]
    assert [one.labels for one in found] == [tuple(map(str.lower, line)) for line in LABELS]


def test_a_value_beyond_float32(tmp_path: Path) -> None:
    """A probe computes in float32, whatever another program has stored."""
    path = str(tmp_path / "a.hdf5")
    with h5py.File(path, "w") as file:
        for k, array in enumerate(arrays(WORDS)):
            file[str(k)] = array.astype(np.float64)
        file["2"][1, 2, 3] = 1e39
    part = read_part(path, write_lines(tmp_path / "a.tags", LABELS))
    part.check_finite([0])
    with pytest.raises(ElmoError, match="sentence 2: token 3 in layer 1 is not finite"):
        part.check_finite([0, 1])


def test_examples_can_be_pickled(tmp_path: Path) -> None:
    """Examples come out of a child process."""
    files = made(tmp_path, layout="flat"), write_lines(tmp_path / "a.tags", LABELS)
    examples = read_examples(files, files, files)
    again = pickle.loads(pickle.dumps(examples))
    assert again == examples
    np.testing.assert_array_equal(again.targets["test"], examples.targets["test"])
    assert examples.labels == ("X", "Y")
