"""JSON lines: one object per line, holding a sentence, a text or a document."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any, NamedTuple

from elmo_cli.messages import shortened
from elmo_cli.regular_files import unique_keys
from elmo_cli.text.lines import LineError, LineReader
from elmo_cli.text.sentence import DocumentCounter, Sentence, token_problem
from elmo_cli.text.tokenizer import SentenceSplitter, SplitSentence, sentence_splitter
from elmo_cli.text.white_space import is_blank, warn_of_hidden_separator

_EXPECTED = (
    'each line is an object with "tokens" (a list of strings), "text" (a string), or "doc_key" and '
    "\"sentences\" (lists of tokens); `jq -c '.[]' FILE.json` converts a JSON list to such lines"
)

_OFFSET_LIMIT = 1 << 53  # whole numbers of JSON are exact below it


class DocumentKey(NamedTuple):
    """The document that a line is."""

    key: str | None  # None without `doc_key`
    offset: int | None  # `sent_offset`


class LineContent(NamedTuple):
    """The sentences of a line, and the document that they are, if they are one."""

    sentences: list[SplitSentence]
    document: DocumentKey | None = None


def read_jsonl(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    """Yield the sentences of a file of JSON lines. Of these members the first that exists counts:

    - `sentences`: a document with its `doc_key`; lists of tokens, as in e2e-coref. A `sent_offset`
      becomes `Sentence.offset`; without one LSGN's rule applies (`DocumentCounter`).
    - `tokens`: one sentence, its tokens given.
    - `text`: one sentence, its tokens separated by whitespace; with `tokenize` as many sentences
      as the tokenizer finds, which are a document.

    Consecutive lines of one sentence each belong together. Other members and blank lines are
    ignored. A sentence without tokens is like a blank line of plain text. A refused line takes one
    key.

    Source of documents: e2e-coref `minimize.py`, `cache_elmo.py`.
    """
    split = sentence_splitter(reader.settings)
    documents = DocumentCounter()
    is_within_document = False
    for number, line in enumerate(reader.lines(), 1):
        if line is None:
            key += 1
            continue
        if is_blank(line):
            continue
        try:
            content = _read_object(line, number, reader, split)
        except LineError as error:
            reader.reject(number, error.problem, error.hint or _EXPECTED)
            key += 1
            continue
        document = content.document
        if document is not None:
            documents.start(document.key, document.offset)
        elif is_within_document:
            documents.start(None)
        is_within_document = document is not None
        for sentence in content.sentences:
            is_yielded = reader.admit(len(sentence.tokens), number)
            if is_yielded:
                yield documents.sentence(
                    sentence.tokens, key=key, text=sentence.text, source=reader.path, line=number
                )
            documents.advance(yielded=is_yielded)
            key += 1
    return key


def _read_object(
    line: str, number: int, reader: LineReader, split: SentenceSplitter
) -> LineContent:
    """Read the object on a line.

    Raises:
        LineError: the line is not such an object. The caller adds the number of the line, and the
            hint if there is none.
    """
    members = read_members(line)
    if "sentences" in members:
        return _read_document(members)
    if "tokens" in members:
        return LineContent([_read_tokens(members["tokens"], "tokens")])
    if "text" in members:
        text = members["text"]
        if isinstance(text, str):
            text = text.lstrip("\ufeff")  # a byte order mark, if the text was a whole file
        text = checked_string(text, "text")
        if reader.settings.tokenize:
            return LineContent(split(text), DocumentKey(key=None, offset=None))
        if not text.isprintable():
            warn_of_hidden_separator(text, reader.where(number), reader.report)
        return LineContent(split(text))
    hint = ""  # that of all other lines
    if "sentence_good" in members and "sentence_bad" in members:
        hint = "a minimal pair, as in BLiMP; `elmo score --pairs` reads such lines"
    first_names = [repr(shortened(name)) for name in list(members)[:5]]
    names = ", ".join(first_names) if first_names else "no members"
    raise LineError(f'no "tokens", "text" or "sentences"; the object has {names}', hint)


def read_members(line: str) -> dict[str, Any]:
    """Read the members of the JSON object on a line; a LineError if there is none."""
    try:
        members = json.loads(line, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        raise LineError(f"not JSON, at character {error.pos + 1}: {error.msg}") from None
    except (ValueError, RecursionError) as error:  # such as a key twice, a number of 5,000 digits
        raise LineError(f"not JSON: {error}") from None
    if not isinstance(members, dict):
        raise LineError("JSON, but not an object")
    return members


def _read_document(members: dict[str, Any]) -> LineContent:
    lists = members["sentences"]
    if not isinstance(lists, list):
        raise LineError('"sentences" is not a list')
    sentences = [_read_tokens(tokens, f"sentences[{i}]") for i, tokens in enumerate(lists)]
    offset = members.get("sent_offset")
    if offset is not None and (type(offset) is not int or not 0 <= offset < _OFFSET_LIMIT):
        raise LineError('"sent_offset" is not a number from 0')
    key = checked_string(members.get("doc_key"), "doc_key")
    return LineContent(sentences, DocumentKey(key=key, offset=offset))


def _read_tokens(tokens: Any, name: str) -> SplitSentence:
    """The sentence whose tokens a member lists; a LineError if they are no list of tokens."""
    if not isinstance(tokens, list):
        raise LineError(f'"{name}" is not a list of strings')
    for i, token in enumerate(tokens):
        checked_string(token, f"{name}[{i}]")
    return SplitSentence(tokens, " ".join(tokens))


def checked_string(value: Any, name: str) -> str:
    """Return a string of a JSON object if it could be in a text.

    Escapes of JSON can write control characters and surrogates, which are in no text.

    Raises:
        LineError: the member `name` of the object is no such string.
    """
    if value == "" and name == "text":
        return ""
    problem = token_problem(value) if isinstance(value, str) else "is missing or not a string"
    if problem:
        raise LineError(f'"{name}" {problem}')
    return str(value)
