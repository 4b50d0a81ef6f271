"""`elmo usages`: embed all usages of some words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import (
    FILE,
    INPUT_FILE,
    CompletedText,
    command,
    flag,
    output_option,
    together,
    value,
)
from elmo_cli.errors import UsageError
from elmo_cli.fields import MOST_SEED
from elmo_cli.messages import plural, shorten_list
from elmo_cli.text.target_matcher import MATCHES

if TYPE_CHECKING:
    from elmo_cli.analysis.usages import UsageSentence, WrittenUsages
    from elmo_cli.embed.embedder import Embedder
    from elmo_cli.pretrained.model_files import ModelFiles
    from elmo_cli.text.input import InputReport
    from elmo_cli.text.sentence import Tokens

_ONE_LAYER = CompletedText(names=lambda: ["top", "average", "sum"])

# fmt: off
_usages_options = together(
    value("Usages", "--words FILE", "Words to look for, one per line.", required=True,
          type=INPUT_FILE),
    value("Usages", "--match HOW", "What a word is compared with: form (the tokens), lemma (the "
          "LEMMA column of CoNLL-U), or regex (the words are regular expressions, which a whole "
          "token must match).", type=click.Choice(MATCHES), default=MATCHES[0]),
    flag("Usages", "--ignore-case", "Ignore the difference of upper and lower case."),
    value("Usages", "--max-usages N", "Maximum number of usages per word, drawn at random.  "
          "[default: all]", type=options.AT_LEAST_1),
    value("Usages", "--seed N", "Random seed of --max-usages.", type=click.IntRange(0, MOST_SEED),
          default=0),
    output_option("FILE.npz", "Output file; a table of the usages is written next to it, with the "
                  "suffix .tsv.", required=True, type=FILE),
    value("Output", "--layers SPEC", "Layer to store: top, average, sum, a number such as 1, or "
          "mix:W0,W1,W2[,GAMMA].", default="top", type=_ONE_LAYER),
)
# fmt: on


@dataclass(frozen=True)
class UsagesOptions(options.InputOptions, options.ModelOptions, options.ProcessorOptions):
    """The values of all options of `elmo usages`."""

    texts: tuple[str, ...]
    words: str
    match: str
    ignore_case: bool
    max_usages: int | None
    seed: int
    output: str
    layers: str
    overwrite: bool


@command
@options.texts_argument("texts", required=True, metavar="TEXT…")
@_usages_options
@options.overwrite_option
@options.model_options
@options.processor_options
@options.input_options
@options.general_options
def usages(**values: Any) -> None:
    """Embed all usages of some words, for `elmo change` and other programs.

    TEXT is a text file, plain or compressed (.gz, .xz); - is standard input. Only sentences that
    contain one of the words are embedded, each as a whole. The output, which `numpy.load` reads,
    has an array (usage, dimension) for each word, in the order of the text; a word that does not
    occur has an array without rows. The table next to it has the columns target, row, key, position
    and sentence.

    \b
    Examples:
      elmo usages 1810.txt --words targets.txt -o c1.npz
      elmo usages 1960.conllu --words lemmas.txt --match lemma -o c2.npz
      elmo usages corpus.txt.gz --words targets.txt --max-usages 1000 \\
          --layers average -o c.npz
      elmo change c1.npz c2.npz
    """
    from elmo_cli.text.input import InputReport
    from elmo_cli.text.target_words import read_targets

    chosen = UsagesOptions(**values)
    report = InputReport()
    files = _check_options(chosen)
    targets = read_targets(
        chosen.words, report, encoding=chosen.encoding, are_patterns=chosen.match == "regex"
    )
    embedder = _load_embedder(chosen, files)
    found = _find(chosen, targets, embedder, report)
    found = _with_fit(found, embedder, report)
    n_occurrences = None
    if chosen.max_usages is not None:
        from elmo_cli.analysis.usages import sample_usages

        sample = sample_usages(found, targets, chosen.max_usages, chosen.seed)
        found = sample.sentences
        n_occurrences = sample.n_occurrences
    written = _write(chosen, found, targets, embedder)
    if n_occurrences is None:
        n_occurrences = written.n_usages
    if not any(n_occurrences):
        message = (
            f"{chosen.words}: none of the words, such as {targets[0]!r}, occurs in the text; is it "
            "spelled in the same way, or in need of `ignore_case=True` or `match=lemma`?"
        )
        report.warn("no usages", message)
    console.warn(*report.warnings)
    console.print_truncated(report)
    facts = _facts(chosen, targets, written, n_occurrences, report)
    console.print_result({**facts, "model": embedder.bilm.name}, partial(_print, facts))
    console.exit_if_skipped(report)


def _check_options(chosen: UsagesOptions) -> ModelFiles:
    """Check options, inputs and outputs before torch is imported; return the files of the model."""
    from elmo_cli.analysis.usages import check_layers, check_lemmas, check_usages_path
    from elmo_cli.files import check_distinct
    from elmo_cli.pretrained.load import locate
    from elmo_cli.text.input import check_inputs

    if chosen.max_usages is None:
        options.refuse_options(["seed"], "without --max-usages")
    if chosen.words == "-" and "-" in chosen.texts:
        hint = "save the words or the text to a file"
        raise UsageError("standard input can be read only once", hint, where="--words -")
    check_inputs(chosen.texts, chosen.input_settings())
    if chosen.match == "lemma":
        check_lemmas(chosen.texts, chosen.input_settings())
    table = check_usages_path(chosen.output, overwrite=chosen.overwrite)
    for output in (chosen.output, table):
        check_distinct(output, [*chosen.texts, chosen.words])
        check_distinct(output, vars(chosen.model_source()).values(), what="a file of the model")
    files = locate(chosen.model_source())
    check_layers(chosen.layers, 1 + files.read_options().n_layers)
    return files


def _load_embedder(chosen: UsagesOptions, files: ModelFiles) -> Embedder:
    from elmo_cli.embed.embedder import Embedder
    from elmo_cli.pretrained.load import load_files

    options.use_threads(chosen.threads)
    embedder = Embedder(
        load_files(files), layers=chosen.layers, drop_layer_axis=True, device=chosen.device
    )
    embedder.weights_guard.release()  # frees the weights: the engine has its own copy
    return embedder


def _find(
    chosen: UsagesOptions, targets: Sequence[str], embedder: Embedder, report: InputReport
) -> Iterable[UsageSentence]:
    """Find the sentences with a usage, in the order of the text."""
    from elmo_cli.analysis.usages import find_usages
    from elmo_cli.text.target_matcher import TargetMatcher

    model_options = embedder.bilm.options
    settings = chosen.input_settings(max_characters=model_options.max_characters)
    settings = replace(settings, is_unicode=model_options.is_unicode)
    matcher = TargetMatcher(
        targets, are_patterns=chosen.match == "regex", ignore_case=chosen.ignore_case
    )
    by_lemma = chosen.match == "lemma"
    return find_usages(chosen.texts, matcher, settings, report, by_lemma=by_lemma)


def _with_fit(
    found: Iterable[UsageSentence], embedder: Embedder, report: InputReport
) -> Iterator[UsageSentence]:
    """Yield the same sentences; warn if few of the first tokens are known to the model."""
    from elmo_cli.embed.text_fit import tokens_fit

    sentences = iter(found)
    checked: list[UsageSentence] = []

    def first_tokens() -> Iterator[Tokens]:
        for usage_sentence in sentences:
            checked.append(usage_sentence)
            yield usage_sentence.sentence.tokens

    tokens_fit(first_tokens(), embedder, partial(report.warn, "fit"))
    yield from checked
    yield from sentences


def _write(
    chosen: UsagesOptions,
    found: Iterable[UsageSentence],
    targets: Sequence[str],
    embedder: Embedder,
) -> WrittenUsages:
    from elmo_cli.analysis.usages import write_usages

    with console.ProgressDisplay(None, "usages") as progress:
        return write_usages(
            found,
            targets,
            embedder,
            chosen.output,
            overwrite=chosen.overwrite,
            on_usages=progress.advance,
        )


def _facts(
    chosen: UsagesOptions,
    targets: Sequence[str],
    written: WrittenUsages,
    n_occurrences: Sequence[int],
    report: InputReport,
) -> dict[str, Any]:
    """Return the JSON object, without the model."""
    facts_of_targets = []
    for target, n_usages, n_found in zip(targets, written.n_usages, n_occurrences, strict=True):
        facts_of_targets.append({"target": target, "usages": n_usages, "occurrences": n_found})
    return {
        "output": chosen.output,
        "layers": chosen.layers,
        "sentences": written.n_sentences,
        "usages": sum(written.n_usages),
        "targets": facts_of_targets,
        "truncated_tokens": report.truncated_tokens,
        "skipped": report.skipped,
        "warnings": report.warnings,
    }


def _print(facts: dict[str, Any]) -> None:
    """Print how many usages were written, and which words do not occur."""
    n_words = plural(len(facts["targets"]), "word")
    n_usages = plural(facts["usages"], "usage")
    n_sentences = plural(facts["sentences"], "sentence")
    console.note(f"{facts['output']}: {n_usages} of {n_words} in {n_sentences}")
    missing = [fact["target"] for fact in facts["targets"] if not fact["occurrences"]]
    if missing:
        n_missing = plural(len(missing), "word")
        console.note(f"{facts['output']}: {n_missing} without a usage: {shorten_list(missing)}")
