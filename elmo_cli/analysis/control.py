"""Control labels: a random label for each word form, which vectors encode only as an identity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from elmo_cli.analysis.labelled_vectors import JoinedSentence
from elmo_cli.analysis.probe_data import ProbeData
from elmo_cli.errors import UsageError


def with_control_labels(data: ProbeData, *, seed: int = 0) -> ProbeData:
    """Return the same vectors with a random label for each word form instead of their labels.

    The label of a word form is that of a token of train, drawn at random, so that control labels
    are distributed like the labels of train. A word form has one label in all splits, even if it is
    missing from train. The control labels of train do not depend on the other splits. Case matters.

    Raises:
        UsageError: sentences are labelled, or some tokens are unknown.

    Source: Hewitt and Liang 2019, section 2.
    """
    if data.words is None:
        unknown = "the tokens are unknown" if data.unit == "tokens" else "sentences have none"
        raise UsageError(
            f"`control=True`: control labels belong to word forms, and {unknown}",
            "embed the text in a layout that stores tokens, one vector per token",
        )
    labels = data.splits["train"].labels
    forms = list(dict.fromkeys(word for words in data.words.values() for word in words))
    drawn = np.random.default_rng(seed).integers(len(labels), size=len(forms))
    of_form = {form: labels[k] for form, k in zip(forms, drawn.tolist(), strict=True)}

    def relabel(one: JoinedSentence) -> JoinedSentence:
        return one._replace(labels=tuple(of_form[word] for word in one.words or ()))

    splits = {
        name: replace(split, sentences=tuple(map(relabel, split.sentences)))
        for name, split in data.splits.items()
    }
    return replace(data, splits=splits)
