"""Measure held-out perplexity, beside that of a Kneser-Ney 5-gram of the same training text.

    python -m benchmarks.model_card.perplexity --data DATA --work WORK [-m MODEL] [--train TEXT…]

`elmo perplexity` measures the biLM. The 5-gram is measured where --train names the tokenized text
that the model was trained on (for the bundled model, the copies that `treebank_text.py` writes); it
has the vocabulary of the model. It is compared with the forward
perplexity: a sentence of n tokens has n + 1 predictions, `</S>` the last, and a token that is not
in the vocabulary is `<UNK>`, in the training text too.

DATA holds pretrain/heldout/GENRE.txt.xz: raw text, one paragraph per line. The model card of the
bundled model names its text.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import table
from benchmarks.model_card import kneser_ney
from benchmarks.model_card.commands import elmo, parser_of
from elmo_cli import InputSettings
from elmo_cli.lm.corpus import read_corpus
from elmo_cli.pretrained.load import locate
from elmo_cli.text.vocabulary import Vocabulary

Figures = dict[str, Any]
DIRECTIONS = ("forward", "backward", "average")


def bilm_perplexity(model: str, genres: dict[str, Path]) -> dict[str, Figures]:
    """The figures of each genre, and those of all of them together."""
    texts = {**{name: [path] for name, path in genres.items()}, "all": list(genres.values())}
    return {
        name: elmo("perplexity", *paths, "--tokenize", "-m", model) for name, paths in texts.items()
    }


def five_gram_perplexity(given: argparse.Namespace, genres: dict[str, Path]) -> dict[str, float]:
    """The perplexity of the 5-gram on each genre, and on all of them together."""
    vocabulary = Vocabulary.read(locate(given.model).vocabulary)
    train = read_text(given.train, vocabulary, tokens_per_file=given.text_tokens)
    orders = kneser_ney.estimate(train, vocabulary)
    logs = {}
    for name, path in genres.items():
        text = read_text([path], vocabulary, tokenize=True)
        logs[name] = np.log(kneser_ney.probabilities(orders, text)[text.history > 0])
    logs["all"] = np.concatenate(list(logs.values()))
    return {name: math.exp(-values.mean()) for name, values in logs.items()}


def read_text(
    paths: Sequence[Path],
    vocabulary: Vocabulary,
    *,
    tokenize: bool = False,
    tokens_per_file: int | None = None,
) -> kneser_ney.Text:
    """Text files in the ids of a vocabulary; `tokens_per_file` as for `read_corpus`."""
    reading = InputSettings(tokenize=tokenize)
    corpus = read_corpus([str(path) for path in paths], reading, tokens_per_file=tokens_per_file)
    words = corpus.ids(vocabulary).astype(np.int32)[corpus.tokens]
    starts = np.repeat(corpus.starts[:-1], np.diff(corpus.starts))
    return kneser_ney.Text(words, (np.arange(len(words)) - starts).astype(np.int32))


def rows_of(bilm: dict[str, Figures], five_gram: dict[str, float]) -> list[list[str]]:
    rows = []
    for name, part in bilm.items():
        row = [name, f"{part['predictions']:,}", f"{100 * part['unknown_fraction']:.2f}"]
        row += [f"{part['perplexity'][direction]:.1f}" for direction in DIRECTIONS]
        row.append(f"{part['bits_per_byte']['average']:.3f}")
        if five_gram:
            ratio = part["perplexity"]["forward"] / five_gram[name]
            row += [f"{five_gram[name]:.1f}", f"{ratio:.3f}"]
        rows.append(row)
    return rows


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--train", type=Path, nargs="+", metavar="TEXT", help="tokenized")
    parser.add_argument("--text-tokens", type=int, metavar="N", help="from each of these at most")
    given = parser.parse_args()
    paths = sorted((given.data / "pretrain" / "heldout").glob("*.txt.xz"))
    if not paths:
        raise SystemExit(f"{given.data / 'pretrain' / 'heldout'}: no text")
    genres = {path.name.partition(".")[0]: path for path in paths}
    five_gram = five_gram_perplexity(given, genres) if given.train else {}
    header = ["held-out text", "predictions", "unknown, %", *DIRECTIONS, "bits per byte"]
    header += ["5-gram", "forward / 5-gram"] if five_gram else []
    print(table(header, rows_of(bilm_perplexity(given.model, genres), five_gram)))


if __name__ == "__main__":
    main()
