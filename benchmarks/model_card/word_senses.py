"""Measure what each layer knows about word senses: disambiguation by the nearest neighbor.

    python -m benchmarks.model_card.word_senses --data DATA --work WORK [-m MODEL]

Senses are learned from SemCor: the vector of a sense is the mean over the instances of a lemma that
have it. An instance of the five evaluation sets gets the sense of its lemma and part of speech with
the nearest vector, by cosine; if SemCor does not have the lemma, its first sense in WordNet, which
is the baseline. "One instance" takes the sense of the nearest instance instead of means. The vector
of an instance of several tokens is their mean. Every instance is answered, so F1 is the accuracy,
in percent.

Source: Peters et al. 2018, 5.3 and table 5 (first sense 65.9, layer 1 67.4, layer 2 69.0; their
"all" is without semeval2007).

DATA holds, in tasks/wsd,
- semcor.data.xml.xz and semcor.gold.key.txt.xz: SemCor 3.0 in the format of the evaluation sets;
- {senseval2,senseval3,semeval2007,semeval2013,semeval2015} joined as ALL.data.xml and
  ALL.gold.key.txt: http://lcl.uniroma1.it/wsdeval (Raganato et al. 2017), which has SemCor as well;
- wordnet30.senses.tsv.xz: a line per lemma and part of speech, LEMMA TAB POS TAB senses as
  REST/COUNT, the first sense first; from `index.sense` of WordNet 3.0, https://wordnet.princeton.edu.
"""

from __future__ import annotations

import argparse
import lzma
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from benchmarks.common import table
from benchmarks.model_card.commands import embed, parser_of
from elmo_cli import open_embeddings

SETS = ("senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015")
DEVELOPMENT = "semeval2007"
LAYERS = (1, 2)
Lemma = tuple[str, str]  # the lemma in lower case, and its part of speech
Inventory = dict[Lemma, list[str]]
Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class LemmaSenses:
    """The senses of a lemma that SemCor has.

    Attributes:
        names: of the sense of each vector.
        vectors: of length 1, (vector, dim).
    """

    names: list[str]
    vectors: Vectors


Senses = dict[Lemma, LemmaSenses]


@dataclass(frozen=True)
class Instance:
    """An occurrence of a word with a sense.

    Attributes:
        name: its id; begins with the name of the set.
        sentence: number of its sentence.
        tokens: its tokens in the sentence.
        senses: the annotators' senses.
    """

    name: str
    lemma: Lemma
    sentence: int
    tokens: slice
    senses: tuple[str, ...]


def read_corpus(data: Path, keys: Path) -> tuple[list[list[str]], list[Instance]]:
    """Sentences and instances; a token with spaces in it becomes several."""
    senses = {}
    with opened(keys) as lines:
        for line in lines:
            name, *senses_of_name = line.split()
            senses[name] = tuple(senses_of_name)
    sentences: list[list[str]] = []
    instances = []
    with opened(data) as file:
        for _, element in ElementTree.iterparse(file):
            if element.tag != "sentence":
                continue
            tokens: list[str] = []
            for word in element:
                first = len(tokens)
                tokens += (word.text or "").split()
                if word.tag == "instance":
                    name = word.attrib["id"]
                    instance = Instance(
                        name=name,
                        lemma=(word.attrib["lemma"], word.attrib["pos"]),
                        sentence=len(sentences),
                        tokens=slice(first, len(tokens)),
                        senses=senses[name],
                    )
                    instances.append(instance)
            sentences.append(tokens)
            element.clear()
    return sentences, instances


def read_inventory(path: Path) -> Inventory:
    """The senses of each lemma, WordNet's first sense first."""
    inventory = {}
    with opened(path) as lines:
        for line in lines:
            lemma, pos, senses = line.rstrip("\n").split("\t")
            rests = [sense.rpartition("/")[0] for sense in senses.split(" ")]
            inventory[lemma, pos] = [f"{lemma}%{rest}" for rest in rests]
    return inventory


def first_sense(inventory: Inventory, lemma: Lemma) -> str | None:
    """WordNet's first sense of a lemma; None if WordNet does not have it."""
    senses = inventory.get(lemma)
    return senses[0] if senses else None


def opened(path: Path, mode: str = "rt") -> IO[Any]:
    open_it: Any = lzma.open if path.suffix == ".xz" else open
    file: IO[Any] = open_it(path, mode, encoding="utf-8")
    return file


def instance_vectors(path: Path, instances: Iterable[Instance]) -> Vectors:
    """The mean over the tokens of each instance, (instance, layer, dim)."""
    rows: list[Vectors] = []
    with open_embeddings(path) as embeddings:
        for sentence, members in groupby(instances, lambda instance: instance.sentence):
            layers = embeddings[sentence][list(LAYERS)].astype(np.float32)  # (layer, token, dim)
            for instance in members:
                rows.append(layers[:, instance.tokens].mean(1))
    return np.stack(rows)


def unit(vectors: Vectors) -> Vectors:
    """The same vectors with length 1, so that products are cosines; a zero vector stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Vectors = vectors / np.where(lengths > 0, lengths, np.float32(1))
    return scaled


def by_lemma(rows: Iterable[tuple[Lemma, str, Vectors]]) -> Senses:
    """Senses with their vectors, normalized, for each lemma."""
    names: dict[Lemma, list[str]] = defaultdict(list)
    vectors: dict[Lemma, list[Vectors]] = defaultdict(list)
    for lemma, sense, vector in rows:
        names[lemma].append(sense)
        vectors[lemma].append(vector)
    senses = {}
    for lemma, vectors_of_lemma in vectors.items():
        senses[lemma] = LemmaSenses(names[lemma], unit(np.stack(vectors_of_lemma)))
    return senses


def sense_means(instances: Sequence[Instance], vectors: Vectors) -> Senses:
    """The mean vector of each sense of each lemma.

    An instance with several senses counts for each of them.
    """
    rows: dict[tuple[Lemma, str], list[int]] = defaultdict(list)
    for number, instance in enumerate(instances):
        for sense in instance.senses:
            rows[instance.lemma, sense].append(number)
    return by_lemma(
        (lemma, sense, vectors[numbers].mean(0)) for (lemma, sense), numbers in rows.items()
    )


def single_instances(instances: Sequence[Instance], vectors: Vectors) -> Senses:
    """The vector of each instance of each lemma, with the annotators' first sense."""
    pairs = zip(instances, vectors, strict=True)
    return by_lemma((instance.lemma, instance.senses[0], vector) for instance, vector in pairs)


def nearest(
    instances: Sequence[Instance], vectors: Vectors, senses: Senses, default: Sequence[str | None]
) -> list[str | None]:
    """The nearest sense of each instance; the default for a lemma without senses."""
    answers = list(default)
    for number, vector in enumerate(unit(vectors)):
        lemma = instances[number].lemma
        if lemma in senses:
            known = senses[lemma]
            cosines = known.vectors @ vector
            answers[number] = known.names[int(cosines.argmax())]
    return answers


def accuracies(instances: Sequence[Instance], answers: Sequence[str | None]) -> dict[str, float]:
    """In percent: of each set, of all, of all but the development set, of each part of speech."""
    is_right = []
    for instance, answer in zip(instances, answers, strict=True):
        is_right.append(answer in instance.senses)
    sets = np.array([instance.name.partition(".")[0] for instance in instances])
    parts_of_speech = np.array([instance.lemma[1] for instance in instances])
    is_member = {name: sets == name for name in SETS}
    is_member["ALL"] = np.ones(len(sets), bool)
    is_member[f"ALL but {DEVELOPMENT}"] = sets != DEVELOPMENT
    for name in ("NOUN", "VERB", "ADJ", "ADV"):
        is_member[f"ALL, {name}"] = parts_of_speech == name
    figures = {}
    for name, mask in is_member.items():
        figures[name] = 100 * float(np.array(is_right)[mask].mean()) if mask.any() else np.nan
    return figures


def embedded(
    given: argparse.Namespace, name: str, sentences: Iterable[list[str]], instances: list[Instance]
) -> Vectors:
    """The vectors of the instances of a corpus."""
    given.work.mkdir(parents=True, exist_ok=True)
    text = given.work / f"{name}.txt"
    text.write_text("".join(" ".join(tokens) + "\n" for tokens in sentences), encoding="utf-8")
    return instance_vectors(embed(given, [text], f"{name}.hdf5"), instances)


def main() -> None:
    given = parser_of(__doc__).parse_args()
    folder = given.data / "tasks" / "wsd"
    inventory = read_inventory(folder / "wordnet30.senses.tsv.xz")
    test_text, test = read_corpus(folder / "ALL.data.xml", folder / "ALL.gold.key.txt")
    vectors = embedded(given, "wsd-all", test_text, test)
    text, train = read_corpus(folder / "semcor.data.xml.xz", folder / "semcor.gold.key.txt.xz")
    train_vectors = embedded(given, "semcor", text, train)
    first = [first_sense(inventory, instance.lemma) for instance in test]
    answers: dict[str, list[str | None]] = {"first sense": first}
    for k, layer in enumerate(LAYERS):
        means = sense_means(train, train_vectors[:, k])
        single = single_instances(train, train_vectors[:, k])
        answers[f"layer {layer}, sense means"] = nearest(test, vectors[:, k], means, first)
        answers[f"layer {layer}, one instance"] = nearest(test, vectors[:, k], single, first)
    columns: list[str] = []
    rows = []
    for name, senses in answers.items():
        figures = accuracies(test, senses)
        columns = list(figures)
        rows.append([name, *(f"{figure:.1f}" for figure in figures.values())])
    print(table(["F1", *columns], rows))


if __name__ == "__main__":
    main()
