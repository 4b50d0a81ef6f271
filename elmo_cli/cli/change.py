"""`elmo change`: measure how much words changed between two corpora."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import (
    FILE,
    INPUT_FILE,
    argument,
    command,
    output_option,
    together,
    value,
)
from elmo_cli.cli.table import print_table
from elmo_cli.errors import EmbeddingsFileError, InputError
from elmo_cli.fields import MOST_SEED
from elmo_cli.messages import plural, quoted_line, shorten_list, shortened

if TYPE_CHECKING:
    from elmo_cli.analysis.change import Change, Difference
    from elmo_cli.analysis.usage_archive import UsageArchive
    from elmo_cli.analysis.usage_settings import UsageSettings

_MOST_PERMUTATIONS = 1_000_000
_BOTH = "both"
_MEASURES = ("prt", "apd")  # those of `analysis.change`, which imports NumPy

# fmt: off
_change_options = together(
    value("Measure", "--words FILE", "Words to compare, one per line.  [default: those in both "
          "files]", type=INPUT_FILE),
    value("Measure", "--measure NAME", "Measure of the difference: prt, apd, or both.",
          type=click.Choice([*_MEASURES, _BOTH]), default=_BOTH),
    value("Measure", "--permutations N", "Number of random divisions of all usages of a word, for "
          "its p-values.", type=click.IntRange(0, _MOST_PERMUTATIONS), default=0),
    value("Measure", "--seed N", "Random seed of --permutations.",
          type=click.IntRange(0, MOST_SEED), default=0),
    output_option("FILE", "Write the table to this file; - for standard output.", type=FILE),
)
# fmt: on


@dataclass(frozen=True)
class ChangeOptions:
    """The values of all options of `elmo change`."""

    first: str
    second: str
    words: str | None
    measure: str
    permutations: int
    seed: int
    output: str | None
    overwrite: bool
    encoding: str

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures, in the order of their columns."""
        return _MEASURES if self.measure == _BOTH else (self.measure,)


@command
@argument("first", metavar="FILE1", type=FILE)
@argument("second", metavar="FILE2", type=FILE)
@_change_options
@options.overwrite_option
@options.encoding_option
@options.general_options
def change(**values: Any) -> None:
    """Measure how much the use of words differs between two corpora.

    FILE1 and FILE2 are files of `elmo usages`, or other .npz files with an array of vectors for
    each word, one row per usage. prt is the cosine distance (1 - cosine) of the mean vectors of
    both corpora; apd is the mean cosine distance between a usage of one and a usage of the other.
    A word with fewer than three usages in a corpus has no value.

    --permutations adds p-values: the usages of both corpora are divided at random into two sides
    of the same sizes, N times. p is the fraction of divisions whose value is at least as high as
    that of the real division, which counts as one of them. docs/guides/change.md explains what the
    measures do not show.

    \b
    Examples:
      elmo change c1.npz c2.npz
      elmo change c1.npz c2.npz --words targets.txt --permutations 1000 \\
          -o change.tsv
      elmo change c1.npz c2.npz --measure apd --json
    """
    from elmo_cli.analysis.usage_archive import UsageArchive

    chosen = ChangeOptions(**values)
    _check_options(chosen)
    listed = _read_words(chosen)
    with UsageArchive(chosen.first) as first, UsageArchive(chosen.second) as second:
        _check_comparable(first, second)
        targets = _targets(chosen, listed, first, second)
        changes = _measure(chosen, targets, first, second)
        notes = list(_notes(changes, listed, first, second))
    console.print_result(_facts(chosen, changes, notes), partial(_print, chosen, changes))
    console.note(*notes)
    if chosen.output is not None:  # last: the disk may be full
        table = _table(chosen, changes)
        console.write_lines(chosen.output, table, overwrite=chosen.overwrite)
    if chosen.output not in (None, "-"):
        console.note(f"{chosen.output}: {plural(len(changes), 'word')}")


def _check_options(chosen: ChangeOptions) -> None:
    """Refuse options that contradict each other, and an output that can't be written."""
    if not chosen.permutations:
        options.refuse_options(["seed"], "without --permutations")
    if chosen.words is None:
        options.refuse_options(["encoding"], "without --words")
    if chosen.output is None:
        options.refuse_options(["overwrite"], "without --output")
        return
    if chosen.output == "-":
        options.refuse_options(["as_json"], "for standard output")
    inputs = [name for name in (chosen.first, chosen.second, chosen.words) if name is not None]
    console.check_output(chosen.output, inputs, overwrite=chosen.overwrite)


def _read_words(chosen: ChangeOptions) -> list[str] | None:
    """Read the words of `--words`; None without it."""
    from elmo_cli.text.input import InputReport
    from elmo_cli.text.target_words import read_targets

    if chosen.words is None:
        return None
    report = InputReport()
    words = read_targets(chosen.words, report, encoding=chosen.encoding)
    console.warn(*report.warnings)
    return words


def _check_comparable(first: UsageArchive, second: UsageArchive) -> None:
    """Raise an EmbeddingsFileError if both files have other vectors, as far as they record it."""
    hint = "take both files from the same model and the same layer"
    if first.counts and second.counts and first.dim != second.dim:
        problem = f"has vectors of {second.dim:,} values, those of {first.path} have {first.dim:,}"
        raise EmbeddingsFileError(problem, hint, where=second.path)
    if first.settings is None or second.settings is None:
        return
    name = second.settings.first_difference(first.settings)
    if name is not None:
        ours = _shown(second.settings, name)
        theirs = _shown(first.settings, name)
        problem = f"{name} is {ours}, that of {first.path} is {theirs}"
        raise EmbeddingsFileError(problem, hint, where=second.path)


def _shown(settings: UsageSettings, name: str) -> str:
    """The value of a setting in a message, of a checksum its beginning."""
    value = getattr(settings, name)
    return repr(value[:12] if name == "model_sha256" else shortened(value))


def _targets(
    chosen: ChangeOptions, listed: list[str] | None, first: UsageArchive, second: UsageArchive
) -> list[str]:
    """Return the words to compare: those of `--words`, or those that both files have."""
    if listed is None:
        common = [target for target in first.counts if target in second.counts]
        if not common:
            hint = "take both files from the same list of words"
            problem = f"has no word that {first.path} has"
            raise EmbeddingsFileError(problem, hint, where=second.path)
        return common
    for target in listed:
        if target not in first.counts and target not in second.counts:
            problem = f"{target!r} is neither in {first.path} nor in {second.path}"
            hint = "take out the word, or look for its usages in both corpora again"
            raise InputError(problem, hint, where=str(chosen.words))
    return listed


def _measure(
    chosen: ChangeOptions, targets: Sequence[str], first: UsageArchive, second: UsageArchive
) -> dict[str, Change]:
    """Measure the change of each word."""
    from elmo_cli.analysis.change import measure_change

    changes = {}
    with console.ProgressDisplay(len(targets), "words") as progress:
        for target in targets:
            changes[target] = measure_change(
                first.read(target),
                second.read(target),
                measures=chosen.measures,
                n_permutations=chosen.permutations,
                seed=chosen.seed,
            )
            progress.advance(1)
    return changes


def _notes(
    changes: dict[str, Change],
    listed: list[str] | None,
    first: UsageArchive,
    second: UsageArchive,
) -> Iterator[str]:
    """Yield messages about files that are the same, words that one lacks, and missing values."""
    from elmo_cli.analysis.change import MIN_USAGES

    if os.path.samefile(first.path, second.path):
        yield f"{second.path}: compared with itself"
    for archive, other in ((first, second), (second, first)):
        words = archive.counts if listed is None else listed
        missing = [word for word in words if word in archive.counts and word not in other.counts]
        if missing:
            yield f"{other.path}: lacks {shorten_list(missing)}"
    few = []
    for word, change_of_word in changes.items():
        if min(change_of_word.n_first, change_of_word.n_second) < MIN_USAGES:
            few.append(word)
    if few:
        n_words = plural(len(few), "word")
        yield f"no value for {n_words} with fewer than {MIN_USAGES} usages: {shorten_list(few)}"


def _columns(chosen: ChangeOptions) -> list[str]:
    columns = ["target", "usages_1", "usages_2"]
    for measure in chosen.measures:
        columns.append(measure)
        if chosen.permutations:
            columns.append(f"{measure}_p")
    return columns


def _difference(found: Change, measure: str) -> Difference | None:
    return found.prt if measure == "prt" else found.apd


def _row(chosen: ChangeOptions, target: str, found: Change) -> list[str]:
    """Return the cells of a word; those of values that it lacks are empty."""
    cells = [target, str(found.n_first), str(found.n_second)]
    for measure in chosen.measures:
        difference = _difference(found, measure)
        cells.append("" if difference is None else f"{difference.value:.6f}")
        if chosen.permutations:
            cells.append("" if difference is None else f"{difference.p:.3g}")
    return cells


def _table(chosen: ChangeOptions, changes: dict[str, Change]) -> Iterator[str]:
    """Yield the lines of the table of words."""
    yield quoted_line(*_columns(chosen))
    for target, found in changes.items():
        yield quoted_line(*_row(chosen, target, found))


def _print(chosen: ChangeOptions, changes: dict[str, Change]) -> None:
    """Print the table, unless it is written elsewhere."""
    if chosen.output is None:
        rows = [_row(chosen, target, found) for target, found in changes.items()]
        print_table(_columns(chosen), rows)


def _facts(
    chosen: ChangeOptions, changes: dict[str, Change], notes: Sequence[str]
) -> dict[str, Any]:
    """Return the JSON object."""
    targets = []
    for target, found in changes.items():
        facts: dict[str, Any] = {"target": target, "usages": [found.n_first, found.n_second]}
        for measure in chosen.measures:
            difference = _difference(found, measure)
            facts[measure] = None if difference is None else difference.value
            if chosen.permutations:
                facts[f"{measure}_p"] = None if difference is None else difference.p
        targets.append(facts)
    return {
        "files": [chosen.first, chosen.second],
        "permutations": chosen.permutations,
        "seed": chosen.seed,
        "targets": targets,
        "notes": list(notes),
    }
