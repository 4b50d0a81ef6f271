"""Task `qa`: the span of a paragraph that answers a question, as in SQuAD 1.1."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from elmo_cli.fields import at_least, one_of
from elmo_cli.model.bilm import Highway
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.layers import MASKED, BiLSTM, masked_softmax
from elmo_cli.tasks.readers import Split, parse_json
from elmo_cli.tasks.settings import TaskSettings, probability
from elmo_cli.tasks.task import Example, Scores, Task, TaskModel

Range = tuple[int, int]  # of characters or of tokens: first and last, or start and end
_TOKEN = re.compile(r"\w+|[^\w\s]")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True)
class Question(Example):
    """A question: its sentences are the context and the question, its target correct answers.

    Attributes:
        offsets: start and end of each token of the context, in characters.
        span: first and last token of the first answer; None where it is unknown.
    """

    id: str
    context: str
    offsets: Sequence[Range]
    span: Range | None

    def text_of(self, span: Range) -> str:
        """Return the text from the first to the last token of a span of the context."""
        first, last = span
        begin, _ = self.offsets[first]
        _, end = self.offsets[last]
        return self.context[begin:end]


@dataclass(frozen=True)
class QaSettings(TaskSettings):
    """The settings of `qa`; `layers` are those of the modeling biLSTM, after the attention."""

    elmo_where: str = one_of("both", "input", "output")
    hidden: int = at_least(1, 64)
    dropout: float = probability(0.3)
    batch_size: int = at_least(1, 16)
    epochs: int = at_least(1, 10)
    highways: int = at_least(0, 0)
    match_feature: bool = True
    max_answer: int = at_least(1, 15)


class _EncodedSentences(NamedTuple):
    """The states of sentences, (batch, token, dim), their lengths, (batch,), and the mask."""

    states: Tensor
    lengths: Tensor
    mask: Tensor


class BiDAF(TaskModel):
    """Attention between context and question in both directions, then a span of the context.

    Source: Seo et al. 2017; the layer after the attention is that of Clark and Gardner 2018.
    """

    def build_encoder(self, dim: int) -> nn.Module:
        self.highways = nn.Sequential(*(Highway(dim) for _ in range(self.settings.highways)))
        return BiLSTM(dim, self.settings.hidden)

    def build(self) -> None:
        settings = self.settings
        dim = self.state_dim
        hidden = settings.hidden
        self.of_context = nn.Linear(dim, 1, bias=False)
        self.of_question = nn.Linear(dim, 1, bias=False)
        self.of_both = nn.Parameter(torch.ones(dim) / dim**0.5)
        self.merge = nn.Linear(4 * dim + settings.match_feature, 2 * hidden)
        self.modelling = BiLSTM(2 * hidden, hidden, settings.layers, settings.dropout)
        self.end_encoder = BiLSTM(4 * hidden, hidden)
        self.start = nn.Linear(4 * hidden, 1, bias=False)
        self.end = nn.Linear(4 * hidden, 1, bias=False)

    def loss(self, examples: Sequence[Question], inputs: Inputs) -> Tensor:
        start, end = self.scores(examples, inputs)
        spans = torch.tensor([example.span for example in examples], device=start.device)
        first, last = spans.T
        start_loss = nn.functional.cross_entropy(start, first)
        end_loss = nn.functional.cross_entropy(end, last)
        return start_loss + end_loss

    def predict(self, examples: Sequence[Question], inputs: Inputs) -> list[str]:
        start, end = self.scores(examples, inputs)
        spans = best_spans(start, end, self.settings.max_answer)
        return [example.text_of(span) for example, span in zip(examples, spans, strict=True)]

    def scores(self, examples: Sequence[Question], inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the scores of context tokens as first and as last, (batch, token)."""
        contexts = [example.sentences[0] for example in examples]
        questions = [example.sentences[1] for example in examples]
        context = self._encode_distinct(contexts, inputs)
        question = self._encode_distinct(questions, inputs)
        mask = context.mask

        features = self._attend(context, question)
        if self.settings.match_feature:
            features.append(_matches(examples, inputs)[..., None])
        merged = self.dropout(torch.relu(self.merge(torch.cat(features, -1))))
        modelled = self.dropout(self.modelling(merged, context.lengths))
        for_start = torch.cat([merged, modelled], -1)  # (batch, token, 4 * hidden)
        ends = self.dropout(self.end_encoder(for_start, context.lengths))
        start = self.start(for_start)[..., 0]
        end = self.end(torch.cat([merged, ends], -1))[..., 0]
        return start.masked_fill(~mask, MASKED), end.masked_fill(~mask, MASKED)

    def _encode_distinct(self, numbers: Sequence[int], inputs: Inputs) -> _EncodedSentences:
        """Encode sentences; those that occur several times are computed once."""
        distinct = list(dict.fromkeys(numbers))
        batch = inputs.batch(distinct)
        rows = torch.tensor([distinct.index(number) for number in numbers], device=inputs.device)
        states = self.encode(self.highways(self.representation(batch)), batch)
        return _EncodedSentences(states[rows], batch.lengths[rows], batch.mask[rows])

    def _attend(self, context: _EncodedSentences, question: _EncodedSentences) -> list[Tensor]:
        """Return the features of context tokens, each (batch, token, dim)."""
        x = context.states
        y = question.states
        similarity = self.of_context(x) + self.of_question(y).transpose(1, 2)
        similarity = similarity + (x * self.of_both) @ y.transpose(
            1, 2
        )  # (batch, x token, y token)
        similarity = similarity.masked_fill(~question.mask[:, None], MASKED)
        attended = torch.softmax(similarity, 2) @ y
        weights = masked_softmax(similarity.amax(2), context.mask)  # (batch, token)
        summary = weights[:, None] @ x  # (batch, 1, dim)
        return [x, attended, x * attended, x * summary]


def best_spans(start: Tensor, end: Tensor, max_length: int) -> list[Range]:
    """Return the spans of up to `max_length` tokens with the largest sums of scores.

    The scores of tokens as first and as last are (batch, token).
    """
    padded = nn.functional.pad(end, (0, max_length - 1), value=-torch.inf)
    end_of_spans = padded.unfold(1, max_length, 1)  # (batch, first token, further tokens)
    scores = start[..., None] + end_of_spans
    spans = []
    for number in scores.flatten(1).argmax(1).tolist():
        first, n_further = divmod(number, max_length)
        spans.append((first, first + n_further))
    return spans


def normalize(answer: str) -> str:
    """Remove case, punctuation, articles and extra spaces from an answer, as SQuAD does."""
    text = answer.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def token_f1(predicted: str, answer: str) -> float:
    """Return the token F1 of two answers, from 0 to 1."""
    predicted_tokens = normalize(predicted).split()
    answer_tokens = normalize(answer).split()
    n_common = (Counter(predicted_tokens) & Counter(answer_tokens)).total()
    if n_common == 0:  # also if an answer has no tokens
        return 0.0
    return 2 * n_common / (len(predicted_tokens) + len(answer_tokens))


class QaTask(Task):
    """Answers to questions about a paragraph, from SQuAD 1.1 JSON."""

    name = "qa"
    settings_class = QaSettings
    model_class = BiDAF
    presets: ClassVar = {
        "paper": "elmo.projection=0 char_filters=100 char_width=5 hidden=100 layers=2 dropout=0.2 "
        "batch_size=40 highways=2 match_feature=false epochs=20 patience=10"
    }
    formats = ("json",)

    def fill(self, split: Split, *, labelled: bool) -> None:
        text = "\n".join(split.lines())
        split.where = split.path
        for article in parse_json(text)["data"]:
            for paragraph in article["paragraphs"]:
                _read_paragraph(split, paragraph, labelled)
        split.where = split.path
        for name, n in Counter(question.id for question in split.examples).items():
            if n > 1:
                raise ValueError(f"{n} questions have the id {name}")

    def collect_labels(self, train: Split) -> None:
        """Return None: answers are spans of the context."""

    def score(self, examples: Sequence[Question], predictions: Sequence[str]) -> Scores:
        f1 = 0.0
        n_exact = 0
        for example, prediction in zip(examples, predictions, strict=True):
            f1 += max(token_f1(prediction, answer) for answer in example.target)
            n_exact += normalize(prediction) in map(normalize, example.target)
        n = max(1, len(examples))
        values = {"f1": 100 * f1 / n, "exact_match": 100 * n_exact / n}
        return Scores("f1", values, note="the best of a question's answers counts, as for SQuAD")

    def format_lines(self, split: Split, predictions: Sequence[str], form: str) -> Iterator[str]:
        """Yield an object that maps question ids to answers, as the script of SQuAD reads it."""
        ids = [example.id for example in split.examples]
        answers = dict(zip(ids, predictions, strict=True))
        yield json.dumps(answers, ensure_ascii=False, indent=1) + "\n"


def _read_paragraph(split: Split, paragraph: Any, labelled: bool) -> None:
    split.where = f"{split.path}, question {len(split.examples) + 1}"
    context = paragraph["context"]
    offsets = [match.span() for match in _TOKEN.finditer(context)]
    shared = split.add([context[begin:end] for begin, end in offsets])
    for fields in paragraph["qas"]:
        split.where = f"{split.path}, question {len(split.examples) + 1}"
        name = str(fields["id"])
        split.where = f"{split.path}, question {name}"
        own = split.add(_TOKEN.findall(fields["question"]))
        answers = fields["answers"] if labelled else []
        spans = [_find_span(answer, context, offsets) for answer in answers]
        if labelled and not spans:
            raise ValueError("the question has no answer")
        question = Question(
            sentences=(*shared, *own),
            where=split.where,
            target=tuple(answer["text"] for answer in answers),
            id=name,
            context=context,
            offsets=offsets,
            span=spans[0] if spans else None,
        )
        split.examples.append(question)


def _find_span(answer: Any, context: str, offsets: Sequence[Range]) -> Range:
    """Return the first and last token of an answer; ValueError if it is not at its offset."""
    text = answer["text"]
    begin = answer["answer_start"]
    end = begin + len(text)
    covered = []  # tokens that overlap with the answer
    for number, (token_begin, token_end) in enumerate(offsets):
        if token_begin < end and token_end > begin:
            covered.append(number)
    if not covered or context[begin:end] != text:
        raise ValueError(f"the answer {text[:40]!r} is not at character {begin} of its context")
    return covered[0], covered[-1]


def _matches(examples: Sequence[Question], inputs: Inputs) -> Tensor:
    """Return 1 where a context token is in the question, ignoring case, (batch, token)."""
    matches = []
    for example in examples:
        context, question = (inputs.sentences[number] for number in example.sentences)
        words = [token.lower() for token in question]
        matches.append(torch.tensor([float(token.lower() in words) for token in context]))
    return nn.utils.rnn.pad_sequence(matches, batch_first=True).to(inputs.device)
