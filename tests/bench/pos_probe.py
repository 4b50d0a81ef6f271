"""What each layer knows about parts of speech: `elmo probe` on UD English-EWT, and GloVe beside it.

    python tests/bench/pos_probe.py --data DATA --work WORK [-m MODEL] [--tags upos] [--json]

Embeds the treebank, probes each layer for tags, and probes static vectors in the same way.

DATA holds
- tasks/pos/en_ewt-ud-{train,dev,test}.conllu.xz: https://github.com/UniversalDependencies/UD_English-EWT
  (CC BY-SA 4.0), compressed with xz;
- tasks/glove/glove.6B.50d.subset.npz, may be missing: `words`, lower case, and their `vectors`, of
  https://nlp.stanford.edu/projects/glove (PDDL 1.0). A word without a vector has zeros.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from vectors import Vectors, embed, parser_of, prepare, table

from elmo_cli.probe.baseline import most_frequent_of_form
from elmo_cli.probe.examples import PARTS, Examples, read_examples
from elmo_cli.probe.labels import LabelSettings
from elmo_cli.probe.linear import probe, probe_layers

TAGS = ("upos", "xpos")


def conllu(folder: Path, part: str) -> Path:
    return folder / f"en_ewt-ud-{part}.conllu.xz"


def static_vectors(path: Path, examples: Examples) -> dict[str, Vectors]:
    """A vector for each token whatever its context, found by the lower-case form."""
    assert examples.words is not None  # a treebank holds them
    with np.load(path) as file:
        rows = {word: k for k, word in enumerate(file["words"].tolist())}
        vectors = np.concatenate([file["vectors"], np.zeros_like(file["vectors"][:1])])
    return {
        part: vectors[[rows.get(word.lower(), -1) for word in words]].astype(np.float32)
        for part, words in examples.words.items()
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
    examples = read_examples(
        **{part: (str(path), str(conllu(folder, part))) for part, path in files.items()},
        settings=LabelSettings(column=given.tags),
    )
    usual = most_frequent_of_form(examples)
    assert usual is not None  # the treebank holds the forms
    figures: dict[str, Any] = {
        "tags": given.tags,
        "n_tags": len(examples.labels),
        "tokens": {name: len(part.labels) for name, part in examples.parts.items()},
        "most_frequent_tag": usual.test,
        "probes": {},
    }
    glove = given.data / "tasks" / "glove" / "glove.6B.50d.subset.npz"
    if glove.exists():
        result = probe(static_vectors(glove, examples), examples)
        figures["probes"]["static, GloVe 6B 50d"] = vars(result)
    for layer, result in probe_layers(examples):
        figures["probes"][f"layer {layer}"] = vars(result)
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
    parser.add_argument("--tags", choices=TAGS, default="xpos")
    given = parser.parse_args()
    prepare(given)
    figures = measure(given)
    print(json.dumps(figures) if given.json else table_of(figures))


if __name__ == "__main__":
    main()
