"""Task `qa`: the span of a paragraph that answers a question, as in SQuAD 1.1."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from elmo_cli.fields import at_least, one_of
from elmo_cli.model.bilm import Highway
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.layers import MASKED, BiLSTM, masked_softmax
from elmo_cli.tasks.questions import Question, TokenSpan, read_questions
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.settings import MOST_LAYERS, TaskSettings, probability, size
from elmo_cli.tasks.task import Scores, Task, TaskModel

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_MANY_LONG = 0.05  # of the answers; a few may have more tokens than the model predicts


@dataclass(frozen=True)
class QaSettings(TaskSettings):
    """The settings of `qa`; `layers` are those of the modeling biLSTM, after the attention."""

    elmo_where: str = one_of("both", "input", "output")
    hidden: int = size(64)
    dropout: float = probability(0.3)
    batch_size: int = size(16)
    epochs: int = at_least(1, 10)
    highways: int = size(0, least=0, most=MOST_LAYERS)
    match_feature: bool = True
    max_answer: int = size(15, most=1_000)


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
        products = (x * self.of_both) @ y.transpose(1, 2)
        similarity = similarity + products  # (batch, x token, y token)
        similarity = similarity.masked_fill(~question.mask[:, None], MASKED)
        attended = torch.softmax(similarity, 2) @ y
        weights = masked_softmax(similarity.amax(2), context.mask)  # (batch, token)
        summary = weights[:, None] @ x  # (batch, 1, dim)
        return [x, attended, x * attended, x * summary]


def best_spans(start: Tensor, end: Tensor, max_length: int) -> list[TokenSpan]:
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

    def fill(self, split: Split, *, labelled: bool) -> Iterator[None]:
        return read_questions(split, labelled=labelled)

    def collect_labels(self, train: Split) -> None:
        """Return None: answers are spans of the context."""

    def is_labelled(self, example: Question) -> bool:
        """Whether the question has an answer."""
        return bool(example.target)

    def is_learnable(self, example: Question) -> bool:
        """Whether an answer is at its offset."""
        return example.span is not None

    def training_problem(self, example: Question) -> str:
        """Return where an answer is expected, if none is at its offset."""
        if example.span is not None:
            return ""
        answer = example.answers[0]
        shown = f"the answer {answer.text[:40]!r}"
        if answer.start is None:
            return f"{shown} has no answer_start"
        return f"{shown} is not at character {answer.start} of its context"

    def warnings(self, train: Split) -> Iterator[str]:
        lengths = []
        for example in train.examples:
            if example.span is not None:
                first, last = example.span
                lengths.append(last - first + 1)
        most = self.settings.max_answer
        n_longer = sum(length > most for length in lengths)
        if n_longer > _MANY_LONG * len(lengths):
            problem = f"{n_longer:,} of {len(lengths):,} answers have more than {most} tokens"
            yield f"{train.path}: {problem} (`max_answer`), so that the model never predicts them"

    def answers_at_tokens(self, split: Split) -> Iterator[tuple[str, bool]]:
        for example in split.examples:
            for answer in example.answers:
                if answer.span is not None:  # without its position, it cannot be judged
                    yield answer.text, example.text_of(answer.span) == answer.text

    def check_model_labels(self, labels: Any) -> None:
        if labels is not None:
            raise ValueError("a model of this task has no labels")

    def score(self, examples: Sequence[Question], predictions: Sequence[str]) -> Scores:
        f1 = 0.0
        n_exact = 0
        for example, prediction in zip(examples, predictions, strict=True):
            f1 += max(token_f1(prediction, answer) for answer in example.target)
            n_exact += normalize(prediction) in map(normalize, example.target)
        n = max(1, len(examples))
        values = {"f1": 100 * f1 / n, "exact_match": 100 * n_exact / n}
        return Scores("f1", values, note="the best of a question's answers counts, as for SQuAD")

    def format_file(
        self, parts: Iterable[tuple[Split, Sequence[str | None]]], output_format: str
    ) -> Iterator[Iterable[str]]:
        """Yield an object that maps question ids to answers, as the script of SQuAD reads it."""
        is_first = True
        for split, predictions in parts:
            lines = []
            for question, answer in zip(split.examples, predictions, strict=True):
                name = json.dumps(question.id, ensure_ascii=False)
                text = json.dumps(answer or "", ensure_ascii=False)
                separator = "{\n " if is_first else ",\n "
                lines.append(f"{separator}{name}: {text}")
                is_first = False
            yield lines
        yield ["{}\n" if is_first else "\n}\n"]


def _matches(examples: Sequence[Question], inputs: Inputs) -> Tensor:
    """Return 1 where a context token is in the question, ignoring case, (batch, token)."""
    matches = []
    for example in examples:
        context, question = (inputs.sentences[number] for number in example.sentences)
        words = [token.lower() for token in question]
        matches.append(torch.tensor([float(token.lower() in words) for token in context]))
    return nn.utils.rnn.pad_sequence(matches, batch_first=True).to(inputs.device)
