"""`elmo probe`: train a linear or a structural probe on each layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import FILE, command, flag, together, value
from elmo_cli.cli.table import print_table
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.fields import MOST_SEED
from elmo_cli.label_rules import unknown_labels, unknown_warning

if TYPE_CHECKING:
    from elmo_cli.analysis.probe_data import ProbeData
    from elmo_cli.analysis.probe_layers import LayerResult


@dataclass(frozen=True)
class _ProbeColumn:
    """A column of the table: a field of the result, its heading, and how it is formatted."""

    name: str
    heading: str
    format: str


_COLUMNS = (
    _ProbeColumn("test", "test", ".2f"),
    _ProbeColumn("dev", "dev", ".2f"),
    _ProbeColumn("unseen_words", "test, unseen words", ".2f"),
    _ProbeColumn("weight_decay", "weight decay", ""),
    _ProbeColumn("control", "control", ".2f"),
    _ProbeColumn("selectivity", "selectivity", ".2f"),
    _ProbeColumn("code_length", "code length, bits", ",.0f"),
    _ProbeColumn("compression", "compression", ".2f"),
)


# fmt: off
_files = partial(value, "Input", nargs=2, type=FILE)
_file_options = together(
    _files("--train FILE LABELS", "Embeddings and labels to train on.", required=True),
    _files("--dev FILE LABELS", "Embeddings and labels that select the weight decay, or with "
           "--structural the epoch.  [default: every tenth sentence of --train]"),
    _files("--test FILE LABELS", "Embeddings and labels to report the scores on.", required=True),
    options.label_options,
)
_probe_options = together(
    value("Probe", "--layer N",
          "Layer to probe; 0 is the token layer. May be repeated.  [default: all stored layers]",
          type=click.IntRange(min=0), multiple=True),
    flag("Probe", "--control", "Also train on control labels, one random label per word form, and "
         "report the selectivity: accuracy minus control accuracy."),
    flag("Probe", "--mdl", "Also report the code length of the labels of train, in bits, and the "
         "compression relative to a uniform code (minimum description length)."),
    value("Probe", "--structural KIND", "Train a structural probe of dependency trees instead: "
          "distance (between two words) or depth (of a word in the tree). LABELS are CoNLL-U.",
          type=click.Choice(["distance", "depth"])),
    value("Probe", "--rank N", "Rank of the projection of a structural probe.  [default: the "
          "dimension of the vectors]", type=options.AT_LEAST_1),
    value("Probe", "--seed N", "Random seed.", type=click.IntRange(0, MOST_SEED), default=0),
    value("Output", "--trees FILE", "With --structural, write each sentence of test as a JSON line "
          "with its tree and the prediction, of the layer with the lowest loss on dev.", type=FILE),
    options.overwrite_option,
)
# fmt: on


@dataclass(frozen=True)
class ProbeOptions(options.LabelOptions):
    """The values of all options of `elmo probe`; `train`, `dev` and `test` are FILE and LABELS."""

    train: tuple[str, str]
    dev: tuple[str, str] | None
    test: tuple[str, str]
    layer: tuple[int, ...]
    control: bool
    mdl: bool
    structural: str | None
    rank: int | None
    seed: int
    trees: str | None
    overwrite: bool
    threads: int | None


@command
@_file_options
@_probe_options
@options.threads_option
@options.general_options
def probe(**values: Any) -> None:
    """Train a linear probe on each layer and report its accuracy.

    For each layer, a softmax regression is trained to predict the label of a token (such as its
    part of speech) from its vector alone. The weight decay is selected on dev; "largest" or
    "smallest" after it says that no larger or smaller one was tried. The accuracy is reported for
    test, for dev, and for the tokens of test whose word form is not in train. The baseline needs no
    vectors: it predicts the most frequent label of each word form in train.

    FILE is an embeddings file of any layout. LABELS are CoNLL-U, other columns, or plain text with
    one label per token, separated by whitespace, and one line per sentence, optionally compressed
    as .gz or .xz. If both files contain the tokens, they are compared. A file with one vector per
    sentence (`elmo embed --pool`) requires one label per line; a file with names as keys requires
    columns that contain the tokens. Labels that are not in train count as errors.

    A probe with a high accuracy may have learned the labels itself, word form by word form. Its
    accuracy on random labels (--control) and the length of a code of the labels that includes the
    cost of learning them (--mdl) show how much the vectors contribute.
    docs/guides/probing.md explains both.

    With --structural, a linear projection is trained under which squared distances between words,
    or squared lengths, are those of the dependency trees of CoNLL-U. The table shows the
    percentage of edges (UUAS) or of roots that are found, and rank correlations.
    docs/guides/structural-probe.md explains them.

    \b
    Examples:
      elmo embed train.conllu dev.conllu test.conllu -o vectors/
      elmo probe --train vectors/train.hdf5 train.conllu \\
          --dev vectors/dev.hdf5 dev.conllu --test vectors/test.hdf5 test.conllu
      elmo probe --train a.hdf5 a.conllu --test b.hdf5 b.conllu \\
          --label-column upos --layer 1
      elmo probe --train a.hdf5 a.tags --test b.hdf5 b.tags --control --mdl
      elmo probe --structural distance --train a.hdf5 a.conllu \\
          --test b.hdf5 b.conllu --trees trees.jsonl
      elmo plot tree trees.jsonl -o tree.svg

    The vectors of one layer are kept in memory: tokens of all files x dimensions x 4 bytes. For
    200,000 tokens of 1,024 dimensions this is 0.8 GB, and a layer takes a few minutes; --control
    and --mdl each take as long again, and --mdl takes half as much memory again. Repeating a
    command gives the same result; another number of --threads changes it only by rounding.
    """
    from elmo_cli.analysis.probe_layers import n_epochs, probe_layers
    from elmo_cli.cli.structural_probe import ONLY_STRUCTURAL

    chosen = ProbeOptions(**values)
    files = _files_to_read(chosen)
    if chosen.structural is not None:
        _run_structural(chosen, chosen.structural, files)
        return
    options.refuse_options(ONLY_STRUCTURAL, "without --structural")
    data = _read(chosen, files)
    warnings = [*data.warnings, *_warnings(data)]
    console.warn(*warnings)
    options.use_threads(chosen.threads)
    n = n_epochs(data, control=chosen.control, mdl=chosen.mdl)
    with console.ProgressDisplay(n, "epochs") as progress:
        layers = probe_layers(
            data,
            seed=chosen.seed,
            control=chosen.control,
            mdl=chosen.mdl,
            advance=progress.advance,
        )
        results = dict(layers)
    facts = {**_as_facts(data, results), "seed": chosen.seed, "warnings": warnings}
    console.print_result(facts, partial(_print, data, facts))


def _files_to_read(chosen: ProbeOptions) -> list[str]:
    """Return all files that the options name; a label file that does not exist is refused."""
    from elmo_cli.text.input import InputSettings, check_inputs

    files = []
    label_files = []
    for pair in (chosen.train, chosen.dev, chosen.test):
        if pair is not None:
            embeddings, labels = pair
            files += [embeddings, labels]
            label_files.append(labels)
    check_inputs(label_files, InputSettings(format=chosen.label_format))
    return files


def _run_structural(chosen: ProbeOptions, task: str, files: list[str]) -> None:
    from elmo_cli.cli.structural_probe import StructuralJob, run_structural_probe

    job = StructuralJob(
        task=task,
        train=chosen.train,
        dev=chosen.dev,
        test=chosen.test,
        files=files,
        labels=chosen.label_settings(),
        layers=chosen.layer,
        rank=chosen.rank,
        seed=chosen.seed,
        trees=chosen.trees,
        overwrite=chosen.overwrite,
        threads=chosen.threads,
    )
    run_structural_probe(job)


def _read(chosen: ProbeOptions, files: list[str]) -> ProbeData:
    """Read and check the labels and the embeddings in a child process."""
    from elmo_cli.analysis.probe_data import read_probe_data
    from elmo_cli.isolate import run_isolated

    read = partial(
        read_probe_data,
        train=chosen.train,
        dev=chosen.dev,
        test=chosen.test,
        labels=chosen.label_settings(),
        layers=chosen.layer,
    )
    return run_isolated(read, files, EmbeddingsFileError)


def _warnings(data: ProbeData) -> Iterator[str]:
    known = set(data.labels)
    for split in data.splits.values():
        unknown = unknown_labels(split.labels, known)
        if unknown:
            yield unknown_warning(unknown, split.labels_file)


def _summary(data: ProbeData) -> Iterator[str]:
    counts = ", ".join(f"{name} {len(split.labels):,}" for name, split in data.splits.items())
    column = "" if data.column is None else f" in column {data.column}"
    yield f"{len(data.labels):,} labels{column}; {data.unit}: {counts}"
    if data.model is not None:
        yield f"model {data.model}, state {data.state or 'zero'}"


def _as_facts(data: ProbeData, results: dict[int | str, LayerResult]) -> dict[str, Any]:
    """Return the JSON object, without the seed and the warnings."""
    from elmo_cli.analysis.linear import majority_labels

    overall, per_word = majority_labels(data)
    facts: dict[str, Any] = {
        "model": data.model,
        "state": data.state,
        "unit": data.unit.removesuffix("s"),
        "column": data.column,
        "n_labels": len(data.labels),
    }
    for name in data.splits:
        facts[name] = _split_facts(data, name)
    facts |= {
        "n_unseen_words": None if data.is_unseen is None else int(data.is_unseen.sum()),
        "dev_from_train": not data.has_own_dev,
        "majority_label": asdict(overall),
        "majority_label_per_word": None if per_word is None else asdict(per_word),
        "layers": [_layer_facts(layer, result) for layer, result in results.items()],
    }
    return facts


def _split_facts(data: ProbeData, name: str) -> dict[str, Any]:
    from elmo_cli.analysis.probe_data import UNKNOWN_LABEL

    split = data.splits[name]
    return {
        "files": [split.vectors_file, split.labels_file],
        "sentences": len(split.sentences),
        "labels": len(split.labels),
        "unknown_labels": int((data.targets[name] == UNKNOWN_LABEL).sum()),
    }


def _layer_facts(layer: int | str, result: LayerResult) -> dict[str, Any]:
    facts = {"name": str(layer), **asdict(result.probe)}
    if result.control is not None:
        facts["control"] = asdict(result.control)
        facts["selectivity"] = result.selectivity
    if result.mdl is not None:
        facts["mdl"] = asdict(result.mdl)
    return facts


def _print(data: ProbeData, facts: dict[str, Any]) -> None:
    """Print a summary of the data, and a table of the baseline and of each layer."""
    console.note(*_summary(data))
    rows = [_baseline_row(facts), *(_layer_row(layer) for layer in facts["layers"])]
    columns = [column for column in _COLUMNS if column.name in rows[-1]]
    if facts["n_unseen_words"] is None:
        columns = [column for column in columns if column.name != "unseen_words"]
    cells = []
    for row in rows:
        cells.append([row["name"], *(_cell(row, column) for column in columns)])
    print_table(["%", *(column.heading for column in columns)], cells)


def _baseline_row(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the accuracy without vectors, per word form if these are known."""
    per_word = facts["majority_label_per_word"]
    if per_word is None:
        return {**facts["majority_label"], "name": "majority label"}
    return {**per_word, "name": "majority label per word"}


def _layer_row(layer: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a layer by column."""
    row = dict(layer)
    is_number = layer["name"].isdecimal()
    row["name"] = f"layer {layer['name']}" if is_number else layer["name"]
    row["weight_decay"] = f"{layer['weight_decay']:.0e}"
    if layer["weight_decay_edge"] is not None:  # others might be better
        row["weight_decay"] += f" ({layer['weight_decay_edge']})"
    if "control" in layer:
        row["control"] = layer["control"]["test"]
    if "mdl" in layer:
        row |= layer["mdl"]
    return row


def _cell(row: dict[str, Any], column: _ProbeColumn) -> str:
    figure = row.get(column.name)
    return "" if figure is None else format(figure, column.format)
