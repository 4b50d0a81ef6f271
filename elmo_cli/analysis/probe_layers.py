"""Probe each layer, with control labels and a code length if requested."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from elmo_cli.analysis import linear
from elmo_cli.analysis.code_length import CodeLength, code_length, n_code_epochs
from elmo_cli.analysis.labelled_vectors import JoinedSentence
from elmo_cli.analysis.linear import Advance, ProbeResult, probe, standardise
from elmo_cli.analysis.probe_data import ProbeData
from elmo_cli.errors import UsageError


@dataclass(frozen=True)
class LayerResult:
    """The results of one layer.

    Attributes:
        probe: the accuracy of the probe.
        control: that of a probe trained and tested on control labels; None if not asked for.
        mdl: the code length; None if not asked for.
    """

    probe: ProbeResult
    control: ProbeResult | None = None
    mdl: CodeLength | None = None

    @property
    def selectivity(self) -> float | None:
        """The accuracy on test minus the control accuracy, in percentage points."""
        return None if self.control is None else self.probe.test - self.control.test


def n_epochs(data: ProbeData, *, control: bool = False, mdl: bool = False) -> float:
    """Return the amount of training of `probe_layers`, in epochs over all of train."""
    n_probes = len(linear.WEIGHT_DECAYS) * (1 + control)
    return len(data.layers) * (n_probes * linear.EPOCHS + (n_code_epochs(data) if mdl else 0))


def probe_layers(
    data: ProbeData,
    *,
    seed: int = 0,
    control: bool = False,
    mdl: bool = False,
    advance: Advance = lambda n: None,
) -> Iterator[tuple[int | str, LayerResult]]:
    """Yield each layer with its results, holding one layer in memory at a time.

    Args:
        seed: random seed of the training, the control labels and the order of coding.
        control: also train a probe on control labels.
        mdl: also measure the code length of the labels of train.
        advance: called with the completed epochs over all of train.
    Raises:
        EmbeddingsFileError: a file cannot be read.
        UsageError: `control` where the tokens are unknown.
    """
    control_data = with_control_labels(data, seed=seed) if control else None
    for layer in data.layers:
        vectors = data.vectors(layer)
        standardise(vectors)
        found = LayerResult(probe(vectors, data, seed=seed, advance=advance))
        if control_data is not None:
            of_control = probe(vectors, control_data, seed=seed, advance=advance)
            found = replace(found, control=of_control)
        if mdl:
            found = replace(found, mdl=code_length(vectors, data, seed=seed, advance=advance))
        yield layer, found


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
