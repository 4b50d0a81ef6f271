"""Probe each layer, with control labels and a code length if requested."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from elmo_cli.analysis import linear
from elmo_cli.analysis.code_length import CodeLength, code_length, n_code_epochs
from elmo_cli.analysis.control import with_control_labels
from elmo_cli.analysis.linear import Advance, ProbeResult, probe, standardise
from elmo_cli.analysis.probe_data import ProbeData


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
