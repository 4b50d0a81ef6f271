"""Task `srl`: semantic roles, the arguments of given predicates as in PropBank."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from elmo_cli.fields import at_least, one_of, positive
from elmo_cli.label_rules import find_span_spelling, is_no_label
from elmo_cli.messages import plural, shortened
from elmo_cli.tasks import layers
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.label_names import MOST_SPAN_TYPES, check_names
from elmo_cli.tasks.labels import (
    OUTSIDE,
    Labels,
    Span,
    allowed_transitions,
    convert_labels,
    is_span_label,
    labels_of_types,
    score_spans,
    spans_of,
)
from elmo_cli.tasks.readers import ColumnsRow, Split, label_member, member, tokens_of
from elmo_cli.tasks.settings import MOST_LAYERS, TaskSettings, probability, size
from elmo_cli.tasks.task import Example, Scores, Task, TaskModel

_SCHEME = "BIO"
_PREDICATE = "V"
_TOKEN = 3  # columns of CoNLL-2012, from 0
_FRAMESET = 7
_FIRST_ROLES = 11  # one column per predicate, up to the last but one
_ROLES = re.compile(r"((\*|\([^()*\s]+\*( \*)*\)) )+")  # a column of roles, joined by spaces
_CONTINUED = re.compile(r"^[CR]-")
_NOTE = "spans of arguments without V; C-X is a separate span; frames without arguments are scored"


@dataclass(frozen=True)
class Frame(Example):
    """A predicate with its arguments; the target is a BIO label per token, V for the predicate."""

    predicate: int  # its position in the sentence


@dataclass(frozen=True)
class SrlSettings(TaskSettings):
    """The settings of `srl`."""

    encoder: str = one_of("bilstm", "alternating")
    encoder_dropout: float = probability(0.2)
    predicate_dim: int = size(32)
    layers: int = size(2, most=MOST_LAYERS)
    learning_rate: float = positive(0.002)
    epochs: int = at_least(1, 8)


class RoleTagger(TaskModel):
    """An LSTM over tokens and a predicate indicator, a softmax, and Viterbi decoding in BIO.

    The labels are the span types, including V.

    Source: He et al. 2017; Peters et al. 2018, A.3; for the state of the predicate, Marcheggiani
        et al. 2017.
    """

    transitions: Tensor

    def build_encoder(self, dim: int) -> nn.Module:
        settings = self.settings
        self.mark = nn.Embedding(2, settings.predicate_dim)
        encoder = layers.BiLSTM if settings.encoder == "bilstm" else layers.AlternatingLSTM
        return encoder(
            dim + settings.predicate_dim,
            settings.hidden,
            settings.layers,
            settings.encoder_dropout,
        )

    def build(self) -> None:
        settings = self.settings
        dim = self.encoder.dim
        self.names = labels_of_types(self.labels, _SCHEME)
        is_bilstm = settings.encoder == "bilstm"
        self.pair = nn.Linear(2 * dim, dim) if is_bilstm else None
        self.dropout = layers.SequenceDropout(settings.encoder_dropout)
        self.output = nn.Linear(self.state_dim, len(self.names))
        is_forbidden = ~torch.tensor(allowed_transitions(self.names, _SCHEME))
        self.register_buffer("transitions", is_forbidden * layers.MASKED, persistent=False)

    def loss(self, frames: Sequence[Frame], inputs: Inputs) -> Tensor:
        scores, _ = self._scores(frames, inputs)
        targets = layers.pad_targets((frame.target for frame in frames), self.names)
        targets = targets.to(scores.device)
        return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())

    def predict(self, frames: Sequence[Frame], inputs: Inputs) -> list[Labels]:
        scores, mask = self._scores(frames, inputs)
        paths = layers.viterbi(torch.log_softmax(scores, -1), mask, self.transitions)
        return [tuple(self.names[number] for number in path) for path in paths]

    def _scores(self, frames: Sequence[Frame], inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the label scores, (frame, token, label), and the token mask.

        A sentence is read and its layers are mixed once for all of its frames.
        """
        numbers = [frame.sentences[0] for frame in frames]
        row_of_sentence = {number: row for row, number in enumerate(dict.fromkeys(numbers))}
        batch = inputs.batch(list(row_of_sentence))
        device = batch.mask.device
        rows = torch.tensor([row_of_sentence[number] for number in numbers], device=device)
        predicates = torch.tensor([[frame.predicate] for frame in frames], device=device)
        mask = batch.mask[rows]  # (frame, token)
        is_predicate = torch.zeros_like(mask, dtype=torch.int64).scatter(1, predicates, 1)
        vectors = self.representation(batch, rows)  # (frame, token, dim)
        marked = torch.cat([vectors, self.mark(is_predicate)], -1)
        states = self.dropout(self.encoder(marked, batch.lengths[rows]))
        if self.pair is not None:
            at_predicate = states.take_along_dim(predicates[..., None], 1)  # (frame, 1, dim)
            pairs = torch.cat([states, at_predicate.expand_as(states)], -1)
            states = torch.relu(self.pair(pairs))
        scores = self.output(self.representation.at_output(states, batch, rows))
        return scores, mask


class SrlTask(Task):
    """The arguments of given predicates; each example is a frame."""

    name = "srl"
    settings_class = SrlSettings
    model_class = RoleTagger
    presets: ClassVar = {
        "paper": "elmo.projection=0 encoder=alternating encoder_dropout=0.1 predicate_dim=100 "
        "hidden=300 layers=8 optimizer=adadelta learning_rate=1 max_grad_norm=1 batch_size=80 "
        "epochs=500 patience=20 lr_patience=0"
    }

    def fill(self, split: Split, *, labelled: bool) -> Iterator[None]:
        if split.is_jsonl:
            return _read_json(split, labelled)
        return _read_columns(split, labelled)

    def labels_of(self, frame: Frame) -> Iterable[str]:
        """Return the roles of the arguments, without C- and R-."""
        return [_CONTINUED.sub("", span.type) for span in _arguments(frame.target)]

    def collect_labels(self, train: Split) -> list[str]:
        """Return the roles, including V."""
        super().collect_labels(train)
        return sorted({span.type for frame in train.examples for span in spans_of(frame.target)})

    def known_labels(self) -> set[str]:
        return {_CONTINUED.sub("", name) for name in self.labels if name != _PREDICATE}

    def is_learnable(self, example: Frame) -> bool:
        """Whether the roles are known, including C- and R-."""
        if example.target is None:
            return False
        return {span.type for span in spans_of(example.target)} <= set(self.labels)

    def n_to_score(self, examples: Sequence[Frame]) -> int:
        """Return how many frames have arguments."""
        return sum(bool(_arguments(frame.target)) for frame in examples)

    def check_model_labels(self, labels: Any) -> None:
        check_names(labels, most=MOST_SPAN_TYPES)

    def score(self, examples: Sequence[Frame], predictions: Sequence[Labels]) -> Scores:
        gold = [_arguments(frame.target) for frame in examples]
        predicted = [_arguments(labels) for labels in predictions]
        return score_spans(gold, predicted, _NOTE)

    def format_lines(
        self, split: Split, predictions: Sequence[Labels], output_format: str
    ) -> Iterator[str]:
        """Yield one object per sentence, with its frames."""
        frames = defaultdict(list)  # by the key of their sentence
        tokens_by_key = dict(zip(split.keys, split.sentences, strict=True))
        for frame, labels in zip(split.examples, predictions, strict=True):
            if frame.is_blank:
                tokens_by_key[frame.key] = ()
            else:
                fields = {"predicate": frame.predicate, "tags": " ".join(labels)}
                frames[frame.key].append(fields)
        for key, tokens in sorted(tokens_by_key.items()):
            line = {"key": key, "tokens": tokens, "frames": frames[key]}
            yield json.dumps(line, ensure_ascii=False) + "\n"


def _arguments(labels: Labels) -> list[Span]:
    return [span for span in spans_of(labels) if span.type != _PREDICATE]


class _ParsedFrame(NamedTuple):
    """A frame: the position of its predicate, and its labels; None if it has none."""

    predicate: int
    labels: Labels | None


_NO_FRAME = _ParsedFrame(predicate=-1, labels=None)  # of a sentence without tokens


def _read_json(split: Split, labelled: bool) -> Iterator[None]:
    for line in split.json_lines():
        with split.row():
            tokens = tokens_of(member(line, "tokens", kinds=(list, str)))
            values = member(line, "frames", kinds=(list,))
            numbers = split.add(tokens, allow_blank=not values)
            parsed_frames = [_parse_frame(value, len(tokens), labelled) for value in values]
            if not tokens:
                parsed_frames = [_NO_FRAME]
            for parsed in parsed_frames:
                frame = Frame(
                    sentences=numbers,
                    where=split.where,
                    target=parsed.labels,
                    predicate=parsed.predicate,
                    key=split.key,
                )
                split.examples.append(frame)
        yield


def _parse_frame(frame: Any, n_tokens: int, labelled: bool) -> _ParsedFrame:
    """Parse a frame of JSON; ValueError if it is invalid."""
    if not isinstance(frame, dict):
        raise ValueError(f"the frame {shortened(repr(frame))} is not an object")
    predicate = member(frame, "predicate", kinds=(int,))
    if not 0 <= predicate < n_tokens:
        raise ValueError(f"the predicate is token {predicate}, of {plural(n_tokens, 'token')}")
    tags = label_member(frame, "tags", kinds=(list, str), required=labelled)
    tags = tags.split() if isinstance(tags, str) else tags
    if tags is None or any(map(is_no_label, tags)):
        return _ParsedFrame(predicate, None)
    _check_tags(tags, n_tokens)
    labels = convert_labels(tags, _SCHEME)
    if "B-V" in labels and labels[predicate] not in ("B-V", "I-V"):
        position = labels.index("B-V")
        raise ValueError(f"the predicate is token {predicate}, but B-V is at token {position}")
    return _ParsedFrame(predicate, labels)


def _check_tags(tags: Sequence[Any], n_tokens: int) -> None:
    """Raise a ValueError unless there is a label of a span or O for each token."""
    invalid = [tag for tag in tags if not isinstance(tag, str) or not is_span_label(tag)]
    strings = [tag for tag in tags if isinstance(tag, str)]
    spelling = find_span_spelling(strings) if invalid else None
    if spelling is not None:
        raise ValueError(f"{spelling.problem}; {spelling.hint}")
    if invalid:
        raise ValueError(f"the tag {invalid[0]!r} is neither O nor a label such as B-ARG0")
    if len(tags) != n_tokens:
        raise ValueError(f"{plural(n_tokens, 'token')}, but {plural(len(tags), 'tag')}")


def _read_columns(split: Split, labelled: bool) -> Iterator[None]:
    """Read CoNLL-2012 columns, in which each predicate has a column of roles, including its V."""
    for document in split.documents():
        for rows in document.sentences:
            with split.row():
                _read_rows(split, rows, labelled)
            yield
            split.key += 1


def _read_rows(split: Split, rows: Sequence[ColumnsRow], labelled: bool) -> None:
    """Add a sentence and its frames."""
    first_row = rows[0]
    split.where = first_row.where
    n_columns = len(first_row.cells)
    if n_columns <= _FRAMESET or any(len(row.cells) != n_columns for row in rows):
        raise ValueError("the rows of the sentence do not have the columns of CoNLL-2012")
    columns = [[row.cells[k] for row in rows] for k in range(n_columns)]
    numbers = split.add(columns[_TOKEN])
    if any("(V*" in cell for cell in columns[-1]):
        raise ValueError("the last column has roles; add a column with coreference or -")
    roles: dict[int, Labels | None] = {}  # of each predicate
    for k in range(_FIRST_ROLES, n_columns - 1):
        labels = _parse_roles(columns[k])
        if labels is None or labels.index("B-V") in roles:
            raise ValueError(f"column {k + 1} does not contain the roles of a predicate")
        roles[labels.index("B-V")] = labels
    if not roles and not labelled:
        predicates = [i for i, frameset in enumerate(columns[_FRAMESET]) if frameset != "-"]
        roles = dict.fromkeys(predicates)
    for predicate, target in roles.items():
        frame = Frame(
            sentences=numbers,
            where=rows[predicate].where,
            target=target,
            predicate=predicate,
            key=split.key,
        )
        split.examples.append(frame)


def _parse_roles(column: Sequence[str]) -> Labels | None:
    """Return the labels of a column of brackets, `(ARG0*`, `*`, `*)`, `(V*)`; None if invalid."""
    is_valid = _ROLES.fullmatch(" ".join(column) + " ") is not None
    labels: list[str] = []
    role = ""  # of the argument that is open
    for cell in column:
        role = cell.strip("(*)") or role
        if not role:
            labels.append(OUTSIDE)
        elif cell.startswith("("):
            labels.append(f"B-{role}")
        else:
            labels.append(f"I-{role}")
        if cell.endswith(")"):
            role = ""
    return tuple(labels) if is_valid and "B-V" in labels else None
