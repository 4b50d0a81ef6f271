"""The card of a fine-tuned model: what was fine-tuned, from what, on what, and what it gave."""

from __future__ import annotations

from collections.abc import Sequence

from elmo_cli.lm.tuning_job import FineTuned

_MOST_FILES = 8


def card(done: FineTuned, weights_sha256: str, texts: Sequence[str]) -> str:
    """The card as Markdown.

    Args:
        weights_sha256: of the weight file that was fine-tuned.
        texts: names of the files that were trained on.
    """
    names = ", ".join(f"`{name}`" for name in texts[:_MOST_FILES])
    more = f" and {len(texts) - _MOST_FILES} more" if len(texts) > _MOST_FILES else ""
    heldout, vocabulary = done.heldout, done.vocabulary
    lines = [
        f"# {done.model}, fine-tuned",
        "",
        "Made by `elmo finetune`. The licence of the source model and the rights in the text hold "
        "for it too.",
        "",
        "| | |",
        "|---|---|",
        f"| fine-tuned from | {done.model}, weights with sha256 `{weights_sha256}` |",
        f"| on | {names}{more} |",
        f"| trained | {done.tokens:,} tokens in each direction, {done.epochs:.2f} epochs |",
        f"| softmax | {_SOFTMAX[done.softmax]} |",
        f"| vocabulary | {vocabulary['types']:,} types, {vocabulary['source']} |",
        f"| held-out text | {heldout['source']}: {heldout['tokens']:,} tokens, "
        f"{done.unknown_fraction:.2%} of them not in the vocabulary; {heldout['overlap']:.1%} of "
        "its sentences are in the training text too |",
        "",
        "Perplexity on the held-out text: full softmax, each sentence from a state of zeros, the "
        "same vocabulary throughout. Which weights were kept was decided on a part of this text.",
        "",
        "| | forward | backward | average | bits per byte |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(row)} |" for row in table(done)]
    if not done.improved:
        lines += ["", "Fine-tuning did not help: the weights are those of the source model."]
    return "\n".join(lines) + "\n"


def table(done: FineTuned) -> list[tuple[str, str, str, str, str]]:
    """Before and after: name, perplexity forward, backward and average, bits per byte."""
    rows = [
        (
            f"frozen biLM, {'fitted' if done.softmax == 'fitted' else 'its own'} softmax",
            done.before,
        ),
        ("fine-tuned" if done.improved else "kept: the same", done.after),
    ]
    if done.before_model_softmax is not None:
        rows.insert(0, ("frozen biLM, its own softmax", done.before_model_softmax))
    return [
        (
            name,
            f"{figures.perplexity['forward']:.2f}",
            f"{figures.perplexity['backward']:.2f}",
            f"{figures.perplexity['average']:.2f}",
            f"{figures.bits_per_byte['average']:.4f}",
        )
        for name, figures in rows
    ]


_SOFTMAX = {
    "model": "the model's own, trained on",
    "fitted": "fitted to the frozen biLM first, then trained on",
}
