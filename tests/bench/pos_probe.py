"""What each layer knows about parts of speech: a linear probe on UD English-EWT.

    python tests/bench/pos_probe.py --data DATA --work WORK [-m MODEL] [--tags upos] [--json]

A softmax regression learns the tag of a token from its vector alone, on the train set; weight
decay is chosen on dev, accuracy is of test. Beside it, the tag that a word form has most often in
train (an unknown form has the most frequent tag of all), and the same probe on static vectors.

Source: Peters et al. 2018, 5.3 and table 6, there on the Penn Treebank.

DATA holds
- tasks/pos/en_ewt-ud-{train,dev,test}.conllu.xz: https://github.com/UniversalDependencies/UD_English-EWT
  (CC BY-SA 4.0), compressed with xz;
- tasks/glove/glove.6B.50d.subset.npz, may be missing: `words`, lower case, and their `vectors`, of
  https://nlp.stanford.edu/projects/glove (PDDL 1.0). A word without a vector has zeros.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional
from vectors import Vectors, embed, parser_of, prepare, table, tokens_of, vectors_of

PARTS = ("train", "dev", "test")
COLUMNS = {"upos": 3, "xpos": 4}
LAYERS = (0, 1, 2)
# Of the sum of squared weights, in the mean loss of a token.
DECAYS = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6, 1e-7)
EPOCHS = 10
BATCH = 512
RATE = 1e-2  # at first; it falls to 0 in a straight line
SEED = 1

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Probed:
    """What a probe on some vectors has shown, in percent.

    Attributes:
        decay: the one that was best on dev.
        dev, test: accuracy.
        unseen: accuracy on the tokens of test whose form train lacks.
    """

    decay: float
    dev: float
    test: float
    unseen: float


@dataclass(frozen=True)
class Tagged:
    """A part of the treebank.

    Attributes:
        words: all word forms, sentence after sentence.
        tags: id of each one's tag, -1 if train lacks the tag.
    """

    words: list[str]
    tags: Ids


def read_treebank(folder: Path, column: int) -> tuple[dict[str, Tagged], list[str]]:
    """The three parts, and the tags of train by their ids."""
    read = {part: read_conllu(conllu(folder, part), column) for part in PARTS}
    tags = sorted(set(read["train"][1]))
    ids = {tag: k for k, tag in enumerate(tags)}
    parts = {
        part: Tagged(words, np.array([ids.get(tag, -1) for tag in its_tags]))
        for part, (words, its_tags) in read.items()
    }
    return parts, tags


def conllu(folder: Path, part: str) -> Path:
    return folder / f"en_ewt-ud-{part}.conllu.xz"


def read_conllu(path: Path, column: int) -> tuple[list[str], list[str]]:
    """Forms and tags of the words in a file; ranges and empty nodes are no words."""
    words, tags = [], []
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            cells = line.rstrip("\n").split("\t")
            if cells[0].isdigit():
                words.append(cells[1])
                tags.append(cells[column])
    return words, tags


def most_frequent_tags(train: Tagged, words: list[str]) -> Ids:
    """The tag that each word has most often in train; the smaller id of equally frequent ones."""
    by_word: dict[str, Counter[int]] = defaultdict(Counter)
    for word, tag in zip(train.words, train.tags.tolist(), strict=True):
        by_word[word][tag] += 1
    usual = int(np.bincount(train.tags).argmax())
    best = {word: min(tags, key=lambda t: (-tags[t], t)) for word, tags in by_word.items()}
    return np.array([best.get(word, usual) for word in words])


def percent(is_right: npt.NDArray[np.bool_]) -> float:
    return 100 * float(is_right.mean())


def probe(vectors: dict[str, Vectors], parts: dict[str, Tagged], n_tags: int) -> Probed:
    """Fit the regression for each decay and report the one that is best on dev."""
    scaled = standardised(vectors)
    known = set(parts["train"].words)
    is_unseen = np.array([word not in known for word in parts["test"].words])
    targets = torch.from_numpy(parts["train"].tags)
    results = []
    for decay in DECAYS:
        weights = fitted(scaled["train"], targets, n_tags, decay)
        is_right = {
            part: predicted(scaled[part], weights).numpy() == parts[part].tags
            for part in ("dev", "test")
        }
        unseen = percent(is_right["test"][is_unseen])
        results.append(Probed(decay, percent(is_right["dev"]), percent(is_right["test"]), unseen))
    return max(results, key=lambda result: result.dev)


def standardised(vectors: dict[str, Vectors]) -> dict[str, Tensor]:
    """Vectors whose dimensions have mean 0 and deviation 1 in train, so that one decay fits all."""
    mean, deviation = vectors["train"].mean(0), vectors["train"].std(0)
    scale = 1 / np.where(deviation > 0, deviation, 1)
    return {part: torch.from_numpy((array - mean) * scale) for part, array in vectors.items()}


def scores(vectors: Tensor, weights: Tensor) -> Tensor:
    """(token, tag); the last row of `weights` is the bias."""
    return torch.addmm(weights[-1], vectors, weights[:-1])


def predicted(vectors: Tensor, weights: Tensor) -> Tensor:
    return scores(vectors, weights).argmax(1)


def fitted(vectors: Tensor, targets: Tensor, n_tags: int, decay: float) -> Tensor:
    """Weights of the regression, (dim + 1, tag), by Adam."""
    weights = torch.zeros(vectors.shape[1] + 1, n_tags, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=RATE)
    n_steps = EPOCHS * math.ceil(len(targets) / BATCH)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / n_steps)
    random = torch.Generator().manual_seed(SEED)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(targets), generator=random).split(BATCH):
            loss = functional.cross_entropy(scores(vectors[batch], weights), targets[batch])
            loss = loss + decay * weights[:-1].square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            falling.step()
    return weights.detach()


def static_vectors(path: Path, parts: dict[str, Tagged]) -> dict[str, Vectors]:
    """A vector for each token whatever its context, found by the lower-case form."""
    with np.load(path) as file:
        rows = {word: k for k, word in enumerate(file["words"].tolist())}
        vectors = np.concatenate([file["vectors"], np.zeros_like(file["vectors"][:1])])
    return {
        part: vectors[[rows.get(word.lower(), -1) for word in tagged.words]].astype(np.float32)
        for part, tagged in parts.items()
    }


def embedded_parts(given: argparse.Namespace, folder: Path) -> dict[str, Path]:
    """The embeddings file of each part."""
    words = {"model": given.model, "threads": given.threads}
    words |= {"dtype": given.dtype, "precision": given.precision}
    return {
        part: embed([conllu(folder, part)], given.work / f"ewt-{part}.hdf5", **words)
        for part in PARTS
    }


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    folder = given.data / "tasks" / "pos"
    files = embedded_parts(given, folder)
    parts, tags = read_treebank(folder, COLUMNS[given.tags])
    for part, path in files.items():
        if [word for tokens in tokens_of(path) for word in tokens] != parts[part].words:
            raise SystemExit(f"{path} has other tokens than the treebank")
    test = parts["test"]
    usual = most_frequent_tags(parts["train"], test.words) == test.tags
    figures: dict[str, Any] = {
        "tags": given.tags,
        "n_tags": len(tags),
        "tokens": {part: len(tagged.words) for part, tagged in parts.items()},
        "most_frequent_tag": percent(usual),
        "probes": {},
    }
    glove = given.data / "tasks" / "glove" / "glove.6B.50d.subset.npz"
    if glove.exists():
        result = probe(static_vectors(glove, parts), parts, len(tags))
        figures["probes"]["static, GloVe 6B 50d"] = vars(result)
    for layer in LAYERS:
        vectors = {part: vectors_of(path, layer) for part, path in files.items()}
        figures["probes"][f"layer {layer}"] = vars(probe(vectors, parts, len(tags)))
    return figures


def table_of(figures: dict[str, Any]) -> str:
    """The figures as a reader wants them."""
    rows: list[list[object]] = [
        ["most frequent tag of the form", f"{figures['most_frequent_tag']:.2f}", "", "", ""]
    ]
    for name, result in figures["probes"].items():
        shown = [f"{result[key]:.2f}" for key in ("test", "dev", "unseen")]
        rows.append([name, *shown, f"{result['decay']:.0e}"])
    header = [f"{figures['tags'].upper()}, %", "test", "dev", "test, forms train lacks", "decay"]
    return table(header, rows)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--tags", choices=COLUMNS, default="xpos")
    given = parser.parse_args()
    prepare(given)
    figures = measure(given)
    print(json.dumps(figures) if given.json else table_of(figures))


if __name__ == "__main__":
    main()
