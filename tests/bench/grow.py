"""A model with wider vectors that says the same: what training goes on from.

    python tests/bench/grow.py MODEL OUT --projection 256 --treebank 0.125 TEXT...

The new outputs of every projection are random mixtures of the cell's, and nothing reads them at
first: the new rows of the LSTMs' and columns of the softmax's weights are zero, so that every
prediction stays. Quotes and brackets in treebank spelling join the vocabulary with the softmax rows
of the plain ones, at the place that their number in TEXT gives them.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt

from elmo_cli.train.treebank import BRACKETS, CLOSING, OPENING

Weights = npt.NDArray[np.float32]
SEED = 5


def grow_options(model: Path, out: Path, projection: int) -> int:
    """Write options.json with the new size; the old one is returned."""
    options = json.loads((model / "options.json").read_text())
    old: int = options["lstm"]["projection_dim"]
    if projection <= old:
        sys.exit(f"error: --projection {projection}: {model} has {old} already")
    options["lstm"]["projection_dim"] = projection
    (out / "options.json").write_text(json.dumps(options, indent=2) + "\n")
    return old


def grow_weights(model: Path, out: Path, old: int, new: int) -> None:
    """Write weights.hdf5, every projection `new` wide."""
    random = np.random.default_rng(SEED)

    def grown(name: str, values: Weights) -> Weights:
        if name.endswith(("W_proj", "W_P_0")):
            more = random.normal(0, values.std(), (len(values), new - old))
            return np.concatenate([values, more.astype(np.float32)], 1)
        if name.endswith("b_proj"):
            return np.concatenate([values, np.zeros(new - old, np.float32)])
        if name.endswith("LSTMCell/W_0"):  # rows of the input, then of the state
            unread = np.zeros((new - old, values.shape[1]), np.float32)
            return np.concatenate([values[:old], unread, values[old:], unread])
        return values

    with h5py.File(model / "weights.hdf5") as source, h5py.File(out / "weights.hdf5", "w") as made:

        def visit(name: str, item: h5py.Dataset | h5py.Group) -> None:
            if isinstance(item, h5py.Dataset):
                made[name] = grown(name, item[()].astype(np.float32))

        source.visititems(visit)


def grow_softmax(
    model: Path, out: Path, new: int, counts: Counter[str], share: float
) -> dict[str, int]:
    """Write softmax.hdf5 and vocab.txt; the types that are new, and their rows."""
    types = (model / "vocab.txt").read_text(encoding="utf-8").splitlines()
    with h5py.File(model / "softmax.hdf5") as source:
        weights = source["softmax/W"][()].astype(np.float32)
        bias = source["softmax/b"][()].astype(np.float32)
    wide = np.zeros((len(weights), new - weights.shape[1]), np.float32)
    weights = np.concatenate([weights, wide], 1)
    spellings = [(OPENING, '"', 0.5), (CLOSING, '"', 0.5)]
    spellings += [(name, plain, 1.0) for plain, name in BRACKETS.items()]
    for spelling, plain, part in spellings:
        if spelling in types or plain not in types:
            continue
        number = counts[plain] * share * part
        row = types.index(plain)
        place = next((i for i in range(3, len(types)) if counts[types[i]] < number), len(types))
        types.insert(place, spelling)
        weights = np.insert(weights, place, weights[row], 0)
        bias = np.insert(bias, place, bias[row] + math.log(share * part), 0)
        counts[spelling] = round(number)
    with h5py.File(out / "softmax.hdf5", "w") as made:
        made["softmax/W"], made["softmax/b"] = weights, bias
    (out / "vocab.txt").write_text("".join(f"{t}\n" for t in types), encoding="utf-8")
    return {s: types.index(s) for s, _, _ in spellings if s in types}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("texts", type=Path, nargs="+", metavar="TEXT", help="tokenised")
    parser.add_argument("--projection", type=int, required=True, metavar="N")
    parser.add_argument("--treebank", type=float, default=0.125, metavar="SHARE")
    given = parser.parse_args()
    given.out.mkdir(parents=True)
    counts: Counter[str] = Counter()
    for text in given.texts:
        with text.open(encoding="utf-8") as lines:
            counts.update(token for line in lines for token in line.split())
    old = grow_options(given.model, given.out, given.projection)
    grow_weights(given.model, given.out, old, given.projection)
    print(grow_softmax(given.model, given.out, given.projection, counts, given.treebank))


if __name__ == "__main__":
    main()
