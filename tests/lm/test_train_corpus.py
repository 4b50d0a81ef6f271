"""Corpus and windows: what each direction reads and predicts, and that streams go on unbroken."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from elmo_cli.errors import TrainingError
from elmo_cli.lm.corpus import BACKWARD, FORWARD, Corpus, Window, windows
from elmo_cli.lm.read_corpus import read_corpus
from elmo_cli.text.vocabulary import Vocabulary

SENTENCES = [["the", "cat", "sat"], [], ["a", "dog"], ["the", "dog", "sat", "on", "the", "cat"]]
LONG = [[f"w{(7 * i + k) % 13}" for k in range(1 + i % 9)] for i in range(60)]


@pytest.fixture
def corpus() -> Corpus:
    return Corpus.read(SENTENCES)


def words(corpus: Corpus, numbers: np.ndarray) -> str:
    return " ".join(corpus.types[n] for n in numbers)


def test_forward_reads_from_begin_and_predicts_the_end(corpus: Corpus) -> None:
    """Without it a direction would read what it is to predict, or predict what nobody measures."""
    read, predicted = corpus.laid_out(np.array([1, 0]), FORWARD)
    assert words(corpus, read) == "<S> a dog <S> the cat sat"
    assert words(corpus, predicted) == "a dog </S> the cat sat </S>"


def test_backward_reads_from_the_end_and_predicts_the_begin(corpus: Corpus) -> None:
    """Without it the backward LM would learn another task than bilm-tf's."""
    read, predicted = corpus.laid_out(np.array([1, 0]), BACKWARD)
    assert words(corpus, read) == "</S> dog a </S> sat cat the"
    assert words(corpus, predicted) == "dog a <S> sat cat the <S>"


def test_counts_leave_out_borders_and_empty_sentences(corpus: Corpus) -> None:
    """Without it <S> would be the commonest type of each vocabulary."""
    assert (corpus.n_sentences, corpus.n_tokens) == (3, 11)
    counted = dict(zip(corpus.types, corpus.counts().tolist(), strict=True))
    assert counted["<S>"] == counted["</S>"] == 0
    assert counted["the"] == 3
    assert corpus.vocabulary(min_count=2).types[3:] == ("the", "cat", "dog", "sat")


def test_ids_are_those_of_the_vocabulary(corpus: Corpus) -> None:
    """Without it the softmax would be trained on the corpus's own numbers."""
    vocabulary = Vocabulary(["</S>", "<S>", "<UNK>", "cat"])
    ids = dict(zip(corpus.types, corpus.ids(vocabulary).tolist(), strict=True))
    assert (ids["<S>"], ids["</S>"], ids["cat"], ids["dog"]) == (1, 0, 3, 2)


def stream(corpus: Corpus, n: int, **begin: int) -> list[Window]:
    return list(islice(windows(corpus, n_rows=3, n_steps=4, seed=5, **begin), n))


def test_rows_go_on_from_window_to_window() -> None:
    """The state is carried: a gap between windows would pair it with another text."""
    corpus = Corpus.read(LONG)
    epoch = [window for window in stream(corpus, 60) if window.epoch == 0]
    sentences = {" ".join(["<S>", *sentence]) for sentence in LONG}
    for direction, first in ((FORWARD, "<S> w"), (BACKWARD, "</S> w")):
        read = np.concatenate([window.read[:, direction] for window in epoch])
        predicted = np.concatenate([window.predicted[:, direction] for window in epoch])
        for r in range(3):
            row, targets = words(corpus, read[:, r]), words(corpus, predicted[:, r])
            assert row.startswith(first) or r > 0  # the others begin within a sentence
            if direction == FORWARD:
                pieces = [f"<S>{rest}".strip() for rest in row.split("<S>")[1:-1]]
                assert set(pieces) <= sentences
            # What is predicted is what is read next, but for the borders.
            ahead = [t for t in row.split()[1:] if t not in ("<S>", "</S>")]
            assert [t for t in targets.split() if t not in ("<S>", "</S>")][: len(ahead)] == ahead


def test_an_epoch_reads_nearly_all_of_the_text_once() -> None:
    """Without it part of the text would never be trained on, or some of it twice as often."""
    corpus = Corpus.read(LONG)
    epoch = [window for window in stream(corpus, 60) if window.epoch == 0]
    for direction in (FORWARD, BACKWARD):
        predicted = np.concatenate([w.predicted[:, direction].ravel() for w in epoch])
        seen = np.bincount(predicted, minlength=len(corpus.types))
        assert (seen[2:] <= corpus.counts()[2:]).all()
        assert seen[2:].sum() > 0.85 * corpus.n_tokens


def test_epochs_and_directions_have_orders_of_their_own() -> None:
    """Without it each epoch would repeat the last one's windows."""
    corpus = Corpus.read(LONG)
    found = stream(corpus, 60)
    second = next(window for window in found if window.epoch == 1)
    assert not np.array_equal(found[0].read, second.read)
    forward = words(corpus, found[0].predicted[:, FORWARD].T.ravel())
    backward = words(corpus, found[0].predicted[:, BACKWARD].T.ravel())
    assert sorted(forward.split()) != sorted(backward.split())


def test_documents_keep_their_sentences_together_and_in_order() -> None:
    """Without it the carried state would come from a text that has nothing to do with this one."""
    corpus = replace(Corpus.read(LONG), documents=np.asarray([0, 1, 4, 11, 12, len(LONG)]))
    order = corpus.order(np.random.default_rng(3), by_document=True)
    assert sorted(order) == list(range(len(LONG)))
    first_of = np.flatnonzero(np.diff(order, prepend=-2) != 1)
    begun = [int(order[k]) for k in first_of]
    assert set(begun) <= {0, 1, 4, 11, 12}
    assert begun != sorted(begun)
    assert not np.array_equal(order, corpus.order(np.random.default_rng(4), by_document=True))
    shuffled = corpus.order(np.random.default_rng(3))
    assert (np.diff(shuffled) == 1).mean() < 0.2


def test_documents_begin_after_blank_lines_and_at_new_files(tmp_path: Path) -> None:
    """Without it two documents would be read as one, or one as many."""
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("a b\nc\n\n\nd\n\n")
    two.write_text("\ne f\ng\n")
    corpus = read_corpus([str(one), str(two)])
    assert corpus.documents is not None
    assert corpus.documents.tolist() == [0, 2, 3, 5]
    assert (
        words(corpus, corpus.tokens) == "<S> a b </S> <S> c </S> <S> d </S> <S> e f </S> <S> g </S>"
    )


def test_of_each_text_so_many_tokens(tmp_path: Path) -> None:
    """Without it the largest text would rule what the model learns."""
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("a b\nc d e\nf\n")
    two.write_text("g\n")
    corpus = read_corpus([str(one), str(two)], most_tokens=3)
    assert words(corpus, corpus.tokens) == "<S> a b </S> <S> c d e </S> <S> g </S>"


def test_a_stream_can_be_entered_anywhere() -> None:
    """Without it a resumed run would read other text than an undisturbed one."""
    corpus = Corpus.read(LONG)
    whole = stream(corpus, 60)
    for k in (1, 17, 40):
        entered = stream(corpus, 5, epoch=whole[k].epoch, place=whole[k].place)
        for one, other in zip(entered, whole[k:], strict=False):
            assert np.array_equal(one.read, other.read)
            assert np.array_equal(one.predicted, other.predicted)
            assert (one.epoch, one.place) == (other.epoch, other.place)


def test_a_text_is_known_by_its_words(corpus: Corpus) -> None:
    """Without it a run would go on with another text of the same form: the numbers of its types,
    and their counts, are the same where words are replaced one for one."""
    others = [["The", "dog", "sat"], ["A", "dog"]]
    one, other = (
        Corpus.read([[word.swapcase() if swapped else word for word in s] for s in others])
        for swapped in (False, True)
    )
    assert (one.tokens == other.tokens).all()
    assert one.known_by != other.known_by
    assert one.known_by == Corpus.read(others).known_by != corpus.known_by


@pytest.mark.parametrize("long", [40, 300, 2000])
def test_a_long_sentence_costs_no_other_text(long: int) -> None:
    """It made all rows as short as what it left of the next one, or ended a run in an epoch in
    which it stood badly."""
    corpus = Corpus.read([*([f"w{n}", "x", "y"] for n in range(200)), ["long"] * long])
    n_places = corpus.n_tokens + corpus.n_sentences
    for epoch in range(5):
        first = next(windows(corpus, n_rows=8, n_steps=5, seed=1, epoch=epoch))
        assert first.n_places * 8 * 5 > n_places - 8 * 5 - 8


def test_documents_that_are_shuffled_are_part_of_the_text() -> None:
    """A resumed run would read them in another order, some sentences twice and some never."""
    texts = [["a", "b"], ["c"], ["d"]]
    one, other = (Corpus.read(texts, begins=begins) for begins in ([0, 1], [0, 2]))
    assert one.known_by == other.known_by
    assert one.documents_known_by != other.documents_known_by


def test_too_little_text_is_told(corpus: Corpus) -> None:
    """Without it training would wait for a window for ever."""
    with pytest.raises(TrainingError, match="11 tokens are less than one window of 3 rows"):
        next(windows(corpus, n_rows=3, n_steps=20, seed=0))


def test_no_text_is_told() -> None:
    """Without it the user would get an error about array shapes."""
    with pytest.raises(TrainingError, match="no sentence"):
        Corpus.read([[], []])
