"""Typed sentences: the marked token, and the layer that is searched."""

from __future__ import annotations

import numpy as np
import pytest
from embeddings_files import DIM, sentences, write

from elmo_cli.analysis.typed_text import TypedText, find_marked
from elmo_cli.analysis.vectors import LayerView
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.reader import open_embeddings


@pytest.mark.parametrize(
    ("text", "tokenizer", "tokens", "position"),
    [
        ("she sat on the [bank]", "whitespace", "she sat on the bank", 4),
        ("[bank]  bank", "whitespace", "bank bank", 0),
        ("a bank b [bank] .", "None", "a bank b bank .", 3),
        ("It isn't a [bank].", "english", "It is n't a bank .", 4),
        ("It is[n't] so.", "english", "It is n't so .", 2),
        ("So it is. The [so] is last.", "english", "The so is last .", 1),
    ],
)
def test_marked_token(text, tokenizer, tokens, position):
    found = find_marked(text, 3, tokenizer)
    assert (found.key, found.tokens, found.position) == (3, tuple(tokens.split()), position)


@pytest.mark.parametrize(
    ("text", "tokenizer", "what"),
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
def test_no_marked_token(text, tokenizer, what):
    with pytest.raises(UsageError) as error:
        find_marked(text, 0, tokenizer)
    assert what in error.value.message


def test_layer_of_the_view(tmp_path):
    arrays = [np.random.default_rng(k).standard_normal((3, 2, DIM)) for k in range(2)]
    with open_embeddings(write(tmp_path / "a.hdf5", sentences())) as embeddings:
        typed = TypedText(LayerView(embeddings, 1), arrays)
        np.testing.assert_array_equal(typed.vectors(1), arrays[1][1].astype(np.float32))
        for other in (arrays[0][:2], arrays[0][..., 1:]):
            with pytest.raises(EmbeddingsFileError, match="3 layers of dimension 7"):
                TypedText(LayerView(embeddings), [arrays[0], other])
