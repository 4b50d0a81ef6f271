"""Task `ner`: one label per token, such as named entities in BIO or parts of speech."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

from torch import Tensor, nn

from elmo_cli.errors import InputError
from elmo_cli.fields import one_of
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.labels import (
    OUTSIDE,
    Labels,
    allowed_transitions,
    convert_labels,
    find_scheme,
    is_span_label,
    labels_of_types,
    score_labels,
    score_spans,
    spans_of,
)
from elmo_cli.tasks.layers import CRF, pad_targets, viterbi
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.task import Example, Json, Scores, Task, TaskModel
from elmo_cli.text.conll import label_column
from elmo_cli.text.input import InputSettings, format_of, read_columns
from elmo_cli.text.sentence import Tokens


@dataclass(frozen=True)
class NerSettings(TaskSettings):
    """The settings of `ner`."""

    label_column: str | None = None
    crf_scheme: str = one_of("BIO", "BIOUL")


class Tagger(TaskModel):
    """A biLSTM with a CRF for labels of spans, or with a softmax for plain labels.

    Source: Peters et al. 2018, A.6; Lample et al. 2016.
    """

    def build(self) -> None:
        names = self.labels["names"]
        self.file_scheme: str | None = self.labels["scheme"]
        has_spans = self.file_scheme is not None
        scheme: str | None = self.settings.crf_scheme if has_spans else None
        self.scheme = scheme
        self.names = names if scheme is None else labels_of_types(names, scheme)
        self.output = nn.Linear(self.state_dim, len(self.names))
        self.crf = None if scheme is None else CRF(allowed_transitions(self.names, scheme))

    def loss(self, examples: Sequence[Example], inputs: Inputs) -> Tensor:
        scores, mask = self._scores(examples, inputs)
        labels = [convert_labels(example.target, self.scheme) for example in examples]
        targets = pad_targets(labels, self.names).to(scores.device)  # (batch, token)
        if self.crf is None:
            return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())
        return -self.crf.log_likelihood(scores, targets.clamp(min=0), mask).mean()

    def predict(self, examples: Sequence[Example], inputs: Inputs) -> list[Labels]:
        scores, mask = self._scores(examples, inputs)
        if self.crf is None:
            rows = scores.argmax(2).tolist()
            lengths = mask.sum(1).tolist()
            paths = [row[:length] for row, length in zip(rows, lengths, strict=True)]
        else:
            paths = viterbi(scores, mask, self.crf.transitions)
        predictions = []
        for path in paths:
            labels = [self.names[number] for number in path]
            predictions.append(convert_labels(labels, self.file_scheme))
        return predictions

    def _scores(self, examples: Sequence[Example], inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the label scores, (batch, token, label), and the token mask."""
        batch = inputs.batch([example.sentences[0] for example in examples])
        states = self.encode(self.representation(batch), batch)
        return self.output(states), batch.mask


class NerTask(Task):
    """One label per token: spans in BIO, BIOES or BIOUL, or plain labels."""

    name = "ner"
    settings_class = NerSettings
    model_class = Tagger
    presets: ClassVar = {
        "paper": "elmo.l2=0.1 elmo.projection=0 char_filters=128 hidden=200 layers=2 batch_size=64 "
        "epochs=75 patience=25 lr_patience=0 crf_scheme=BIOUL"
    }
    formats = ("conll", "jsonl")
    reads_text = True

    def fill(self, split: Split, *, labelled: bool) -> None:
        path = split.path
        text_format = format_of(path, InputSettings())
        if text_format == "jsonl":
            raise ValueError("expected columns, found JSON lines")
        if text_format != "conllu":
            text_format = "conll"
        columns: list[int | None] = [None]  # that of the tokens
        if labelled:
            wanted = self.settings.label_column
            columns.append(label_column(path, text_format, wanted, "label_column"))
            columns.append(
                2
            )  # so that a token that is the last column, without a label, is refused
        settings = InputSettings(format=text_format)
        for sentences in read_columns(path, settings, columns, parameter="label_column"):
            sentence = sentences[0]
            target = sentences[1].tokens if labelled else None
            split.examples.append(Example(split.add(sentence.tokens), sentence.where, target))

    def labels_of(self, example: Example) -> Iterable[str]:
        """Return the labels; those of the same type of span are one."""
        for label in example.target:
            is_inside = label != OUTSIDE and is_span_label(label)
            yield f"B{label[1:]}" if is_inside else label

    def collect_labels(self, train: Split) -> dict[str, Any]:
        """Return `scheme`, None for plain labels, and `names`, those of labels or span types."""
        super().collect_labels(train)
        labels = {label for example in train.examples for label in example.target}
        scheme = find_scheme(labels)
        if scheme is None:
            return {"scheme": None, "names": sorted(labels)}
        _require_span_labels(train.examples)
        types = {label[2:] for label in labels if label != OUTSIDE}
        return {"scheme": scheme, "names": sorted(types)}

    def score(self, examples: Sequence[Example], predictions: Sequence[Labels]) -> Scores:
        gold = [example.target for example in examples]
        if self.labels["scheme"] is None:
            return score_labels(chain.from_iterable(gold), chain.from_iterable(predictions))
        _require_span_labels(examples)
        return score_spans(map(spans_of, gold), map(spans_of, predictions))

    def to_json(self, example: Example, sentences: list[Tokens], prediction: Labels) -> Json:
        return {"tokens": sentences[0], "labels": prediction}

    def to_text(self, example: Example, sentences: list[Tokens], prediction: Labels) -> str:
        pairs = zip(sentences[0], prediction, strict=True)
        return "".join(f"{token}\t{label}\n" for token, label in pairs)


def _require_span_labels(examples: Sequence[Example]) -> None:
    for example in examples:
        for label in example.target:
            if not is_span_label(label):
                problem = f"label `{label}` is neither O nor a label such as B-PER"
                hint = "label all spans in BIO, BIOES or BIOUL"
                raise InputError(problem, hint, where=example.where)
