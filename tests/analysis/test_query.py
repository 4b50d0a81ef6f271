"""Queries and the tokens that they name."""

from __future__ import annotations

import pytest
from embeddings_files import LINES, layers, make_sentences, write

from elmo_cli.analysis.query import Occurrence, find_marked, find_tokens, occurrences
from elmo_cli.analysis.vectors import LayerView
from elmo_cli.errors import UsageError
from elmo_cli.store.reader import open_embeddings

TEXT = [line for line in LINES if line]
COLONS = ["a : b :: c", "at 10:30 or 7 =", "12 7 = == =7", "x"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("0:1", "0:1"),
        ("0:b", "0:2"),
        ("0::", "0:1"),
        ("1:10:30", "1:1"),
        ("1:=7", "1:3"),
        ("2:1", "2:1"),
        ("2:=12", "2:0"),
        ("2:==", "2:2"),
        ("2:==7", "2:4"),
    ],
)
def test_numbers_words_and_colons(tmp_path, query, expected):
    with open_embeddings(write(tmp_path / "a.hdf5", make_sentences(COLONS))) as embeddings:
        tokens, n_occurrences = find_tokens(LayerView(embeddings), query)
    assert [str(occurrence) for occurrence in tokens] == [expected]
    assert n_occurrences is None


@pytest.mark.parametrize(
    ("query", "number", "expected", "n"),
    [
        ("PLAY", None, ["0:1", "1:1", "2:1", "5:0", "7:1"], 6),
        ("play", "all", ["0:1", "1:1", "2:1", "5:0", "7:1", "8:3"], 6),
        ("play", 6, ["8:3"], 6),
        ("10:30", None, ["9:4"], 1),
        ("3", None, ["2:4"], 1),
        ("=", None, ["9:5"], 1),
        ("=:", None, ["2:2"], 1),
    ],
)
def test_words(tmp_path, query, number, expected, n):
    with open_embeddings(write(tmp_path / "a.hdf5", make_sentences(LINES))) as embeddings:
        tokens, n_occurrences = find_tokens(LayerView(embeddings), query, number)
    assert [str(occurrence) for occurrence in tokens] == expected
    assert n_occurrences == n


@pytest.mark.parametrize(
    ("lines", "layout", "options", "query", "expected"),
    [
        (LINES, "flat", {}, "d_1:2:=play", ("d_1:2", 1)),
        (LINES, "flat", {}, "7:play", (7, 1)),
        (LINES, "bilm", {}, "0:4", (0, 4)),
        (LINES, "e2e-coref", {}, "d_1:2:1", ("d_1:2", 1)),
        (LINES, "e2e-coref", {}, "7:1", (7, 1)),
        (LINES, "e2e-coref", {}, "d_1/2:1", ("d_1/2", 1)),
        (LINES, "dygie", {}, "d_1_2:1", ("d_1_2", 1)),
        (LINES, "lsgn", {}, "d_1:2:0", ("d_1:2", 0)),
        (TEXT, "allennlp", {"keys": "sentence"}, "a Play : in 3 acts:2", (TEXT[2], 2)),
        (TEXT, "allennlp", {"keys": "sentence"}, "a Play : in 3 acts:Play", (TEXT[2], 1)),
        # The longest key that exists; a number before a word; a word that looks like a position.
        (["x", "x:y z"], "allennlp", {"keys": "sentence"}, "x:y z:z", ("x:y z", 1)),
        (["0:1 b", "c"], "flat", {}, "0:1", (0, 1)),
        (["0:1 b", "c"], "flat", {}, "=0:1", (0, 0)),
    ],
)
def test_keys_of_every_layout(tmp_path, lines, layout, options, query, expected):
    path = write(tmp_path / "a", make_sentences(lines), layout=layout, **options)
    with open_embeddings(path) as embeddings:
        [occurrence], _ = find_tokens(LayerView(embeddings), query)
    assert (occurrence.key, occurrence.position) == expected


@pytest.mark.parametrize(
    ("layout", "query", "occurrence", "problem", "hint"),
    [
        ("flat", "99:0", None, "contains no token '99:0'", "KEY:N"),
        ("flat", "0", None, "contains no token '0'", "KEY:N"),
        ("flat", "zzzz", None, "contains no token 'zzzz'", "KEY:N"),
        ("flat", "=zzzz", None, "contains no token 'zzzz'", "give a whole token; case is ignored"),
        ("flat", "3:0", None, "no token '0' among its 0 tokens ()", "KEY:N"),
        ("flat", "0:5", None, "no token '5' among its 5 tokens (the play", "KEY:=7"),
        ("flat", "0:=5", None, "no token '=5' among its 5 tokens", "KEY:WORD"),
        ("flat", "play", 7, "`occurrence=7`: the last occurrence of", "`occurrence=all`"),
        ("flat", "0:1", 2, "`occurrence=2`: 0:1 names one vector", "leave out `occurrence`"),
        ("bilm", "play", None, "'play' (the file does not store tokens)", "layout flat"),
        ("bilm", "=play", None, "the file does not store tokens", "layout flat"),
        ("bilm", "0:play", None, "'play' among its 5 tokens (not stored)", "layout flat"),
    ],
)
def test_query_without_token_is_refused(tmp_path, layout, query, occurrence, problem, hint):
    path = write(tmp_path / "a.hdf5", make_sentences(LINES), layout=layout)
    with open_embeddings(path) as embeddings, pytest.raises(UsageError) as error:
        find_tokens(LayerView(embeddings), query, occurrence)
    assert problem in error.value.message
    assert hint in error.value.hint


@pytest.mark.parametrize("lines", [[], ["", ""]])
@pytest.mark.parametrize("query", ["play", "=play"])
def test_a_file_without_tokens_is_not_said_to_lack_them(tmp_path, lines, query):
    """Embedding the text again in this layout would not help."""
    path = write(tmp_path / "a.hdf5", make_sentences(lines))
    with open_embeddings(path) as embeddings, pytest.raises(UsageError) as error:
        find_tokens(LayerView(embeddings), query)
    assert "the file has no tokens" in error.value.message


def test_pooled_sentence_has_one_occurrence(tmp_path):
    sentences = make_sentences(["play the play", "a", "the play"])
    pooled = [layers(sentence).mean(1) for sentence in sentences]
    path = write(tmp_path / "a.hdf5", sentences, pooled, header={"pool": "mean"})
    with open_embeddings(path) as embeddings:
        plays = list(occurrences(LayerView(embeddings), "play"))
    assert [occurrence.key for occurrence in plays] == [0, 2]
    assert [occurrence.position for occurrence in plays] == [None, None]


@pytest.mark.parametrize(
    ("layout", "options"), [("allennlp", {"keys": "sentence"}), ("manylangs", {})]
)
def test_occurrences_have_numbers_where_keys_are_sentences(tmp_path, layout, options):
    """A key with tabs, or of 700 characters, could not be given back as a query.

    A number refers to the sentence listed under it, even if another sentence consists of it.
    """
    sentences = make_sentences([*TEXT, "3"])
    top_only = layout == "manylangs"
    arrays = [layers(sentence)[2] if top_only else layers(sentence) for sentence in sentences]
    with open_embeddings(
        write(tmp_path / "a", sentences, arrays, layout=layout, **options)
    ) as file:
        view = LayerView(file)
        plays = list(occurrences(view, "play"))
        queries = [str(occurrence) for occurrence in plays]
        assert queries == ["0:1", "1:1", "2:1", "4:0", "6:1", "7:3"]
        for query, occurrence in zip(queries, plays, strict=True):
            assert find_tokens(view, query) == ([occurrence], None)
        [yes], _ = find_tokens(view, "3:0")
        assert yes.token == "Yes"


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
    ("position", "n", "expected"),
    [(2, 2, ("a b", "c d e", "f g")), (1, 2, ("a", "b c d", "e f …")), (3, 0, ("…", "d e f", "…"))],
)
def test_context_of_a_phrase(position, n, expected):
    occurrence = Occurrence(0, position, tuple("abcdefg"), 3)
    assert occurrence.context(n) == expected
    assert occurrence.token == expected[1]


@pytest.mark.parametrize(
    ("text", "tokenizer", "sentence", "position"),
    [
        ("she sat on the [bank]", "whitespace", "she sat on the bank", 4),
        ("[bank]  bank", "whitespace", "bank bank", 0),
        ("a bank b [bank] .", "None", "a bank b bank .", 3),
        ("It isn't a [bank].", "english", "It is n't a bank .", 4),
        ("It is[n't] so.", "english", "It is n't so .", 2),
        ("So it is. The [so] is last.", "english", "The so is last .", 1),
    ],
)
def test_marked_token(text, tokenizer, sentence, position):
    occurrence = find_marked(text, 3, tokenizer)
    assert occurrence == Occurrence(3, position, tuple(sentence.split()))


@pytest.mark.parametrize(
    ("text", "tokenizer", "message"),
    [
        ("the bank", "whitespace", "0 words in brackets"),
        ("the [bank] of the [river]", "whitespace", "2 words in brackets"),
        ("the []", "whitespace", "0 words in brackets"),
        ("the [bank].", "whitespace", "[bank] is not one of the tokens 'the bank.'"),
        ("the [river bank]", "whitespace", "[river bank] is not one"),
        ("the b[an]k an", "whitespace", "[an] is not one"),
        ("It [isn't] so.", "english", "[isn't] is not one of the tokens \"It is n't so .\""),
    ],
)
def test_text_without_a_marked_token_is_refused(text, tokenizer, message):
    with pytest.raises(UsageError) as error:
        find_marked(text, 0, tokenizer)
    assert message in error.value.message
