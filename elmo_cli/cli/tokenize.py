"""`elmo tokenize`: split raw English into sentences and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import command, output_option

_RAW = {"format": "plain", "tokenize": True, "column": None}


@command
@options.texts_argument("texts", required=True, metavar="TEXT…")
@output_option(
    "FILE", "Output text file, one sentence per line; - for standard output.", default="-"
)
@options.overwrite_option
@options.raw_input_options
@options.quiet_option
def tokenize(*, texts: tuple[str, ...], output: str, **given: Any) -> None:
    """Split raw English into sentences and tokens, as `elmo embed --tokenize` does.

    TEXT is a text file with one paragraph per line, plain or compressed (.gz, .xz); - is standard
    input. The output has one sentence per line, its tokens separated by spaces, and the blank lines
    of TEXT, which separate documents; a blank line is added between two TEXTs that have none there.
    `elmo embed` and `elmo pretrain` read it without --tokenize; from a single TEXT, the keys are
    those of `elmo embed --tokenize`.

    \b
    Examples:
      elmo tokenize raw.txt | head -3
      elmo tokenize raw/*.txt.xz | xz > tokens.txt.xz
      elmo pretrain tokens.txt.xz -o model/ --max-seconds 3600
    """
    from elmo_cli.errors import UsageError
    from elmo_cli.text.input import InputReport, InputSettings, format_of, read_sentences

    report = InputReport()

    def lines() -> Iterator[str]:
        is_within_document = False
        for sentence in sentences:
            has_tokens = bool(sentence.tokens)
            if is_within_document and has_tokens and sentence.starts_document:  # another file
                yield "\n"
            is_within_document = has_tokens
            yield f"{sentence.text}\n"

    for name in texts:
        if (kind := format_of(name, InputSettings())) != "plain":
            raise UsageError(
                f"{name}: {kind} according to its suffix, which is not raw text",
                "`elmo embed` reads it directly; `elmo tokenize - < FILE` reads any raw text",
            )
    sentences = read_sentences(texts, options.input_settings({**given, **_RAW}), report)
    console.check_output(output, texts, overwrite=given["overwrite"])
    where = console.write_lines(output, lines(), overwrite=given["overwrite"])
    console.warn(*report.warnings)
    console.note(f"{where}: written")
    console.exit_if_skipped(report)
