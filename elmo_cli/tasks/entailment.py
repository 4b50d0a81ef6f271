"""Task `entailment`: whether a premise entails a hypothesis; and ESIM for sentence pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from elmo_cli.fields import at_least, one_of
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.labels import score_labels
from elmo_cli.tasks.layers import BiLSTM, align, masked_max, masked_mean
from elmo_cli.tasks.readers import Split, label_member, member, tokens_of
from elmo_cli.tasks.settings import TaskSettings, probability
from elmo_cli.tasks.task import Example, Json, Scores, Task, TaskModel
from elmo_cli.text.sentence import Tokens

_MANY_EQUAL = 0.5  # of the pairs; in published data, hardly any


@dataclass(frozen=True)
class PairSettings(TaskSettings):
    """Settings of sentence-pair tasks; ELMo is at input and output, as in A.7 of the paper."""

    elmo_where: str = one_of("both", "input", "output")
    elmo_dropout: float = probability(0.2)
    # With 0.5 the model hardly learns SICK without ELMo (docs/explanation/elmo-in-tasks.md).
    dropout: float = probability(0.2)
    epochs: int = at_least(1, 14)


class Esim(TaskModel):
    """ESIM: soft alignment of the tokens of two sentences, composed by a second biLSTM.

    All sentences are one batch, the first ones of the pairs before the second ones.

    Source: Chen et al. 2017, "Enhanced LSTM for Natural Language Inference".
    """

    n_outputs: int | None = None  # of a pair; by default one per label

    def build(self) -> None:
        settings = self.settings
        hidden = settings.hidden
        p = settings.dropout
        n_outputs = self.n_outputs or len(self.labels)
        self.comparison = nn.Linear(4 * self.state_dim, hidden)
        self.composition = BiLSTM(hidden, hidden, settings.layers, p)
        self.output = nn.Sequential(
            nn.Dropout(p),
            nn.Linear(8 * hidden, hidden),
            nn.Tanh(),
            nn.Dropout(p),
            nn.Linear(hidden, n_outputs),
        )

    def loss(self, examples: Sequence[Example], inputs: Inputs) -> Tensor:
        scores = self.scores(examples, inputs)
        targets = torch.tensor([self.labels.index(example.target) for example in examples])
        return nn.functional.cross_entropy(scores, targets.to(scores.device))

    def predict(self, examples: Sequence[Example], inputs: Inputs) -> list[Any]:
        scores = self.scores(examples, inputs)
        return [self.labels[number] for number in scores.argmax(1).tolist()]

    def scores(self, examples: Sequence[Example], inputs: Inputs) -> Tensor:
        """Return the outputs for pairs, (pair, output)."""
        n_pairs = len(examples)
        firsts = [example.sentences[0] for example in examples]
        seconds = [example.sentences[1] for example in examples]
        batch = inputs.batch([*firsts, *seconds])
        mask = batch.mask
        states = self.encode(self.representation(batch), batch)  # (2 * pair, token, dim)
        others = states.roll(n_pairs, 0)  # those of the other sentence of each pair
        others_mask = mask.roll(n_pairs, 0)
        aligned = align(states @ others.transpose(1, 2), others_mask, others)

        features = torch.cat([states, aligned, states - aligned, states * aligned], -1)
        compared = self.dropout(torch.relu(self.comparison(features)))
        composed = self.composition(compared, batch.lengths)  # (2 * pair, token, 2 * hidden)
        pooled = torch.cat([masked_mean(composed, mask), masked_max(composed, mask)], 1)
        pairs = torch.cat([pooled[:n_pairs], pooled[n_pairs:]], 1)  # (pair, 8 * hidden)
        outputs: Tensor = self.output(pairs)
        return outputs


class EntailmentTask(Task):
    """One label per pair of a premise and a hypothesis."""

    name = "entailment"
    settings_class = PairSettings
    model_class = Esim
    presets: ClassVar = {
        "paper": "elmo.projection=0 char_filters=0 hidden=300 dropout=0.5 learning_rate=0.0004 "
        "batch_size=32 epochs=75 patience=5 lr_patience=1"
    }

    def fill(self, split: Split, *, labelled: bool) -> Iterator[None]:
        """Read JSON lines with the fields of SNLI or SICK."""
        for line in split.json_lines():
            with split.row():
                first = member(line, "sentence1", "premise", "sentence_A", kinds=(list, str))
                second = member(line, "sentence2", "hypothesis", "sentence_B", kinds=(list, str))
                target = self.read_target(line, required=labelled)
                allow_blank = target is None or not labelled
                numbers = split.add(tokens_of(first), tokens_of(second), allow_blank=allow_blank)
                example = Example(numbers, split.where, target, key=split.key)
                split.examples.append(example)
            yield

    def read_target(self, line: Json, *, required: bool) -> Any:
        """Return the label of a pair, None if it has none; ValueError if it is not stated."""
        names = ("gold_label", "label", "entailment_judgment", "entailment_label")
        label = label_member(line, *names, required=required)
        return None if label is None else str(label)

    def warnings(self, train: Split) -> Iterator[str]:
        n_equal = 0
        for example in train.examples:
            first, second = example.texts(train.sentences)
            n_equal += first == second
        n_pairs = len(train.examples)
        if n_equal > _MANY_EQUAL * n_pairs:
            problem = f"both sentences are equal in {n_equal:,} of {n_pairs:,} pairs"
            yield f"{train.path}: {problem}; are both fields from one column?"

    def labels_of(self, example: Example) -> Iterable[str]:
        return [example.target]

    def score(self, examples: Sequence[Example], predictions: Sequence[Any]) -> Scores:
        return score_labels([example.target for example in examples], predictions)

    def to_json(self, example: Example, sentences: list[Tokens], prediction: Any) -> Json:
        return {"premise": sentences[0], "hypothesis": sentences[1], "label": prediction}
