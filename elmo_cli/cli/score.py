"""`elmo score`: print the surprisal of each token or sentence of a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import console, options, scoring
from elmo_cli.cli.click_options import FILE, command, flag, output_option, together, value
from elmo_cli.fit import FitPoint, fit_facts
from elmo_cli.messages import plural, quoted_line

if TYPE_CHECKING:
    from elmo_cli.lm.corpus import Corpus
    from elmo_cli.lm.language_model import LanguageModel
    from elmo_cli.lm.surprisal import Cell, SurprisalTable
    from elmo_cli.text.input import InputReport

# fmt: off
_pairs_option = flag(
    "Input", "--pairs", "Read JSON lines with sentence_good and sentence_bad, and report how often "
    "the good one is more likely.",
)
_table_options = together(
    value("Output", "--per UNIT", "What a row of the table describes: token or sentence.",
          type=click.Choice(["token", "sentence"]), default="token"),
    value("Output", "--unit NAME", "Unit of surprisal: bits or nats.",
          type=click.Choice(["bits", "nats"]), default="bits"),
    flag("Output", "--spelling", "Add the column spelling: the information in the spelling of each "
         "unknown token, by the byte model of `elmo perplexity`."),
    output_option("FILE", "Tab-separated table to write.  [default: standard output]", type=FILE),
)
# fmt: on


@dataclass(frozen=True)
class ScoreOptions(scoring.ScoringOptions):
    """The values of all options of `elmo score`."""

    pairs: bool
    per: str
    unit: str
    spelling: bool


@command
@options.texts_argument("texts", required=True, metavar="TEXT…")
@options.model_options
@options.language_model_options()
@_pairs_option
@_table_options
@options.overwrite_option
@options.processor_options
@options.input_options
@options.general_options
def score(**values: Any) -> None:
    """Print the surprisal of each token or sentence of a text.

    TEXT is a text file, plain or compressed (.gz, .xz); - is standard input. Surprisal is the
    negative log-likelihood of a token, under the full softmax, given the tokens before it;
    backward, given the tokens after it. Each sentence starts from zero states. Tokens that are not
    in the vocabulary are scored as <UNK>; the column unknown marks them with 1.

    The table has a row for the end of each sentence (</S>, forward) and one for its start (<S>,
    backward), so sums are those of `elmo perplexity`. The first four columns are those of `lm-zoo
    get-surprisals`.

    With --pairs, TEXT is a file of minimal pairs, as in BLiMP: JSON lines with sentence_good,
    sentence_bad and optionally UID and linguistics_term. Their strings are split at spaces, or by
    --tokenize. The version with the higher log-likelihood wins: forward, backward, and the sum of
    both. The table has a row per pair, and is written only with -o.

    \b
    Examples:
      elmo score sentences.txt > surprisals.tsv
      elmo score raw.txt.xz --tokenize -m model/ -o surprisals.tsv
      elmo score sentences.txt --per sentence --unit nats
      elmo score pairs.jsonl --pairs --tokenize -o scores.tsv
    """
    from elmo_cli.text.input import InputReport

    chosen = ScoreOptions(**values)
    scoring.check_output(chosen)
    if chosen.pairs:
        _score_pairs(chosen)
        return
    model = scoring.load_model(chosen)
    report = InputReport()
    corpus = scoring.read_text(model, report, chosen)
    fit = scoring.report_fit(corpus, model, chosen.texts)
    table = _score(model, corpus, chosen)
    if model.warning:
        console.warn(model.warning)
    facts = _facts(table, model, fit, report)
    if chosen.output is None and console.running.as_json:
        facts["scores"] = [dict(zip(table.columns, row, strict=True)) for row in table.rows()]
    else:
        console.write_lines(chosen.output or "-", _lines(table), overwrite=chosen.overwrite)
    is_stdout_taken = chosen.output in (None, "-")  # by the table
    show = console.note if is_stdout_taken else console.say
    title = chosen.model_source().title(model.bilm.name)
    console.print_result(facts, partial(show, *_summary(facts, title)))
    console.exit_if_skipped(report)


def _score_pairs(chosen: ScoreOptions) -> None:
    from elmo_cli.cli.score_pairs import score_pairs

    options.refuse_options(["per", "unit", "spelling"], "with --pairs")
    if chosen.format not in ("auto", "jsonl"):
        options.refuse_options(["format"], "with --pairs")
    score_pairs(replace(chosen, format="jsonl"))  # whatever the suffix


def _score(model: LanguageModel, corpus: Corpus, chosen: ScoreOptions) -> SurprisalTable:
    from elmo_cli.lm.surprisal import SurprisalTable

    scores = scoring.score_corpus(model, corpus)
    return SurprisalTable(scores, per=chosen.per, unit=chosen.unit, has_spelling=chosen.spelling)


def _lines(table: SurprisalTable) -> Iterator[str]:
    """Yield the lines of the table."""
    yield quoted_line(*table.columns)
    for row in table.rows():
        yield quoted_line(*map(_shown, row))


def _shown(cell: Cell) -> str:
    """Return the text of a cell; nine digits of a surprisal give its float32 back."""
    if isinstance(cell, float):
        return f"{cell:.9g}"
    if cell is None:
        return ""
    return str(cell)


def _facts(
    table: SurprisalTable, model: LanguageModel, fit: FitPoint, report: InputReport
) -> dict[str, Any]:
    """Return the JSON fields of the text as a whole."""
    corpus = table.scores.corpus
    forward, backward = table.sums().sum(1).tolist()
    facts: dict[str, Any] = {
        "model": model.bilm.name,
        "unit": table.unit,
        "sentences": corpus.n_sentences,
        "tokens": corpus.n_tokens,
        "predictions": corpus.n_predictions,
        "unknown": int(table.scores.unknown_counts().sum()),
        "surprisal": {"forward": forward, "backward": backward},
    }
    if table.has_spelling:
        facts["spelling"] = float(table.spelling_sums().sum())
    facts |= {
        "fit": fit_facts([fit]),
        "truncated_tokens": report.truncated_tokens,
        "skipped": report.skipped,
        "warnings": report.warnings,
    }
    return facts


def _summary(facts: dict[str, Any], model: str) -> Iterator[str]:
    """Yield the lines that describe the text as a whole for people."""
    n_predictions = facts["predictions"]
    mean_forward = facts["surprisal"]["forward"] / n_predictions
    mean_backward = facts["surprisal"]["backward"] / n_predictions
    yield (
        f"{plural(facts['sentences'], 'sentence')}, {plural(facts['tokens'], 'token')}, "
        f"{facts['unknown']:,} unknown"
    )
    yield (
        f"mean surprisal of {plural(n_predictions, 'prediction')}: "
        f"{mean_forward:.3f} {facts['unit']} forward, {mean_backward:.3f} backward"
    )
    yield f"model {model}"
