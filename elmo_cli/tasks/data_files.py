"""Data files of tasks, read as a whole or row by row; errors name the file, the line and a hint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from elmo_cli.errors import ElmoError, InputError
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.task import Task
from elmo_cli.text.input_signs import SIGNS_OF_DATA, warn_of_signs

# Settings of the readers of texts, which `elmo train` does not have.
_READER_SETTINGS = {"format", "column"}
_ENCODING_HINT = (
    "data files are UTF-8: `iconv -f CP1252 -t UTF-8 FILE > NEW_FILE` converts one from Windows, "
    "with `-f UTF-16` one that begins with 0xFF or 0xFE"
)
_SKIP_HINT = "`on_error='skip'` leaves invalid examples out"


def read_data_file(
    task: Task,
    path: str,
    *,
    labelled: bool = True,
    every_row: bool = False,
    on_error: str | None = None,
) -> Split:
    """Read a data file.

    Args:
        labelled: require targets. Examples that say that they have none, such as those labeled `-`,
            are left out and listed in `Split.unlabelled`.
        every_row: keep these examples, and rows that are blank.
        on_error: "skip" leaves invalid examples out and lists them in `Split.skipped`; None where
            there is no choice.
    Raises:
        InputError: the file is invalid or contains no example.
    """
    split = Split(path, where=path, on_error=on_error or "stop")
    n_examples = 0
    n_sentences = 0
    for _ in read_rows(task, split, labelled=labelled, has_choice=on_error is not None):
        if labelled:
            _list_unlabelled(task, split, n_examples)
        if labelled and not every_row:
            _leave_out_unlabelled(task, split, n_examples, n_sentences)
        n_examples = len(split.examples)
        n_sentences = len(split.sentences)
    if labelled and not any(map(task.is_labelled, split.examples)):
        raise _nothing_labelled(task, split)
    return split


def read_rows(
    task: Task, split: Split, *, labelled: bool, has_choice: bool = False
) -> Iterator[None]:
    """Fill a split row by row; InputError if the file is invalid or contains no example.

    Signs that the text is not what it is read as are reported after the first rows.

    Args:
        has_choice: the hint about an invalid row says that such rows can be left out.
    """
    n_rows = 0
    is_checked = False
    with _input_errors(task, split, has_choice=has_choice):
        for _ in task.fill(split, labelled=labelled):
            n_rows += 1
            split.add_refused_lines()
            if split.sample.is_full and not is_checked:
                warn_of_signs(split.sample, split.report, SIGNS_OF_DATA)
                is_checked = True
            yield
        split.add_refused_lines()
        if not is_checked:
            warn_of_signs(split.sample, split.report, SIGNS_OF_DATA)
    if n_rows == 0 and not split.skipped:
        raise InputError("contains no example", task.format_hint, where=split.path)


@contextmanager
def _input_errors(task: Task, split: Split, *, has_choice: bool) -> Iterator[None]:
    """Turn what `Task.fill` raises into an InputError at `split.where`.

    Args:
        has_choice: the hint says that invalid examples can be left out.
    """
    hint = f"{task.format_hint}; {_SKIP_HINT}" if has_choice else task.format_hint
    try:
        yield
    except InputError as error:
        if "encoding" in error.parameters:
            raise InputError(error.problem, _ENCODING_HINT, where=error.where) from error
        if _READER_SETTINGS.isdisjoint(error.parameters) and error.hint != task.format_hint:
            raise
        raise InputError(error.problem, hint, where=error.where) from error
    except ElmoError:
        raise
    except ValueError as error:
        raise InputError(str(error), hint, where=split.where) from error
    except (AttributeError, KeyError, TypeError) as error:  # JSON with another structure
        problem = f"a field is missing or of the wrong type ({error})"
        raise InputError(problem, hint, where=split.where) from error


def _list_unlabelled(task: Task, split: Split, n_examples: int) -> None:
    """List where the examples of the last row lack a label, unless they are blank.

    Args:
        n_examples: the number of examples of all rows before.
    """
    for example in split.examples[n_examples:]:
        if not task.is_labelled(example) and not example.is_blank:
            split.unlabelled.append(example.where)


def _leave_out_unlabelled(task: Task, split: Split, n_examples: int, n_sentences: int) -> None:
    """Remove the examples without a label from the last row of a split.

    Args:
        n_examples, n_sentences: the numbers of examples and sentences of all rows before. If all
            examples of the row are removed, its sentences are too.
    """
    of_row = split.examples[n_examples:]
    labelled = [example for example in of_row if task.is_labelled(example)]
    if of_row and not labelled:
        split.cut(n_examples, n_sentences)
    split.examples[n_examples:] = labelled


def _nothing_labelled(task: Task, split: Split) -> InputError:
    """Return the error for a data file that has no example with a target."""
    hint = task.format_hint
    if split.unlabelled:
        problem = f"{task.no_label_problem(split)}; the first without one is {split.unlabelled[0]}"
        hint = task.no_label_hint(split)
    elif split.skipped:
        first = split.skipped[0]
        reason = f"{first.where}: {first.problem}"
        problem = f"contains no valid example; the first is invalid: {reason}"
    else:
        problem = "contains no example"
    return InputError(problem, hint, where=split.path)
