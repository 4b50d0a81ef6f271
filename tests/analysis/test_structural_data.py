"""Trees of CoNLL-U files, joined with the vectors of their words."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from analysis.treebanks import Tree, encode, random_trees, write_treebank
from embeddings_files import make_sentences, write, write_lines

from elmo_cli.analysis.labelled_vectors import LabelSettings
from elmo_cli.analysis.structural_data import StructuralData, read_structural_data
from elmo_cli.errors import EmbeddingsFileError, InputError, UsageError

TREES = [
    Tree(["a", "b", "c"], [2, 0, 2]),
    Tree(["d"], [0]),
    Tree(["e", "f"], [0, 1]),
]
RANGE = "1-2\tab" + "\t_" * 8 + "\n"
EMPTY_NODE = "2.1\tx" + "\t_" * 8 + "\n"


def read(folder: Path, trees: list[Tree], text: str | None = None) -> StructuralData:
    """The data whose train and test are these trees."""
    train = write_treebank(folder, "train", trees, text)
    dev = write_treebank(folder, "dev", random_trees(1, 2))
    test = write_treebank(folder, "test", trees, text)
    return read_structural_data(train, test, dev)


def vectors(data: StructuralData, split: str) -> np.ndarray:
    return data.splits[split].labelled.vectors(1)


def test_trees_and_vectors(tmp_path: Path) -> None:
    """The only warning is that test has the sentences of train."""
    data = read(tmp_path, TREES)
    for split in ("train", "test"):
        assert [heads.tolist() for heads in data.splits[split].heads] == [[2, 0, 2], [0], [0, 1]]
        expected = np.concatenate([array[1] for array in encode(TREES)])
        np.testing.assert_array_equal(vectors(data, split), expected)
    (warning,) = data.warnings
    assert warning.startswith(f"{tmp_path}/test.hdf5: sentences of test that are also in train: 3 ")


@pytest.mark.parametrize(
    ("heads", "problem"),
    [
        ([0, 0, 1], "2 words have the head 0"),
        ([2, 3, 1], "0 words have the head 0"),
        ([0, 3, 2], "word 2 does not depend on the root"),
        ([0, 4, 1], "the head of word 2 of 3 is `4`"),
        ([0, "_", 1], "a word has no head"),
    ],
)
def test_broken_trees_are_left_out_and_counted(
    tmp_path: Path, heads: list[int], problem: str
) -> None:
    broken = [TREES[0], Tree(["x", "y", "z"], heads), *TREES[1:]]
    trees = [TREES[0], Tree(["x", "y", "z"], [0, 1, 1]), *TREES[1:]]
    data = read(tmp_path, trees, "".join(tree.rows() for tree in broken))
    arrays = [array[1] for array in encode(trees)]
    for split in ("train", "test"):
        assert len(data.splits[split].heads) == 3
        assert data.splits[split].n_left_out == 1
        expected = np.concatenate([arrays[0], *arrays[2:]])
        np.testing.assert_array_equal(vectors(data, split), expected)
        message = (
            f"{tmp_path}/{split}.conllu: sentences without a valid tree are left out: 1 of 4, the "
            f"first in line 5: {problem}"
        )
        assert message in data.warnings
    assert len(data.is_kept) == 3


def test_a_treebank_without_trees_is_refused(tmp_path: Path) -> None:
    trees = [Tree(["x", "y"], [0, 1]), Tree(["x"], [0])]
    broken = [Tree(["x", "y"], [1, 2]), Tree(["x"], [1])]
    with pytest.raises(InputError) as raised:
        read(tmp_path, trees, "".join(tree.rows() for tree in broken))
    assert str(raised.value) == (
        f"{tmp_path}/train.conllu: train has no sentence with a valid tree: line 1: 0 words have "
        "the head 0"
    )
    assert "HEAD" in raised.value.hint


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1\tw\t_\tX\t_\t_\t_", "train has no sentence with a valid tree: line 1: a word has no"),
        ("1\tw\t_\tX\t_\t_", ", line 1: a row lacks a column of CoNLL-U, up to HEAD (7)"),
        ("1\tw\t_\tX\t_\t_\t", ", line 1: a row lacks a column of CoNLL-U, up to HEAD (7)"),
        ("1\tw\t_\t\t_\t_\t0", ", line 1: a row lacks a column of CoNLL-U, up to HEAD (7)"),
    ],
)
def test_rows_without_heads(tmp_path: Path, row: str, message: str) -> None:
    """No hint names the column of the labels, which cannot be chosen."""
    with pytest.raises(InputError, match=re.escape(message)) as raised:
        read(tmp_path, [Tree(["w"], [0])], f"{row}\n\n")
    assert "column`" not in raised.value.hint


def test_a_single_sentence_of_train_is_not_enough_for_dev(tmp_path: Path) -> None:
    pair = write_treebank(tmp_path, "a", TREES[:1])
    with pytest.raises(InputError, match=r"a\.conllu: train has no sentence with a valid tree"):
        read_structural_data(pair, pair)


def test_rows_that_are_no_words_have_no_place_in_a_tree(tmp_path: Path) -> None:
    """Whether their vectors are in the file or not."""
    rows = TREES[0].rows().splitlines(keepends=True)
    text = "".join([RANGE, *rows[:2], EMPTY_NODE, *rows[2:], *(tree.rows() for tree in TREES[1:])])
    plain = read(tmp_path, TREES, text)
    all_rows = [Tree(["ab", "a", "b", "x", "c"], [0] * 5), *TREES[1:]]
    sentences = make_sentences([" ".join(tree.words) for tree in all_rows])
    arrays = encode(TREES)
    arrays[0] = np.insert(arrays[0], (0, 2), np.float32(99), axis=1)
    pairs = []
    for split in ("train", "test"):
        path = tmp_path / f"{split}.hdf5"
        write(path.with_stem(f"{split}-all"), sentences, arrays, header={"rows": "all"})
        pairs.append((str(path.with_stem(f"{split}-all")), str(path.with_suffix(".conllu"))))
    data = read_structural_data(*pairs)
    np.testing.assert_array_equal(vectors(data, "test"), vectors(plain, "test"))
    assert [h.tolist() for h in data.splits["test"].heads] == [[2, 0, 2], [0], [0, 1]]
    assert [len(words) for words in data.is_kept] == [3, 1, 2]


@pytest.mark.parametrize(
    ("row_id", "index", "tokens"), [("1-2", 0, ["ab", "c"]), ("2-3", 1, ["a", "bc"])]
)
def test_vectors_of_ranges_instead_of_words_are_refused(
    tmp_path: Path, row_id: str, index: int, tokens: list[str]
) -> None:
    """Also at the end of a sentence, where the words that have vectors could be a tree."""
    tree = Tree(["a", "b", "c"], [0, 1, 1])
    rows = tree.rows().splitlines(keepends=True)
    rows.insert(index, f"{row_id}\t{tokens[index]}" + "\t_" * 8 + "\n")
    (tmp_path / "train.conllu").write_text("".join(rows))
    sentences = make_sentences([" ".join(tokens)])
    write(tmp_path / "train.hdf5", sentences, header={"rows": "tokens"})
    pair = (str(tmp_path / "train.hdf5"), str(tmp_path / "train.conllu"))
    with pytest.raises(UsageError, match=f"train.hdf5: has a vector of `{row_id}`, not of"):
        read_structural_data(pair, pair, pair)


def test_punctuation_by_upos_or_by_the_tags_of_the_penn_treebank(tmp_path: Path) -> None:
    xpos = ["''", ",", ".", ":", "``", "-LRB-", "-RRB-", "HYPH", "NN", "$", "_", "."]
    upos = ["X", *["PUNCT"] * 7, "NOUN", "SYM", "PUNCT", "."]
    tree = Tree([f"w{k}" for k in range(12)], [2, 0, *[2] * 10], upos, xpos)
    data = read(tmp_path, [*TREES, tree])
    assert data.is_kept[3].tolist() == [name in ("NN", "$") for name in xpos]
    assert all(is_kept.all() for is_kept in data.is_kept[:3])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.tags", "a.tags: trees are read from CoNLL-U"),
        ("a.conll", "a.conll: trees are read from CoNLL-U"),
        ("pipe.conllu", "pipe.conllu can be read only once"),
        ("missing.conllu", "missing.conllu: no such file"),
    ],
)
def test_files_without_trees_are_refused(tmp_path: Path, name: str, message: str) -> None:
    vectors_file, treebank = write_treebank(tmp_path, "a", TREES)
    path = tmp_path / name
    if name == "pipe.conllu":
        os.mkfifo(path)
    elif name != "missing.conllu":
        path.write_text(Path(treebank).read_text())
    with pytest.raises((InputError, UsageError), match=re.escape(message)) as raised:
        read_structural_data((vectors_file, treebank), (vectors_file, str(path)))
    assert raised.value.hint
    if name == "a.conll":
        named = LabelSettings(format="conllu")
        data = read_structural_data(
            (vectors_file, treebank), (vectors_file, str(path)), labels=named
        )
        assert len(data.splits["test"].heads) == 3


def test_pooled_sentences_have_no_trees(tmp_path: Path) -> None:
    sentences = make_sentences(["a", "b"])
    pooled = [np.zeros((3, 7), np.float32)] * 2
    path = write(tmp_path / "a.hdf5", sentences, pooled, header={"pool": "mean"})
    treebank = tmp_path / "a.conllu"
    treebank.write_text(Tree(["a"], [0]).rows() + Tree(["b"], [1]).rows())
    with pytest.raises(UsageError, match=r"a\.hdf5: has vectors of sentences, and a tree is"):
        read_structural_data((str(path), str(treebank)), (str(path), str(treebank)))


def test_trees_of_another_text_are_refused(tmp_path: Path) -> None:
    pair = write_treebank(tmp_path, "a", TREES)
    other = write_treebank(tmp_path, "b", [TREES[0], Tree(["x"], [0]), TREES[2]])
    with pytest.raises(InputError, match="token 1 of sentence 1 is 'x'"):
        read_structural_data(pair, (pair[0], other[1]))
    lines = write_lines(tmp_path / "c.conllu", [["a"]])
    with pytest.raises((InputError, EmbeddingsFileError)):
        read_structural_data(pair, (pair[0], str(lines)))
