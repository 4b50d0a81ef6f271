"""All figures of a model's card: held-out perplexity, parts of speech, word senses, neighbours.

    python tests/bench/card_figures.py --data DATA --work WORK [-m MODEL] [--train TEXT…]
    python tests/bench/card_figures.py --data DATA --work WORK --only perplexity senses
    python tests/bench/card_figures.py --data DATA --work WORK --beside OLDWORK/figures.json

Figures go to WORK/figures.json as soon as each part is there; what is there already is not measured
again unless it is named with `--only`. Tables in Markdown are printed for all that is there. With
`--beside`, the figures.json of another model stands beside.

The 5-gram is measured where `--train` names the tokenised text that the model was trained on. What
DATA holds, and where it is from, is said in pos_probe.py, word_sense.py, neighbors.py and
five_gram.py.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import neighbors
import pos_probe
import word_sense
from vectors import elmo, parser_of, prepare, table

from elmo_cli.pretrained.load import locate

Figures = dict[str, Any]
DIRECTIONS = ("forward", "backward", "average")


def held_out(given: argparse.Namespace) -> Figures:
    """What `elmo perplexity` says of each genre of the held-out text, and of all together."""
    words = {"model": given.model, "threads": given.threads}
    paths = sorted((given.data / "pretrain" / "heldout").glob("*.txt.xz"))
    if not paths:
        raise SystemExit(f"{given.data / 'pretrain' / 'heldout'}: no text")
    genres = {
        path.name.partition(".")[0]: json.loads(
            elmo("perplexity", path, "--tokenize", "--json", **words)
        )
        for path in paths
    }
    return {**genres, "all": together(list(genres.values()))}


def together(parts: list[Figures]) -> Figures:
    """The figures of several texts as one."""
    predictions = [of["predictions"] for of in parts]
    tokens = [of["tokens"] for of in parts]
    # What a text has in bytes follows from its bits a byte: all but those for spelling are those of
    # the likelihood.
    bytes_ = [
        math.log2(of["perplexity"]["average"])
        * of["predictions"]
        / (of["bits_per_byte"]["average"] - of["bits_per_byte"]["spelling"])
        for of in parts
    ]
    return {
        "tokens": sum(tokens),
        "sentences": sum(of["sentences"] for of in parts),
        "predictions": sum(predictions),
        "unknown": weighted([of["unknown_fraction"] for of in parts], tokens),
        "perplexity": {
            name: math.exp(
                weighted([math.log(of["perplexity"][name]) for of in parts], predictions)
            )
            for name in DIRECTIONS
        },
        "bits_per_byte": {
            name: weighted([of["bits_per_byte"][name] for of in parts], bytes_)
            for name in (*DIRECTIONS, "spelling")
        },
    }


def weighted(values: list[float], weights: list[float]) -> float:
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def five_gram(given: argparse.Namespace) -> Figures | None:
    """The 5-gram of the same text and vocabulary; a process of its own, for its memory."""
    if not given.train:
        return None
    vocabulary = locate(given.model).vocabulary
    script = Path(__file__).with_name("five_gram.py")
    words = ["--data", given.data, "--vocabulary", vocabulary, "--json", "--train", *given.train]
    if given.text_tokens:
        words += ["--text-tokens", str(given.text_tokens)]
    words += ["--treebank", str(given.treebank)]
    done = subprocess.run(
        [sys.executable, script, *words], stdout=subprocess.PIPE, text=True, check=True
    )
    figures: Figures = json.loads(done.stdout)
    return figures


def probe(given: argparse.Namespace) -> Figures:
    """The probe on Penn tags."""
    return pos_probe.measure(argparse.Namespace(**vars(given), tags="xpos"))


def tokens_like(given: argparse.Namespace) -> Figures:
    """The neighbours of the default queries."""
    return neighbors.measure(
        argparse.Namespace(**vars(given), query=None, neighbors=5, part=50_000)
    )


PARTS: dict[str, Callable[[argparse.Namespace], Figures | None]] = {
    "perplexity": held_out,
    "five-gram": five_gram,
    "pos": probe,
    "senses": word_sense.measure,
    "neighbors": tokens_like,
}


def perplexity_table(figures: Figures, old: Figures) -> str:
    """Held-out perplexity by genre."""
    n_gram = figures.get("five-gram", {}).get("heldout", {})
    header = ["held-out text", "predictions", "unknown, %", *DIRECTIONS, "bits a byte"]
    header += ["5-gram", "forward / 5-gram"] if n_gram else []
    header += ["average before"] if old else []
    rows = []
    for name, of in figures["perplexity"].items():
        row = [name, f"{of['predictions']:,}", f"{100 * of['unknown']:.2f}"]
        row += [f"{of['perplexity'][direction]:.1f}" for direction in DIRECTIONS]
        row.append(f"{of['bits_per_byte']['average']:.3f}")
        if n_gram:
            value = n_gram[name]["perplexity"]
            row += [f"{value:.1f}", f"{of['perplexity']['forward'] / value:.3f}"]
        if old:
            row.append(f"{old['perplexity'][name]['perplexity']['average']:.1f}")
        rows.append(row)
    return table(header, rows)


TABLES: dict[str, Callable[[Figures], str]] = {
    "pos": pos_probe.table_of,
    "senses": word_sense.table_of,
    "neighbors": neighbors.table_of,
}
TITLES = {
    "perplexity": "Held-out perplexity",
    "pos": "Linear probe, UD English-EWT",
    "senses": "Word sense by the nearest neighbour",
    "neighbors": "Nearest neighbours, layer 2",
}


def page_of(figures: Figures, old: Figures) -> str:
    """All tables that there are figures for."""
    lines = []
    for part, title in TITLES.items():
        if part not in figures:
            continue
        lines += [f"### {title}", ""]
        if part == "perplexity":
            lines += [perplexity_table(figures, old if part in old else {}), ""]
            continue
        lines += [TABLES[part](figures[part]), ""]
        if part in old:
            lines += ["Before:", "", TABLES[part](old[part]), ""]
    return "\n".join(lines)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--train", type=Path, nargs="+", metavar="TEXT")
    parser.add_argument("--text-tokens", type=int, metavar="N", help="of each training text")
    parser.add_argument("--treebank", type=float, default=0.0, metavar="SHARE", help="of them")
    parser.add_argument("--only", choices=PARTS, nargs="+", help="measure these, in any case")
    parser.add_argument("--beside", type=Path, metavar="FIGURES.json")
    given = parser.parse_args()
    prepare(given)
    path = given.work / "figures.json"
    model = locate(given.model).sha256
    figures = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"model": model}
    if figures["model"] != model:
        raise SystemExit(f"{path} is of another model: give each its own --work")
    for part, measure in PARTS.items():
        if part in (given.only or PARTS.keys() - figures.keys()):
            found = measure(given)
            if found is not None:
                figures[part] = found
                path.write_text(json.dumps(figures, ensure_ascii=False) + "\n", encoding="utf-8")
    old: Figures = json.loads(given.beside.read_text(encoding="utf-8")) if given.beside else {}
    print(json.dumps(figures, ensure_ascii=False) if given.json else page_of(figures, old))


if __name__ == "__main__":
    main()
