"""Read a text and score it with a language model, as `elmo perplexity` and `elmo score` do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elmo_cli.cli import console, options
from elmo_cli.fit import TEXT_IN_VOCABULARY, FitPoint
from elmo_cli.messages import shorten_list

if TYPE_CHECKING:
    from elmo_cli.lm.corpus import Corpus
    from elmo_cli.lm.evaluation import TextScores
    from elmo_cli.lm.language_model import LanguageModel
    from elmo_cli.text.input import InputReport
    from elmo_cli.text.input_settings import InputSettings


@dataclass(frozen=True)
class ScoringOptions(
    options.InputOptions,
    options.ModelOptions,
    options.LanguageModelOptions,
    options.ProcessorOptions,
):
    """The values of the options of a command that scores a text."""

    texts: tuple[str, ...]
    output: str | None
    overwrite: bool

    def text_settings(self, model: LanguageModel) -> InputSettings:
        """Return the settings that read the text for a model."""
        return self.input_settings(max_characters=model.bilm.options.max_characters)


def check_output(chosen: ScoringOptions) -> None:
    """Refuse an output that can't be written, and options that have no effect on it."""
    if chosen.output is None:
        options.refuse_options(["overwrite"], "without --output")
        return
    if chosen.output == "-":
        options.refuse_options(["as_json"], "for standard output")
    console.check_output(chosen.output, chosen.texts, overwrite=chosen.overwrite)


def load_model(chosen: ScoringOptions) -> LanguageModel:
    """Check the names of the texts, then load the model onto its device."""
    from elmo_cli.engine.runtime import select_device
    from elmo_cli.files import check_distinct
    from elmo_cli.lm.language_model import load_language_model
    from elmo_cli.text.input import check_inputs

    options.use_threads(chosen.threads)
    device = select_device(chosen.device)
    check_inputs(chosen.texts, chosen.input_settings())
    model = load_language_model(
        chosen.model_source(), softmax=chosen.softmax, vocabulary=chosen.vocabulary
    )
    if chosen.output:
        model_files = [chosen.model, *model.bilm.files, chosen.softmax, chosen.vocabulary]
        check_distinct(chosen.output, model_files, what="a file of the model")
    return model.to(device)


def read_text(model: LanguageModel, report: InputReport, chosen: ScoringOptions) -> Corpus:
    """Read the texts, and print the warnings of the readers."""
    from elmo_cli.lm.corpus import read_corpus

    settings = chosen.text_settings(model)
    corpus = read_corpus(chosen.texts, settings, notes=report, keep_lines=True)
    print_report(report)
    return corpus


def print_report(report: InputReport) -> None:
    """Print the warnings of the readers."""
    console.warn(*report.warnings)
    console.print_truncated(report)


def report_fit(corpus: Corpus, model: LanguageModel, texts: Iterable[str]) -> FitPoint:
    """Print how many tokens are in the vocabulary; an InputError if none is."""
    from elmo_cli.cli.lm_training import print_fit

    point = corpus.fit(TEXT_IN_VOCABULARY, model.vocabulary)
    point.check(shorten_list(list(texts)))
    print_fit([point])
    return point


def score_corpus(
    model: LanguageModel,
    corpus: Corpus,
    *,
    state: str = "zero",
    batch_size: int = 1,
) -> TextScores:
    """Score a text from an initial state, and show progress.

    Args:
        batch_size: with the state `carry`, the number of parallel streams.
    """
    from elmo_cli.lm.evaluation import score
    from elmo_cli.pretrained.warm_state import warm_state

    with console.ProgressDisplay(corpus.n_predictions, "predictions") as progress:
        return score(
            model,
            corpus,
            initial_state=warm_state(model.bilm) if state == "warm" else None,
            carry=state == "carry",
            batch_size=batch_size,
            on_progress=progress.advance,
        )
