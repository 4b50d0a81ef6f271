"""Rows: which prediction of a text is made when, and beside which others.

Predictions are numbered through the text: a sentence of n tokens has n + 1 of them, in the order in
which a direction reads it. A number is called a place; both directions are at the same place at
the same time, and see there the text from either end of the sentence.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elmo_cli.lm.corpus import Corpus, Int32Array

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Rows of sentences that are read side by side, from one state each.

    Attributes:
        sentences: of each row, in the order of reading.
        begins: the step at which each of them begins; one begins where the one before ends.
        n_steps: steps to read; where a row has ended before, there is nothing.
    """

    sentences: tuple[Places, ...]
    begins: tuple[Places, ...]
    n_steps: int

    def windows(self, borders: Places, n_steps: int) -> Iterator[Places]:
        """The places in runs of `n_steps` steps, (step, row), -1 where there is nothing.

        Args:
            borders: of `borders_of`.
        """
        for begin in range(0, self.n_steps, n_steps):
            steps = np.arange(begin, min(begin + n_steps, self.n_steps))
            places = np.full((len(steps), len(self.sentences)), -1, np.int64)
            for r, (row, begins) in enumerate(zip(self.sentences, self.begins, strict=True)):
                turn = np.searchsorted(begins, steps, "right") - 1
                place = borders[row[turn]] + steps - begins[turn]
                there = place < borders[row[turn] + 1]
                places[there, r] = place[there]
            yield places


def borders_of(corpus: Corpus) -> Places:
    """The first place of each sentence, and at last the number of places, (sentence + 1,)."""
    borders: Places = corpus.starts - np.arange(len(corpus.starts))
    return borders


def symbols_at(corpus: Corpus, borders: Places, places: Places) -> tuple[Int32Array, Int32Array]:
    """What each direction reads and what it predicts: (step, row) -> twice (step, direction, row).

    Where there is nothing, the symbols are those of place 0.
    """
    places = np.maximum(places, 0)
    sentence = np.searchsorted(borders, places, "right") - 1
    ahead = places + sentence
    back = corpus.starts[sentence + 1] - 1 - (places - borders[sentence])
    tokens = corpus.tokens
    return (
        np.stack([tokens[ahead], tokens[back]], 1),
        np.stack([tokens[ahead + 1], tokens[back - 1]], 1),
    )


def one_by_one(corpus: Corpus, n_rows: int) -> Iterator[Rows]:
    """A row for each sentence, sentences of like length beside each other."""
    lengths = np.diff(borders_of(corpus))
    order = np.argsort(lengths, kind="stable")
    for first in range(0, len(order), n_rows):
        some = order[first : first + n_rows]
        zero = np.zeros(1, np.int64)
        yield Rows(tuple(some[:, None]), (zero,) * len(some), int(lengths[some[-1]]))


def dealt(corpus: Corpus, n_rows: int) -> Rows:
    """The whole text in rows that get its sentences one after the other, as they run dry.

    In each step row 0 comes before row 1, each taking the next sentence of the text when it needs
    one. Reading ends before the step in which there is none for a row that needs one; what the
    other rows hold beyond it is not read.

    Args:
        n_rows: rows; more than there are sentences leave nothing to read.

    Source: bilm-tf `bilm/data.py` `_get_batch`, with windows of one step as its `test` has them.
    """
    lengths = np.diff(borders_of(corpus)).tolist()
    rows: list[list[int]] = [[] for _ in range(n_rows)]
    begins: list[list[int]] = [[] for _ in range(n_rows)]
    # (step at which the row runs dry, row): the smallest takes the next sentence.
    dry = [(0, r) for r in range(n_rows)]
    for sentence, length in enumerate(lengths):
        step, r = dry[0]
        rows[r].append(sentence)
        begins[r].append(step)
        heapq.heapreplace(dry, (step + length, r))
    return Rows(
        tuple(np.asarray(row, np.int64) for row in rows),
        tuple(np.asarray(steps, np.int64) for steps in begins),
        dry[0][0],
    )
