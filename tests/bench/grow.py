"""A larger model that says the same: what training goes on from.

    python tests/bench/grow.py MODEL OUT [--projection 512] [--cell 528] [--filter 6,16]
    python tests/bench/grow.py MODEL OUT --treebank 0.125 TEXT...

Outputs that are added to every projection are random mixtures of the cell's, cells and filters that
are added read what the others read with random weights. Nothing reads any of them at first: the new
rows and columns of what comes after are zero, so that every prediction stays. Readers of bilm-tf's
form take a projection as large as the cell, or as the filters together, for none at all; so the
sizes have to differ.

With --treebank, quotes and brackets in treebank spelling join the vocabulary with the softmax rows
of the plain ones, at the place that their number in TEXT gives them.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from elmo_cli.train.treebank import BRACKETS, CLOSING, OPENING

Weights = npt.NDArray[np.float32]
SEED = 5


@dataclass(frozen=True)
class Growth:
    """Sizes of a model before and after.

    Attributes:
        old, new: the content of its options.json.
        random: for the weights of what is new.
    """

    old: dict[str, Any]
    new: dict[str, Any]
    random: np.random.Generator

    def sizes(self, name: str) -> tuple[int, int]:
        """`projection_dim` or `dim` of the LSTMs before and after."""
        return self.old["lstm"][name], self.new["lstm"][name]

    def n_filters(self) -> tuple[int, int]:
        """All filters before and after."""
        old, new = (sum(n for _, n in of["char_cnn"]["filters"]) for of in (self.old, self.new))
        return old, new

    def weights(self, name: str, values: Weights) -> Weights:
        """A data set of weights.hdf5 in its new size."""
        projection, cell, filters = (
            self.sizes("projection_dim"),
            self.sizes("dim"),
            self.n_filters(),
        )
        if name.endswith("LSTMCell/W_0"):  # rows of the input, then of the state; columns by gate
            rows = [self.unread(half, projection) for half in np.split(values, 2)]
            gates = np.split(np.concatenate(rows), 4, 1)
            return np.concatenate([self.mixed(gate, cell) for gate in gates], 1)
        if name.endswith("LSTMCell/B"):
            return np.concatenate([self.padded(gate, cell) for gate in np.split(values, 4)])
        if name.endswith("W_P_0"):
            return self.unread(self.mixed(values, projection), cell)
        if name.endswith("W_proj"):
            return self.unread(self.mixed(values, projection), filters)
        if name.endswith("b_proj"):
            return self.padded(values, projection)
        if name.endswith(("W_carry", "W_transform")):
            return self.unread(self.mixed(values, filters), filters)
        if name.endswith(("b_carry", "b_transform")):
            return self.padded(values, filters, values.mean())
        return values

    def mixed(self, values: Weights, size: tuple[int, int]) -> Weights:
        """More columns, which read what the others read."""
        more = self.random.normal(0, values.std(), (len(values), size[1] - size[0]))
        return np.concatenate([values, more.astype(np.float32)], 1)

    def unread(self, values: Weights, size: tuple[int, int]) -> Weights:
        """More rows: inputs that nothing reads yet."""
        return np.concatenate([values, np.zeros((size[1] - size[0], values.shape[1]), np.float32)])

    def padded(self, values: Weights, size: tuple[int, int], value: float = 0.0) -> Weights:
        """More values of a bias."""
        return np.concatenate([values, np.full(size[1] - size[0], value, np.float32)])


def grow_options(model: Path, given: argparse.Namespace) -> Growth:
    """Write options.json with the new sizes."""
    old = json.loads((model / "options.json").read_text())
    new = copy.deepcopy(old)
    lstm = new["lstm"]
    for name, size in (("projection_dim", given.projection), ("dim", given.cell)):
        if size is not None:
            if size < lstm[name]:
                sys.exit(f"error: {size}: {model} has {lstm[name]} already")
            lstm[name] = size
    new["char_cnn"]["filters"] += [list(map(int, of.split(","))) for of in given.filter]
    n_filters = sum(n for _, n in new["char_cnn"]["filters"])
    if lstm["projection_dim"] in (lstm["dim"], n_filters):
        sys.exit(
            f"error: projection {lstm['projection_dim']}: taken for none at all beside "
            f"{lstm['dim']} cells and {n_filters} filters"
        )
    (given.out / "options.json").write_text(json.dumps(new, indent=2) + "\n")
    return Growth(old, new, np.random.default_rng(SEED))


def grow_weights(model: Path, out: Path, growth: Growth) -> None:
    """Write weights.hdf5."""
    with h5py.File(model / "weights.hdf5") as source, h5py.File(out / "weights.hdf5", "w") as made:

        def visit(name: str, item: h5py.Dataset | h5py.Group) -> None:
            if isinstance(item, h5py.Dataset):
                made[name] = growth.weights(name, item[()].astype(np.float32))

        source.visititems(visit)
        old, new = (of["char_cnn"]["filters"] for of in (growth.old, growth.new))
        like = source[f"CNN/W_cnn_{len(old) - 1}"][()].astype(np.float32)
        for k, (width, n) in list(enumerate(new))[len(old) :]:
            shape = (1, width, like.shape[2], n)
            made[f"CNN/W_cnn_{k}"] = growth.random.normal(0, like.std(), shape).astype(np.float32)
            made[f"CNN/b_cnn_{k}"] = np.zeros(n, np.float32)


def grow_softmax(model: Path, growth: Growth) -> tuple[list[str], Weights, Weights]:
    """The types of the softmax, its weights in their new size, and its bias."""
    types = (model / "vocab.txt").read_text(encoding="utf-8").splitlines()
    with h5py.File(model / "softmax.hdf5") as source:
        weights = source["softmax/W"][()].astype(np.float32)
        bias = source["softmax/b"][()].astype(np.float32)
    return types, growth.unread(weights.T, growth.sizes("projection_dim")).T, bias


def add_spellings(
    types: list[str], weights: Weights, bias: Weights, counts: Counter[str], share: float
) -> tuple[Weights, Weights]:
    """Add quotes and brackets in treebank spelling to the types; weights and bias with them."""
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
    return weights, bias


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("texts", type=Path, nargs="*", metavar="TEXT", help="tokenised")
    parser.add_argument("--projection", type=int, metavar="N")
    parser.add_argument("--cell", type=int, metavar="N")
    parser.add_argument("--filter", action="append", default=[], metavar="WIDTH,N")
    parser.add_argument("--treebank", type=float, metavar="SHARE")
    given = parser.parse_args()
    if (given.treebank is None) != (not given.texts):
        parser.error("--treebank needs TEXT, and TEXT has no meaning without it")
    given.out.mkdir(parents=True)
    growth = grow_options(given.model, given)
    grow_weights(given.model, given.out, growth)
    types, weights, bias = grow_softmax(given.model, growth)
    if given.treebank is not None:
        counts: Counter[str] = Counter()
        for text in given.texts:
            with text.open(encoding="utf-8") as lines:
                counts.update(token for line in lines for token in line.split())
        weights, bias = add_spellings(types, weights, bias, counts, given.treebank)
    with h5py.File(given.out / "softmax.hdf5", "w") as made:
        made["softmax/W"], made["softmax/b"] = weights, bias
    (given.out / "vocab.txt").write_text("".join(f"{t}\n" for t in types), encoding="utf-8")


if __name__ == "__main__":
    main()
