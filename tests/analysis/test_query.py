"""Queries and the tokens that they name."""

from __future__ import annotations

import pytest
from embeddings_files import LINES, REPEATED, layers, sentences, write

from elmo_cli.analysis.query import Occurrence, find_token, find_tokens, occurrences
from elmo_cli.analysis.vectors import LayerView
from elmo_cli.errors import UsageError
from elmo_cli.store.reader import open_embeddings

COLONS = ["a : b :: c", "at 10:30 or 7 =", "12 7 = == =7", "x"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("0:1", "0:1"),
        ("0:b", "0:2"),
        ("0::", "0:1"),
        ("0:::", "0:3"),
        ("1:10:30", "1:1"),
        ("1:=7", "1:3"),
        ("1:=", "1:4"),
        ("2:1", "2:1"),
        ("2:=12", "2:0"),
        ("2:==", "2:2"),
        ("2:===", "2:3"),
        ("2:==7", "2:4"),
    ],
)
def test_numbers_words_and_colons(tmp_path, query, expected):
    with open_embeddings(write(tmp_path / "a.hdf5", sentences(COLONS))) as embeddings:
        assert str(find_token(LayerView(embeddings), query)) == expected


@pytest.mark.parametrize(
    ("layout", "options", "query", "expected"),
    [
        ("flat", {}, "d_1:2:=play", ("d_1:2", 1)),
        ("flat", {}, "7:play", (7, 1)),
        ("e2e-coref", {}, "d_1:2:1", ("d_1:2", 1)),
        ("e2e-coref", {}, "7:1", (7, 1)),
        ("e2e-coref", {}, "d_1/2:1", ("d_1/2", 1)),
        ("dygie", {}, "d_1_2:1", ("d_1_2", 1)),
        ("lsgn", {}, "d_1:2:0", ("d_1:2", 0)),
        ("allennlp", {"keys": "sentence"}, "a Play : in 3 acts:Play", ("a Play : in 3 acts", 1)),
        ("allennlp", {"keys": "sentence"}, "a Play : in 3 acts:2", ("a Play : in 3 acts", 2)),
    ],
)
def test_keys_of_every_layout(tmp_path, layout, options, query, expected):
    given = [sentence for sentence in sentences(LINES) if sentence.text or layout != "allennlp"]
    with open_embeddings(write(tmp_path / "a", given, layout=layout, **options)) as embeddings:
        found = find_token(LayerView(embeddings), query)
        assert (found.key, found.position) == expected
        assert found.token in (None, "play", "Play", ":", "the")


def test_longest_key_that_exists_is_taken(tmp_path):
    given = sentences(["x", "x:y z"])
    path = write(tmp_path / "a", given, layout="allennlp", keys="sentence")
    with open_embeddings(path) as embeddings:
        found = find_token(LayerView(embeddings), "x:y z:z")
    assert (found.key, found.position) == ("x:y z", 1)


@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        ("99:0", "'99'; its keys are numbers such as 0", "KEY:N"),
        ("play", "'play'", "KEY:N"),
        ("0", "no token", "`0:0`"),
        ("0:", "no token", "`0:WORD`"),
        ("3:0", "sentence 3 has no tokens", "another"),
        ("0:5", "5 tokens and no token 5", "`0:4` is its last token, `0:=5`"),
        ("0:foo", "'foo'; it has the play began at eight", " foo`"),
        ("0:=5", "'5'; it has the play", " 5`"),
    ],
)
def test_query_without_token_is_refused(tmp_path, query, message, hint):
    with (
        open_embeddings(write(tmp_path / "a.hdf5", sentences(LINES))) as embeddings,
        pytest.raises(UsageError) as raised,
    ):
        find_token(LayerView(embeddings), query)
    assert message in raised.value.message
    assert str(tmp_path / "a.hdf5") in raised.value.message
    assert hint in raised.value.hint


def test_file_without_tokens(tmp_path):
    path = write(tmp_path / "a.hdf5", sentences(LINES), layout="bilm")
    with open_embeddings(path) as embeddings:
        view = LayerView(embeddings)
        assert find_token(view, "0:4") == Occurrence(0, 4, None)
        with pytest.raises(UsageError, match="sentence 0: its tokens are not stored"):
            find_token(view, "0:play")
        with pytest.raises(UsageError, match="does not store tokens"):
            list(occurrences(view, "play"))


@pytest.mark.parametrize("layout", ["flat", "allennlp"])
def test_occurrences_in_any_case(tmp_path, layout):
    path = write(tmp_path / "a.hdf5", sentences(REPEATED), layout=layout)
    with open_embeddings(path) as embeddings:
        found = [str(occurrence) for occurrence in occurrences(LayerView(embeddings), "PLAY")]
    assert found == ["0:1", "1:1", "2:1", "6:1", "7:0", "9:1", "10:3"]


def test_pooled_sentence_has_one_occurrence(tmp_path):
    given = sentences(["play the play", "a", "the play"])
    pooled = [layers(sentence).mean(1) for sentence in given]
    path = write(tmp_path / "a.hdf5", given, pooled, header={"pool": "mean"})
    with open_embeddings(path) as embeddings:
        found = list(occurrences(LayerView(embeddings), "play"))
    assert [(one.key, one.position) for one in found] == [(0, None), (2, None)]


@pytest.mark.parametrize(
    ("layout", "options"), [("allennlp", {"keys": "sentence"}), ("manylangs", {})]
)
def test_occurrences_have_numbers_where_keys_are_sentences(tmp_path, layout, options):
    """A key with tabs, or of 700 characters, could not be given back as a query."""
    given = sentences([line for line in LINES if line])
    top_only = layout == "manylangs"
    arrays = [layers(sentence)[2] if top_only else layers(sentence) for sentence in given]
    with open_embeddings(write(tmp_path / "a", given, arrays, layout=layout, **options)) as file:
        view = LayerView(file)
        found = list(occurrences(view, "play"))
        assert [str(one) for one in found] == ["0:1", "1:1", "2:1", "4:0", "6:1", "7:3"]
        assert [find_token(view, str(one)) for one in found] == found


def test_sentence_that_is_a_number_is_not_taken_for_a_key(tmp_path):
    given = sentences(["3", "a b", "c d e", "f g"])
    arrays = [layers(sentence)[2] for sentence in given]
    with open_embeddings(write(tmp_path / "a", given, arrays, layout="manylangs")) as embeddings:
        view = LayerView(embeddings)
        assert find_token(view, "3:1") == next(occurrences(view, "g"))
        assert find_token(view, "0:0").tokens == ("3",)


@pytest.mark.parametrize(
    ("position", "n", "expected"),
    [
        (3, 2, ("… b c", "d", "e f …")),
        (2, 2, ("a b", "c", "d e …")),
        (6, 6, ("a b c d e f", "g", "")),
        (0, 6, ("", "a", "b c d e f g")),
        (None, 2, ("", "", "a b c d e …")),
    ],
)
def test_context(position, n, expected):
    assert Occurrence(0, position, tuple("abcdefg")).context(n) == expected
    assert Occurrence(0, position, None).context(n) == ("", "", "")


@pytest.mark.parametrize(
    ("query", "occurrence", "expected", "n"),
    [
        ("PLAY", None, ["0:1", "1:1", "2:1", "5:0", "7:1"], 6),
        ("play", "all", ["0:1", "1:1", "2:1", "5:0", "7:1", "8:3"], 6),
        ("play", 6, ["8:3"], 6),
        ("10:30", None, ["9:4"], 1),
        ("3", None, ["2:4"], 1),
        ("=", None, ["9:5"], 1),
        ("=:", None, ["2:2"], 1),
        ("0:play", None, ["0:1"], None),
        ("0:1", None, ["0:1"], None),
    ],
)
def test_words_and_positions(tmp_path, query, occurrence, expected, n):
    with open_embeddings(write(tmp_path / "a.hdf5", sentences(LINES))) as embeddings:
        found, n_occurrences = find_tokens(LayerView(embeddings), query, occurrence)
    assert ([str(one) for one in found], n_occurrences) == (expected, n)


def test_word_that_looks_like_a_position(tmp_path):
    with open_embeddings(write(tmp_path / "a.hdf5", sentences(["0:1 b", "c"]))) as embeddings:
        view = LayerView(embeddings)
        assert [str(find_tokens(view, query)[0][0]) for query in ("0:1", "=0:1")] == ["0:1", "0:0"]


@pytest.mark.parametrize(
    ("layout", "query", "occurrence", "what", "hint"),
    [
        ("flat", "plya", None, "word 'plya' does not occur", "did you mean `play`?"),
        ("flat", "zzzz", None, "word 'zzzz' does not occur", "whole token"),
        ("flat", "play", 7, "`occurrence=7`: the last occurrence of", "`occurrence=all`"),
        ("flat", "0:1", 2, "`occurrence=2`: 0:1 names one vector", "leave out `occurrence`"),
        ("flat", "99:3", None, "no sentence '99'", "KEY:N"),
        ("flat", "4", None, "4 names a sentence but no token", "`4:0`"),
        ("bilm", "99:3", None, "no sentence '99'", "KEY:N"),
        ("bilm", "play", None, "does not store tokens", "layout flat"),
    ],
)
def test_words_that_are_not_found(tmp_path, layout, query, occurrence, what, hint):
    path = write(tmp_path / "a.hdf5", sentences(LINES), layout=layout)
    with open_embeddings(path) as embeddings, pytest.raises(UsageError) as error:
        find_tokens(LayerView(embeddings), query, occurrence)
    assert what in error.value.message
    assert hint in error.value.hint
