"""`elmo score --pairs`: score both versions of each sentence, and report which one is preferred."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from elmo_cli.analysis.minimal_pairs import (
    MinimalPairs,
    PairAccuracy,
    ScoreValues,
    compare_pairs,
)
from elmo_cli.arrays import AnyArray, Float64Array, Int64Array
from elmo_cli.cli import console, scoring
from elmo_cli.errors import InputError
from elmo_cli.fit import fit_facts
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.stream import BACKWARD, FORWARD
from elmo_cli.messages import quoted_line, shorten_list
from elmo_cli.text.input_report import InputReport
from elmo_cli.text.sentence import Tokens
from elmo_cli.text.sentence_pairs import SentencePair, read_pairs

_PARADIGM_MEAN = "mean over paradigms"
_CELL_WIDTHS = (10, 10, 10, 10, 17)  # of the columns after the title
_COLUMNS = (
    "uid",
    "linguistics_term",
    "source",
    "line",
    "forward_good",
    "forward_bad",
    "backward_good",
    "backward_bad",
    "unknown_good",
    "unknown_bad",
)


class _Versions:
    """The versions of pairs, good and bad by turns, in which equal sentences are stored once."""

    def __init__(self) -> None:
        self._number_of: dict[Tokens, int] = {}  # of each distinct sentence
        self._numbers: list[int] = []  # of the sentences of all versions
        self._starts: list[int] = []  # where each version begins in `_numbers`

    @property
    def sentences(self) -> list[Tokens]:
        """The distinct sentences."""
        return list(self._number_of)

    def add(self, pair: SentencePair) -> None:
        """Add the versions of a pair."""
        for version in (pair.good, pair.bad):
            self._starts.append(len(self._numbers))
            for tokens in version:
                number = self._number_of.setdefault(tokens, len(self._number_of))
                self._numbers.append(number)

    def sums(self, of_sentences: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return the sums over good and bad versions: (…, sentence) -> (…, pair) each."""
        of_versions = np.add.reduceat(of_sentences[..., self._numbers], self._starts, axis=-1)
        good = of_versions[..., 0::2]
        bad = of_versions[..., 1::2]
        return good, bad


@dataclass(frozen=True)
class _ScoredPairs:
    """Pairs with the scores of their versions.

    Attributes:
        good, bad: log-likelihoods, natural logarithms, (direction, pair).
        unknown_good, unknown_bad: numbers of unknown tokens, (pair,).
    """

    pairs: Sequence[SentencePair]
    good: Float64Array
    bad: Float64Array
    unknown_good: Int64Array
    unknown_bad: Int64Array

    def compare(self) -> MinimalPairs:
        return compare_pairs(
            self.good,
            self.bad,
            has_unknown=self.unknown_good + self.unknown_bad > 0,
            paradigms=[pair.uid for pair in self.pairs],
            terms=[pair.term for pair in self.pairs],
        )

    def lines(self) -> Iterator[str]:
        """Yield the lines of the table of pairs; numbers have all digits, which keeps ties."""
        yield quoted_line(*_COLUMNS)
        for number, pair in enumerate(self.pairs):
            log_likelihoods = []
            for direction in (FORWARD, BACKWARD):
                for version in (self.good, self.bad):
                    log_likelihoods.append(repr(float(version[direction, number])))
            yield quoted_line(
                pair.uid,
                pair.term,
                pair.source,
                str(pair.line),
                *log_likelihoods,
                str(self.unknown_good[number]),
                str(self.unknown_bad[number]),
            )


def score_pairs(chosen: scoring.ScoringOptions) -> None:
    """Run `elmo score --pairs`."""
    model = scoring.load_model(chosen)
    report = InputReport()
    pairs = list(read_pairs(chosen.texts, chosen.text_settings(model), report))
    scoring.print_report(report)
    if not pairs:
        hint = "name a file of JSON lines with a pair per line"
        raise InputError("contains no pairs", hint, where=shorten_list(chosen.texts))
    versions = _Versions()
    for pair in pairs:
        versions.add(pair)
    max_characters = model.bilm.options.max_characters
    corpus = Corpus.read(versions.sentences, max_characters=max_characters)
    fit = scoring.report_fit(corpus, model, chosen.texts)
    scores = scoring.score_corpus(model, corpus)
    good, bad = versions.sums(scores.sums())
    unknown_good, unknown_bad = versions.sums(scores.unknown_counts())
    scored = _ScoredPairs(
        pairs=pairs,
        good=good,
        bad=bad,
        unknown_good=unknown_good,
        unknown_bad=unknown_bad,
    )
    if model.warning:
        console.warn(model.warning)
    if chosen.output:
        console.write_lines(chosen.output, scored.lines(), overwrite=chosen.overwrite)
    compared = scored.compare()
    facts = {
        "model": model.bilm.name,
        "sentences": corpus.n_sentences,
        "tokens": corpus.n_tokens,
        **_as_facts(compared),
        "fit": fit_facts([fit]),
        "truncated_tokens": report.truncated_tokens,
        "skipped": report.skipped,
        "warnings": report.warnings,
    }
    show = console.note if chosen.output == "-" else console.say
    title = chosen.model_source().title(model.bilm.name)
    console.print_result(facts, partial(show, *_summary(compared, title)))
    console.exit_if_skipped(report)


def _as_facts(compared: MinimalPairs) -> dict[str, Any]:
    """Return the JSON fields of the result."""
    mean = compared.paradigm_mean
    return {
        **_group_facts(compared.overall),
        "paradigm_mean": None if mean is None else asdict(mean),
        "terms": _named_groups(compared.terms),
        "paradigms": _named_groups(compared.paradigms),
    }


def _named_groups(groups: Mapping[str, PairAccuracy]) -> list[dict[str, Any]]:
    return [{"name": name, **_group_facts(group)} for name, group in groups.items()]


def _group_facts(group: PairAccuracy) -> dict[str, Any]:
    return {
        "pairs": group.n_pairs,
        "pairs_with_unknown": group.n_with_unknown,
        "accuracy": asdict(group.accuracy),
        "ties": asdict(group.ties),
    }


def _summary(compared: MinimalPairs, model: str) -> Iterator[str]:
    """Yield the lines that describe the result for people."""
    overall = compared.overall
    mean = compared.paradigm_mean
    width = max(map(len, (_PARADIGM_MEAN, *compared.terms, *compared.paradigms)))
    header = ("forward", "backward", "sum", "pairs", "with unknown, %")
    yield _row(width, "right, %", header)
    yield _row(width, "mean over pairs", _cells(overall))
    if mean is not None and mean != overall.accuracy:
        yield _row(width, _PARADIGM_MEAN, _accuracies(mean))
    for heading, groups in (("by term", compared.terms), ("by paradigm", compared.paradigms)):
        if groups:
            yield ""
            yield _row(width, heading, header)
        for name, group in groups.items():
            yield _row(width, name, _cells(group))
    ties = overall.ties
    yield ""
    yield (
        f"equal scores, which count as wrong: {ties.forward:,} forward, {ties.backward:,} "
        f"backward, {ties.sum:,} in sum"
    )
    yield f"model {model}"


def _cells(group: PairAccuracy) -> list[str]:
    percent_unknown = 100 * group.n_with_unknown / group.n_pairs
    return [*_accuracies(group.accuracy), f"{group.n_pairs:,}", f"{percent_unknown:.1f}"]


def _accuracies(values: ScoreValues) -> list[str]:
    return [f"{value:.1f}" for value in (values.forward, values.backward, values.sum)]


def _row(width: int, title: str, cells: Sequence[str]) -> str:
    row = f"{title:<{width}}"
    for cell, cell_width in zip(cells, _CELL_WIDTHS, strict=False):  # some rows end early
        row += f"{cell:>{cell_width}}"
    return row
