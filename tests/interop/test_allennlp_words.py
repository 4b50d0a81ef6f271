"""The bridge to AllenNLP: cached vectors of words, which ids of words select."""

from __future__ import annotations

import pytest
import torch
from allennlp_calls import IDS, Files, close, representation

from elmo_cli.interop.allennlp import Elmo, ElmoTokenEmbedder

WORDS = ["", "the", "cat", "a", "saw", "."]
NUMBERS = torch.tensor([[1, 2, 0, 0], [3, 0, 0, 0], [4, 1, 2, 5]])  # of the words of IDS


def test_word_inputs_that_are_ignored_do_not_change_the_shape(files: Files) -> None:
    elmo = Elmo(*files, 1)
    with pytest.warns(UserWarning, match="word_inputs without vocab_to_cache are ignored"):
        output = elmo(IDS, torch.ones(1, 3, 4, dtype=torch.int64))
    assert output["elmo_representations"][0].shape == (3, 4, 16)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_cached_words(requires_grad: bool, files: Files) -> None:
    """Ids select them, also with more axes; without ids, characters are read."""
    elmo = Elmo(*files, 1, requires_grad, dropout=0, vocab_to_cache=WORDS, state="zero")
    expected = representation(elmo, IDS)
    close(representation(elmo, IDS * 0, NUMBERS), expected)
    folded = elmo(IDS.unsqueeze(1), NUMBERS.unsqueeze(1))
    close(folded["elmo_representations"][0].detach(), expected.unsqueeze(1))
    assert folded["mask"].tolist() == (NUMBERS > 0).long().unsqueeze(1).tolist()
    folded["elmo_representations"][0].square().sum().backward()
    gradient = elmo.get_parameter("_elmo_lstm._word_embedding.weight").grad
    if requires_grad:
        assert gradient is not None
        assert not gradient[0].any()
        assert gradient[1:].abs().sum(1).all()
    else:
        assert gradient is None
    assert not elmo.get_parameter("_elmo_lstm._word_embedding.weight")[0].any()


def test_vectors_of_words_alone_can_be_trained(files: Files) -> None:
    """The fast engine would compute them without gradients."""
    elmo = Elmo(*files, 1, dropout=0, vocab_to_cache=["", "the", "cat"], state="zero")
    weight = elmo.get_parameter("_elmo_lstm._word_embedding.weight").requires_grad_()
    numbers = torch.tensor([[1, 2]])
    elmo(IDS[:1, :2], numbers)["elmo_representations"][0].square().sum().backward()
    assert weight.grad is not None
    assert weight.grad[1:].abs().sum(1).all()


def test_the_token_embedder_passes_its_settings_on(files: Files) -> None:
    embedder = ElmoTokenEmbedder(*files, dropout=0, vocab_to_cache=WORDS, state="zero")
    expected = representation(Elmo(*files, 1, dropout=0), IDS)
    for _ in range(2):
        close(embedder(IDS * 0, NUMBERS).detach(), expected)
