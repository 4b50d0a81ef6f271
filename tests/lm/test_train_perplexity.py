"""Perplexity against bilm-tf's own figures, prediction by prediction."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from elmo_cli.errors import TrainingError, UsageError, WeightFileError
from elmo_cli.lm import scores as scores_room
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.perplexity import perplexity, perplexity_of
from elmo_cli.lm.rows import borders_of, dealt
from elmo_cli.lm.scores import score
from elmo_cli.lm.stream import BACKWARD, FORWARD
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.model.state import State
from elmo_cli.text.characters import CharacterIds
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.weightfile.read import read_softmax

LM = tuple[BiLM, NextTokenSoftmax, Vocabulary]
KEYS = ("forward_ll", "backward_ll_reading_order")


@pytest.fixture(scope="module")
def folder(golden: Path) -> Path:
    return golden / "lm"


@pytest.fixture(scope="module")
def lm(folder: Path, tiny_bilm: BiLM) -> LM:
    vocabulary = Vocabulary.read(folder / "vocab.txt")
    projection = tiny_bilm.options.projection_dim
    head = read_softmax(folder / "softmax.hdf5", n_types=len(vocabulary), projection=projection)
    return tiny_bilm, head, vocabulary


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Corpus:
    lines = (folder / "sentences.txt").read_text(encoding="utf-8").splitlines()
    return Corpus.read([line.split() for line in lines])


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return content


def test_predictions_from_zeros_are_those_of_bilm_tf(
    lm: LM, corpus: Corpus, expected: dict[str, Any]
) -> None:
    """Without it a fault in one direction could hide in a mean."""
    scores = score(*lm, corpus)
    flat = [np.concatenate(expected["zero_state"][key]) for key in KEYS]
    np.testing.assert_allclose(scores.values, flat, rtol=0, atol=1e-5)


def test_predictions_in_parts_are_those_of_the_whole_vocabulary(
    lm: LM, corpus: Corpus, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of the vocabulary whose sums are put together wrongly would be seen on large ones
    only."""
    monkeypatch.setattr(scores_room, "_TYPES_AT_ONCE", {"cpu": 6})
    monkeypatch.setattr(scores_room, "_PREDICTIONS_AT_ONCE", 7)
    assert len(lm[2]) % 6, "the last part is to be a shorter one"
    scores = score(*lm, corpus)
    flat = [np.concatenate(expected["zero_state"][key]) for key in KEYS]
    np.testing.assert_allclose(scores.values, flat, rtol=0, atol=1e-5)


def test_carried_predictions_are_those_of_bilm_tf(
    lm: LM, corpus: Corpus, expected: dict[str, Any]
) -> None:
    """Without it a state that is lost between windows or sentences would go unseen."""
    scores = score(*lm, corpus, carry=True)
    flat = [np.concatenate(expected["carried"][key]) for key in KEYS]
    np.testing.assert_allclose(scores.values, flat, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("carry", "key"), [(False, "zero_state"), (True, "carried")])
def test_perplexities_are_those_of_bilm_tf(
    carry: bool, key: str, lm: LM, corpus: Corpus, expected: dict[str, Any]
) -> None:
    """Without it perplexities could not be compared with published ones."""
    found = perplexity_of(score(*lm, corpus, carry=carry))
    assert found.forward == pytest.approx(expected[key]["perplexity_forward"], rel=1e-6)
    assert found.backward == pytest.approx(expected[key]["perplexity_backward"], rel=1e-6)
    assert found.average == pytest.approx(expected[key]["perplexity"], rel=1e-6)
    assert found.predictions == corpus.n_tokens + corpus.n_sentences == 294
    assert found.not_scored == 0


def test_a_batch_of_four_rows_is_that_of_bilm_tf(
    lm: LM, corpus: Corpus, expected: dict[str, Any]
) -> None:
    """Rows get sentences as they run dry, and what stands after the first dry one is dropped: its
    test's figure depends on both."""
    stream = expected["bilm_tf_float64"]["stream_batch4"]
    scores = score(*lm, corpus, carry=True, n_rows=4)
    places = _places(corpus, stream["rows"])[..., 0]  # (step, row)
    for direction, name in ((FORWARD, "forward"), (BACKWARD, "backward")):
        losses = -scores.values[direction][places].mean(1)
        np.testing.assert_allclose(losses, stream[f"{name}_loss"], rtol=0, atol=1e-5)
        assert np.array_equal(_targets(scores, direction)[places], stream[f"{name}_targets"])
    found = perplexity_of(scores)
    assert found.average == pytest.approx(
        expected["bilm_tf_float64"]["test_perplexity_batch4"], rel=1e-6
    )
    assert (found.predictions, found.not_scored) == (272, 22)
    uncounted = np.setdiff1d(np.arange(294), places)
    assert np.array_equal(np.flatnonzero(~scores.is_counted), uncounted)


def _places(corpus: Corpus, rows: Any) -> npt.NDArray[np.int64]:
    """[sentence, position] of bilm-tf's rows as places, the last axis gone."""
    pairs = np.asarray(rows)
    places: npt.NDArray[np.int64] = borders_of(corpus)[pairs[..., 0]] + pairs[..., 1]
    return places


def _targets(scores: Any, direction: int) -> npt.NDArray[np.int64]:
    ids: npt.NDArray[np.int64] = scores.corpus.ids(scores.vocabulary)
    return ids[scores.predicted(direction)]


def test_any_start_is_that_of_the_model_alone(lm: LM, corpus: Corpus, seed: int) -> None:
    """A warm state that reaches the wrong direction or layer would only look like a worse model."""
    bilm, head, vocabulary = lm
    zeros = State.zeros(bilm.options, 1)
    start = State(torch.randn_like(zeros.h), torch.randn_like(zeros.c))
    scores = score(*lm, corpus, start=start)
    size, borders = bilm.options.projection_dim, borders_of(corpus)
    for k in (0, 7, 29):
        numbers = corpus.tokens[corpus.starts[k] : corpus.starts[k + 1]]
        tokens = [corpus.types[n] for n in numbers]
        ids = torch.from_numpy(CharacterIds().tokens(tokens)).unsqueeze(0)
        wanted = torch.tensor([vocabulary.id(token) for token in tokens])
        # Each direction stops before the last symbol that it could read.
        ahead = bilm(ids[:, :-1], torch.tensor([len(tokens) - 1]), start)[0][-1, 0, :, :size]
        back = bilm(ids[:, 1:], torch.tensor([len(tokens) - 1]), start)[0][-1, 0, :, size:]
        found = scores.values[:, borders[k] : borders[k + 1]]
        with torch.no_grad():
            np.testing.assert_allclose(found[FORWARD], head(ahead, wanted[1:]), atol=1e-5)
            np.testing.assert_allclose(found[BACKWARD], head(back, wanted[:-1]).flip(0), atol=1e-5)


def test_sentences_sum_up_to_the_text(lm: LM, corpus: Corpus, expected: dict[str, Any]) -> None:
    """Without it a sentence could get the likelihood of its neighbour."""
    found = list(score(*lm, corpus, carry=True, n_rows=4).sentences())
    assert sum(one.predictions for one in found) == 272
    partly = [one for one in found if one.predictions != one.tokens + 1]
    assert partly  # cut by the end of the rows
    whole = list(score(*lm, corpus).sentences())
    for one, ll in zip(whole, expected["zero_state"]["forward_ll"], strict=True):
        assert one.predictions == one.tokens + 1 == len(ll)
        assert one.forward == pytest.approx(sum(ll), abs=1e-4)
    sentences = np.split(corpus.tokens, corpus.starts[1:-1])
    unknown = [sum(corpus.types[n] not in lm[2].types for n in numbers) for numbers in sentences]
    assert [one.unknown for one in whole] == unknown
    assert max(unknown) > 1


def test_a_long_sentence_keeps_its_state(lm: LM, corpus: Corpus) -> None:
    """It is read in several windows; a state lost between them would show nowhere else."""
    tokens = [corpus.types[n] for n in corpus.tokens if n > 1]
    one = Corpus.read([tokens, tokens[:1]])
    assert one.n_tokens > 200
    alone = score(*lm, one)
    carried = score(*lm, one, carry=True)
    np.testing.assert_allclose(alone.values[:, :-2], carried.values[:, :-2], rtol=0, atol=1e-5)


def test_unknown_tokens_are_counted(lm: LM, corpus: Corpus, folder: Path) -> None:
    """A perplexity means little without the share of <UNK> in it."""
    tokens = (folder / "sentences.txt").read_text(encoding="utf-8").split()
    share = np.mean([token not in lm[2].types for token in tokens])
    assert perplexity(*lm, corpus).unknown_fraction == pytest.approx(share)


def test_a_text_of_unknown_tokens_is_measured(lm: LM) -> None:
    """It has a perplexity, of <UNK>, and no share may come out as 0 / 0."""
    found = perplexity(*lm, Corpus.read([["qqq", "zzzz"], ["xyzzy"]]))
    assert found.unknown_fraction == 1
    assert found.bits_per_byte.spelling > 1
    assert np.isfinite(found.average)


def test_nothing_to_count_is_refused(lm: LM, corpus: Corpus) -> None:
    """bilm-tf's test gives nan for fewer sentences than rows."""
    with pytest.raises(UsageError, match=r"--batch-size 31: the text has 30 sentences"):
        score(*lm, corpus, carry=True, n_rows=31)
    with pytest.raises(TrainingError, match="no sentence"):
        Corpus.read([[], []])


def test_a_prediction_without_likelihood_is_no_prediction_left_out(lm: LM, corpus: Corpus) -> None:
    """NaN marks what was not counted: a damaged softmax must not hide there."""
    bilm, head, vocabulary = lm
    damaged = copy.deepcopy(head)
    with torch.no_grad():
        damaged.weight.mul_(3e38)
    with pytest.raises(WeightFileError, match="too large for float32"):
        score(bilm, damaged, vocabulary, corpus)


@pytest.mark.parametrize("n_steps", [1, 3, 20])
@pytest.mark.parametrize("n_rows", [1, 2, 7, 30])
def test_sentences_are_dealt_as_bilm_tf_deals_them(
    n_rows: int, n_steps: int, corpus: Corpus
) -> None:
    """The rule as bilm-tf has it, step by step, against the rule by sentences."""
    borders = borders_of(corpus)
    unread = iter(range(corpus.n_sentences))
    held: list[list[int]] = [[] for _ in range(n_rows)]
    steps = []
    try:
        while True:
            step = np.empty(n_rows, np.int64)
            for r in range(n_rows):
                if not held[r]:
                    sentence = next(unread)
                    held[r] = list(range(borders[sentence], borders[sentence + 1]))
                step[r] = held[r].pop(0)
            steps.append(step)
    except StopIteration:
        pass
    found = np.concatenate(list(dealt(corpus, n_rows).windows(borders, n_steps)))
    assert np.array_equal(found, steps)
