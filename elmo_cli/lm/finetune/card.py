"""The card of a fine-tuned model, and the words and the table that the command prints too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmo_cli.files import write_text
from elmo_cli.lm.finetune.result import DIRECTIONS, FinetuneResult
from elmo_cli.messages import plural
from elmo_cli.pretrained.catalogue import Model

_MAX_FILES = 8  # named on the card
_LANGUAGE_CODES = {"English": "en", "Portuguese": "pt"}  # of the catalogue, as hubs write them
_LICENSE_CODES = {"CC BY-SA 4.0": "cc-by-sa-4.0"}
_SOFTMAXES = {"model": "the model's own", "fitted": "fitted to the frozen biLM"}


def write_card(
    path: Path,
    result: FinetuneResult,
    sha256: str,
    texts: Sequence[str],
    *,
    source: Model | None = None,
) -> None:
    """Write the card of a fine-tuned model, in Markdown with the header of hubs; or OutputError.

    Args:
        sha256: of the weight file that was fine-tuned.
        texts: files that were trained on.
        source: the model that was fine-tuned, if it is one of the catalogue.
    """
    lines = [
        *_header(source),
        f"# {result.model}, fine-tuned",
        "",
        "Written by `elmo finetune`. The license of the source model and the rights in the text "
        "apply to it too.",
        "",
        "| | |",
        "|---|---|",
    ]
    for name, fact in _facts(result, sha256, texts).items():
        lines.append(f"| {name} | {_cell(fact)} |")
    lines += [
        "",
        "Perplexity of the test text: full softmax, each sentence from zero states, the same "
        "vocabulary in all rows.",
        "",
        "| | forward | backward | average | bits per byte |",
        "|---|---|---|---|---|",
    ]
    for row in comparison_table(result):
        lines.append(f"| {' | '.join(row)} |")
    if not result.improved:
        lines += ["", f"{why_source(result)}: the weights are those of the source model."]
    write_text(path, [f"{line}\n" for line in lines], errors="backslashreplace")


def _cell(fact: str) -> str:
    """A fact as a cell of a table in Markdown, which ends at a `|` or the end of the line."""
    return " ".join(fact.split()).replace("|", r"\|")


def _header(source: Model | None) -> list[str]:
    """The lines that the Hugging Face hub reads; what only the author knows is a comment.

    Args:
        source: the model that was fine-tuned, if it is one of the catalogue.
    """
    license_line = "# license: a code such as cc-by-sa-4.0"
    language_line = "# language: a code such as en"
    if source is not None and source.licence in _LICENSE_CODES:
        code = _LICENSE_CODES[source.licence]
        license_line = f"license: {code}  # of the source model; check the rights in the text"
    if source is not None and source.language in _LANGUAGE_CODES:
        language_line = f"language: {_LANGUAGE_CODES[source.language]}"
    datasets_line = "# datasets: [names on the hub]"
    return ["---", "library_name: elmo", license_line, language_line, datasets_line, "---", ""]


def _facts(result: FinetuneResult, sha256: str, texts: Sequence[str]) -> dict[str, str]:
    """The rows of the first table of the card."""
    names = ", ".join(f"`{name}`" for name in texts[:_MAX_FILES])
    if len(texts) > _MAX_FILES:
        names += f" and {len(texts) - _MAX_FILES} more"
    test = result.heldout["test"]
    n_types = result.vocabulary["types"]
    return {
        "fine-tuned from": f"{result.model}, weights with sha256 `{sha256}`",
        "on": names,
        "trained": f"{result.tokens:,} tokens in each direction, {result.epochs:.2f} epochs",
        "softmax": f"{_SOFTMAXES[result.softmax]}, then trained",
        "vocabulary": f"{n_types:,} types, {result.vocabulary['source']}",
        "validation text, which chose the weights": describe_text(result.heldout["validation"]),
        "test text, which chose nothing": f"{describe_text(test)}; "
        f"{result.unknown_fraction:.2%} of its tokens are not in the vocabulary, and "
        f"{test['overlap']:.1%} of its sentences are in the training text too",
        "held out as a whole": result.heldout["unit"],
    }


def describe_text(facts: dict[str, Any]) -> str:
    """Describe a half of the held-out text in words, from `Domain.describe`."""
    tokens = plural(facts["tokens"], "token")
    sentences = plural(facts["sentences"], "sentence")
    return f"{tokens} in {sentences} of {facts['source']}"


def why_source(result: FinetuneResult) -> str:
    """Why the output folder contains the source model."""
    return "No step was made" if result.improved is None else "Fine-tuning did not help"


def comparison_table(result: FinetuneResult) -> list[tuple[str, ...]]:
    """Before and after: name, perplexity forward, backward and average, bits per byte."""
    own_softmax = "frozen biLM, its own softmax"
    fitted_softmax = "frozen biLM, fitted softmax"
    rows = [
        (own_softmax, result.before_model_softmax),
        (fitted_softmax if result.softmax == "fitted" else own_softmax, result.before),
        ("fine-tuned" if result.improved else "kept: the same", result.after),
    ]
    table: list[tuple[str, ...]] = []
    for name, figures in rows:
        if figures is not None:
            perplexities = [f"{figures['perplexity'][way]:.2f}" for way in DIRECTIONS]
            bits_per_byte = f"{figures['bits_per_byte']['average']:.4f}"
            table.append((name, *perplexities, bits_per_byte))
    return table
