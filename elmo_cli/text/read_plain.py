"""Plain text: one sentence a line, or with `tokenize` one paragraph a line."""

from __future__ import annotations

import re
from collections.abc import Generator

from elmo_cli.text.decode import Source
from elmo_cli.text.sentence import Sentence

_TOKEN = re.compile(r"\S+")


def read_plain(source: Source, key: int) -> Generator[Sentence, None, int]:
    """The sentences of a plain text.

    Without `tokenize` every line is a sentence and line i (from 0) of the file has the key
    `key` + i, whatever happens to the others: a line that is refused, or blank with `blank` "skip",
    leaves a gap. Tokens are what stands between white space, so also between U+00A0 or U+3000, and
    nothing is normalised. A document begins at the first sentence and after a blank line.

    With `tokenize` every line is a paragraph of raw text: its sentences have keys that run on, a
    line that is refused takes one, and blank lines only part documents.

    Args:
        source: the file.
        key: of its first sentence.
    Returns:
        The key that the first sentence of the next file has.
    Raises:
        InputError: as `Source.lines` and `Source.admits`.
    Source: `strip().split()` in bilm-tf `bilm/elmo.py` and AllenNLP `commands/elmo.py`.
    """
    if source.settings.tokenize:
        return (yield from _read_paragraphs(source, key))
    name = source.name
    most = source.settings.max_tokens
    starts = True
    for number, line in enumerate(source.lines(), 1):
        if line is not None:
            tokens = tuple(line.split(None, most))
            if source.admits(_n_tokens(line, len(tokens), most), number):
                text = line.strip()
                yield Sentence(tokens, key, text, name, number, starts_document=starts)
                starts = False
            starts = starts or not tokens
        key += 1
    return key


def count_plain(source: Source) -> tuple[int, int]:
    """(sentences, tokens) that `read_plain` would give without `tokenize`, counted faster.

    Raises:
        InputError: as `read_plain`.
    """
    most = source.settings.max_tokens
    n_sentences = n_tokens = 0
    for number, line in enumerate(source.lines(), 1):
        if line is not None:
            n_in_line = _n_tokens(line, len(line.split(None, most)), most)
            if source.admits(n_in_line, number):
                n_sentences += 1
                n_tokens += n_in_line
    return n_sentences, n_tokens


def _n_tokens(line: str, n_split: int, most: int) -> int:
    """Tokens in a line, of which at most `most` were split off to spare memory."""
    return n_split if n_split <= most else sum(1 for _ in _TOKEN.finditer(line))


def _read_paragraphs(source: Source, key: int) -> Generator[Sentence, None, int]:
    # nltk is a slow import; text that is tokenised already must not wait for it.
    from elmo_cli.text.tokenizers import EnglishTokenizer

    tokenizer = EnglishTokenizer()
    starts = True
    for number, line in enumerate(source.lines(), 1):
        if line is None:
            key += 1
            continue
        sentences = tokenizer.sentences(line)
        for tokens in sentences:
            if source.admits(len(tokens), number):
                text = " ".join(tokens)
                yield Sentence(
                    tuple(tokens), key, text, source.name, number, starts_document=starts
                )
                starts = False
            key += 1
        starts = starts or not sentences
    return key
