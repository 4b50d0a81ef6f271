"""Task `ner`: one label per token, such as named entities in BIO or parts of speech."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

from torch import Tensor, nn

from elmo_cli.errors import InputError, UsageError
from elmo_cli.lm.settings import one_of
from elmo_cli.tasks.crf import CRF, allowed_transitions, viterbi
from elmo_cli.tasks.inputs import Inputs, Tokens
from elmo_cli.tasks.layers import BiLSTM, SequenceDropout, pad_targets, token_loss
from elmo_cli.tasks.representation import TokenRepresentation
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.spans import (
    OUTSIDE,
    find_scheme,
    is_span_label,
    labels_of,
    labels_of_types,
    score_spans,
    spans_of,
)
from elmo_cli.tasks.task import Example, Scores, Split, Task, TaskModel
from elmo_cli.text.conll import label_column
from elmo_cli.text.input import InputSettings, format_of, read_columns

Labels = tuple[str, ...]


@dataclass(frozen=True)
class NerSettings(TaskSettings):
    """The settings of `ner`.

    Attributes:
        label_column: column of the labels: a number from 1, -1 for the last, or in CoNLL-U a name;
            by default "xpos" in CoNLL-U, else the last.
        crf_scheme: label scheme of the CRF, "BIO" or "BIOUL", whatever the scheme in the files.
    """

    label_column: str | None = None
    crf_scheme: str = one_of("BIO", "BIOUL")


class Tagger(TaskModel[Example[Labels], Labels]):
    """A biLSTM with a CRF for labels of spans, or with a softmax for plain labels.

    Args:
        labels: from `NerTask.collect_labels`.
    Source: Peters et al. 2018, A.6; Lample et al. 2016.
    """

    def __init__(
        self, settings: NerSettings, labels: Any, representation: TokenRepresentation
    ) -> None:
        super().__init__(settings, labels, representation)
        self.scheme, self.file_scheme = settings.crf_scheme, labels["scheme"]
        is_plain = self.file_scheme is None
        names = labels["names"]
        self.names = names if is_plain else labels_of_types(names, self.scheme)
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.encoder = BiLSTM(
            representation.dim, settings.hidden, settings.layers, settings.dropout
        )
        self.dropout = SequenceDropout(settings.dropout)
        self.output = nn.Linear(self.encoder.dim + representation.output_dim, len(self.names))
        self.crf = None if is_plain else CRF(allowed_transitions(self.names, self.scheme))

    def _scores(self, examples: Sequence[Example[Labels]], inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the label scores, (batch, token, label), and the token mask."""
        batch = inputs.batch([example.sentences[0] for example in examples])
        states = self.dropout(self.encoder(self.representation(batch), batch.lengths))
        return self.output(self.representation.at_output(states, batch)), batch.mask

    def _targets(self, examples: Sequence[Example[Labels]]) -> Tensor:
        """Return the label indices, (batch, token), padded as in `pad_targets`."""
        rows = []
        for example in examples:
            labels: Sequence[str] = example.target or ()
            if self.crf is not None:
                labels = labels_of(spans_of(labels), len(labels), self.scheme)
            rows.append([self.numbers[label] for label in labels])
        return pad_targets(rows)

    def loss(self, examples: Sequence[Example[Labels]], inputs: Inputs) -> Tensor:
        scores, mask = self._scores(examples, inputs)
        targets = self._targets(examples).to(scores.device)
        if self.crf is None:
            return token_loss(scores, targets)
        return -self.crf.log_likelihood(scores, targets.clamp(min=0), mask).mean()

    def predict(self, examples: Sequence[Example[Labels]], inputs: Inputs) -> list[Labels]:
        scores, mask = self._scores(examples, inputs)
        if self.crf is None:
            found, lengths = scores.argmax(2).tolist(), mask.sum(1).tolist()
            rows = [row[:n] for row, n in zip(found, lengths, strict=True)]
        else:
            rows = viterbi(scores, mask, self.crf.transitions)
        return [self._in_file_scheme([self.names[number] for number in row]) for row in rows]

    def _in_file_scheme(self, labels: list[str]) -> Labels:
        if self.file_scheme in (None, self.scheme):
            return tuple(labels)
        return tuple(labels_of(spans_of(labels), len(labels), self.file_scheme))


class NerTask(Task[Example[Labels], Labels]):
    """One label per token: spans in BIO, BIOES or BIOUL, or plain labels."""

    name = "ner"
    settings: NerSettings
    settings_class = NerSettings
    model_class = Tagger
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {
            "elmo.l2": 0.1,
            "elmo.projection": 0,
            "char_filters": 128,
            "hidden": 200,
            "layers": 2,
            "batch_size": 64,
            "epochs": 75,
            "patience": 25,
            "lr_patience": 0,
            "crf_scheme": "BIOUL",
        }
    }
    formats = ("conll", "jsonl")
    reads_text = True

    def read(self, path: str, *, labelled: bool = True) -> Split[Example[Labels]]:
        reading = InputSettings(format=_format_of(path))
        if not labelled:
            return self.read_text([path], reading)
        number = label_column(path, reading.format, self.settings.label_column, "label_column")
        split = Split[Example[Labels]](path)
        try:  # column 2 is read to refuse a token without a label, whose last column is the token
            for sentence, labels, _ in read_columns(path, reading, (None, number, 2)):
                numbers = split.add(sentence.tokens)
                split.examples.append(Example(numbers, sentence.where, labels.tokens))
        except InputError as error:
            what, hint = (
                text.replace("`column", "`label_column") for text in (error.message, error.hint)
            )
            raise InputError(what, hint) from None
        return split

    def labels_of(self, example: Example[Labels]) -> Iterable[str]:
        """Return the types of spans, or plain labels."""
        for label in example.target or ():
            if label != OUTSIDE:
                yield label.partition("-")[2] if is_span_label(label) else label

    def collect_labels(self, train: Split[Example[Labels]]) -> dict[str, Any]:
        """Return `scheme`, None for plain labels, and `names`, those of labels or span types."""
        found = {label for example in train.examples for label in example.target or ()}
        scheme = find_scheme(found)
        if scheme is None:
            return {"scheme": None, "names": sorted(found)}
        _check_span_labels(train.examples)
        types = {label.partition("-")[2] for label in found - {OUTSIDE}}
        if not types:
            what = f"{train.path}: all labels are O"
            raise InputError(what, "choose another column with `label_column`")
        return {"scheme": scheme, "names": sorted(types)}

    def score(self, examples: Sequence[Example[Labels]], predictions: Sequence[Labels]) -> Scores:
        gold = [example.target or () for example in examples]
        if find_scheme({label for labels in chain(gold, predictions) for label in labels}) is None:
            return _accuracy(gold, predictions)
        _check_span_labels(examples)
        return score_spans(map(spans_of, gold), map(spans_of, predictions))

    def format_example(
        self,
        example: Example[Labels],
        sentences: Sequence[Tokens],
        prediction: Labels,
        output_format: str,
    ) -> dict[str, Any] | str:
        if output_format == "jsonl":
            return {"tokens": sentences[0], "labels": prediction}
        pairs = zip(sentences[0], prediction, strict=True)
        return "".join(f"{token}\t{label}\n" for token, label in pairs)


def _format_of(path: str) -> str:
    """Return "conllu" or "conll", by the suffix of a file."""
    found = format_of(path, InputSettings())
    if found == "jsonl":
        what = f"{path}: labels of tokens are read from columns, not from JSON lines"
        raise UsageError(what, "give CoNLL-U, or one token and its label per line")
    return "conllu" if found == "conllu" else "conll"


def _check_span_labels(examples: Sequence[Example[Labels]]) -> None:
    for example in examples:
        for label in example.target or ():
            if not is_span_label(label):
                what = f"{example.where}: label `{label}` is neither O nor a label such as B-PER"
                raise InputError(what, "label all spans in BIO, BIOES or BIOUL")


def _accuracy(gold: Sequence[Labels], predictions: Sequence[Labels]) -> Scores:
    """Return the accuracy in percent, over all tokens and for each label."""
    n_gold, n_correct = Counter[str](), Counter[str]()
    for ours, theirs in zip(gold, predictions, strict=True):
        n_gold.update(ours)
        n_correct.update(a for a, b in zip(ours, theirs, strict=True) if a == b)
    by_type = {
        label: {"accuracy": 100 * n_correct[label] / n, "gold": n}
        for label, n in sorted(n_gold.items())
    }
    accuracy = 100 * n_correct.total() / max(n_gold.total(), 1)
    return Scores("accuracy", {"accuracy": accuracy}, by_type)


TASK = NerTask
