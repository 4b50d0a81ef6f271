"""What each layer knows about word senses: 1-nearest-neighbour disambiguation.

    python tests/bench/word_sense.py --data DATA --work WORK [-m MODEL] [--json]

Senses are learnt from SemCor: the vector of a sense is the mean over the places where a lemma has
it. A word of the five evaluation sets gets the sense of its lemma and part of speech whose mean is
nearest, by cosine; a lemma that SemCor lacks gets its first sense in WordNet. "One place" is the
sense of the nearest single place in place of means. Where tokens are joined in an instance, its
vector is the mean of theirs. Baselines: the first sense, and the sense that is most frequent in
SemCor. Every instance is answered, so F1 is the share of right answers, in percent.

Source: Peters et al. 2018, 5.3 and table 5 (first sense 65.9, layer 1 67.4, layer 2 69.0; their
"all" is without semeval2007).

DATA holds, in tasks/wsd,
- semcor.data.xml.xz and semcor.gold.key.txt.xz: SemCor 3.0 in the form of the evaluation sets;
- {senseval2,senseval3,semeval2007,semeval2013,semeval2015} joined as ALL.data.xml and
  ALL.gold.key.txt: http://lcl.uniroma1.it/wsdeval (Raganato et al. 2017), which has SemCor as well;
- wordnet30.senses.tsv.xz: a line for each lemma and part of speech, LEMMA TAB POS TAB senses as
  REST/COUNT, the first sense first; of `index.sense` in WordNet 3.0, https://wordnet.princeton.edu.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from vectors import Vectors, embed, parser_of, prepare, table, tokens_of, unit
from wsd_sets import Instance, Lemma, SenseCorpus, read_corpus, read_inventory

from elmo_cli import open_embeddings

SETS = ("senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015")
DEVELOPMENT = "semeval2007"
LAYERS = (1, 2)
Inventory = dict[Lemma, list[str]]
Senses = dict[Lemma, tuple[list[str], Vectors]]  # a key for each row of vectors


def instance_vectors(path: Path, corpus: SenseCorpus) -> Vectors:
    """The mean over the tokens of each instance, (instance, layer, dim)."""
    with open_embeddings(path) as embeddings:
        rows: list[Vectors] = []
        sentence, layers = -1, np.empty(0)
        for place in corpus.instances:
            if place.sentence != sentence:
                sentence = place.sentence
                layers = embeddings[sentence][list(LAYERS)].astype(np.float32)
            rows.append(layers[:, place.first : place.last].mean(1))
    return np.stack(rows)


def sense_means(places: Sequence[Instance], vectors: Vectors, inventory: Inventory) -> Senses:
    """The mean vector of each sense of each lemma, length 1; the first sense first.

    A place with several senses counts for each of them.
    """
    rows: dict[tuple[Lemma, str], list[int]] = defaultdict(list)
    for k, place in enumerate(places):
        for key in place.keys:
            rows[place.lemma, key].append(k)
    keys: dict[Lemma, list[str]] = defaultdict(list)
    for lemma, key in rows:
        keys[lemma].append(key)
    means = {}
    for lemma, its_keys in keys.items():
        its_keys = in_order(its_keys, inventory.get(lemma, []))
        stacked = np.stack([vectors[rows[lemma, key]].mean(0) for key in its_keys])
        means[lemma] = its_keys, unit(stacked)
    return means


def in_order(keys: Sequence[str], inventory: Sequence[str]) -> list[str]:
    """Senses in WordNet's order, those that it lacks behind."""
    rank = {key: k for k, key in enumerate(inventory)}
    return sorted(keys, key=lambda key: (rank.get(key, len(rank)), key))


def sense_places(places: Sequence[Instance], vectors: Vectors) -> Senses:
    """The vector of each place of each lemma, length 1; of several senses the first is taken."""
    rows: dict[Lemma, list[int]] = defaultdict(list)
    for k, place in enumerate(places):
        rows[place.lemma].append(k)
    return {
        lemma: ([places[k].keys[0] for k in its_rows], unit(vectors[its_rows]))
        for lemma, its_rows in rows.items()
    }


def nearest(places: Sequence[Instance], vectors: Vectors, senses: Senses) -> list[str | None]:
    """The nearest sense for each place, None where its lemma has none; the first of equally near
    ones."""
    answers: list[str | None] = []
    for place, vector in zip(places, unit(vectors), strict=True):
        keys, rows = senses.get(place.lemma, ([], None))
        answers.append(None if rows is None else keys[int((rows @ vector).argmax())])
    return answers


def first_senses(places: Sequence[Instance], inventory: Inventory) -> list[str | None]:
    """WordNet's first sense for each place."""
    return [next(iter(inventory.get(place.lemma, [])), None) for place in places]


def frequent_senses(
    places: Sequence[Instance], train: Sequence[Instance], inventory: Inventory
) -> list[str | None]:
    """The sense that a lemma has most often in SemCor, the first of equally frequent ones."""
    counts: dict[Lemma, Counter[str]] = defaultdict(Counter)
    for place in train:
        counts[place.lemma].update(place.keys)
    best = {
        lemma: max(in_order(list(its), inventory.get(lemma, [])), key=its.__getitem__)
        for lemma, its in counts.items()
    }
    return [best.get(place.lemma) for place in places]


def f1(places: Sequence[Instance], answers: Sequence[str | None]) -> dict[str, float]:
    """Share of right answers in each set, in all of them, and in all but the development set."""
    sets = [place.name.partition(".")[0] for place in places]
    is_right = np.array([a in place.keys for place, a in zip(places, answers, strict=True)])
    pos = [place.lemma[1] for place in places]
    members = {name: np.array([s == name for s in sets]) for name in SETS}
    members["ALL"] = np.ones(len(places), bool)
    members[f"ALL but {DEVELOPMENT}"] = ~members[DEVELOPMENT]
    for part in ("NOUN", "VERB", "ADJ", "ADV"):
        members[f"ALL, {part}"] = np.array([p == part for p in pos])
    return {name: 100 * float(is_right[which].mean()) for name, which in members.items()}


def backed_off(answers: Sequence[str | None], others: Sequence[str | None]) -> list[str | None]:
    return [other if a is None else a for a, other in zip(answers, others, strict=True)]


def embedded(corpus: SenseCorpus, name: str, given: argparse.Namespace) -> Vectors:
    """The vectors of the instances of a corpus."""
    text = corpus.write(given.work / f"{name}.txt")
    words = {"model": given.model, "threads": given.threads}
    words |= {"dtype": given.dtype, "precision": given.precision}
    path = embed([text], given.work / f"{name}.hdf5", **words)
    if tokens_of(path) != [tuple(tokens) for tokens in corpus.sentences]:
        raise SystemExit(f"{path} has other tokens than {text}")
    return instance_vectors(path, corpus)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    folder = given.data / "tasks" / "wsd"
    inventory = read_inventory(folder / "wordnet30.senses.tsv.xz")
    test = read_corpus(folder / "ALL.data.xml", folder / "ALL.gold.key.txt")
    test_vectors = embedded(test, "wsd-all", given)
    train = read_corpus(folder / "semcor.data.xml.xz", folder / "semcor.gold.key.txt.xz")
    train_vectors = embedded(train, "semcor", given)

    places, learnt = test.instances, train.instances
    first = first_senses(places, inventory)
    frequent = frequent_senses(places, learnt, inventory)
    answers: dict[str, Sequence[str | None]] = {
        "first sense": first,
        "most frequent in SemCor": backed_off(frequent, first),
    }
    for k, layer in enumerate(LAYERS):
        means = sense_means(learnt, train_vectors[:, k], inventory)
        found = nearest(places, test_vectors[:, k], means)
        answers[f"layer {layer}, sense means"] = backed_off(found, first)
        found = nearest(places, test_vectors[:, k], sense_places(learnt, train_vectors[:, k]))
        answers[f"layer {layer}, one place"] = backed_off(found, first)
    return {
        "instances": {"semcor": len(learnt), "ALL": len(places)},
        "backed_off": 100 * sum(answer is None for answer in frequent) / len(places),
        "f1": {name: f1(places, its_answers) for name, its_answers in answers.items()},
    }


def table_of(figures: dict[str, Any]) -> str:
    """The figures as a reader wants them."""
    columns = list(figures["f1"]["first sense"])
    rows = [[name, *(f"{of[c]:.1f}" for c in columns)] for name, of in figures["f1"].items()]
    return table(["F1", *columns], rows)


def main() -> None:
    given = parser_of(__doc__).parse_args()
    prepare(given)
    figures = measure(given)
    print(json.dumps(figures) if given.json else table_of(figures))


if __name__ == "__main__":
    main()
