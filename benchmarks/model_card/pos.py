"""Measure what each layer knows about parts of speech: `elmo probe` on UD English-EWT.

    python -m benchmarks.model_card.pos --data DATA --work WORK [-m MODEL] [--tags upos]

Embeds the treebank, probes each layer for the tags, and probes static vectors in the same way.

DATA holds
- tasks/pos/en_ewt-ud-{train,dev,test}.conllu.xz:
  https://github.com/UniversalDependencies/UD_English-EWT (CC BY-SA 4.0), compressed with xz;
- tasks/glove/glove.6B.50d.subset.npz, which may be missing: `words`, lower case, and their
  `vectors`, of https://nlp.stanford.edu/projects/glove (PDDL 1.0). A word without one has zeros.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from benchmarks.common import table
from benchmarks.model_card.commands import elmo, embed, parser_of
from elmo_cli import read_sentences

SPLITS = ("train", "dev", "test")
FIGURES = ("test", "dev", "unseen_words")


def write_static(treebank: Path, glove: Path, output: Path) -> Path:
    """The static vector of each token by its lower-case form, as embeddings of one layer."""
    with np.load(glove) as file:
        numbers = {word: number for number, word in enumerate(file["words"].tolist())}
        vectors = np.concatenate([file["vectors"], np.zeros_like(file["vectors"][:1])])
    with h5py.File(output, "w") as embeddings:
        for key, sentence in enumerate(read_sentences(str(treebank))):
            rows = [numbers.get(token.lower(), -1) for token in sentence.tokens]
            embeddings[str(key)] = vectors[rows].astype(np.float32)
    return output


def probe(files: dict[str, Path], treebanks: dict[str, Path], tags: str) -> Any:
    """What `elmo probe` reports."""
    words: list[object] = []
    for name in SPLITS:
        words += [f"--{name}", files[name], treebanks[name]]
    return elmo("probe", *words, "--label-column", tags)


def row_of(name: str, figures: dict[str, Any], weight_decay: str = "") -> list[str]:
    scores = [f"{figures[name]:.2f}" for name in FIGURES]
    return [name, *scores, weight_decay]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--tags", choices=("upos", "xpos"), default="xpos", help="[default: xpos]")
    given = parser.parse_args()
    folder = given.data / "tasks"
    treebanks = {name: folder / "pos" / f"en_ewt-ud-{name}.conllu.xz" for name in SPLITS}
    files = {name: embed(given, [path], f"ewt-{name}.hdf5") for name, path in treebanks.items()}
    facts = probe(files, treebanks, given.tags)
    layers = {f"layer {layer['name']}": layer for layer in facts["layers"]}
    glove = folder / "glove" / "glove.6B.50d.subset.npz"
    if glove.exists():
        static_files = {}
        for name, path in treebanks.items():
            static_files[name] = write_static(path, glove, given.work / f"static-{name}.hdf5")
        static_facts = probe(static_files, treebanks, given.tags)
        layers["static, GloVe 6B 50d"] = static_facts["layers"][0]
    rows = [row_of("most frequent tag of the word form", facts["majority_label_per_word"])]
    for name, layer in layers.items():
        rows.append(row_of(name, layer, f"{layer['weight_decay']:.0e}"))
    header = [f"{given.tags.upper()}, %", "test", "dev", "test, unseen word forms", "weight decay"]
    print(table(header, rows))


if __name__ == "__main__":
    main()
