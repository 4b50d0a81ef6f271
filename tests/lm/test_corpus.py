"""Corpus: sentences as type numbers, read from files, selected, stored and loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmo_cli.errors import InputError, ResumeError, TrainingError
from elmo_cli.fit import TEXT_IN_VOCABULARY
from elmo_cli.lm.checkpoint import load_corpora, save_corpora
from elmo_cli.lm.corpus import Corpus, overlap, read_corpus, warn_of_single_tokens, without
from elmo_cli.text.input import InputReport, InputSettings
from elmo_cli.text.treebank import gets_treebank_spelling, treebank_spelling
from elmo_cli.text.vocabulary import SPECIALS, Vocabulary

SENTENCES = [["the", "cat", "sat"], [], ["a", "dog"], ["the", "dog", "sat", "on", "the", "cat"]]


@pytest.fixture
def corpus() -> Corpus:
    return Corpus.read(SENTENCES)


def words(corpus: Corpus) -> str:
    return " ".join(corpus.types[n] for n in corpus.tokens)


def test_counts_and_ids(corpus: Corpus) -> None:
    """Boundaries and empty sentences are left out; ids are those of a vocabulary."""
    assert (corpus.n_sentences, corpus.n_tokens) == (3, 11)
    counted = dict(zip(corpus.types, corpus.counts().tolist(), strict=True))
    assert counted["<S>"] == counted["</S>"] == 0
    assert counted["the"] == 3
    assert corpus.vocabulary(min_count=2).types[3:] == ("the", "cat", "dog", "sat")
    vocabulary = Vocabulary(["</S>", "<S>", "<UNK>", "cat"])
    ids = dict(zip(corpus.types, corpus.ids(vocabulary).tolist(), strict=True))
    assert (ids["<S>"], ids["</S>"], ids["cat"], ids["dog"]) == (1, 0, 3, 2)
    assert corpus.predicted_counts(vocabulary).tolist() == [1.5, 1.5, 9, 2]


@pytest.mark.parametrize(("n_sentences", "is_warned"), [(19, False), (20, True)])
def test_a_few_sentences_may_have_one_token(n_sentences: int, is_warned: bool) -> None:
    notes = InputReport()
    warn_of_single_tokens(Corpus.read([["a"]] * n_sentences), ["a.txt"], notes)
    assert bool(notes.warnings) == is_warned


@pytest.fixture
def two_files(tmp_path: Path) -> list[str]:
    first = tmp_path / "first.txt"
    second = tmp_path / "second.txt"
    first.write_text("a b\nc\n\n\nd\n\n")
    second.write_text("\ne f\ng\n")
    return [str(first), str(second)]


def test_files_are_read_into_documents(two_files: list[str]) -> None:
    """A document ends at a blank line and with its file."""
    corpus = read_corpus(two_files)
    assert corpus.documents.tolist() == [0, 2, 3, 5]
    assert words(corpus) == "<S> a b </S> <S> c </S> <S> d </S> <S> e f </S> <S> g </S>"


@pytest.mark.parametrize(
    ("tokens_per_file", "expected", "documents"),
    [
        (2, "<S> a b </S> <S> e f </S>", [0, 1, 2]),
        (3, "<S> a b </S> <S> c </S> <S> e f </S> <S> g </S>", [0, 2, 4]),
    ],
)
def test_files_are_read_up_to_a_limit(
    tokens_per_file: int, expected: str, documents: list[int], two_files: list[str]
) -> None:
    corpus = read_corpus(two_files, tokens_per_file=tokens_per_file)
    assert words(corpus) == expected
    assert corpus.documents.tolist() == documents


def test_lines_are_noted_if_asked_for(two_files: list[str]) -> None:
    first, second = two_files
    lines = read_corpus(two_files, keep_lines=True).lines
    assert lines == [(first, 1), (first, 2), (first, 5), (second, 2), (second, 3)]
    assert not read_corpus(two_files).lines


def test_file_without_sentences_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_bytes(b"\xff\n\n")
    with pytest.raises(TrainingError, match=r"one\.txt: contains no sentences"):
        read_corpus([str(path)], InputSettings(on_error="skip"))


def test_selected_sentences_keep_their_documents() -> None:
    assert Corpus.read(SENTENCES).documents.tolist() == [0, 3]
    corpus = Corpus.read([["a"], ["b", "c"], ["d"], ["e"], ["b"]], begins=[0, 2, 3])
    selected = corpus.select(np.asarray([False, True, False, True, True]))
    assert words(selected) == "<S> b c </S> <S> e </S> <S> b </S>"
    assert selected.types == ("<S>", "</S>", "b", "c", "e")
    assert selected.documents.tolist() == [0, 1, 3]
    assert np.array_equal(selected.characters, corpus.characters[[0, 1, 3, 4, 6]])


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ([["The", "dog"]], [["tHE", "DOG"]]),  # the same numbers and counts
        ([["a", "b"], ["c"]], [["a"], ["b", "c"]]),
        ([["a", "b"]], [["b", "a"]]),
        ([["a"]], [["a"], ["a"]]),
    ],
)
def test_other_texts_have_other_fingerprints(text: list[list[str]], other: list[list[str]]) -> None:
    """Otherwise a run would be resumed with another text."""
    assert Corpus.read(text).fingerprint != Corpus.read(other).fingerprint
    assert Corpus.read(text).fingerprint == Corpus.read(text).fingerprint


def test_other_documents_have_another_fingerprint() -> None:
    """Otherwise a run would be resumed with its documents reordered."""
    letters = [["a"], ["b"], ["c"]]
    corpus = Corpus.read(letters, begins=[0, 1])
    assert corpus.fingerprint != Corpus.read(letters, begins=[0, 2]).fingerprint


def test_overlap_is_counted_in_held_out_sentences(corpus: Corpus) -> None:
    heldout = Corpus.read([["a", "dog"], ["a", "dog"], ["dog", "a"], ["new"]])
    point = overlap(heldout, corpus)
    assert (point.n_fitting, point.n_all) == (2, 4)
    assert "held-out sentences that are in the training text too: 2 of 4" in point.warning
    assert overlap(Corpus.read([["x"]]), corpus).warning == ""


def test_tokens_in_a_vocabulary_are_counted() -> None:
    """Sentence boundaries are in each vocabulary and in no text; `<UNK>` is no known token."""
    corpus = Corpus.read([["a", "dog"], ["the", "dog", "<UNK>"], ["x"]])
    point = corpus.fit(TEXT_IN_VOCABULARY, Vocabulary([*SPECIALS, "dog", "a", "y"]))
    assert (point.n_fitting, point.n_all, point.example) == (3, 6, "the")
    assert "3 of 6 (50.0%), not 'the'; " in point.warning
    part = corpus.select(np.asarray([False, False, True]))
    point = part.fit(TEXT_IN_VOCABULARY, Vocabulary([*SPECIALS, "dog"]))
    assert (point.n_fitting, point.n_all, point.example) == (0, 1, "x")
    with pytest.raises(InputError, match=r"t\.txt: tokens of the text in the vocabulary: none"):
        point.check("t.txt")


@pytest.mark.parametrize("name", ["dev.txt", "link.txt", "other.txt"])
def test_a_held_out_file_is_left_out_under_any_name(name: str, tmp_path: Path) -> None:
    """Its perplexity would show how well it was memorized."""
    names = [str(tmp_path / each) for each in ("a.txt", name, "gone.txt")]
    (tmp_path / "a.txt").touch()
    (tmp_path / "dev.txt").touch()
    (tmp_path / "link.txt").symlink_to(tmp_path / "dev.txt")
    (tmp_path / "other.txt").hardlink_to(tmp_path / "dev.txt")
    assert without(names, [str(tmp_path / "dev.txt")]) == (names[0], names[2])


# -- the file that a run stores its texts in -------------------------------------------------------


def test_saved_corpora_round_trip(corpus: Corpus, tmp_path: Path) -> None:
    """Types contain whatever a token can contain; every number and boundary comes back."""
    odd = Corpus.read([["\ud800", "a\nb", "naïve", "\u2028", '"'], ["<S>", "日本"]], begins=[0, 1])
    path = tmp_path / "text.npz"
    save_corpora(path, odd, None)
    assert load_corpora(path, max_characters=50)[1] is None
    save_corpora(path, corpus, odd)
    for before, after in zip((corpus, odd), load_corpora(path, max_characters=50), strict=True):
        assert after is not None
        np.testing.assert_equal(vars(after), vars(before))
        for name in ("tokens", "starts", "characters", "documents"):
            assert getattr(before, name).dtype == getattr(after, name).dtype, name


def flip_a_bit(path: Path) -> None:
    """In the last token, which stays a valid number: only a checksum shows it."""
    with np.load(path) as arrays:
        tokens = arrays["train-tokens"].tobytes()
        np.savez(path, **arrays)
    content = bytearray(path.read_bytes())
    content[content.index(tokens) + len(tokens) // 4 - 1] ^= 1
    path.write_bytes(content)


def write_other_arrays(path: Path) -> None:
    np.savez(path, x=np.zeros(3))


@pytest.mark.parametrize("corrupt", [write_other_arrays, flip_a_bit, Path.unlink])
def test_corrupt_stored_text_is_refused(
    corrupt: Callable[[Path], None], corpus: Corpus, tmp_path: Path
) -> None:
    """Training would continue on another text, and nothing would show it."""
    path = tmp_path / "text.npz"
    save_corpora(path, corpus, None)
    corrupt(path)
    with pytest.raises(ResumeError, match=r"text\.npz: (corrupt|missing)") as caught:
        load_corpora(path, max_characters=50)
    assert "`overwrite=True`" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("lengths", [1, 8, 8]),
        ("lengths", [5, 4, 7]),
        ("lengths", [5, 4, 9]),
        ("documents", [1, 3]),
        ("documents", [0, 2]),
        ("documents", [0, 4]),
        ("documents", [0, 2, 2, 3]),
        ("documents", [0, 3, 1, 3]),
        ("types", '["<S>", "</S>", "the", "cat", "sat", "a", "dog", 7]'),
        ("types", '["<S>", "</S>", "the", "cat", "sat", "a", "dog"]'),
    ],
)
def test_stored_arrays_that_do_not_fit_each_other_are_refused(
    name: str, values: list[int] | str, corpus: Corpus, tmp_path: Path
) -> None:
    """Each has the right checksum; the sentences have 5, 4 and 8 tokens of 8 types."""
    path = tmp_path / "text.npz"
    save_corpora(path, corpus, None)
    with np.load(path) as stored:
        arrays = dict(stored)
    before = arrays[f"train-{name}"]
    content = np.frombuffer(values.encode(), np.uint8) if isinstance(values, str) else values
    arrays[f"train-{name}"] = np.asarray(content, before.dtype)
    np.savez(path, **arrays)
    with pytest.raises(ResumeError, match=r"text\.npz: corrupt"):
        load_corpora(path, max_characters=50)


# -- quotes and brackets as in treebanks -----------------------------------------------------------


@pytest.mark.parametrize(
    ("plain", "spelled"),
    [
        ('" Go , " she said .', "`` Go , '' she said ."),
        ('She said , " go ( now ) . "', "She said , `` go -LRB- now -RRB- . ''"),
        ('and so it ended . "', "and so it ended . ''"),
        ('and so it ended " .', "and so it ended '' ."),
        ('" And so it went on .', "`` And so it went on ."),
        ('" A " and " B " .', "`` A '' and `` B '' ."),
        ('"', "``"),
        ("[ 3 ] { 4 }", "-LSB- 3 -RSB- -LCB- 4 -RCB-"),
        ("It 's 5' 4 (x)", "It 's 5' 4 (x)"),
        ("", ""),
    ],
)
def test_treebank_spelling(plain: str, spelled: str) -> None:
    assert treebank_spelling(plain.split()) == tuple(spelled.split())


def test_documents_in_treebank_spelling_are_spread_evenly() -> None:
    """Otherwise one genre, whose documents are next to each other, could have all or none."""
    for fraction in (0.0, 0.125, 0.5, 1.0):
        chosen = [gets_treebank_spelling(n, fraction) for n in range(4000)]
        for start in range(0, 4000, 200):
            assert abs(sum(chosen[start : start + 200]) - 200 * fraction) <= 3
