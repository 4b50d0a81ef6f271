"""`elmo perplexity`: measure how well a biLM predicts a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import command, output_option, together, value
from elmo_cli.messages import plural

if TYPE_CHECKING:
    from elmo_cli.lm.evaluation import TextScores
    from elmo_cli.lm.language_model import LanguageModel
    from elmo_cli.lm.perplexity import Perplexity
    from elmo_cli.text.input import InputReport

_DIRECTIONS = ("forward", "backward", "average")
_COLUMNS = ("source", "line", "tokens", "unknown", "predictions", *_DIRECTIONS[:2], "perplexity")


# fmt: off
_state_and_output = together(
    value("State", "--state NAME", "Initial LSTM state of a sentence: zero, warm (stored with the "
          "model) or carry (from the previous sentence).",
          type=click.Choice(["zero", "warm", "carry"]), default="zero"),
    value("State", "--batch-size N", "With --state carry: number of parallel streams of text, as "
          "in bilm-tf.  [default: 1]", type=click.IntRange(min=1)),
    output_option("FILE", "Also write a tab-separated table with one row per sentence; - for "
                  "standard output."),
)
# fmt: on


@command
@options.texts_argument("texts", required=True, metavar="TEXT…")
@options.model_options
@options.language_model_options()
@_state_and_output
@options.overwrite_option
@options.processor_options
@options.input_options
@options.general_options
def perplexity(**given: Any) -> None:
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
    from elmo_cli.cli.lm_training import warn_of_unknown
    from elmo_cli.engine.runtime import select_device
    from elmo_cli.files import check_distinct
    from elmo_cli.lm.language_model import load_language_model
    from elmo_cli.lm.perplexity import perplexity_of
    from elmo_cli.text.input import InputReport, check_inputs

    output, state, report = given["output"], given["state"], InputReport()
    _check_options(given)
    options.use_threads(given["threads"])
    device = select_device(given["device"])
    check_inputs(given["texts"], options.input_settings(given))
    parts = {name: given[name] for name in ("softmax", "vocabulary")}
    model = load_language_model(options.model_source(given), **parts)
    if output:
        read = (given["model"], *model.bilm.files, *parts.values())
        check_distinct(output, read, what="a file of the model")
    scores = _score(model.to(device), report, given)
    measured = perplexity_of(scores)
    if output:
        console.write_lines(output, _table(scores), overwrite=given["overwrite"])
    warnings = model.warning, model.bilm.warm_state_warning if state == "warm" else ""
    console.warn(*filter(None, warnings), *report.warnings)
    console.print_truncated(report)
    warn_of_unknown(measured.unknown_fraction, "the tokens")
    figures = asdict(measured)
    ways = {name: figures.pop(name) for name in _DIRECTIONS}
    facts = {"model": model.bilm.name, "state": state, "perplexity": ways, **figures}
    facts |= {"truncated_tokens": report.truncated_tokens, "skipped": report.skipped}
    show = console.note if output == "-" else console.say
    summary = _summary(measured, model.bilm.name, state)
    console.print_result({**facts, "warnings": report.warnings}, lambda: show(*summary))
    console.exit_if_skipped(report)


def _check_options(given: dict[str, Any]) -> None:
    """Refuse options that contradict each other, and an output that can't be written."""
    output, state = given["output"], given["state"]
    if state != "carry":
        options.refuse_options(["batch_size"], f"for --state {state}")
    if output is None:
        options.refuse_options(["overwrite"], "without --output")
    else:
        if output == "-":
            options.refuse_options(["as_json"], "for standard output")
        console.check_output(output, given["texts"], overwrite=given["overwrite"])


def _score(model: LanguageModel, report: InputReport, given: dict[str, Any]) -> TextScores:
    from elmo_cli.lm.corpus import read_corpus
    from elmo_cli.lm.evaluation import score
    from elmo_cli.pretrained.warm_state import warm_state

    texts, most = given["texts"], model.bilm.options.max_characters
    reading = options.input_settings(given, max_characters=most)
    corpus = read_corpus(texts, reading, notes=report, keep_lines=True)
    with console.ProgressDisplay(corpus.n_predictions, "predictions") as progress:
        return score(
            model,
            corpus,
            initial_state=warm_state(model.bilm) if given["state"] == "warm" else None,
            carry=given["state"] == "carry",
            batch_size=given["batch_size"] or 1,
            on_progress=progress.advance,
        )


def _table(scores: TextScores) -> Iterator[str]:
    from elmo_cli.messages import tsv_line

    yield tsv_line(*_COLUMNS)
    for one in scores.sentences():
        counts = one.tokens, one.unknown, one.predictions
        likelihoods = (f"{x:.6f}" for x in (one.forward, one.backward, one.perplexity))
        yield tsv_line(*scores.corpus.lines[one.number], *counts, *likelihoods)


def _summary(measured: Perplexity, model: str, state: str) -> Iterator[str]:
    bits = measured.bits_per_byte
    yield f"{'':<14}" + "".join(f"{name:>10}" for name in _DIRECTIONS)
    for title, row, digits in (("perplexity", measured, 2), ("bits per byte", bits, 4)):
        values = (getattr(row, name) for name in _DIRECTIONS)
        yield f"{title:<14}" + "".join(f"{value:>10.{digits}f}" for value in values)
    yield (
        f"{plural(measured.predictions, 'prediction')} in each direction; "
        f"{plural(measured.tokens, 'token')} in {plural(measured.sentences, 'sentence')}; "
        f"{measured.unknown_fraction:.2%} unknown, whose spelling takes {bits.spelling:.4f} bits "
        "per byte"
    )
    if measured.not_scored:
        what = f"{measured.not_scored:,} more predictions were not scored: the rest of the streams"
        yield f"{what} after the first one ended"
    yield f"model {model}, state {state}"
