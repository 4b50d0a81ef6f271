"""What commands that read text do alike: their settings, their warnings, what was left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from elmo_cli.cli import console
from elmo_cli.errors import SkippedError
from elmo_cli.files import check_distinct, check_output_path, write_text
from elmo_cli.text.input import InputReport, InputSettings

READING = ("format", "tokenize", "encoding", "column", "blank", "max_tokens", "on_error")


def reading_of(given: dict[str, Any], *, max_characters: int = 50) -> InputSettings:
    """How the text is to be read, from the values of `input_options`.

    Raises:
        UsageError: options that contradict each other.
    """
    fields = {name: given[name] for name in READING if name in given}
    return InputSettings(**fields, max_characters=max_characters)


def check_output(output: str, texts: Sequence[str], *, overwrite: bool) -> None:
    """Refuse, before any work, a place that lines can't be written to.

    Args:
        output: a file, or "-" for standard output.
        texts: which are read meanwhile.
    Raises:
        UsageError: it is one of the texts.
        OutputError: as `files.check_output_path`.
    """
    check_distinct(output, texts)
    if output != "-":
        check_output_path(output, overwrite=overwrite)


def write_lines(
    output: str,
    lines: Iterable[str],
    *,
    overwrite: bool,
    option: str = "-o FILE",
    errors: str = "strict",
) -> None:
    """Write lines, with their ends, in UTF-8 to a file or standard output.

    Args:
        output: a file, or "-" for standard output.
        option: what writes a file instead of standard output.
        errors: as in `files.write_text`.
    Raises:
        OutputError: it can't be written; an error of what gives the lines stays what it is.
    """
    if output == "-":
        with console.binary_stdout(option) as out:
            out.writelines(line.encode(errors=errors) for line in lines)
    else:
        write_text(output, lines, overwrite=overwrite, errors=errors)


def say_noticed(notes: InputReport, *, quiet: bool, is_cut: bool = True) -> None:
    """Print what the readers noticed.

    Args:
        is_cut: whether a model reads the tokens, which cuts long ones.
    """
    for warning in notes.warnings:
        console.note(f"warning: {warning}", quiet=quiet)
    if is_cut:
        say_truncated(notes, quiet=quiet)


def say_truncated(notes: InputReport, *, quiet: bool) -> None:
    """Print how many tokens are longer than the model reads."""
    if notes.truncated_tokens and notes.first_truncated is not None:
        token, source, line = notes.first_truncated
        n_cut = notes.truncated_tokens
        what = "1 token is" if n_cut == 1 else f"{n_cut:,} tokens are"
        where = f"`{token}` ({source}, line {line})"
        console.note(
            f"warning: {what} longer than the model reads and cut"
            + (f": {where}" if n_cut == 1 else f"; the first is {where}"),
            quiet=quiet,
        )


def refuse_skipped(
    *all_notes: InputReport,
    lists: Sequence[str] = (),
    more: str = "`--on-error stop` ends at the first",
) -> None:
    """Exit code 3 when input was left out.

    Args:
        all_notes: of each output.
        lists: files that name all of it.
        more: what to do where there is no list.
    Raises:
        SkippedError: there are such places.
    """
    skipped = [place for notes in all_notes for place in notes.skipped]
    if not skipped:
        return
    if lists:
        more = f"the {'list is' if len(lists) == 1 else 'lists are'} {', '.join(lists)}"
    source, line, why = skipped[0]
    what = "1 line was" if len(skipped) == 1 else f"{len(skipped):,} lines were"
    raise SkippedError(
        f"{what} left out, the first {source}, line {line}: {why}", f"all others are done; {more}"
    )
