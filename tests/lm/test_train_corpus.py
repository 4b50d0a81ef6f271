"""Corpus: sentences as type numbers, documents, and the fingerprint of a text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from elmo_cli.errors import TrainingError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.read_corpus import read_corpus
from elmo_cli.text.vocabulary import Vocabulary

SENTENCES = [["the", "cat", "sat"], [], ["a", "dog"], ["the", "dog", "sat", "on", "the", "cat"]]


@pytest.fixture
def corpus() -> Corpus:
    return Corpus.read(SENTENCES)


def words(corpus: Corpus, numbers: np.ndarray) -> str:
    return " ".join(corpus.types[n] for n in numbers)


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


def test_documents_that_are_shuffled_are_part_of_the_text() -> None:
    """A resumed run would read them in another order, some sentences twice and some never."""
    texts = [["a", "b"], ["c"], ["d"]]
    one, other = (Corpus.read(texts, begins=begins) for begins in ([0, 1], [0, 2]))
    assert one.known_by == other.known_by
    assert one.documents_known_by != other.documents_known_by


def test_no_text_is_told() -> None:
    """Without it the user would get an error about array shapes."""
    with pytest.raises(TrainingError, match="no sentence"):
        Corpus.read([[], []])
