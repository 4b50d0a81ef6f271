"""What `elmo perplexity` does between its options and the library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import torch

from elmo_cli.cli import console
from elmo_cli.cli.console import exit_if_skipped, plural, print_input_warnings, write_lines
from elmo_cli.cli.options import input_settings
from elmo_cli.cli.reporting import say_much_unknown
from elmo_cli.engine.runtime import select_device, set_num_threads
from elmo_cli.errors import UsageError
from elmo_cli.files import check_distinct, check_output_path, tsv_line
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.evaluation import Scores, score
from elmo_cli.lm.language_model import LanguageModel, load_language_model
from elmo_cli.lm.perplexity import Perplexity, perplexity_of
from elmo_cli.lm.source_lines import SourceLines
from elmo_cli.pretrained.warm_state import warm_state
from elmo_cli.text.input import InputReport, check_inputs, read_sentences, shorten_list

_COLUMNS = (
    "source",
    "line",
    "tokens",
    "unknown",
    "predictions",
    "forward",
    "backward",
    "perplexity",
)


def perplexity_command(given: dict[str, Any]) -> None:
    """Run `elmo perplexity` with the values of its options."""
    table, quiet, notes = given["output"], given["quiet"], InputReport()
    _check(given)
    set_num_threads(given["threads"])
    device = select_device(given["device"])
    check_inputs(given["texts"], input_settings(given))
    model = load_language_model(
        given["model"],
        options=given["options"],
        weights=given["weights"],
        softmax=given["softmax"],
        vocabulary=given["vocabulary"],
    )
    if table:
        _check_apart(table, given, model.bilm.files)
    lines = SourceLines()
    scores = _scores(model, device, lines, notes, given)
    measured = perplexity_of(scores)
    if table:
        write_lines(
            table,
            _table(scores, lines),
            overwrite=given["overwrite"],
        )
    if model.warning:
        console.note(f"warning: {model.warning}", quiet=quiet)
    if given["state"] == "warm" and model.bilm.warm_state_warning:
        console.note(f"warning: {model.bilm.warm_state_warning}", quiet=quiet)
    print_input_warnings(notes, quiet=quiet)
    say_much_unknown(measured.unknown_fraction, "the tokens", quiet=quiet)
    if given["as_json"]:
        facts = _as_object(measured, model.bilm.name, given["state"], notes)
        console.print_json(facts)
    else:
        for line in _summary(measured, model.bilm.name, given["state"]):
            if table == "-":
                console.note(line, quiet=quiet)
            else:
                console.say(line)
    exit_if_skipped(notes)


def _scores(
    model: LanguageModel,
    device: torch.device,
    lines: SourceLines,
    notes: InputReport,
    given: dict[str, Any],
) -> Scores:
    bilm = model.bilm.to(device)
    model.softmax.to(device)
    max_characters = bilm.options.max_characters
    reading = input_settings(given, max_characters=max_characters)
    sentences = lines.noted(read_sentences(given["texts"], reading, notes))
    name = shorten_list(given["texts"])
    corpus = Corpus.read(sentences, max_characters=max_characters, name=name, notes=notes)
    total = corpus.n_tokens + corpus.n_sentences
    with console.Progress(total, "predictions", quiet=given["quiet"]) as bar:
        return score(
            model,
            corpus,
            initial_state=warm_state(bilm) if given["state"] == "warm" else None,
            carry=given["state"] == "carry",
            batch_size=given["batch_size"] or 1,
            on_progress=bar.advance,
        )


def _check(given: dict[str, Any]) -> None:
    """Refuse options that contradict each other, and a place where nothing can be written."""
    console.check_stdout()
    if given["state"] != "carry" and given["batch_size"] is not None:
        raise UsageError(
            f"--batch-size {given['batch_size']}: has no meaning for --state {given['state']}",
            "`--state carry` reads a text in streams",
        )
    table = given["output"]
    if table is None:
        if given["overwrite"]:
            raise UsageError("--overwrite: no file is written", "`-o FILE` names one")
        return
    if table == "-" and given["as_json"]:
        raise UsageError(
            "--json: standard output takes the table of sentences", "`-o FILE` writes it"
        )
    if table != "-":
        check_output_path(table, overwrite=given["overwrite"])


def _check_apart(table: str, given: dict[str, Any], files: tuple[str, ...]) -> None:
    check_distinct(table, given["texts"])
    read = (given["model"], *files, given["softmax"], given["vocabulary"])
    check_distinct(table, read, what="a file of the model")


def _table(scores: Scores, lines: SourceLines) -> Iterator[str]:
    yield tsv_line(*_COLUMNS)
    for one in scores.sentences():
        numbers = one.tokens, one.unknown, one.predictions
        likelihoods = (f"{x:.6f}" for x in (one.forward, one.backward, one.perplexity))
        yield tsv_line(*lines[one.number], *numbers, *likelihoods)


def _summary(measured: Perplexity, model: str, state: str) -> Iterator[str]:
    bits = measured.bits_per_byte
    yield f"{'':<14}{'forward':>10}{'backward':>10}{'average':>10}"
    for name, row, digits in (("perplexity", measured, 2), ("bits per byte", bits, 4)):
        yield f"{name:<14}" + "".join(
            f"{value:>10.{digits}f}" for value in (row.forward, row.backward, row.average)
        )
    yield (
        f"{plural(measured.predictions, 'prediction')} in each direction; "
        f"{plural(measured.tokens, 'token')} in {plural(measured.sentences, 'sentence')}; "
        f"{measured.unknown_fraction:.2%} unknown, whose spelling takes {bits.spelling:.4f} bits "
        "per byte"
    )
    if measured.not_scored:
        yield (
            f"{measured.not_scored:,} more predictions were not scored: the rest of the streams "
            "after the first one had ended"
        )
    yield f"model {model}, state {state}"


def _as_object(measured: Perplexity, model: str, state: str, notes: InputReport) -> dict[str, Any]:
    return {
        "model": model,
        "state": state,
        "tokens": measured.tokens,
        "predictions": measured.predictions,
        "not_scored": measured.not_scored,
        "sentences": measured.sentences,
        "unknown_fraction": measured.unknown_fraction,
        "perplexity": {
            "forward": measured.forward,
            "backward": measured.backward,
            "average": measured.average,
        },
        "bits_per_byte": asdict(measured.bits_per_byte),
        "truncated_tokens": notes.truncated_tokens,
        "skipped": notes.skipped,
        "warnings": notes.warnings,
    }
