"""Questions about paragraphs, and their readers: SQuAD 1.1, and JSON lines as in `datasets`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from elmo_cli.tasks.readers import Split, member, parse_json
from elmo_cli.tasks.task import Example

Offset = tuple[int, int]  # of a token in its context: the first character, and that after the last
TokenSpan = tuple[int, int]  # the first and the last token of an answer
_TOKEN = re.compile(r"\w+|[^\w\s]")


class _Context(NamedTuple):
    """A context while its questions are read.

    Attributes:
        offsets: those of its tokens.
        sentences: the index of its sentence in the split; `NO_TOKENS` for a blank context.
    """

    text: str
    offsets: Sequence[Offset]
    sentences: tuple[int, ...]


class GoldAnswer(NamedTuple):
    """A correct answer to a question.

    Attributes:
        text: what predictions are compared with.
        start: its first character in the context, as the file states it.
        span: its first and last token; None if the text is not there.
    """

    text: str
    start: Any
    span: TokenSpan | None


@dataclass(frozen=True)
class Question(Example):
    """A question: its sentences are the context and the question, its target correct answers.

    Attributes:
        offsets: those of the tokens of the context.
        answers: the answers, of which the first that is at its offset is learned.
    """

    id: str
    context: str
    offsets: Sequence[Offset]
    answers: Sequence[GoldAnswer]

    @property
    def span(self) -> TokenSpan | None:
        """First and last token of the answer that is learned; None if none is at its offset."""
        for answer in self.answers:
            if answer.span is not None:
                return answer.span
        return None

    def text_of(self, span: TokenSpan) -> str:
        """Return the text from the first to the last token of a span of the context."""
        first, last = span
        begin, _ = self.offsets[first]
        _, end = self.offsets[last]
        return self.context[begin:end]


def read_questions(split: Split, *, labelled: bool) -> Iterator[None]:
    """Read SQuAD 1.1, or JSON lines with a context and a question each."""
    split.refuse_json_list()
    if _is_flat(split.first_line()):
        rows = _read_flat(split, labelled)
    else:
        rows = _read_nested(split, labelled)
    names = set()
    n_read = len(split.examples)
    for _ in rows:
        for question in split.examples[n_read:]:
            if question.id in names:
                split.where = split.path
                raise ValueError(f"2 questions have the id {question.id}")
            names.add(question.id)
        yield
        n_read = len(split.examples)


def _is_flat(first_line: str) -> bool:
    """Whether the first line of a file is a question, as the library `datasets` writes them."""
    try:
        value = parse_json(first_line)
    except ValueError:
        return False
    return isinstance(value, dict) and not value.keys().isdisjoint(("context", "question"))


def _read_flat(split: Split, labelled: bool) -> Iterator[None]:
    for fields in split.json_lines():
        with split.row():
            context = _read_context(split, fields, labelled)
            _read_question(split, fields, context, labelled)
        yield


def _read_nested(split: Split, labelled: bool) -> Iterator[None]:
    text = "\n".join(split.lines())
    split.where = split.path
    content = parse_json(text)
    if not isinstance(content, dict):
        raise ValueError("JSON, but not an object")
    for article in member(content, "data", kinds=(list,)):
        for paragraph in member(article, "paragraphs", kinds=(list,)):
            _read_paragraph(split, paragraph, labelled)
            yield
            split.key += 1


def _read_paragraph(split: Split, paragraph: Mapping[str, Any], labelled: bool) -> None:
    split.where = f"{split.path}, paragraph {split.key + 1}"
    with split.row():
        context = _read_context(split, paragraph, labelled)
        for number, fields in enumerate(member(paragraph, "qas", kinds=(list,)), 1):
            split.where = f"{split.path}, paragraph {split.key + 1}, question {number}"
            with split.row():
                _read_question(split, fields, context, labelled)


def _read_context(split: Split, fields: Mapping[str, Any], labelled: bool) -> _Context:
    """Add the sentence of a context."""
    text = member(fields, "context", kinds=(str,))
    offsets = [match.span() for match in _TOKEN.finditer(text)]
    tokens = [text[begin:end] for begin, end in offsets]
    sentences = split.add(tokens, allow_blank=not labelled)
    return _Context(text, offsets, sentences)


def _read_question(
    split: Split, fields: Mapping[str, Any], context: _Context, labelled: bool
) -> None:
    """Add a question about a context."""
    name = str(member(fields, "id"))
    split.where = f"{split.path}, question {name}"
    text = member(fields, "question", kinds=(str,))
    own = split.add(_TOKEN.findall(text), allow_blank=not labelled)
    answers = []
    if labelled:
        answers = _read_answers(member(fields, "answers", kinds=(list, dict)), context)
        if not answers:
            problem = (
                "the question has no answer, as many of SQuAD 2.0; those of SQuAD 1.1 have one"
            )
            raise ValueError(problem)
    question = Question(
        sentences=(*context.sentences, *own),
        where=split.where,
        target=tuple(answer.text for answer in answers),
        id=name,
        context=context.text,
        offsets=context.offsets,
        answers=answers,
        key=split.key,
    )
    split.examples.append(question)


def _read_answers(value: Any, context: _Context) -> list[GoldAnswer]:
    """Return the answers of a list of objects, or of an object of lists as `datasets` writes it."""
    if isinstance(value, dict):
        texts = member(value, "text", kinds=(list,))
        starts = value.get("answer_start")
        if not starts:
            starts = [None] * len(texts)
        pairs = list(zip(texts, starts, strict=True))
    else:
        pairs = [(member(answer, "text"), answer.get("answer_start")) for answer in value]
    answers = []
    for text, start in pairs:
        span = _find_span(text, start, context)
        answers.append(GoldAnswer(text, start, span))
    return answers


def _find_span(text: Any, start: Any, context: _Context) -> TokenSpan | None:
    """Return the first and last token of an answer; None if it is not at its offset.

    ValueError if the text is not a string.
    """
    if not isinstance(text, str):
        raise ValueError(f"the answer {text!r} is not a string")
    if type(start) is not int or start < 0 or context.text[start : start + len(text)] != text:
        return None
    end = start + len(text)
    covered = []  # tokens that overlap with the answer
    for number, (token_begin, token_end) in enumerate(context.offsets):
        if token_begin < end and token_end > start:
            covered.append(number)
    return (covered[0], covered[-1]) if covered else None
