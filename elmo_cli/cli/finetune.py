"""`elmo finetune`: continue training a biLM on text of a domain."""

from __future__ import annotations

from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console, lm_training, options
from elmo_cli.cli.click_options import command, flag, setting, settings, together, value
from elmo_cli.lm.settings import TrainSettings

if TYPE_CHECKING:
    from elmo_cli.lm.finetune.job import FinetuneJob
    from elmo_cli.lm.finetune.result import FinetuneResult

# Options with the names of fields of a job; the latter ones only if they are given.
_SAME = ("domain", "heldout", "softmax", "vocabulary", "fit_softmax")
_FITTING = ("softmax_tokens", "vocabulary_size", "min_count")

# fmt: off
_text_options = together(
    value("Domain", "--domain DIR|FILE", "Text of the domain: files, or folders whose .txt, "
          ".conll, .conllu and .jsonl files are read; may be repeated.",
          multiple=True, required=True),
    lm_training.heldout_option(
        "Held-out text, never trained on; may be repeated. Half of it chooses the weights, the "
        "other half measures them; files named test only measure.  [default: files named dev, "
        "valid or heldout in a folder, else about 5 % of the text]"),
    lm_training.patience_option(3),
)
_softmax_options = together(
    flag("Model", "--fit-softmax",
         "Fit a new softmax to the frozen biLM first, even if the model has one."),
    value("Model", "--softmax-tokens N", "Maximum number of tokens that the softmax is fitted on.",
          type=options.AT_LEAST_1, default=300_000),
    options.vocabulary_size_options("Model", 25_000, 2),
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
      elmo finetune --domain raw/ --tokenize -m original -o tuned/ --max-seconds 3600
      elmo finetune --domain data/ -o tuned/ --max-seconds 7200 --resume
      elmo embed corpus.txt -o corpus.hdf5 -m tuned/
    """
    with lm_training.ConsoleReporter("the validation text") as reporter:
        from elmo_cli.lm.finetune.run import finetune as run_finetune

        job = _job(values, options.given_options())
        options.use_threads(values["threads"])
        options.warn_of_slow_bf16(job.settings.precision, job.device)
        result = run_finetune(job, reporter=reporter)
    lm_training.warn_of_unknown(result.unknown_fraction, "the tokens of the test text")
    console.print_result(asdict(result), partial(_print, result))
    if not result.improved:
        reporter.message(_why_not_improved(result))
    elif result.ratio > 1:
        what = "warning: fine-tuning improved the validation text, but not the test text; "
        reporter.message(f"{what}the domain is perhaps too small")
    console.exit_if_skipped(reporter.notes)


def _job(values: dict[str, Any], given: dict[str, Any]) -> FinetuneJob:
    from elmo_cli.engine.runtime import select_device
    from elmo_cli.lm.finetune.job import FinetuneJob

    names = [one.name for one in fields(TrainSettings) if one.name in values]
    same = {name: values[name] for name in _SAME} | {name: given.get(name) for name in _FITTING}
    return FinetuneJob(
        **same,
        output=Path(values["output"]),
        settings=TrainSettings(**{name: values[name] for name in names}),
        model=options.model_source(values),
        reading=options.input_settings(values),
        device=select_device(values["device"]),
        mode=options.run_mode(values),
    )


def _why_not_improved(result: FinetuneResult) -> str:
    from elmo_cli.lm.finetune.card import why_source

    what = f"{why_source(result)}: {result.output} contains the biLM of {result.model}"
    if result.improved is None:
        return f"{what}; `--resume` with a longer --max-seconds trains"
    lower = result.learning_rate / 4
    return f"{what}; try `--overwrite --learning-rate {lower:.1g}`, or more text"


def _print(result: FinetuneResult) -> None:
    from elmo_cli.lm.finetune.card import comparison_table, describe_text

    columns = ("", "forward", "backward", "average", "bits per byte")
    console.table(columns, comparison_table(result))
    heldout, vocabulary, chosen = result.heldout, result.vocabulary, result.chosen
    after = f"perplexity after / before: {result.ratio:.3f}, " if result.improved else ""
    console.say(
        f"{after}measured on the test text, which chose nothing: {describe_text(heldout['test'])}",
        f"{result.unknown_fraction:.2%} of its tokens are not among the {vocabulary['types']:,} "
        f"types of the vocabulary ({vocabulary['source']})",
    )
    if result.improved is not None:
        console.say(
            f"the weights of step {chosen['step']:,} were chosen on the validation text, with "
            f"perplexity {chosen['perplexity']:.2f}: {describe_text(heldout['validation'])}",
            f"{result.output}: trained on {result.tokens:,} tokens, {result.epochs:.2f} epochs, in "
            f"{result.seconds:,.0f} s",
        )
