"""Models of made-up weights that read Unicode characters, with and without words."""

from __future__ import annotations

from dataclasses import replace

import torch

from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import Options
from elmo_cli.text.unicode_characters import UnicodeCharacterIds

MARKS = ("<oov>", "<bos>", "<eos>", "<pad>", "<eow>", "<bow>")
CHARACTERS = {entry: number for number, entry in enumerate((*MARKS, *"abcdetinoZs.яж和"))}
WORDS = {
    entry: 9 - number
    for number, entry in enumerate((*MARKS[:4], "the", "cat", "和", "Việt Nam", "a" * 14, "a" * 48))
}
UNICODE_SHAPES = {
    "with words": Options(
        filters=((1, 4), (2, 4), (5, 8)), projection_dim=8, lstm_dim=12, char_dim=6,
        n_highway=2, max_characters=50, word_dim=10,
    ),
    "words and short tokens": Options(
        filters=((1, 4), (3, 4)), projection_dim=8, lstm_dim=8, char_dim=3,
        n_highway=0, max_characters=16, word_dim=3, n_layers=1,
    ),
    "characters": Options(
        filters=((2, 8), (3, 8)), projection_dim=16, lstm_dim=9, char_dim=4, activation="tanh",
        max_characters=16, cell_clip=None, proj_clip=None, n_layers=3,
    ),
}  # fmt: skip


def unicode_bilm(shape: str) -> BiLM:
    """A model with weights from torch's random numbers, in which padding wins some maxima."""
    sizes = UNICODE_SHAPES[shape]
    words = WORDS if sizes.word_dim else None
    options = replace(
        sizes,
        is_unicode=True,
        n_characters=len(CHARACTERS),
        n_words=len(words or ()),
        forget_bias=0.0,
    )
    bilm = BiLM(options, UnicodeCharacterIds(CHARACTERS, words, options.max_characters))
    for parameter in bilm.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return bilm.eval().requires_grad_(False)
