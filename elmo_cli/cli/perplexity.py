"""`elmo perplexity`: measure how well a biLM predicts a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import FILE, command, output_option, together, value
from elmo_cli.fit import TEXT_IN_VOCABULARY, FitPoint, fit_facts
from elmo_cli.messages import plural, shorten_list

if TYPE_CHECKING:
    from elmo_cli.lm.corpus import Corpus
    from elmo_cli.lm.evaluation import TextScores
    from elmo_cli.lm.language_model import LanguageModel
    from elmo_cli.lm.perplexity import BitsPerByte, Perplexity
    from elmo_cli.text.input import InputReport

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
class PerplexityOptions(
    options.InputOptions,
    options.ModelOptions,
    options.LanguageModelOptions,
    options.ProcessorOptions,
):
    """The values of all options of `elmo perplexity`."""

    texts: tuple[str, ...]
    state: str
    batch_size: int | None
    output: str | None
    overwrite: bool


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
    from elmo_cli.engine.runtime import select_device
    from elmo_cli.files import check_distinct
    from elmo_cli.lm.language_model import load_language_model
    from elmo_cli.lm.perplexity import perplexity_of
    from elmo_cli.text.input import InputReport, check_inputs

    chosen = PerplexityOptions(**values)
    _check_options(chosen)
    options.use_threads(chosen.threads)
    device = select_device(chosen.device)
    check_inputs(chosen.texts, chosen.input_settings())
    model = load_language_model(
        chosen.model_source(), softmax=chosen.softmax, vocabulary=chosen.vocabulary
    )
    if chosen.output:
        model_files = [chosen.model, *model.bilm.files, chosen.softmax, chosen.vocabulary]
        check_distinct(chosen.output, model_files, what="a file of the model")
    report = InputReport()
    corpus = _read(model, report, chosen)
    console.warn(*report.warnings)
    console.print_truncated(report)
    fit = _report_fit(corpus, model, chosen)
    scores = _score(model.to(device), corpus, chosen)
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
    console.print_result(facts, partial(show, *_summary(measured, model.bilm.name, chosen.state)))
    console.exit_if_skipped(report)


def _check_options(chosen: PerplexityOptions) -> None:
    """Refuse options that contradict each other, and an output that can't be written."""
    if chosen.state != "carry":
        options.refuse_options(["batch_size"], f"for --state {chosen.state}")
    if chosen.output is None:
        options.refuse_options(["overwrite"], "without --output")
        return
    if chosen.output == "-":
        options.refuse_options(["as_json"], "for standard output")
    console.check_output(chosen.output, chosen.texts, overwrite=chosen.overwrite)


def _read(model: LanguageModel, report: InputReport, chosen: PerplexityOptions) -> Corpus:
    from elmo_cli.lm.corpus import read_corpus

    max_characters = model.bilm.options.max_characters
    settings = chosen.input_settings(max_characters=max_characters)
    return read_corpus(chosen.texts, settings, notes=report, keep_lines=True)


def _report_fit(corpus: Corpus, model: LanguageModel, chosen: PerplexityOptions) -> FitPoint:
    """Print how many tokens are in the vocabulary; an InputError if none is."""
    from elmo_cli.cli.lm_training import print_fit

    point = corpus.fit(TEXT_IN_VOCABULARY, model.vocabulary)
    point.check(shorten_list(chosen.texts))
    print_fit([point])
    return point


def _score(model: LanguageModel, corpus: Corpus, chosen: PerplexityOptions) -> TextScores:
    from elmo_cli.lm.evaluation import score
    from elmo_cli.pretrained.warm_state import warm_state

    with console.ProgressDisplay(corpus.n_predictions, "predictions") as progress:
        return score(
            model,
            corpus,
            initial_state=warm_state(model.bilm) if chosen.state == "warm" else None,
            carry=chosen.state == "carry",
            batch_size=chosen.batch_size or 1,
            on_progress=progress.advance,
        )


def _table(scores: TextScores) -> Iterator[str]:
    """Yield the lines of the table of sentences."""
    from elmo_cli.messages import tsv_line

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
