"""The sets of all-words word-sense disambiguation: SemCor and the evaluation framework."""

from __future__ import annotations

import lzma
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

Lemma = tuple[str, str]  # the lemma, lower case, and its part of speech


@dataclass(frozen=True)
class Instance:
    """A place in a text where a word has a sense.

    Attributes:
        name: its id in the file of keys.
        lemma: lemma and part of speech.
        sentence: number of its sentence.
        first, last: its tokens, the last one not among them.
        keys: the senses it has; the first is the annotators' first.
    """

    name: str
    lemma: Lemma
    sentence: int
    first: int
    last: int
    keys: tuple[str, ...]


@dataclass(frozen=True)
class SenseCorpus:
    """A text with senses: the tokens of each sentence, and the instances in their order."""

    sentences: list[list[str]]
    instances: list[Instance]

    def write(self, path: Path) -> Path:
        """The tokens alone, a sentence a line."""
        lines = "".join(" ".join(tokens) + "\n" for tokens in self.sentences)
        path.write_text(lines, encoding="utf-8")
        return path


def read_corpus(path: Path, keys: Path) -> SenseCorpus:
    """Read a corpus; what stands there as one token with spaces in it becomes several."""
    key_of = {}
    with _opened(keys) as lines:
        for line in lines:
            name, *its_keys = line.split()
            key_of[name] = tuple(its_keys)
    sentences: list[list[str]] = []
    instances = []
    with _opened(path) as file:
        for _, element in ElementTree.iterparse(file):
            if element.tag != "sentence":
                continue
            tokens: list[str] = []
            for place in element:
                first = len(tokens)
                tokens += (place.text or "").split()
                if place.tag == "instance":
                    name, lemma = place.attrib["id"], (place.attrib["lemma"], place.attrib["pos"])
                    instances.append(
                        Instance(name, lemma, len(sentences), first, len(tokens), key_of[name])
                    )
            sentences.append(tokens)
            element.clear()
    return SenseCorpus(sentences, instances)


def read_inventory(path: Path) -> dict[Lemma, list[str]]:
    """The sense keys of each lemma, WordNet's first sense first."""
    inventory = {}
    with _opened(path) as lines:
        for line in lines:
            lemma, pos, senses = line.rstrip("\n").split("\t")
            rests = [sense.rpartition("/")[0] for sense in senses.split(" ")]
            inventory[lemma, pos] = [f"{lemma}%{rest}" for rest in rests]
    return inventory


def _opened(path: Path) -> TextIO:
    if path.suffix == ".xz":
        return lzma.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")
