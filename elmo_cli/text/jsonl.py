"""JSON lines: one object per line, holding a sentence, a text or a document."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from elmo_cli.text.lines import LineReader
from elmo_cli.text.sentence import DocumentCounter, LineError, Sentence, shortened

_EXPECTED = (
    'each line is an object with "tokens" (a list of strings), "text" (a string), '
    'or "doc_key" and "sentences" (lists of tokens)'
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

    A line with one sentence does not belong to the document of another line; consecutive such lines
    belong together. Other members are ignored, and so are blank lines. A sentence without tokens is
    a blank sentence, like a blank line of plain text. A refused line takes one key.

    Args:
        reader: of the file.
        key: of its first sentence.
    Returns:
        The key of the first sentence of the next file.
    Raises:
        InputError: a line that is not JSON or not such an object, an object with the same key
            twice, a token that is empty or that UTF-8 can't represent; and as `LineReader.lines`
            and `LineReader.admit`.
    Source of documents: e2e-coref `minimize.py`, `cache_elmo.py`.
    """
    split = _splitter(reader.settings.tokenize)
    documents, is_within = DocumentCounter(), False
    for number, line in enumerate(reader.lines(), 1):
        if line is not None and not line.strip():
            continue
        found = None if line is None else _object(reader, line, number, split)
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


Split = Callable[[str], _Object]


def _splitter(tokenize: bool) -> Split:
    if not tokenize:
        return lambda text: _Object([(text.split(), text.strip())])
    # nltk is slow to import, and tokenized text does not need it.
    from elmo_cli.text.tokenizer import EnglishTokenizer

    tokenizer = EnglishTokenizer()

    def sentences(text: str) -> _Object:
        paragraphs = map(tokenizer.sentences, text.split("\n"))
        found = [(tokens, " ".join(tokens)) for paragraph in paragraphs for tokens in paragraph]
        return _Object(found, is_document=True)

    return sentences


def _object(reader: LineReader, line: str, number: int, split: Split) -> _Object | None:
    try:
        return _read_object(_parsed(line), split)
    except LineError as error:
        reader.reject(number, error.what, error.hint or _EXPECTED)
        return None


def _parsed(line: str) -> dict[str, Any]:
    try:
        parsed = json.loads(line, object_pairs_hook=_without_duplicates)
    except RecursionError:
        raise LineError("JSON nested too deeply") from None
    except json.JSONDecodeError as error:
        raise LineError(f"not JSON, at character {error.pos + 1}: {error.msg}") from None
    except LineError:
        raise
    except ValueError as error:  # a number with too many digits
        raise LineError(f"JSON that can't be read: {error}") from None
    if not isinstance(parsed, dict):
        raise LineError(
            f"{_kind(parsed)}, not an object",
            _EXPECTED + "; `jq -c '.[]' FILE.json` makes such lines of one big list",
        )
    return parsed


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise LineError(f"the key {shortened(twice)!r} twice in an object", "keep one of them")
    return members


def _read_object(members: dict[str, Any], split: Split) -> _Object:
    if "sentences" in members:
        return _read_document(members)
    if "tokens" in members:
        tokens = _checked_tokens(members["tokens"], "tokens")
        return _Object([(tokens, " ".join(tokens))])
    if "text" in members:
        return split(_checked_string(members["text"], "text"))
    names = ", ".join(repr(shortened(name)) for name in list(members)[:5]) or "no members"
    raise LineError(f'no "tokens", "text" or "sentences"; the object has {names}')


def _read_document(members: dict[str, Any]) -> _Object:
    if not isinstance(members["sentences"], list):
        raise LineError(f'"sentences" is {_kind(members["sentences"])}, not a list')
    sentences = []
    for i, given in enumerate(members["sentences"]):
        tokens = _checked_tokens(given, f"sentences[{i}]")
        sentences.append((tokens, " ".join(tokens)))
    if "doc_key" not in members:
        raise LineError('"sentences" without a "doc_key"')
    key = _checked_string(members["doc_key"], "doc_key")
    if not key:
        raise LineError('"doc_key" is empty')
    offset = members.get("sent_offset")
    if offset is not None and (type(offset) is not int or not 0 <= offset < 1 << 53):
        raise LineError(f'"sent_offset" is {_kind(offset)}, not a number from 0 on')
    return _Object(sentences, True, key, offset)


def _checked_tokens(given: Any, name: str) -> list[str]:
    if not isinstance(given, list):
        raise LineError(f'"{name}" is {_kind(given)}, not a list of strings')
    for i, token in enumerate(given):
        _checked_string(token, f"{name}[{i}]")
        if not token:
            raise LineError(f'"{name}[{i}]" is empty, a token without characters')
    return given


def _checked_string(given: Any, name: str) -> str:
    """A string that UTF-8 and HDF5 can represent: escapes may write lone surrogates and NULs."""
    if not isinstance(given, str):
        raise LineError(f'"{name}" is {_kind(given)}, not a string')
    if "\0" in given:
        raise LineError(f'"{name}" holds a NUL')
    if not given.isascii():
        try:
            given.encode()
        except UnicodeEncodeError as error:
            code = ord(given[error.start])
            raise LineError(f'"{name}" holds \\u{code:04x}, half a character') from None
    return given


def _kind(given: Any) -> str:
    """What JSON calls a value, with the value where it is short."""
    if given is None or isinstance(given, (bool, int, float)):
        return shortened(json.dumps(given))
    if isinstance(given, str):
        return "a string"
    return "a list" if isinstance(given, list) else "an object"
