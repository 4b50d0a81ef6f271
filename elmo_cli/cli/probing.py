"""What `elmo probe` does between its options and the library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from elmo_cli.analysis.baseline import Accuracy, most_frequent, most_frequent_of_form
from elmo_cli.analysis.examples import PARTS, Examples, read_examples
from elmo_cli.analysis.labels import LabelSettings
from elmo_cli.cli import console
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.isolate import run_isolated
from elmo_cli.text.input import InputSettings, check_inputs

if TYPE_CHECKING:
    from elmo_cli.analysis.linear import Probed

_FEW_STEPS = 100
_SHOWN = 5  # labels that train lacks


def probe_command(given: dict[str, Any]) -> None:
    """Run `elmo probe` with the values of its options.

    Raises:
        ElmoError: as `read_examples`.
    """
    console.check_stdout()
    files = [given[name] for name in PARTS if given[name] is not None]
    settings = LabelSettings(given["label_format"], given["encoding"], given["label_column"])
    check_inputs([labels for _, labels in files], InputSettings(format=given["label_format"]))

    def read() -> Examples:
        return read_examples(
            given["train"], given["test"], given["dev"], settings=settings, layers=given["layers"]
        )

    # The files may come from anywhere, and HDF5 may crash on them.
    examples = run_isolated(read, [name for pair in files for name in pair], EmbeddingsFileError)
    warnings = [*examples.warnings, *_unknown(examples)]
    found = _probed(examples, given, warnings)
    if given["as_json"]:
        console.print_json(_as_object(examples, found, given["seed"], warnings))
        return
    for line in _summary(examples):
        console.note(line, quiet=given["quiet"])
    console.table(_header(examples), list(_rows(examples, found)))


def _probed(examples: Examples, given: dict[str, Any], warnings: list[str]) -> dict[str, Probed]:
    """What the probe of each layer has shown, by the names of layers."""
    from elmo_cli.analysis.linear import n_epochs, n_steps, probe_layers
    from elmo_cli.engine.runtime import set_num_threads

    if (n := n_steps(examples)) < _FEW_STEPS:
        n_labels = len(examples.targets["train"])
        warnings.append(
            f"train has {n_labels:,} labels, from which a probe learns in {n} steps alone: it may "
            "tell less than the vectors know"
        )
    for warning in warnings:
        console.note(f"warning: {warning}", quiet=given["quiet"])
    set_num_threads(given["threads"])
    with console.Progress(n_epochs(examples), "epochs", quiet=given["quiet"]) as bar:
        return dict(probe_layers(examples, seed=given["seed"], advance=bar.advance))


def _unknown(examples: Examples) -> Iterator[str]:
    """What is to be said of labels that train lacks."""
    known = set(examples.labels)
    for name, n in examples.unknown.items():
        part = examples.parts[name]
        lacking = sorted(set(part.labels) - known)
        if lacking:
            which = ", ".join(lacking[:_SHOWN]) + (", …" if len(lacking) > _SHOWN else "")
            what = "1 label is" if n == 1 else f"{n:,} labels are"
            yield f"{part.labels_file}: {what} not in train ({which}) and plural as wrong"


def _summary(examples: Examples) -> Iterator[str]:
    """How much there is of what."""
    parts = examples.parts
    what = "sentences" if examples.by_sentence else "tokens"
    column = parts["train"].column
    of = "" if column is None else f" of the column {column}"
    counts = [f"{len(parts[name].labels):,} of {name}" for name in PARTS]
    counts[0] = f"{len(parts['train'].labels):,} {what} of train"
    yield f"{len(examples.labels):,} labels{of}; {', '.join(counts)}"
    if not examples.has_own_dev:
        yield (
            "dev is every tenth sentence of train, held back: the probe learns from the others "
            "alone"
        )
    form = parts["train"].form
    if form.model is not None:
        yield f"model {form.model}, state {form.settings.get('state', 'zero')}"


def _header(examples: Examples) -> list[str]:
    header = ["%", "test", "dev"]
    if examples.is_unseen is not None:
        header.append("test, forms train lacks")
    return [*header, "decay"]


def _rows(examples: Examples, found: dict[str, Probed]) -> Iterator[list[str]]:
    of_form = most_frequent_of_form(examples)
    if of_form is None:
        yield _row("most frequent label", most_frequent(examples), "", examples)
    else:
        yield _row("most frequent label of the form", of_form, "", examples)
    for name, one in found.items():
        label = f"layer {name}" if name.isdecimal() else name
        yield _row(label, one, f"{one.weight_decay:.0e}", examples)


def _row(name: str, shown: Accuracy, decay: str, examples: Examples) -> list[str]:
    row = [name, f"{shown.test:.2f}", f"{shown.dev:.2f}"]
    if examples.is_unseen is not None:
        row.append("" if shown.unseen_words is None else f"{shown.unseen_words:.2f}")
    return [*row, decay]


def _as_object(
    examples: Examples, found: dict[str, Probed], seed: int, warnings: list[str]
) -> dict[str, Any]:
    train = examples.parts["train"]
    of_form = most_frequent_of_form(examples)
    unseen = examples.is_unseen
    unknown = {"train": 0, **examples.unknown}
    return {
        "model": train.form.model,
        "state": train.form.settings.get("state"),
        "unit": "sentence" if examples.by_sentence else "token",
        "column": train.column,
        "n_labels": len(examples.labels),
        **{
            name: {
                "files": [part.vectors_file, part.labels_file],
                "sentences": len(part.keys),
                "labels": len(part.labels),
                "unknown_labels": unknown[name],
            }
            for name, part in examples.parts.items()
        },
        "n_unseen_words": None if unseen is None else int(unseen.sum()),
        "dev_from_train": not examples.has_own_dev,
        "seed": seed,
        "majority_label": asdict(most_frequent(examples)),
        "majority_label_per_word": None if of_form is None else asdict(of_form),
        "layers": [{"name": name, **asdict(one)} for name, one in found.items()],
        "warnings": warnings,
    }
