"""`elmo finetune`: continue training a biLM on text of a domain."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console, lm_training, options
from elmo_cli.cli.click_options import FILE, command, flag, setting, settings, together, value
from elmo_cli.cli.table import print_table
from elmo_cli.fit import fit_facts
from elmo_cli.lm.settings import TrainSettings

if TYPE_CHECKING:
    from elmo_cli.lm.finetune.job import FinetuneJob
    from elmo_cli.lm.finetune.result import FinetuneResult

# fmt: off
_text_options = together(
    value("Domain", "--domain DIR|FILE", "Text of the domain: files, or folders whose .txt, "
          ".conll, .conllu and .jsonl files are read; may be repeated.",
          multiple=True, required=True, type=FILE),
    lm_training.heldout_option(
        "Held-out text, never trained on; may be repeated. Half of it chooses the weights, the "
        "other half measures them; files named test only measure.  [default: files named dev, "
        "valid or heldout in a folder, else about 5 % of the text]"),
    lm_training.patience_option(default=3),
)
_softmax_options = together(
    flag("Model", "--fit-softmax",
         "Fit a new softmax to the frozen biLM first, even if the model has one."),
    value("Model", "--softmax-tokens N", "Maximum number of tokens that the softmax is fitted on.",
          type=options.AT_LEAST_1, default=300_000),
    options.vocabulary_size_options("Model", size=25_000, min_count=2),
)
_training_options = together(
    setting(TrainSettings, "Length", "--max-epochs FLOAT",
            "Stop after reading the text this many times.", default=3.0),
    settings(
        TrainSettings, "Length",
        ("--max-seconds SECONDS",
         "Stop after this many seconds of training, over all parts of the run."),
        ("--max-steps N", "Stop after N weight updates."),
    ),
    lm_training.training_options("0.001 for adamw, less below 1000 steps; 0.05 for adagrad"),
)
# fmt: on


@dataclass(frozen=True)
class FinetuneOptions(
    lm_training.RunFolderOptions,
    lm_training.TrainingOptions,
    options.ModelOptions,
    options.LanguageModelOptions,
    options.VocabularySizeOptions,
):
    """The values of all options of `elmo finetune`; each field is an option of the same name."""

    domain: tuple[str, ...]
    fit_softmax: bool
    softmax_tokens: int


@command
@_text_options
@options.model_options
@options.language_model_options(or_counted=True)
@_softmax_options
@lm_training.run_folder_options("model, model card, log and checkpoint", "Continue the run in DIR.")
@_training_options
@lm_training.common_options
def finetune(**values: Any) -> None:
    """Continue training a biLM on your own text and write the result as a new model folder.

    The source model stays unchanged. A model without a softmax first gets one, fitted to the frozen
    biLM. Then the whole model is trained at a low learning rate until the held-out perplexity stops
    falling, and the best weights are kept. The table at the end compares the frozen and the
    fine-tuned biLM, with the same vocabulary on the same text.

    \b
    Examples:
      elmo finetune --domain data/ -o tuned/
      elmo finetune --domain raw/ --tokenize -m original -o tuned/ \\
          --max-seconds 3600
      elmo finetune --domain data/ -o tuned/ --max-seconds 7200 --resume
      elmo embed corpus.txt -o corpus.hdf5 -m tuned/
    """
    chosen = FinetuneOptions(**values)
    with lm_training.ConsoleReporter("the validation text") as reporter:
        from elmo_cli.lm.finetune.run import finetune as run_finetune

        job = _job(chosen)
        options.use_threads(chosen.threads)
        options.warn_of_slow_bf16(chosen.precision, job.device)
        result = run_finetune(job, reporter=reporter)
    facts = {**asdict(result), "fit": fit_facts(reporter.fit_points)}
    console.print_result(facts, partial(_print, result))
    if not result.improved:
        reporter.message(_why_not_improved(result))
    elif result.ratio > 1:
        reporter.message(
            "warning: fine-tuning improved the validation text, but not the test text; "
            "the domain is perhaps too small"
        )
    console.exit_if_skipped(reporter.notes)


def _job(chosen: FinetuneOptions) -> FinetuneJob:
    from elmo_cli.engine.runtime import select_device
    from elmo_cli.lm.finetune.job import FinetuneJob

    # The library refuses these three options where they have no effect, but not their defaults.
    softmax_tokens = None
    if options.is_given("softmax_tokens"):
        softmax_tokens = chosen.softmax_tokens
    vocabulary_size = None
    if options.is_given("vocabulary_size"):
        vocabulary_size = chosen.vocabulary_size
    min_count = None
    if options.is_given("min_count"):
        min_count = chosen.min_count
    return FinetuneJob(
        domain=chosen.domain,
        heldout=chosen.heldout,
        output=Path(chosen.output),
        settings=_train_settings(chosen),
        model=chosen.model_source(),
        softmax=chosen.softmax,
        vocabulary=chosen.vocabulary,
        fit_softmax=chosen.fit_softmax,
        softmax_tokens=softmax_tokens,
        vocabulary_size=vocabulary_size,
        min_count=min_count,
        reading=chosen.input_settings(),
        device=select_device(chosen.device),
        mode=chosen.mode(),
    )


def _train_settings(chosen: FinetuneOptions) -> TrainSettings:
    return TrainSettings(
        batch_size=chosen.batch_size,
        gradient_accumulation_steps=chosen.gradient_accumulation_steps,
        optimizer=chosen.optimizer,
        learning_rate=chosen.learning_rate,
        dropout=chosen.dropout,
        negative_samples=chosen.negative_samples,
        max_seconds=chosen.max_seconds,
        max_steps=chosen.max_steps,
        max_epochs=chosen.max_epochs,
        patience=chosen.patience,
        precision=chosen.precision,
        dtype=chosen.dtype,
        seed=chosen.seed,
    )


def _why_not_improved(result: FinetuneResult) -> str:
    from elmo_cli.lm.finetune.card import why_source

    problem = f"{why_source(result)}: {result.output} contains the biLM of {result.model}"
    if result.improved is None:
        return f"{problem}; `--resume` with a larger limit trains"
    lower_rate = result.learning_rate / 4
    return f"{problem}; try `--overwrite --learning-rate {lower_rate:.1g}`, or more text"


def _print(result: FinetuneResult) -> None:
    from elmo_cli.lm.finetune.card import comparison_table, describe_text

    columns = ("", "forward", "backward", "average", "bits per byte")
    print_table(columns, comparison_table(result))
    test_text = describe_text(result.heldout["test"])
    validation_text = describe_text(result.heldout["validation"])
    ratio = f"perplexity after / before: {result.ratio:.3f}, " if result.improved else ""
    console.say(
        f"{ratio}measured on the test text, which chose nothing: {test_text}",
        f"{result.unknown_fraction:.2%} of its tokens are not among the "
        f"{result.vocabulary['types']:,} types of the vocabulary ({result.vocabulary['source']})",
    )
    if result.improved is not None:
        best = result.chosen
        console.say(
            f"the weights of step {best['step']:,} were chosen on the validation text, "
            f"with perplexity {best['perplexity']:.2f}: {validation_text}",
            f"{result.output}: trained on {result.tokens:,} tokens, {result.epochs:.2f} epochs, in "
            f"{result.seconds:,.0f} s",
        )
