"""The vectors of an embeddings file, joined with the labels of another file."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path
from threading import Thread

import h5py
import numpy as np
import pytest
from embeddings_files import layers, make_sentences, write, write_conllu, write_lines

from elmo_cli.analysis.labelled_vectors import LabelSettings, join_labels, read_labels
from elmo_cli.errors import EmbeddingsFileError, InputError, UsageError
from elmo_cli.store.reader import open_embeddings

TEXT = ["a b", "c", "d e f", "a", "b c"]
LABELS = [["X", "Y"], ["X"], ["Y", "Y", "X"], ["Y"], ["X", "X"]]
SENTENCE_LABELS = [["P"], ["Q"], ["P"], ["Q"], ["P"]]
ALL_LABELS = [label for line in LABELS for label in line]


def join(embeddings, labels, layers=(), *, accepts_sentence_labels=False, **settings):
    with open_embeddings(embeddings) as opened:
        return join_labels(
            opened,
            str(labels),
            LabelSettings(**settings),
            layers,
            accepts_sentence_labels=accepts_sentence_labels,
        )


def label_file(folder, kind, sentences, labels):
    """Lines of labels, or columns with tokens."""
    if kind == "lines":
        return write_lines(folder / "a.tags", labels)
    return write_conllu(folder / "a.conllu", sentences, labels)


def expected_vectors(sentences, layer):
    return np.concatenate([layers(sentence)[layer] for sentence in sentences])


BY_SENTENCE = {"keys": "sentence", "first_sentence": 3}


@pytest.mark.parametrize(
    ("layout", "options", "stores_tokens", "has_names"),
    [
        ("flat", {}, True, False),
        ("allennlp", {}, True, False),
        ("allennlp", {"forget_sentences": True}, False, False),
        ("allennlp", BY_SENTENCE, True, True),
        ("bilm", {}, False, False),
        ("e2e-coref", {}, False, True),
        ("lsgn", {}, False, True),
        ("dygie", {}, False, True),
    ],
)
def test_vectors_are_joined_with_their_labels(tmp_path, layout, options, stores_tokens, has_names):
    """Sentences keyed by name are only found by the tokens of columns, even inside groups."""
    text = [line.replace("d e", "x/d e").replace("b c", "x/b c") for line in TEXT]
    words = " ".join(text).split()
    first = options.get("first_sentence", 0)
    sentences = make_sentences(text, range(first, first + len(text)))
    path = write(tmp_path / "a.hdf5", sentences, layout=layout, **options)
    columns = join(path, write_conllu(tmp_path / "a.conllu", sentences, LABELS))
    assert columns.labels == ALL_LABELS
    assert columns.words == words
    for layer in (0, 1, 2):
        vectors = columns.vectors(layer)
        assert vectors.dtype == np.float32
        np.testing.assert_array_equal(vectors, expected_vectors(sentences, layer))
    lines = write_lines(tmp_path / "a.tags", LABELS)
    if has_names:
        with pytest.raises(UsageError, match="lines of labels cannot be matched"):
            join(path, lines)
    else:
        joined = join(path, lines)
        assert joined.words == (words if stores_tokens else None)
        assert joined.sentences[1].labels == ("X",)


def test_equal_sentences_that_are_stored_once(tmp_path):
    sentences = make_sentences([*TEXT, "a b"])
    labels = [*LABELS, LABELS[0]]
    arrays = [layers(sentence)[2] for sentence in sentences]
    header = {"layers": "top"}
    path = write(tmp_path / "a.hdf5", sentences, arrays, layout="manylangs", header=header)
    joined = join(path, write_conllu(tmp_path / "a.conllu", sentences, labels))
    assert joined.labels == [*ALL_LABELS, "X", "Y"]
    np.testing.assert_array_equal(joined.vectors("top"), np.concatenate([*arrays[:5], arrays[0]]))


def test_compressed_labels_and_pipes(tmp_path):
    sentences = make_sentences(TEXT)
    path = write(tmp_path / "a.hdf5", sentences)
    columns = write_conllu(tmp_path / "a.conllu", sentences, LABELS).read_bytes()
    (tmp_path / "b.conllu.gz").write_bytes(gzip.compress(columns))
    assert join(path, tmp_path / "b.conllu.gz").labels == ALL_LABELS
    lines = write_lines(tmp_path / "a.tags", LABELS).read_bytes()
    pipe = tmp_path / "pipe.tags"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=(lines,))
    writer.start()
    assert join(path, pipe).labels == ALL_LABELS
    writer.join()


@pytest.mark.parametrize("layout", ["flat", "allennlp"])
@pytest.mark.parametrize("are_kept", [True, False])
def test_blank_lines(tmp_path, layout, are_kept):
    text = ["", *TEXT[:3], "", "", *TEXT[3:], ""]
    labels = [[], *LABELS[:3], [], [], *LABELS[3:], []]
    sentences = [sentence for sentence in make_sentences(text) if are_kept or sentence.tokens]
    path = write(tmp_path / "a.hdf5", sentences, layout=layout)
    joined = join(path, write_lines(tmp_path / "a.tags", labels))
    assert joined.labels == ALL_LABELS
    assert joined.n_missing == 0
    assert [sentence.key for sentence in joined.sentences] == [1, 2, 3, 6, 7]


def test_missing_sentences_are_counted(tmp_path):
    """Skipped sentences, and those of the other shards."""
    sentences = make_sentences(TEXT, [3, 4, 7, 8, 10])
    path = write(tmp_path / "a.hdf5", sentences, first_sentence=3, header={"shard": "2/3"})
    lines = [["Z"], [], [], *LABELS[:2], [], ["Z"], *LABELS[2:4], [], LABELS[4], ["Z"]]
    joined = join(path, write_lines(tmp_path / "a.tags", lines))
    assert joined.labels == ALL_LABELS
    assert joined.n_missing == 3
    np.testing.assert_array_equal(joined.vectors(1), expected_vectors(sentences, 1))


def test_pooled_sentences_have_one_label_each(tmp_path):
    sentences = make_sentences(["", *TEXT])
    pooled = [np.full((3, 7), sentence.key, np.float32) for sentence in sentences]
    path = write(tmp_path / "a.hdf5", sentences, pooled, header={"pool": "mean"})
    lines = [[], *([label] for label in "XYXYX")]
    joined = join(path, write_lines(tmp_path / "a.tags", lines))
    assert joined.labels == [*"XYXYX"]
    assert joined.words is None
    np.testing.assert_array_equal(joined.vectors(0)[:, 0], [1, 2, 3, 4, 5])
    with pytest.raises(InputError, match=r"line 2: 2 labels for sentence 1, .* 1 vector for it"):
        join(path, write_lines(tmp_path / "a.tags", [[], *LABELS]))


@pytest.mark.parametrize(
    ("lines", "n_more"),
    [([["label"], *SENTENCE_LABELS], "1 line"), ([*SENTENCE_LABELS, ["P"], ["Q"]], "2 lines")],
    ids=["header", "longer"],
)
def test_more_lines_of_labels_than_sentences_are_refused(tmp_path, lines, n_more):
    """A line too many before others gives each sentence the label of the one before."""
    path = write(tmp_path / "a.hdf5", make_sentences(TEXT))
    message = rf"a\.tags: {n_more} of labels more than .*a\.hdf5 has sentences"
    with pytest.raises(InputError, match=message):
        join(path, write_lines(tmp_path / "a.tags", lines), accepts_sentence_labels=True)


@pytest.mark.parametrize("layout", ["flat", "allennlp"])
def test_a_label_of_a_whole_sentence(tmp_path, layout):
    """Where one is accepted: a single label in a line of plain text."""
    sentences = make_sentences(["", *TEXT])
    path = write(tmp_path / "a.hdf5", sentences, layout=layout)
    lines = write_lines(tmp_path / "a.tags", [[], ["P"], ["Q"], LABELS[2], ["_"], ["R"]])
    joined = join(path, lines, accepts_sentence_labels=True)
    assert joined.labels == ["P", "P", "Q", *LABELS[2], "R", "R"]
    assert joined.words == [*"abcdefbc"]  # `d` has the label that means none
    with pytest.raises(InputError, match=r"line 2: 1 label for sentence 1, .* 2 vectors for it"):
        join(path, lines)


@pytest.mark.parametrize(
    ("name", "labels"), [("a.conllu", ["_", "X"]), ("a.conll", ["X"])], ids=["conllu", "columns"]
)
def test_an_underline_is_a_label_in_some_columns_of_conllu(tmp_path, name, labels):
    """In other columns with the same number, it means that there is no label."""
    path = write(tmp_path / "a.hdf5", make_sentences(["a b"]))
    columns = tmp_path / name
    columns.write_text("1\ta\t_\t_\t_\t_\n2\tb\t_\t_\t_\tX\n")
    assert join(path, columns, column="6", token_column=2).labels == labels


@pytest.mark.parametrize(
    ("kind", "labels", "count"), [("lines", ["P", "Q"], "2 labels"), ("columns", ["P"], "1 label")]
)
def test_a_count_that_is_neither_of_tokens_nor_of_a_sentence(tmp_path, kind, labels, count):
    """The hint names both possibilities where both exist."""
    path = write(tmp_path / "a.hdf5", make_sentences(["a b c"]))
    sentences = make_sentences([" ".join("abc"[: len(labels)])])
    file = label_file(tmp_path, kind, sentences, [labels])
    with pytest.raises(InputError, match=f"{count} for sentence 0, .* 3 vectors for it") as raised:
        join(path, file, accepts_sentence_labels=True)
    assert ("one label for the whole sentence or one per token" in raised.value.hint) == (
        kind == "lines"
    )


def test_names_of_documents(tmp_path):
    """They are matched whatever the order in which h5py lists them."""
    labels = [["X", "Y"], ["Y", "Y"]]
    columns = write_conllu(tmp_path / "a.conllu", make_sentences(["so it", "is ."]), labels)
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for name in ("z/0", "a/0"):
            file[name] = np.ones((3, 2, 4), np.float32)
    columns.write_text(columns.read_text().replace("d_0", "z").replace("d_1", "a"))
    joined = join(tmp_path / "a.hdf5", columns)
    assert [sentence.key for sentence in joined.sentences] == [("z", 0), ("a", 0)]
    columns.write_text(re.sub("# newdoc.*\n", "", columns.read_text()))
    with pytest.raises(UsageError, match=r"a\.conllu, line 1: the sentence has no name"):
        join(tmp_path / "a.hdf5", columns)


@pytest.mark.parametrize(
    ("column", "expected"), [(None, "X"), ("xpos", "X"), ("UPOS", "x"), ("4", "x"), ("-6", "X")]
)
def test_label_column_of_conllu(tmp_path, column, expected):
    path = write_conllu(tmp_path / "a.conllu", make_sentences(TEXT), LABELS)
    settings = LabelSettings(column=column)
    labelled_sentences = list(read_labels(str(path), settings))
    assert [" ".join(sentence.tokens) for sentence, _ in labelled_sentences] == TEXT
    assert [len(labels) for _, labels in labelled_sentences] == [len(line) for line in LABELS]
    _, second_labels = labelled_sentences[1]
    assert second_labels == (expected,)
    assert settings.column_of(str(path)) == (column or "xpos")


@pytest.mark.parametrize(
    ("row", "settings", "attributes"),
    [
        ("{} {}", {}, {}),
        ("{} {} x", {"column": "-2"}, {}),
        ("x {} {}", {}, {"column": 2}),
        ("x {} {}", {"token_column": 2}, {"column": 1}),
    ],
)
def test_label_column_of_conll(tmp_path, row, settings, attributes):
    """The tokens are in the column that the text was embedded from."""
    path = write(
        tmp_path / "a.hdf5", make_sentences(TEXT), header={"format": "conll", **attributes}
    )
    rows = []
    for line, labels in zip(TEXT, LABELS, strict=True):
        for token, label in zip(line.split(), labels, strict=True):
            rows.append(row.format(token, label) + "\n")
        rows.append("\n")
    (tmp_path / "a.conll").write_text("".join(rows))
    assert join(path, tmp_path / "a.conll", **settings).labels == ALL_LABELS


@pytest.mark.parametrize("layout", ["flat", "bilm"])
def test_label_file_of_another_format_has_its_own_token_column(tmp_path, layout):
    header = {"format": "conll", "column": 1}
    path = write(tmp_path / "a.hdf5", make_sentences(TEXT), layout=layout, header=header)
    labels = write_conllu(tmp_path / "a.conllu", make_sentences(TEXT), LABELS)
    assert join(path, labels).words == " ".join(TEXT).split()


@pytest.mark.parametrize(
    ("name", "settings", "error", "message"),
    [
        ("a.conllu", {"column": "ner"}, UsageError, "`column=ner`: no column of a.conllu"),
        ("a.conllu", {"column": "0"}, UsageError, "columns are counted from 1"),
        ("a.conllu", {"column": "12"}, InputError, "a.conllu, line 2: `column=12` is missing"),
        ("a.conllu", {"format": "conll", "column": "upos"}, UsageError, "which is conll"),
        ("a.conllu", {"encoding": "klingon"}, UsageError, "not a text encoding"),
        ("a.tags", {"column": "upos"}, UsageError, "a.tags is plain text"),
        ("a.jsonl", {}, UsageError, "a.jsonl: labels are not read from JSON lines"),
        ("a.fasta", {}, UsageError, "a.fasta: labels are not read from FASTA"),
        ("missing.tags", {}, InputError, "missing.tags: no such file"),
    ],
)
def test_labels_that_cannot_be_read(tmp_path, monkeypatch, name, settings, error, message):
    monkeypatch.chdir(tmp_path)
    write_conllu(Path("a.conllu"), make_sentences(TEXT), LABELS)
    write_lines(Path("a.tags"), LABELS)
    Path("a.jsonl").write_text("{}\n")
    Path("a.fasta").write_text(">a\nMK\n")
    with pytest.raises(error, match=re.escape(message)):
        list(read_labels(name, LabelSettings(**settings)))


@pytest.mark.parametrize(
    ("kind", "text", "labels", "error", "message"),
    [
        ("lines", TEXT, [["X"] * 3, *LABELS[1:]], InputError, "1: 3 labels for .* 0, .* 2 vec"),
        ("lines", TEXT, [LABELS[0], [], *LABELS[2:]], InputError, "2: 0 labels for sentence 1"),
        ("lines", TEXT, LABELS[:-1], EmbeddingsFileError, "5 sentences, .* contains 4 of them"),
        ("lines", TEXT, [], EmbeddingsFileError, "a.tags contains 0 of them"),
        ("columns", ["a b", "C", *TEXT[2:]], LABELS, InputError,
         "a.conllu, line 7: token 1 of sentence 1 is 'C', in .*a.hdf5 it is 'c'"),
        ("columns", ["a b b", *TEXT[1:]], [["X"] * 3, *LABELS[1:]], InputError,
         "a.conllu, line 2: 3 labels for sentence 0, .* 2 vectors for it"),
    ],
)  # fmt: skip
def test_labels_of_another_text_are_refused(tmp_path, kind, text, labels, error, message):
    path = write(tmp_path / "a.hdf5", make_sentences(TEXT))
    with pytest.raises(error, match=message) as raised:
        join(path, label_file(tmp_path, kind, make_sentences(text), labels))
    assert raised.value.hint


@pytest.mark.parametrize("kind", ["lines", "columns"])
def test_stored_tokens_that_do_not_match_the_vectors_are_refused(tmp_path, kind):
    path = write(tmp_path / "a.hdf5", make_sentences(TEXT), layout="allennlp")
    with h5py.File(path, "r+") as file:
        del file["0"]
        file["0"] = layers(make_sentences(["a b c"])[0])
    labels = label_file(
        tmp_path, kind, make_sentences(["a b c", *TEXT[1:]]), [["X"] * 3, *LABELS[1:]]
    )
    with pytest.raises(EmbeddingsFileError, match="sentence 0 has 2 tokens and 3 vectors"):
        join(path, labels)


@pytest.mark.parametrize(
    ("line", "is_refused"),
    [("a b c", False), ("a  b c", False), ("a x c", True), ("a b", True), ("p q r s", True)],
)
def test_the_line_of_another_program_is_compared(tmp_path, line, is_refused):
    """Also if it has more or fewer words than there are vectors."""
    sentences = make_sentences(["a b c", "d"])
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        for sentence in sentences:
            file[str(sentence.key)] = layers(sentence)
        file["sentence_to_index"] = [json.dumps({line: "0", "d": "1"})]
    columns = write_conllu(tmp_path / "a.conllu", sentences, [["X", "Y", "X"], ["Y"]])
    if is_refused:
        with pytest.raises(InputError, match=r"a\.conllu, line 2: .*sentence 0 is "):
            join(path, columns)
    else:
        assert join(path, columns).words == ["a", "b", "c", "d"]


def test_values_of_the_chosen_layers_are_checked(tmp_path):
    sentences = make_sentences(TEXT)
    arrays = [layers(sentence) for sentence in sentences]
    arrays[2][1, 2, 3] = np.nan
    path = write(tmp_path / "a.hdf5", sentences, arrays)
    labels = write_lines(tmp_path / "a.tags", LABELS)
    assert join(path, labels, [0]).labels
    with pytest.raises(EmbeddingsFileError, match=r"sentence 2: .* layer 1"):
        join(path, labels, [0, 1])
