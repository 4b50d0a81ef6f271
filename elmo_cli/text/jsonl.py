"""JSON lines: one object per line, holding a sentence, a text or a document."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

from elmo_cli.messages import shortened
from elmo_cli.regular_files import unique_keys
from elmo_cli.text.lines import LineReader
from elmo_cli.text.sentence import DocumentCounter, LineError, Sentence, token_problem
from elmo_cli.text.tokenizer import Sentences, SentenceSplitter, sentence_splitter

_EXPECTED = (
    'each line is an object with "tokens" (a list of strings), "text" (a string), or "doc_key" and '
    "\"sentences\" (lists of tokens); `jq -c '.[]' FILE.json` converts a JSON list to such lines"
)

DocumentKey = tuple[str | None, int | None]  # its key and its `sent_offset`


def read_jsonl(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    """Yield the sentences of a file of JSON lines. Of these members the first that exists counts:

    - `sentences`: a document with its `doc_key`; lists of tokens, as in e2e-coref. A `sent_offset`
      becomes `Sentence.offset`; without one LSGN's rule applies (`DocumentCounter`).
    - `tokens`: one sentence, its tokens given.
    - `text`: one sentence, its tokens separated by white space; with `tokenize` as many sentences
      as the tokenizer finds, which are a document.

    Consecutive lines of one sentence each belong together. Other members and blank lines are
    ignored. A sentence without tokens is like a blank line of plain text. A refused line takes one
    key.

    Source of documents: e2e-coref `minimize.py`, `cache_elmo.py`.
    """
    split, tokenize = sentence_splitter(reader.settings), reader.settings.tokenize
    documents, is_within = DocumentCounter(), False
    for number, line in enumerate(reader.lines(), 1):
        if line is not None and not line.strip():
            continue
        try:
            found = None if line is None else _read_object(line, split, tokenize)
        except LineError as error:
            reader.reject(number, error.what, _EXPECTED)
            found = None
        if found is None:
            key += 1
            continue
        sentences, document = found
        if document or is_within:
            documents.start(*(document or (None, None)))
        is_within = document is not None
        for tokens, text in sentences:
            yielded = reader.admit(len(tokens), number)
            if yielded:
                yield documents.sentence(tokens, key, text, reader.name, number)
            documents.advance(yielded=yielded)
            key += 1
    return key


def _read_object(
    line: str, split: SentenceSplitter, tokenize: bool
) -> tuple[Sentences, DocumentKey | None]:
    """The sentences of a line, and the document that they are, if they are one."""
    try:
        members = json.loads(line, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        raise LineError(f"not JSON, at character {error.pos + 1}: {error.msg}") from None
    except (ValueError, RecursionError) as error:  # such as a key twice, a number of 5,000 digits
        raise LineError(f"not JSON: {error}") from None
    if not isinstance(members, dict):
        raise LineError("JSON, but not an object")
    if "sentences" in members:
        return _read_document(members)
    if "tokens" in members:
        return [_sentence(members["tokens"], "tokens")], None
    if "text" in members:
        return split(_checked(members["text"], "text")), (None, None) if tokenize else None
    names = ", ".join(repr(shortened(name)) for name in list(members)[:5]) or "no members"
    raise LineError(f'no "tokens", "text" or "sentences"; the object has {names}')


def _read_document(members: dict[str, Any]) -> tuple[Sentences, DocumentKey]:
    given, offset = members["sentences"], members.get("sent_offset")
    if not isinstance(given, list):
        raise LineError('"sentences" is not a list')
    sentences = [_sentence(tokens, f"sentences[{i}]") for i, tokens in enumerate(given)]
    if offset is not None and (type(offset) is not int or not 0 <= offset < 1 << 53):
        raise LineError('"sent_offset" is not a number from 0')
    return sentences, (_checked(members.get("doc_key"), "doc_key"), offset)


def _sentence(given: Any, name: str) -> tuple[list[str], str]:
    if not isinstance(given, list):
        raise LineError(f'"{name}" is not a list of strings')
    for i, token in enumerate(given):
        _checked(token, f"{name}[{i}]")
    return given, " ".join(given)


def _checked(given: Any, name: str) -> str:
    """A string that UTF-8 and HDF5 can represent: escapes may write lone surrogates and NULs."""
    if given == "" and name == "text":
        return ""
    problem = token_problem(given) if isinstance(given, str) else "is missing or not a string"
    if problem:
        raise LineError(f'"{name}" {problem}')
    return str(given)
