"""Show whether a layer separates the senses of a word: the nearest neighbors of its occurrences.

    python -m benchmarks.model_card.neighbors --data DATA --work WORK [-m MODEL]

Tables like table 4 of the paper, as found: for each query the nearest tokens, by cosine, of all
tokens in the held-out text and in a sample of the training text, and the nearest occurrences of the
same word. Sentences equal to the query's are left out. The queries are from the held-out text; they
were chosen for two senses of each word, before any neighbor was seen.

Source: Peters et al. 2018, 5.3 and table 4.

DATA holds pretrain/heldout/GENRE.txt.xz and pretrain/train/GENRE-001.txt.xz: raw text, one
paragraph per line. The model card of the bundled model names its text.
"""

from __future__ import annotations

import argparse
import lzma
from pathlib import Path
from typing import Any

from benchmarks.common import table
from benchmarks.model_card.commands import elmo, embed, parser_of

LAYER = 2
CONTEXT = 6  # tokens shown on either side
SAMPLE = 50_000  # words of each genre of the training text
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


def write_sample(source: Path, output: Path) -> Path:
    """The first paragraphs of a raw text, until they have `SAMPLE` words."""
    n_words = 0
    with (
        lzma.open(source, "rt", encoding="utf-8") as lines,
        output.open("w", encoding="utf-8") as file,
    ):
        for line in lines:
            if n_words >= SAMPLE:
                break
            n_words += len(line.split())
            file.write(line)
    return output


def embedded_text(given: argparse.Namespace) -> Path:
    """The embeddings of the text that is searched."""
    heldout = sorted((given.data / "pretrain" / "heldout").glob("*.txt.xz"))
    if not heldout:
        raise SystemExit(f"{given.data / 'pretrain' / 'heldout'}: no text")
    given.work.mkdir(parents=True, exist_ok=True)
    samples = []
    for source in sorted((given.data / "pretrain" / "train").glob("*-001.txt.xz")):
        stem = source.name.removesuffix(".txt.xz")
        samples.append(write_sample(source, given.work / f"sample-{stem}.txt"))
    texts = [*heldout, *samples]
    return embed(given, texts, "neighbors.hdf5", "--tokenize", "--layers", LAYER)


def rows_of(facts: dict[str, Any]) -> list[list[str]]:
    """A row for each neighbor, the query in the first of them."""
    rows = []
    for query in facts["queries"]:
        source = shown(query)
        for neighbor in query["neighbors"]:
            rows.append([source, shown(neighbor), f"{neighbor['cosine']:.3f}"])
            source = ""
    return rows


def shown(occurrence: dict[str, Any]) -> str:
    """A token with its context."""
    tokens = occurrence["tokens"]
    position = occurrence["position"]
    first = max(0, position - CONTEXT)
    end = position + CONTEXT + 1
    words = [*tokens[first:position], f"**{tokens[position]}**", *tokens[position + 1 : end]]
    if first > 0:
        words.insert(0, "…")
    if end < len(tokens):
        words.append("…")
    return " ".join(words).replace("|", "\\|")


def main() -> None:
    given = parser_of(__doc__).parse_args()
    text = embedded_text(given)
    lines = given.work / "queries.txt"
    command: list[object] = ["neighbors", text]
    with lines.open("w", encoding="utf-8") as file:
        for key, query in enumerate(QUERIES):
            word, sentence = query.split(": ", 1)
            command.append(f"{key}:={word}")
            file.write(f"{sentence}\n")
    queries = embed(given, [lines], "queries.hdf5", "--layers", LAYER)
    command += ["--query-file", queries, "--layer", LAYER]
    all_words = elmo(*command)
    same_word = elmo(*command, "--same-word")
    header = ["source", f"nearest of {all_words['n_compared']:,} tokens", "cosine"]
    print(table(header, rows_of(all_words)) + "\n")
    print(table(["source", "nearest of the same word", "cosine"], rows_of(same_word)))


if __name__ == "__main__":
    main()
