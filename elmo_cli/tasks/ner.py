"""Task `ner`: one label per token, such as named entities in BIO or parts of speech."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

from torch import Tensor, nn

from elmo_cli.errors import InputError
from elmo_cli.fields import one_of
from elmo_cli.label_rules import are_exchanged, find_span_spelling, is_no_label
from elmo_cli.messages import columns_line, plural, shortened
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.label_names import MOST_LABELS, MOST_SPAN_TYPES, check_names
from elmo_cli.tasks.labels import (
    OUTSIDE,
    SCHEMES,
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
from elmo_cli.tasks.readers import Split, label_member, member, tokens_of
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.task import Example, Json, Scores, Task, TaskModel
from elmo_cli.text.column_format import DOCSTART, Column, Columns
from elmo_cli.text.conll import DEFAULT_LABEL_COLUMNS, column_number, label_column
from elmo_cli.text.input import InputSettings, format_of, read_columns
from elmo_cli.text.sentence import OtherLine, Tokens

# Fields of labels in JSON lines, of data sets of Hugging Face and of what `elmo predict` writes.
_JSON_LABELS = ("ner_tags", "labels", "tags", "pos_tags", "chunk_tags", "upos", "xpos")
_CONLLU_LABELS = ("upos", "xpos", "deprel")  # columns with a label for each token
_EXCHANGED_HINT = "choose the columns, such as `token_column=2` and `label_column=1`"
_PLAIN_OUTSIDE = (
    "the most frequent label is O, but none begins with B- or I-: labels are read as plain, and "
    "the score is their accuracy, in which O counts; for the F1 of spans, write B-PER and I-PER"
)
_NUMBERS_HINT = "numbers are read as plain labels, also those of spans; write B-PER instead"


@dataclass(frozen=True)
class NerSettings(TaskSettings):
    """The settings of `ner`."""

    token_column: str | None = None
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

    def fill(self, split: Split, *, labelled: bool) -> Iterator[None]:
        if _format_of(split.path) == "jsonl":
            return self._fill_json(split, labelled)
        return self._fill_columns(split, labelled)

    def _fill_columns(self, split: Split, labelled: bool) -> Iterator[None]:
        path = split.path
        text_format = _format_of(path)
        wanted = self.settings.label_column
        tokens = column_number(path, text_format, self.settings.token_column, "token_column")
        labels = label_column(path, text_format, wanted, "label_column")
        columns = Columns(
            tokens=Column(tokens, "token_column"),
            labels=labels if labelled else None,
            has_format_setting=False,
        )
        settings = InputSettings(format=text_format, on_error=split.on_error)
        conllu_column = wanted if text_format == "conllu" else None
        for sentence in read_columns(path, settings, columns, split.report):
            split.where = sentence.where
            split.key = sentence.key
            with split.row():
                example = Example(
                    sentences=split.add(sentence.tokens),
                    where=sentence.where,
                    target=_labels_of_cells(sentence.labels, conllu_column) if labelled else None,
                    key=sentence.key,
                    other_lines=sentence.other_lines,
                )
                split.examples.append(example)
            yield

    def _fill_json(self, split: Split, labelled: bool) -> Iterator[None]:
        wanted = self.settings.label_column
        names = _JSON_LABELS if wanted is None else (wanted,)
        for line in split.json_lines():
            with split.row():
                tokens = tokens_of(member(line, "tokens", "words", kinds=(list,)))
                values = label_member(line, *names, kinds=(list,), required=labelled)
                example = Example(
                    sentences=split.add(tokens, allow_blank=not values),
                    where=split.where,
                    target=_labels_of_json(values, len(tokens)) if labelled and values else None,
                    key=split.key,
                )
                split.examples.append(example)
            yield

    def no_label_problem(self, split: Split) -> str:
        """Return which column has no label."""
        text_format = _format_of(split.path)
        if text_format == "jsonl":
            return super().no_label_problem(split)
        column = self.settings.label_column or DEFAULT_LABEL_COLUMNS[text_format]
        number = column_number(split.path, text_format, column, "label_column")
        name = "the last column" if number == -1 else f"column {column}"
        return f"no token has a label in {name}"

    def no_label_hint(self, split: Split) -> str:
        """Return the hint, which names a column of CoNLL-U that has labels, if there is one."""
        has_choice = self.labels is None  # those of a trained model are in one column
        is_conllu = _format_of(split.path) == "conllu"
        column = _labelled_column(split.path) if has_choice and is_conllu else ""
        if column:
            return f"`label_column={column}` reads the column {column}, which has labels"
        return self.format_hint

    def labels_of(self, example: Example) -> Iterable[str]:
        """Return the labels; all those of a type of span count as its B label."""
        for label in example.target or ():
            if label is not None:
                is_inside = label != OUTSIDE and is_span_label(label)
                yield f"B{label[1:]}" if is_inside else label

    def scored_labels_of(self, example: Example) -> Iterable[str]:
        """Return the labels, for spans without O."""
        for label in self.labels_of(example):
            if label != OUTSIDE or not self._has_spans:
                yield label

    @property
    def _has_spans(self) -> bool:
        """Whether the labels of the model are those of spans."""
        return self.labels["scheme"] is not None

    def collect_labels(self, train: Split) -> dict[str, Any]:
        """Return `scheme`, None for plain labels, and `names`, those of labels or span types."""
        super().collect_labels(train)
        all_labels = []
        for example in train.examples:
            all_labels += [label for label in example.target if label is not None]
        labels = set(all_labels)
        scheme = find_scheme(labels)
        if scheme is None:
            spelling = find_span_spelling(all_labels)
            if spelling is not None:
                raise InputError(spelling.problem, spelling.hint, where=train.path)
            return {"scheme": None, "names": sorted(labels)}
        _require_span_labels(train.examples)
        types = {label[2:] for label in labels if label != OUTSIDE}
        return {"scheme": scheme, "names": sorted(types)}

    def warnings(self, train: Split) -> Iterator[str]:
        if self._has_spans:
            return
        names = self.labels["names"]
        n_by_label = Counter[str]()
        for example in train.examples:
            n_by_label.update(self.labels_of(example))
        if n_by_label[OUTSIDE] == max(n_by_label.values()):
            yield f"{train.path}: {_PLAIN_OUTSIDE}"
        if all(name.isdecimal() for name in names):
            yield f"{train.path}: all labels are numbers; {_NUMBERS_HINT}"
        if are_exchanged(names, set(chain.from_iterable(train.sentences))):
            problem = f"tokens and labels seem to be exchanged, a label is {shortened(names[0])!r}"
            yield f"{train.path}: {problem}; {_EXCHANGED_HINT}"

    def known_labels(self) -> set[str]:
        names = self.labels["names"]
        if not self._has_spans:
            return set(names)
        return {OUTSIDE, *(f"B-{name}" if name else "B" for name in names)}

    def is_labelled(self, example: Example) -> bool:
        """Whether a token has a label."""
        return example.target is not None and any(label is not None for label in example.target)

    def is_learnable(self, example: Example) -> bool:
        """Whether the labels are known; a CRF needs all of them."""
        has_all = not self._has_spans or _has_all_labels(example)
        return super().is_learnable(example) and has_all

    def n_to_score(self, examples: Sequence[Example]) -> int:
        """Return how many examples have a span, or else a label."""
        if not self._has_spans:
            return super().n_to_score(examples)
        _require_span_labels(examples)
        complete = [example for example in examples if _has_all_labels(example)]
        return sum(set(example.target) != {OUTSIDE} for example in complete)

    def check_model_labels(self, labels: Any) -> None:
        if labels["scheme"] not in (None, *SCHEMES):
            raise ValueError("the scheme of the labels is unknown")
        has_spans = labels["scheme"] is not None
        most = MOST_SPAN_TYPES if has_spans else MOST_LABELS
        check_names(labels["names"], most=most, may_be_empty=has_spans)

    def score(self, examples: Sequence[Example], predictions: Sequence[Labels]) -> Scores:
        """Score tokens that have a label, or spans of sentences of which all tokens have one."""
        pairs = list(zip(examples, predictions, strict=True))
        if not self._has_spans:
            gold: list[str] = []
            predicted: list[str] = []
            for example, labels in pairs:
                for gold_label, label in zip(example.target, labels, strict=True):
                    if gold_label is not None:
                        gold.append(gold_label)
                        predicted.append(label)
            return score_labels(gold, predicted)
        gold_spans = []
        predicted_spans = []
        for example, labels in pairs:
            if _has_all_labels(example):
                gold_spans.append(spans_of(example.target))
                predicted_spans.append(spans_of(labels))
        return score_spans(gold_spans, predicted_spans)

    def to_json(self, example: Example, sentences: list[Tokens], prediction: Labels | None) -> Json:
        return {"tokens": sentences[0], "labels": prediction or ()}

    def to_text(self, example: Example, sentences: list[Tokens], prediction: Labels | None) -> str:
        """Return two columns. For a file of columns, they have all its lines, as `paste` needs."""
        rows = []
        for token, label in zip(sentences[0], prediction or (), strict=True):
            rows.append(columns_line(token, label))
        for line in reversed(example.other_lines):
            rows.insert(line.position, _other_row(line))
        return "".join(rows)


def _format_of(path: str) -> str:
    """Return the format of a data file: "jsonl", "conllu" or "conll"."""
    text_format = format_of(path, InputSettings())
    return text_format if text_format in ("jsonl", "conllu") else "conll"


def _labelled_column(path: str) -> str:
    """Return the name of a column of CoNLL-U in which a token has a label; "" if none has."""
    for name in _CONLLU_LABELS:
        labels = label_column(path, "conllu", name, "label_column")
        columns = Columns(tokens=Column(None, "token_column"), labels=labels)
        for sentence in read_columns(path, InputSettings(format="conllu"), columns):
            if any(label is not None for label in _labels_of_cells(sentence.labels, name)):
                return name
    return ""


def _labels_of_cells(cells: Sequence[str], column: str | None) -> tuple[str | None, ...]:
    """Return the labels of a sentence, None for tokens without one.

    Args:
        column: name or number of their column in CoNLL-U; None for other columns.
    """
    return tuple(None if is_no_label(cell, column=column) else cell for cell in cells)


def _labels_of_json(values: Sequence[Any], n_tokens: int) -> tuple[str | None, ...]:
    """Return labels in JSON, None for tokens without one; ValueError if they are invalid."""
    if len(values) != n_tokens:
        raise ValueError(f"{plural(n_tokens, 'token')}, but {plural(len(values), 'label')}")
    labels: list[str | None] = []
    for value in values:
        if is_no_label(value):
            labels.append(None)
        elif type(value) in (str, int):
            labels.append(str(value))
        else:
            raise ValueError(f"the label {value!r} is neither a string nor a whole number")
    return tuple(labels)


def _has_all_labels(example: Example) -> bool:
    return example.target is not None and None not in example.target


def _other_row(line: OtherLine) -> str:
    """Return the output for a line of columns that is not a token: a line that is none either."""
    text = line.text.rstrip()
    if text.startswith(DOCSTART):
        return columns_line(DOCSTART, OUTSIDE)
    if not text or text.startswith("#"):
        return f"{text}\n"
    return f"# {text}\n"


def _require_span_labels(examples: Sequence[Example]) -> None:
    for example in examples:
        for label in example.target:
            if label is not None and not is_span_label(label):
                problem = f"label {label!r} is neither O nor a label such as B-PER"
                hint = "label all spans in BIO, BIOES or BIOUL"
                raise InputError(problem, hint, where=example.where)
