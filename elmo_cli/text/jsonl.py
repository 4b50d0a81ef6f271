"""JSON lines: one object per line, holding a sentence, a text or a document."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from elmo_cli.text.lines import LineReader
from elmo_cli.text.sentence import DocumentCounter, LineError, Sentence, shortened
from elmo_cli.text.tokenizer import Split, sentence_splitter

_EXPECTED = (
    'each line is an object with "tokens" (a list of strings), "text" (a string), or "doc_key" and '
    "\"sentences\" (lists of tokens); `jq -c '.[]' FILE.json` makes such lines of one big list"
)


@dataclass(frozen=True, slots=True)
class _Object:
    """What a line holds: (tokens, text) of its sentences, and the document they belong to."""

    sentences: list[tuple[list[str], str]]
    is_document: bool = False
    key: str | None = None
    offset: int | None = None


def read_jsonl(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    """Yield the sentences of a file of JSON lines. Of these members the first that exists counts:

    - `sentences`: a document with its `doc_key`; lists of tokens, as in e2e-coref. A `sent_offset`
      becomes `Sentence.offset`; without one LSGN's rule applies (`DocumentCounter`).
    - `tokens`: one sentence, its tokens given.
    - `text`: one sentence, its tokens separated by white space; with `tokenize` as many sentences
      as the tokenizer finds, which are a document.

    Consecutive lines of one sentence each belong together. Other members and blank lines are
    ignored. A sentence without tokens is like a blank line of plain text.

    Args:
        key: of its first sentence; a refused line takes one key.
    Returns:
        The key of the first sentence of the next file.
    Source of documents: e2e-coref `minimize.py`, `cache_elmo.py`.
    """
    split = sentence_splitter(reader.settings)
    documents, is_within = DocumentCounter(), False
    for number, line in enumerate(reader.lines(), 1):
        if line is not None and not line.strip():
            continue
        try:
            found = None if line is None else _read_object(line, split, reader.settings.tokenize)
        except LineError as error:
            reader.reject(number, error.what, error.hint or _EXPECTED)
            found = None
        if found is None:
            key += 1
            continue
        if found.is_document or is_within:
            documents.start(found.key, found.offset)
        is_within = found.is_document
        for tokens, text in found.sentences:
            yielded = reader.admit(len(tokens), number)
            if yielded:
                yield documents.sentence(tokens, key, text, reader.name, number)
            documents.advance(yielded=yielded)
            key += 1
    return key


def _read_object(line: str, split: Split, tokenize: bool) -> _Object:
    try:
        members = json.loads(line, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:  # a ValueError also for a number of 5,000 digits
        at = f", at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise LineError(f"not JSON{at}: {getattr(error, 'msg', error)}") from None
    if not isinstance(members, dict):
        raise LineError("JSON, but not an object")
    if "sentences" in members:
        return _read_document(members)
    if "tokens" in members:
        return _Object([_sentence(members["tokens"], "tokens")])
    if "text" in members:
        return _Object(split(_checked(members["text"], "text")), is_document=tokenize)
    names = ", ".join(repr(shortened(name)) for name in list(members)[:5]) or "no members"
    raise LineError(f'no "tokens", "text" or "sentences"; the object has {names}')


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise LineError(f"the key {shortened(twice)!r} twice in an object", "keep one of them")
    return members


def _read_document(members: dict[str, Any]) -> _Object:
    given, offset = members["sentences"], members.get("sent_offset")
    if not isinstance(given, list):
        raise LineError('"sentences" is not a list')
    sentences = [_sentence(tokens, f"sentences[{i}]") for i, tokens in enumerate(given)]
    key = _checked(members.get("doc_key"), "doc_key")
    if offset is not None and (type(offset) is not int or not 0 <= offset < 1 << 53):
        raise LineError('"sent_offset" is not a number from 0')
    return _Object(sentences, True, key, offset)


def _sentence(given: Any, name: str) -> tuple[list[str], str]:
    if not isinstance(given, list):
        raise LineError(f'"{name}" is not a list of strings')
    for i, token in enumerate(given):
        _checked(token, f"{name}[{i}]")
    return given, " ".join(given)


def _checked(given: Any, name: str) -> str:
    """A string that UTF-8 and HDF5 can represent: escapes may write lone surrogates and NULs."""
    if not isinstance(given, str):
        raise LineError(f'"{name}" is missing or not a string')
    if not given and name != "text":
        raise LineError(f'"{name}" is empty')
    if "\0" in given:
        raise LineError(f'"{name}" holds a NUL')
    try:
        given.encode()
    except UnicodeEncodeError:
        raise LineError(f'"{name}" holds half a character, a lone surrogate') from None
    return given
