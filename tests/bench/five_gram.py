"""Perplexity of a Kneser-Ney 5-gram, counted as `elmo perplexity` counts, to set a biLM beside.

    python tests/bench/five_gram.py --data DATA --vocabulary vocab.txt [--train TEXT…] [--json]
    python tests/bench/five_gram.py … --arpa five.arpa     # and what KenLM says of that file
    python tests/bench/five_gram.py … --check 200          # probabilities sum to 1

The biLM's forward perplexity is compared: a sentence of n tokens has n + 1 predictions, `</S>` the
last, and what the vocabulary lacks is `<UNK>`, in train as in the held-out text, and a type like
any other. Training text and vocabulary must be those of the biLM. `--arpa` needs the kenlm package
for its second opinion; its figure is printed beside the script's own.

DATA holds
- pretrain/train/*.txt.xz and pretrain/heldout/GENRE.txt.xz: raw text, a paragraph a line, tokenised
  here as `elmo embed --tokenize` does; that of the bundled model is named in its card.
Texts that `--train` and `--heldout` name are tokenised already, a sentence a line, unless
`--tokenize` is given.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from kneser_ney import KneserNey, Text
from vectors import table

from elmo_cli.text.input import InputSettings
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.train.read_corpus import read_corpus

LENGTH = 5
SEED = 1


def read_text(
    paths: Sequence[Path],
    vocabulary: Vocabulary,
    *,
    tokenize: bool,
    most_tokens: int | None = None,
    treebank: float = 0.0,
) -> Text:
    """Text files in the ids of a vocabulary, of each so many tokens."""
    names, reading = list(map(str, paths)), InputSettings(tokenize=tokenize)
    corpus = read_corpus(names, reading, most_tokens=most_tokens, treebank=treebank)
    return Text.of(corpus, vocabulary)


def counted(model: KneserNey, text: Text) -> tuple[float, int, int]:
    """Of a text: the log-likelihood, the predictions, the tokens that are unknown."""
    values = model.probabilities(text)
    is_predicted = text.history > 0
    unknown = int((text.words == model.vocabulary.unknown).sum())
    return float(np.log(values[is_predicted]).sum()), int(is_predicted.sum()), unknown


def figures_of(total: float, predictions: int, unknown: int, sentences: int) -> dict[str, Any]:
    return {
        "perplexity": math.exp(-total / predictions),
        "predictions": predictions,
        "unknown": unknown / (predictions - sentences),
    }


def farthest_sum(model: KneserNey, n_histories: int) -> float:
    """How far from 1 the probabilities after some histories sum up, at most.

    Half of the histories stand in the text, of 0 to 5 words; the others are random words.
    """
    random = np.random.default_rng(SEED)
    words, worst = model.text.words, 0.0
    for k in range(n_histories):
        length = int(random.integers(0, LENGTH + 1))
        history = random.integers(0, len(model.vocabulary), length).tolist()
        if k % 2:
            place = int(random.integers(0, len(words) - length))
            history = words[place : place + length].tolist()
        worst = max(worst, abs(float(model.distribution(history).sum()) - 1))
    return worst


def kenlm_perplexity(path: Path, texts: Sequence[Text], vocabulary: Vocabulary) -> float:
    """What KenLM's query module says of the same texts, read from an ARPA file."""
    kenlm = importlib.import_module("kenlm")
    model = kenlm.Model(str(path))
    names = list(vocabulary.types)
    names[vocabulary.unknown] = "<unk>"
    total, predictions = 0.0, 0
    for text in texts:
        for sentence in np.split(text.words, np.flatnonzero(text.history == 0)[1:]):
            line = " ".join(names[word] for word in sentence[1:-1].tolist())
            total += model.score(line, bos=True, eos=True)
            predictions += len(sentence) - 1
    return float(10 ** (-total / predictions))


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    vocabulary = Vocabulary.read(given.vocabulary)
    train = given.train or sorted((given.data / "pretrain" / "train").glob("*.txt.xz"))
    heldout = given.heldout or sorted((given.data / "pretrain" / "heldout").glob("*.txt.xz"))
    if not train or not heldout:
        raise SystemExit("no text: give --data, or --train and --heldout")
    text = read_text(
        train,
        vocabulary,
        tokenize=given.tokenize or not given.train,
        most_tokens=given.text_tokens,
        treebank=given.treebank,
    )
    model = KneserNey.count(text, vocabulary, LENGTH)
    sentences = int((text.history == 0).sum())
    figures: dict[str, Any] = {
        "train_tokens": len(text.words) - 2 * sentences,
        "train_sentences": sentences,
        "types": len(vocabulary),
        "n_grams": [len(order.keys) for order in model.orders],
        "discounts": [order.discounts for order in model.orders],
        "heldout": {},
    }
    if given.check:
        worst = farthest_sum(model, given.check)
        if worst > 1e-5:
            raise SystemExit(f"probabilities sum to 1 only within {worst:.1e}")
        figures["farthest_sum"] = worst
    tokenize = given.tokenize or not given.heldout
    texts = {path: read_text([path], vocabulary, tokenize=tokenize) for path in heldout}
    whole, n_sentences = np.zeros(3), 0
    for path, its_text in texts.items():
        its_counts = counted(model, its_text)
        its_sentences = int((its_text.history == 0).sum())
        whole, n_sentences = whole + its_counts, n_sentences + its_sentences
        name = path.name.partition(".")[0].removeprefix("heldout-")
        figures["heldout"][name] = figures_of(*its_counts, its_sentences)
    figures["heldout"]["all"] = figures_of(whole[0], int(whole[1]), int(whole[2]), n_sentences)
    if given.arpa is not None:
        model.write_arpa(given.arpa)
        del model
        figures["kenlm"] = kenlm_perplexity(given.arpa, list(texts.values()), vocabulary)
    figures["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return figures


def table_of(figures: dict[str, Any]) -> str:
    """The figures as a reader wants them."""
    rows = [
        [name, f"{of['perplexity']:.2f}", f"{of['predictions']:,}", f"{100 * of['unknown']:.2f}"]
        for name, of in figures["heldout"].items()
    ]
    if "kenlm" in figures:
        rows.append(["all, by KenLM", f"{figures['kenlm']:.2f}", "", ""])
    return table(["5-gram", "perplexity", "predictions", "unknown, %"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(), help="folder of the texts, see above")
    parser.add_argument("--vocabulary", type=Path, required=True)
    parser.add_argument("--train", type=Path, nargs="+", metavar="TEXT")
    parser.add_argument("--text-tokens", type=int, metavar="N", help="of each training text")
    parser.add_argument("--treebank", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--heldout", type=Path, nargs="+", metavar="TEXT")
    parser.add_argument("--tokenize", action="store_true")
    parser.add_argument("--arpa", type=Path, help="write the model there, and ask KenLM")
    parser.add_argument("--check", type=int, default=0, metavar="N", help="try N histories")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    figures = measure(given)
    if given.json:
        print(json.dumps(figures))
        return
    print(table_of(figures))
    for n, (size, discounts) in enumerate(
        zip(figures["n_grams"], figures["discounts"], strict=True), start=1
    ):
        print(f"{n}-grams: {size:,}, discounts {' '.join(f'{d:.3f}' for d in discounts)}")


if __name__ == "__main__":
    main()
