"""Task `similarity`: how related two sentences are, as a number, with the model of `entailment`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from elmo_cli.errors import InputError
from elmo_cli.tasks.entailment import EntailmentTask, Esim
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.readers import Split, label_member
from elmo_cli.tasks.task import Example, Json, Scores
from elmo_cli.text.sentence import Tokens

_LARGEST = 1e30  # JSON has numbers that floats do not have


class SimilarityModel(Esim):
    """ESIM with one output: the score in standard deviations from the mean."""

    n_outputs = 1

    def loss(self, examples: Sequence[Example], inputs: Inputs) -> Tensor:
        """Return the mean squared error of standardized scores."""
        outputs = self.scores(examples, inputs)[:, 0]
        scores = torch.tensor([example.target for example in examples], device=outputs.device)
        expected = (scores - self.labels["mean"]) / self.labels["deviation"]
        return nn.functional.mse_loss(outputs, expected)

    def predict(self, examples: Sequence[Example], inputs: Inputs) -> list[float]:
        outputs = self.scores(examples, inputs)[:, 0]
        mean = self.labels["mean"]
        deviation = self.labels["deviation"]
        return [mean + deviation * output for output in outputs.tolist()]


class SimilarityTask(EntailmentTask):
    """One number per pair of sentences."""

    name = "similarity"
    model_class = SimilarityModel

    def read_target(self, line: Json, *, required: bool) -> Any:
        """Return the number "relatedness", "relatedness_score", "score" or "label" of a pair."""
        names = ("relatedness", "relatedness_score", "score", "label")
        score = label_member(line, *names, kinds=(int, float), required=required)
        if score is not None and not abs(score) < _LARGEST:
            raise ValueError(f"the score is not a number below {_LARGEST:g}")
        return score

    def labels_of(self, example: Example) -> Iterable[str]:
        return []

    def collect_labels(self, train: Split) -> dict[str, float]:
        """Return the mean and the standard deviation of the scores."""
        scores = torch.tensor([example.target for example in train.examples], dtype=torch.float64)
        if len(set(scores.tolist())) < 2:
            problem = f"all scores are {scores[0].item():g}"
            raise InputError(problem, "train on pairs with different scores", where=train.path)
        return {"mean": scores.mean().item(), "deviation": scores.std(correction=0).item()}

    def n_to_score(self, examples: Sequence[Example]) -> int:
        """Return the number of examples; 0 if all scores are equal: nothing correlates then."""
        has_different_scores = len({example.target for example in examples}) > 1
        return len(examples) if has_different_scores else 0

    def check_model_labels(self, labels: Any) -> None:
        for name in ("mean", "deviation"):
            if not isinstance(labels[name], float) or not abs(labels[name]) < _LARGEST:
                raise ValueError(f"the {name} of the scores is not a number")

    def score(self, examples: Sequence[Example], predictions: Sequence[float]) -> Scores:
        """Return Pearson's r in percent, 0 if all scores are equal, and the mean squared error."""
        gold = torch.tensor([example.target for example in examples], dtype=torch.float64)
        predicted = torch.tensor(predictions, dtype=torch.float64)
        from_means = (gold - gold.mean(), predicted - predicted.mean())
        r = nn.functional.cosine_similarity(*from_means, 0).item()
        mse = (gold - predicted).square().mean().item()
        values = {"pearson": 100 * r, "mse": mse}
        return Scores("pearson", values, note="pearson is 100 r")

    def to_json(self, example: Example, sentences: list[Tokens], prediction: float | None) -> Json:
        first, second = sentences
        score = None if prediction is None else round(prediction, 4)
        return {"premise": first, "hypothesis": second, "relatedness": score}
