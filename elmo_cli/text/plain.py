"""Plain text: one sentence per line, or with `tokenize` one paragraph per line."""

from __future__ import annotations

import re
from collections.abc import Generator

from elmo_cli.text.lines import LineReader
from elmo_cli.text.sentence import Sentence

_TOKEN = re.compile(r"\S+")


def read_plain(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    """Yield the sentences of a plain text.

    Without `tokenize` every line is a sentence and line i (from 0) of the file has the key
    `key` + i: a line that is refused, or blank with `blank` "skip", leaves a gap. Tokens are
    separated by any white space, also U+00A0 and U+3000, and are not normalised. A document starts
    at the first sentence and after a blank line.

    With `tokenize` every line is a paragraph of raw text: its sentences have consecutive keys, a
    refused line takes one key, and blank lines only separate documents.

    Args:
        reader: of the file.
        key: of its first sentence.
    Returns:
        The key of the first sentence of the next file.
    Raises:
        InputError: as `LineReader.lines` and `LineReader.admit`.
    Source: `strip().split()` in bilm-tf `bilm/elmo.py` and AllenNLP `commands/elmo.py`.
    """
    if reader.settings.tokenize:
        return (yield from _read_paragraphs(reader, key))
    name, most = reader.name, reader.settings.max_tokens
    starts = True
    for number, line in enumerate(reader.lines(), 1):
        if line is not None:
            tokens = tuple(line.split(None, most))
            n_tokens = len(tokens)
            if n_tokens > most:  # at most that many were split off, to spare memory
                n_tokens = sum(1 for _ in _TOKEN.finditer(line))
            if reader.admit(n_tokens, number):
                yield Sentence(tokens, key, line.strip(), name, number, starts_document=starts)
                starts = False
            starts = starts or not tokens
        key += 1
    return key


def _read_paragraphs(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    # nltk is slow to import, and tokenized text does not need it.
    from elmo_cli.text.tokenizer import EnglishTokenizer

    tokenizer = EnglishTokenizer()
    starts = True
    for number, line in enumerate(reader.lines(), 1):
        if line is None:
            key += 1
            continue
        sentences = tokenizer.sentences(line)
        for tokens in sentences:
            if reader.admit(len(tokens), number):
                text, at = " ".join(tokens), (reader.name, number)
                yield Sentence(tuple(tokens), key, text, *at, starts_document=starts)
                starts = False
            key += 1
        starts = starts or not sentences
    return key
