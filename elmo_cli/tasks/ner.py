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
        self.file_scheme, names = self.labels["scheme"], self.labels["names"]
        self.scheme = self.settings.crf_scheme if self.file_scheme else None
        self.names = labels_of_types(names, self.scheme) if self.scheme else names
        self.output = nn.Linear(self.state_dim, len(self.names))
        self.crf = CRF(allowed_transitions(self.names, self.scheme)) if self.scheme else None

    def _scores(self, examples: Sequence[Example], inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the label scores, (batch, token, label), and the token mask."""
        batch = inputs.batch([example.sentences[0] for example in examples])
        return self.output(self.encode(self.representation(batch), batch)), batch.mask

    def loss(self, examples: Sequence[Example], inputs: Inputs) -> Tensor:
        scores, mask = self._scores(examples, inputs)
        labels = (convert_labels(example.target, self.scheme) for example in examples)
        targets = pad_targets(labels, self.names).to(scores.device)
        if self.crf is None:
            return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())
        return -self.crf.log_likelihood(scores, targets.clamp(min=0), mask).mean()

    def predict(self, examples: Sequence[Example], inputs: Inputs) -> list[Labels]:
        scores, mask = self._scores(examples, inputs)
        if self.crf is None:
            lengths = mask.sum(1).tolist()
            rows = [row[:n] for row, n in zip(scores.argmax(2).tolist(), lengths, strict=True)]
        else:
            rows = viterbi(scores, mask, self.crf.transitions)
        labels = ([self.names[number] for number in row] for row in rows)
        return [convert_labels(row, self.file_scheme) for row in labels]


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
        path, text_format = split.path, format_of(split.path, InputSettings())
        if text_format == "jsonl":
            raise ValueError("expected columns, found JSON lines")
        reading = InputSettings(format="conllu" if text_format == "conllu" else "conll")
        columns: list[int | None] = [None]
        if labelled:  # column 2 is read to refuse a token without a label as the last column
            wanted = self.settings.label_column
            columns += [label_column(path, reading.format, wanted, "label_column"), 2]
        rows = read_columns(path, reading, columns, parameter="label_column")
        for sentence, *others in rows:
            target = others[0].tokens if others else None
            split.examples.append(Example(split.add(sentence.tokens), sentence.where, target))

    def labels_of(self, example: Example) -> Iterable[str]:
        """Return the labels; those of the same type of span are one."""
        for label in example.target:
            is_inside = label != OUTSIDE and is_span_label(label)
            yield f"B{label[1:]}" if is_inside else label

    def collect_labels(self, train: Split) -> dict[str, Any]:
        """Return `scheme`, None for plain labels, and `names`, those of labels or span types."""
        super().collect_labels(train)
        found = {label for example in train.examples for label in example.target}
        scheme = find_scheme(found)
        if scheme is None:
            return {"scheme": None, "names": sorted(found)}
        _require_span_labels(train.examples)
        return {"scheme": scheme, "names": sorted({label[2:] for label in found - {OUTSIDE}})}

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
                what = f"{example.where}: label `{label}` is neither O nor a label such as B-PER"
                raise InputError(what, "label all spans in BIO, BIOES or BIOUL")
