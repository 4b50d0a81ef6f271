"""Write tokenized copies of the texts of the bundled model, some documents spelled as in treebanks.

    python -m benchmarks.model_card.treebank_text DATA -o FOLDER [--fraction 0.125]

DATA holds train/GENRE-001.txt.xz and heldout/GENRE.txt.xz: raw text, one paragraph per line and a
blank line between documents. FOLDER gets train/GENRE-001.txt and heldout/GENRE.txt: one sentence
per line, tokens separated by spaces, and a blank line between documents. In a fraction of the
documents of train/, which are counted over all files, quotes and brackets are spelled as in
treebanks (`` '' -LRB- -RRB-). A model that is trained on the copies has seen both spellings.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from elmo_cli.files import write_text
from elmo_cli.text.input import InputSettings, read_sentences
from elmo_cli.text.treebank import gets_treebank_spelling, treebank_spelling

TRAIN = "train/*-001.txt.xz"
HELDOUT = "heldout/*.txt.xz"
Document = list[tuple[str, ...]]  # the tokens of its sentences


def read_documents(path: Path, max_tokens: int | None) -> Iterator[Document]:
    """Tokenize a raw text and yield its documents, up to the sentence with token `max_tokens`."""
    document: Document = []
    n_tokens = 0
    for sentence in read_sentences(path, InputSettings(tokenize=True)):
        if sentence.starts_document and document:
            yield document
            document = []
        if sentence.tokens:
            document.append(sentence.tokens)
        n_tokens += len(sentence.tokens)
        if max_tokens is not None and n_tokens >= max_tokens:
            break
    if document:
        yield document


def write_documents(path: Path, documents: Sequence[Document]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for document in documents:
        for tokens in document:
            lines.append(" ".join(tokens) + "\n")
        lines.append("\n")
    write_text(path, lines, errors="surrogateescape")


def copy_texts(data: Path, folder: Path, *, fraction: float, tokens_per_file: int | None) -> None:
    """Write the copies of all texts.

    Args:
        fraction: of the training documents that are spelled as in treebanks.
        tokens_per_file: number of tokens to copy of each training text, see `TextSettings`.
    """
    n_documents = 0
    for path in sorted(data.glob(TRAIN)):
        copied = []
        for document in read_documents(path, tokens_per_file):
            if gets_treebank_spelling(n_documents, fraction):
                document = [treebank_spelling(tokens) for tokens in document]
            copied.append(document)
            n_documents += 1
        write_documents(folder / "train" / path.stem, copied)
    for path in sorted(data.glob(HELDOUT)):
        write_documents(folder / "heldout" / path.stem, list(read_documents(path, None)))
    if n_documents == 0:
        raise SystemExit(f"{data / TRAIN}: no text")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument(
        "--fraction",
        type=float,
        default=0.125,
        help="of the training documents that are spelled as in treebanks [default: 0.125]",
    )
    parser.add_argument(
        "--tokens-per-file",
        type=int,
        default=4_000_000,
        metavar="N",
        help="copy at most N tokens of each training text, as the recipe reads [default: 4000000]",
    )
    given = parser.parse_args()
    copy_texts(
        given.data, given.output, fraction=given.fraction, tokens_per_file=given.tokens_per_file
    )


if __name__ == "__main__":
    main()
