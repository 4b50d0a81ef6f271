"""Whether layer 2 tells the senses of a word apart: nearest neighbours of words in their sentences.

    python tests/bench/neighbors.py --data DATA --work WORK [-m MODEL] [--query "WORD: SENTENCE"…]

A table as the paper's table 4, as found: for each query the nearest tokens, by cosine, of all
tokens in the held-out text and in a part of the training text, but for those in sentences equal to
the query's. A second table has the nearest of the same word only, which shows its senses also where
a model puts other words nearer. The default queries stand in the held-out text; they were chosen
for two senses of each word, before any neighbour was seen.

Source: Peters et al. 2018, 5.3 and table 4.

DATA holds
- pretrain/heldout/GENRE.txt.xz and pretrain/train/GENRE-001.txt.xz: raw text, a paragraph a line;
  that of the bundled model is named in its card;
- tasks/glove/glove.6B.50d.subset.npz, may be missing: `words` and their `vectors`, of
  https://nlp.stanford.edu/projects/glove, whose nearest words are shown beside.
"""

from __future__ import annotations

import argparse
import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from vectors import embed, parser_of, prepare, table, unit

from elmo_cli import open_embeddings
from elmo_cli.probe.neighbors import nearest, read_query
from elmo_cli.probe.places import Place, places_of
from elmo_cli.probe.stored_layer import StoredLayer

LAYER = 2
QUERIES = (
    "play: In the round of 16 match against Uruguay , which Italy won 2 – 0 , Baggio started the "
    "play which led to Italy 's first goal , scored by Schillaci .",
    "play: In 1955 a stage play based on the Famous Five was produced , and in January 1997 the "
    "King 's Head Theatre embarked on a six-month tour of the UK with \" The Famous Five Musical "
    "\" , to commemorate Blyton 's centenary .",
    'bank: The " El Banco Español Filipino de Isabel II " ( now the Bank of the Philippine Islands '
    ") was the first bank opened in the Philippines in 1851 .",
    "bank: The dandelion landed on a grassy river bank .",
    "spring: After discovering she was pregnant in the spring of 1945 , Blyton miscarried five "
    "months later , following a fall from a ladder .",
    "spring: But , the moment Edward stretched out his hand to take the letter , the tiger made a "
    "spring at his heart .",
    "bat: Ajao , a bat , lay in his house very ill .",
    "bat: I have lost my bat , and I can not find it .",
)
CONTEXT = 6  # tokens shown on either side


@dataclass(frozen=True)
class Query:
    """A word and the sentence it stands in; its first occurrence is meant."""

    word: str
    tokens: tuple[str, ...]

    @classmethod
    def parse(cls, line: str) -> Query:
        word, _, sentence = line.partition(": ")
        query = cls(word, tuple(sentence.split()))
        if word not in query.tokens:
            raise SystemExit(f"--query {line!r}: the word is not a token of the sentence")
        return query


def write_opening(source: Path, path: Path, n_words: int) -> Path:
    """The first paragraphs of a raw text, until they have so many words."""
    with lzma.open(source, "rt", encoding="utf-8") as lines, path.open("w", encoding="utf-8") as to:
        for line in lines:
            if n_words <= 0:
                break
            n_words -= len(line.split())
            to.write(line)
    return path


def embedded_pool(given: argparse.Namespace) -> Path:
    """The embeddings file of the text to look for neighbours in."""
    folder = given.data / "pretrain"
    heldout = sorted((folder / "heldout").glob("*.txt.xz"))
    openings = [
        write_opening(
            source, given.work / f"opening-{source.name.partition('.')[0]}.txt", given.part
        )
        for source in sorted((folder / "train").glob("*-001.txt.xz"))
    ]
    if not heldout:
        raise SystemExit(f"{folder / 'heldout'}: no text")
    return embed(
        [*heldout, *openings],
        given.work / "neighbors-pool.hdf5",
        *("--tokenize", "--layers", str(LAYER)),
        model=given.model,
        threads=given.threads,
    )


def embedded_queries(queries: list[Query], given: argparse.Namespace) -> Path:
    """The embeddings file of the queries' sentences."""
    text = given.work / "neighbors-queries.txt"
    text.write_text("".join(" ".join(q.tokens) + "\n" for q in queries), encoding="utf-8")
    output = given.work / "neighbors-queries.hdf5"
    output.unlink(missing_ok=True)  # queries change, and take no time
    return embed([text], output, "--layers", str(LAYER), model=given.model, threads=given.threads)


def of_json(near: list[tuple[Place, float]]) -> list[dict[str, Any]]:
    """Neighbours with their sentences."""
    return [{"cosine": cosine, "tokens": place.tokens, "place": place.at} for place, cosine in near]


def static_neighbors(path: Path, words: list[str], n_neighbors: int) -> dict[str, list[str]]:
    """The nearest words by static vectors."""
    with np.load(path) as file:
        names, vectors = file["words"].tolist(), unit(file["vectors"].astype(np.float32))
    rows = {name: k for k, name in enumerate(names)}
    found = {}
    for word in dict.fromkeys(word for word in words if word in rows):
        order = np.argsort(-(vectors @ vectors[rows[word]]), kind="stable")
        found[word] = [names[k] for k in order[1 : n_neighbors + 1]]
    return found


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """All neighbours."""
    queries = [Query.parse(line) for line in given.query or QUERIES]
    paths = embedded_pool(given), embedded_queries(queries, given)
    with open_embeddings(paths[0]) as pool, open_embeddings(paths[1]) as source:
        layer, theirs = StoredLayer(pool, LAYER), StoredLayer(source, LAYER)
        asked = [read_query(theirs, f"{k}:={query.word}") for k, query in enumerate(queries)]
        found = nearest(layer, asked, given.neighbors)
        same_word = nearest(layer, asked, given.neighbors, same_word=True)
        words = [query.word for query in queries]
        occurrences = {word: sum(1 for _ in places_of(layer, word)) for word in set(words)}
    figures: dict[str, Any] = {
        "pool_tokens": found.tokens,
        "queries": [
            {
                "word": query.word,
                "tokens": query.tokens,
                "place": one.place.at,
                "occurrences": occurrences[query.word],
                "neighbors": of_json(found.neighbors[k]),
                "same_word": of_json(same_word.neighbors[k]),
            }
            for k, (query, one) in enumerate(zip(queries, asked, strict=True))
        ],
    }
    glove = given.data / "tasks" / "glove" / "glove.6B.50d.subset.npz"
    figures["static"] = static_neighbors(glove, words, given.neighbors) if glove.exists() else {}
    return figures


def shown(tokens: tuple[str, ...], place: int) -> str:
    """A token among its neighbours in the sentence."""
    begin, end = max(0, place - CONTEXT), min(len(tokens), place + CONTEXT + 1)
    words = [*tokens[begin:place], f"**{tokens[place]}**", *tokens[place + 1 : end]]
    text = " ".join((["…"] if begin else []) + words + (["…"] if end < len(tokens) else []))
    return text.replace("|", "\\|")


def table_of(figures: dict[str, Any]) -> str:
    """The neighbours as a reader wants them."""
    static: list[list[object]] = [
        [f"GloVe: {word}", ", ".join(names), ""] for word, names in figures["static"].items()
    ]
    return "\n\n".join(
        [
            table(
                ["source", f"nearest of {figures['pool_tokens']:,} tokens", "cosine"],
                static + rows_of(figures["queries"], "neighbors"),
            ),
            table(
                ["source (occurrences)", "nearest of the same word", "cosine"],
                rows_of(figures["queries"], "same_word"),
            ),
        ]
    )


def rows_of(queries: list[dict[str, Any]], which: str) -> list[list[object]]:
    """A row for each neighbour, the source on the first of them."""
    rows: list[list[object]] = []
    for query in queries:
        source = shown(query["tokens"], query["place"])
        if which == "same_word":
            source += f" ({query['occurrences']:,})"
        for of in query[which]:
            rows.append([source, shown(of["tokens"], of["place"]), f"{of['cosine']:.3f}"])
            source = ""
    return rows


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--query", action="append", metavar="WORD: SENTENCE")
    parser.add_argument("--neighbors", type=int, default=5)
    parser.add_argument(
        "--part", type=int, default=50_000, help="words taken from each genre of the training text"
    )
    given = parser.parse_args()
    prepare(given)
    figures = measure(given)
    print(json.dumps(figures, ensure_ascii=False) if given.json else table_of(figures))


if __name__ == "__main__":
    main()
