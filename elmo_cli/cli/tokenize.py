"""`elmo tokenize`: split raw English into sentences and tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import FILE, command, output_option
from elmo_cli.errors import UsageError

if TYPE_CHECKING:
    from elmo_cli.text.sentence import Sentence


@dataclass(frozen=True)
class TokenizeOptions(options.RawInputOptions):
    """The values of all options of `elmo tokenize`."""

    texts: tuple[str, ...]
    output: str
    overwrite: bool


@command
@options.texts_argument("texts", required=True, metavar="TEXT…")
@output_option(
    "FILE",
    "Output text file, one sentence per line; - for standard output.",
    default="-",
    type=FILE,
)
@options.overwrite_option
@options.raw_input_options
@options.quiet_option
def tokenize(**values: Any) -> None:
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
    from elmo_cli.text.input import InputReport, InputSettings, read_sentences

    chosen = TokenizeOptions(**values)
    _refuse_other_formats(chosen.texts)
    raw_text = InputSettings(
        format="plain", tokenize=True, encoding=chosen.encoding, on_error=chosen.on_error
    )
    report = InputReport()
    sentences = read_sentences(chosen.texts, raw_text, report)
    console.check_output(chosen.output, chosen.texts, overwrite=chosen.overwrite)
    console.write_lines(chosen.output, _lines(sentences), overwrite=chosen.overwrite)
    console.warn(*report.warnings)
    if chosen.output != "-":
        console.note(f"{chosen.output}: written")
    console.exit_if_skipped(report)


def _refuse_other_formats(texts: Sequence[str]) -> None:
    """Raise a UsageError for a file whose suffix says that it is not raw text."""
    from elmo_cli.text.input import InputSettings, format_of

    for text in texts:
        text_format = format_of(text, InputSettings())
        if text_format != "plain":
            raise UsageError(
                f"{text_format} according to its suffix, which is not raw text",
                "`elmo embed` reads it directly; `elmo tokenize - < FILE` reads any raw text",
                where=text,
            )


def _lines(sentences: Iterable[Sentence]) -> Iterator[str]:
    """Yield the line of each sentence, and a blank line where another file starts."""
    is_within_document = False
    for sentence in sentences:
        has_tokens = bool(sentence.tokens)
        if is_within_document and has_tokens and sentence.starts_document:
            yield "\n"
        yield f"{sentence.text}\n"
        is_within_document = has_tokens
