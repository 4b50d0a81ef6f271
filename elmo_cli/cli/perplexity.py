"""`elmo perplexity`: measure how well a biLM predicts a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import console, options, scoring
from elmo_cli.cli.click_options import FILE, command, output_option, together, value
from elmo_cli.fit import fit_facts
from elmo_cli.messages import plural, tsv_line

if TYPE_CHECKING:
    from elmo_cli.lm.evaluation import TextScores
    from elmo_cli.lm.perplexity import BitsPerByte, Perplexity

_DIRECTIONS = ("forward", "backward", "average")


# fmt: off
_state_and_output = together(
    value("State", "--state NAME", "Initial LSTM state of a sentence: zero, warm (stored with the "
          "model) or carry (from the previous sentence).",
          type=click.Choice(["zero", "warm", "carry"]), default="zero"),
    value("State", "--batch-size N", "With --state carry: number of parallel streams of text, as "
          "in bilm-tf.  [default: 1]", type=click.IntRange(min=1)),
    output_option("FILE", "Also write a tab-separated table with one row per sentence; - for "
                  "standard output.", type=FILE),
)
# fmt: on


@dataclass(frozen=True)
class PerplexityOptions(scoring.ScoringOptions):
    """The values of all options of `elmo perplexity`."""

    state: str
    batch_size: int | None


@command
@options.texts_argument("texts", required=True, metavar="TEXT…")
@options.model_options
@options.language_model_options()
@_state_and_output
@options.overwrite_option
@options.processor_options
@options.input_options
@options.general_options
def perplexity(**values: Any) -> None:
    """Measure the perplexity of a text, forward and backward.

    TEXT is a text file, plain or compressed (.gz, .xz); - is standard input. The model also
    predicts the end of each sentence (backward: its start). The full softmax is computed; <UNK>
    stands for tokens that are not in the vocabulary.

    Perplexities of models with different vocabularies cannot be compared, but bits per byte can.
    They are the bits of all predictions, plus the bits of the spelling of each <UNK>, divided by
    the bytes of all tokens, counting one byte per token for the following space. A byte model that
    is estimated from the vocabulary alone predicts the spelling (each byte from the three before
    it, with Witten-Bell smoothing).

    \b
    Examples:
      elmo perplexity heldout.txt
      elmo perplexity raw.txt.xz --tokenize -m model/ --json
      elmo perplexity heldout.txt -m model/ --state carry --batch-size 256
      elmo perplexity heldout.txt -m model/ -o sentences.tsv
    """
    from elmo_cli.lm.perplexity import perplexity_of
    from elmo_cli.text.input import InputReport

    chosen = PerplexityOptions(**values)
    if chosen.state != "carry":
        options.refuse_options(["batch_size"], f"for --state {chosen.state}")
    scoring.check_output(chosen)
    model = scoring.load_model(chosen)
    report = InputReport()
    corpus = scoring.read_text(model, report, chosen)
    fit = scoring.report_fit(corpus, model, chosen.texts)
    scores = scoring.score_corpus(
        model, corpus, state=chosen.state, batch_size=chosen.batch_size or 1
    )
    measured = perplexity_of(scores)
    if chosen.output:
        console.write_lines(chosen.output, _table(scores), overwrite=chosen.overwrite)
    if model.warning:
        console.warn(model.warning)
    if chosen.state == "warm" and model.bilm.warm_state_warning:
        console.warn(model.bilm.warm_state_warning)
    others = {name: fact for name, fact in asdict(measured).items() if name not in _DIRECTIONS}
    facts = {
        "model": model.bilm.name,
        "state": chosen.state,
        "perplexity": dict(zip(_DIRECTIONS, _by_direction(measured), strict=True)),
        **others,
        "fit": fit_facts([fit]),
        "truncated_tokens": report.truncated_tokens,
        "skipped": report.skipped,
        "warnings": report.warnings,
    }
    show = console.note if chosen.output == "-" else console.say
    title = chosen.model_source().title(model.bilm.name)
    console.print_result(facts, partial(show, *_summary(measured, title, chosen.state)))
    console.exit_if_skipped(report)


def _table(scores: TextScores) -> Iterator[str]:
    """Yield the lines of the table of sentences."""
    yield tsv_line(
        "source", "line", "tokens", "unknown", "predictions", "forward", "backward", "perplexity"
    )
    for sentence in scores.sentences():
        source, line = scores.corpus.lines[sentence.number]
        yield tsv_line(
            source,
            line,
            sentence.tokens,
            sentence.unknown,
            sentence.predictions,
            f"{sentence.forward:.6f}",
            f"{sentence.backward:.6f}",
            f"{sentence.perplexity:.6f}",
        )


def _by_direction(figures: Perplexity | BitsPerByte) -> tuple[float, float, float]:
    """Return the figures in the order of `_DIRECTIONS`."""
    return figures.forward, figures.backward, figures.average


def _summary(measured: Perplexity, model: str, state: str) -> Iterator[str]:
    """Yield the lines that describe the figures for people."""
    bits = measured.bits_per_byte
    yield _row("", _DIRECTIONS)
    yield _row("perplexity", (f"{figure:.2f}" for figure in _by_direction(measured)))
    yield _row("bits per byte", (f"{figure:.4f}" for figure in _by_direction(bits)))
    yield (
        f"{plural(measured.predictions, 'prediction')} in each direction; "
        f"{plural(measured.tokens, 'token')} in {plural(measured.sentences, 'sentence')}; "
        f"{measured.unknown_fraction:.2%} unknown, whose spelling takes {bits.spelling:.4f} bits "
        "per byte"
    )
    if measured.not_scored:
        yield (
            f"{measured.not_scored:,} more predictions were not scored: the rest of the streams "
            "after the first one ended"
        )
    yield f"model {model}, state {state}"


def _row(title: str, cells: Iterable[str]) -> str:
    return f"{title:<14}" + "".join(f"{cell:>10}" for cell in cells)
