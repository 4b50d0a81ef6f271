"""What is right without any vectors: the most frequent label, of all or of the same form."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elmo_cli.analysis.examples import Examples, Ids


@dataclass(frozen=True)
class Accuracy:
    """How many labels are right, in percent.

    Attributes:
        dev, test: of all labels of the part.
        unseen_words: of the tokens of test whose word form is not in train; None where there are
            none, or word forms are not known.
    """

    dev: float
    test: float
    unseen_words: float | None


def percent(is_right: npt.NDArray[np.bool_]) -> float:
    """The share of what is right, in percent."""
    return 100 * float(is_right.mean())


def accuracy(examples: Examples, dev: Ids, test: Ids) -> Accuracy:
    """The accuracy of labels that were told for dev and test, (vector,) each."""
    is_right = {
        "dev": dev == examples.targets["dev"],
        "test": test == examples.targets["test"],
    }
    unseen = examples.is_unseen
    on_unseen = None if unseen is None or not unseen.any() else percent(is_right["test"][unseen])
    return Accuracy(percent(is_right["dev"]), percent(is_right["test"]), on_unseen)


def most_frequent(examples: Examples) -> Accuracy:
    """That of the label which train has most often; the first in order of equally frequent ones."""
    usual = int(np.bincount(examples.targets["train"]).argmax())
    dev, test = (np.full_like(examples.targets[name], usual) for name in ("dev", "test"))
    return accuracy(examples, dev, test)


def most_frequent_of_form(examples: Examples) -> Accuracy | None:
    """That of the label which each form has most often in train, for other forms of all labels.

    None where forms are not known. A form is a token as it stands, in its case.
    """
    words = examples.words
    if words is None:
        return None
    targets = examples.targets["train"]
    by_word: dict[str, Counter[int]] = defaultdict(Counter)
    for word, target in zip(words["train"], targets.tolist(), strict=True):
        by_word[word][target] += 1
    usual = int(np.bincount(targets).argmax())
    best = {word: min(ids, key=lambda k: (-ids[k], k)) for word, ids in by_word.items()}

    def told(forms: Sequence[str]) -> Ids:
        return np.array([best.get(form, usual) for form in forms], np.int64)

    return accuracy(examples, told(words["dev"]), told(words["test"]))
