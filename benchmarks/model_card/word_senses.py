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
Senses = dict[Lemma, tuple[list[str], Vectors]]  # a sense for each row of vectors


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
    with opened(keys) as lines:
        senses = {name: tuple(found) for name, *found in map(str.split, lines)}
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
                    name, lemma = word.attrib["id"], (word.attrib["lemma"], word.attrib["pos"])
                    at = slice(first, len(tokens))
                    instances.append(Instance(name, lemma, len(sentences), at, senses[name]))
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


def opened(path: Path, mode: str = "rt") -> IO[Any]:
    open_it: Any = lzma.open if path.suffix == ".xz" else open
    file: IO[Any] = open_it(path, mode, encoding="utf-8")
    return file


def instance_vectors(path: Path, instances: Iterable[Instance]) -> Vectors:
    """The mean over the tokens of each instance, (instance, layer, dim)."""
    rows: list[Vectors] = []
    sentence, layers = -1, np.empty(0)
    with open_embeddings(path) as embeddings:
        for instance in instances:
            if instance.sentence != sentence:
                sentence = instance.sentence
                layers = embeddings[sentence][list(LAYERS)].astype(np.float32)
            rows.append(layers[:, instance.tokens].mean(1))
    return np.stack(rows)


def unit(vectors: Vectors) -> Vectors:
    """The same vectors with length 1, so that products are cosines; a zero vector stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Vectors = vectors / np.where(lengths > 0, lengths, np.float32(1))
    return scaled


def by_lemma(rows: Iterable[tuple[Lemma, str, Vectors]]) -> Senses:
    """Senses with their vectors, normalized, for each lemma."""
    found: dict[Lemma, list[tuple[str, Vectors]]] = defaultdict(list)
    for lemma, sense, vector in rows:
        found[lemma].append((sense, vector))
    return {
        lemma: ([sense for sense, _ in pairs], unit(np.stack([vector for _, vector in pairs])))
        for lemma, pairs in found.items()
    }


def sense_means(instances: Sequence[Instance], vectors: Vectors) -> Senses:
    """The mean vector of each sense of each lemma.

    An instance with several senses counts for each of them.
    """
    rows: dict[tuple[Lemma, str], list[int]] = defaultdict(list)
    for number, instance in enumerate(instances):
        for sense in instance.senses:
            rows[instance.lemma, sense].append(number)
    return by_lemma((*key, vectors[numbers].mean(0)) for key, numbers in rows.items())


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
        if instances[number].lemma in senses:
            names, rows = senses[instances[number].lemma]
            answers[number] = names[int((rows @ vector).argmax())]
    return answers


def accuracies(instances: Sequence[Instance], answers: Sequence[str | None]) -> dict[str, float]:
    """In percent: of each set, of all, of all but the development set, of each part of speech."""
    is_right = np.array([a in one.senses for one, a in zip(instances, answers, strict=True)])
    sets = np.array([one.name.partition(".")[0] for one in instances])
    pos = np.array([one.lemma[1] for one in instances])
    members = {name: sets == name for name in SETS}
    members |= {"ALL": sets != "", f"ALL but {DEVELOPMENT}": sets != DEVELOPMENT}
    members |= {f"ALL, {name}": pos == name for name in ("NOUN", "VERB", "ADJ", "ADV")}
    return {
        name: 100 * float(is_right[which].mean()) if which.any() else np.nan
        for name, which in members.items()
    }


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
    first = [next(iter(inventory.get(instance.lemma, [])), None) for instance in test]
    answers: dict[str, Any] = {"first sense": first}
    for k, layer in enumerate(LAYERS):
        means = sense_means(train, train_vectors[:, k])
        single = single_instances(train, train_vectors[:, k])
        for name, senses in (("sense means", means), ("one instance", single)):
            answers[f"layer {layer}, {name}"] = nearest(test, vectors[:, k], senses, first)
    found = {name: accuracies(test, one) for name, one in answers.items()}
    columns = list(found["first sense"])
    rows = [[name, *(f"{of[column]:.1f}" for column in columns)] for name, of in found.items()]
    print(table(["F1", *columns], rows))


if __name__ == "__main__":
    main()
