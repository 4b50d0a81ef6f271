"""Labels of examples with one label each: reading from JSON, and scores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from elmo_cli.errors import InputError
from elmo_cli.tasks.spans import f1_by_type
from elmo_cli.tasks.task import Scores


def label_of_fields(
    found: dict[str, Any], names: Sequence[str], where: str, *, labelled: bool
) -> str | None:
    """Return the label of a JSON object, a string or a whole number; None if it is missing.

    Args:
        names: possible names of its field; the first that exists counts.
        labelled: whether a label is required.
    Raises:
        InputError: the field is missing though required, or is not a label.
    """
    label = next((found[name] for name in names if name in found), None)
    if label is None and not labelled:
        return None
    listed = " or ".join(f'"{one}"' for one in names)
    if label is None:
        raise InputError(f"{where}: no {listed}", "each example needs a label")
    if type(label) not in (str, int) or label == "":
        what = f"{where}: {listed} is {json.dumps(label)[:40]}"
        raise InputError(what, "a label is a string or a whole number")
    return str(label)


def score_labels(gold: Iterable[str | None], predicted: Sequence[str]) -> Scores:
    """Return the accuracy, and precision, recall and F1 of each label."""
    known = [label or "" for label in gold]
    correct = Counter(a for a, b in zip(known, predicted, strict=True) if a == b)
    by_type = f1_by_type(correct, Counter(predicted), Counter(known))
    return Scores("accuracy", {"accuracy": 100 * correct.total() / len(known)}, by_type)
