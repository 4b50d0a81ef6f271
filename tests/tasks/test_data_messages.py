"""Messages about the data of a task name the lines of the user's files, and what was read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import elmo, made, refused

SMALL = ("--epochs", 1, "--set", "hidden=4", "--set", "char_filters=4")
ESCAPED = ("Tom", "&amp;", "Ann")
# The sentence with an escape is the third one, but only the second distinct one.
SENTENCES = [("It", "rains", "."), ("It", "rains", "."), ESCAPED]


def columns(sentences: list[tuple[str, ...]]) -> str:
    return "\n".join("".join(f"{token} {token[0]}\n" for token in tokens) for tokens in sentences)


def json_lines(sentences: list[tuple[str, ...]]) -> str:
    lines = []
    for tokens in sentences:
        labels = [token[0] for token in tokens]
        lines.append(json.dumps({"tokens": tokens, "labels": labels}) + "\n")
    return "".join(lines)


def labeled_lines(sentences: list[tuple[str, ...]]) -> str:
    return "".join(f"{len(set(tokens[0]))}\t{' '.join(tokens)}\n" for tokens in sentences)


# Task -> name and content of a data file, and the line of its escape.
FILES = {
    "ner": ("data.conll", columns(SENTENCES), 9),
    "ner, JSON": ("data.jsonl", json_lines(SENTENCES), 3),
    "classification": ("data.tsv", labeled_lines(SENTENCES), 3),
}


def with_escapes(err: str) -> list[str]:
    """The places that warnings about escapes name."""
    warnings = [line for line in err.splitlines() if "escapes such as" in line]
    return [line.removeprefix("warning: ").split(": escapes")[0] for line in warnings]


@pytest.mark.parametrize("case", FILES)
@pytest.mark.parametrize("elmo_layers", ["all", "none"])
def test_escapes_are_warned_of_with_the_line_of_the_file(case: str, elmo_layers: str) -> None:
    name, content, line = FILES[case]
    task = case.partition(",")[0]
    Path(name).write_text(content)
    expected = f"{name}, line {line}"
    data = ("--train", name, "--dev", name)
    trained = made("train", task, *data, *SMALL, "--elmo", elmo_layers, "-o", "model")
    assert with_escapes(trained.err) == [expected] * 2
    evaluated = made("evaluate", "model", "--test", name)
    assert with_escapes(evaluated.err) == [expected]
    predicted = made("predict", "model", "--as-data", name)
    assert with_escapes(predicted.err) == [expected]
    assert "distinct sentences" not in trained.err + evaluated.err


def test_the_warning_is_that_of_embed() -> None:
    Path("data.conll").write_text(FILES["ner"][1])
    embedded = made("embed", "data.conll", "-o", "data.hdf5")
    data = ("--train", "data.conll", "--dev", "data.conll")
    trained = made("train", "ner", *data, *SMALL, "-o", "model")
    [warning] = [line for line in embedded.err.splitlines() if "escapes" in line]
    assert trained.err.splitlines().count(warning) == 2


@pytest.mark.parametrize(
    ("line", "is_shown"), [("It slept. O", True), ("It slept . O", False), ("<s> It O", False)]
)
def test_untokenized_data_are_warned_of(line: str, is_shown: bool) -> None:
    """Each token of columns with tabs may be a whole text."""
    Path("data.conll").write_text(line.replace(" O", "\tO") + "\n\nIt slept.\tX\n\nAnna\tY\n")
    data = ("--train", "data.conll", "--dev", "data.conll")
    err = made("train", "ner", *data, *SMALL, "--elmo", "none", "-o", "model").err
    assert ("data.conll, line 1: looks untokenized; the biLM was trained" in err) == is_shown


def test_only_the_first_sentences_are_checked() -> None:
    """They are enough to see what a text is, and a large one is not read twice."""
    Path("data.conll").write_text(columns([SENTENCES[0]] * 200 + [ESCAPED]))
    data = ("--train", "data.conll", "--dev", "data.conll")
    trained = made("train", "ner", *data, *SMALL, "--elmo", "none", "-o", "model")
    assert with_escapes(trained.err) == []


def conllu(*, upos: str = "_", xpos: str = "_", deprel: str = "_") -> str:
    rows = []
    for number, form in enumerate(("Anna", "slept"), 1):
        rows.append(f"{number}\t{form}\t_\t{upos}\t{xpos}\t_\t_\t{deprel}\t_\t_\n")
    return "# text = Anna slept\n" + "".join(rows) + "\n"


@pytest.mark.parametrize(
    ("content", "setting", "column", "hint"),
    [
        (conllu(upos="X"), None, "column xpos", "`--set label_column=upos` reads the column upos"),
        (conllu(upos="X"), "5", "column 5", "`--set label_column=upos` reads the column upos"),
        (conllu(xpos="X"), "upos", "column upos", "`--set label_column=xpos` reads"),
        (conllu(deprel="X"), None, "column xpos", "`--set label_column=deprel` reads"),
        (conllu(), None, "column xpos", "docs/reference/data-formats.md"),
    ],
)
@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_data_without_labels_name_the_column_that_was_read(
    content: str, setting: str | None, column: str, hint: str, on_error: str
) -> None:
    Path("data.conllu").write_text(content)
    data = ("--train", "data.conllu", "--dev", "data.conllu", "--on-error", on_error)
    chosen = () if setting is None else ("--set", f"label_column={setting}")
    done = elmo("train", "ner", *data, *chosen, "-o", "model")
    first = "the first without one is data.conllu, line 2"
    refused(done, 1, f"data.conllu: no token has a label in {column}; {first}", hint)
    assert "--on-error" not in done.err


def test_other_columns_without_labels_are_named_too() -> None:
    Path("data.conll").write_text("Anna NNP _\nslept VBD _\n")
    data = ("--train", "data.conll", "--dev", "data.conll")
    done = elmo("train", "ner", *data, "-o", "model")
    refused(done, 1, "data.conll: no token has a label in the last column;", "data-formats.md")


def test_a_trained_model_reads_no_other_column() -> None:
    Path("data.conllu").write_text(conllu(upos="X") + conllu(upos="Y"))
    Path("test.conllu").write_text(conllu(xpos="X"))
    data = ("--train", "data.conllu", "--dev", "data.conllu", "--set", "label_column=upos")
    made("train", "ner", *data, *SMALL, "--elmo", "none", "-o", "model")
    done = elmo("evaluate", "model", "--test", "test.conllu")
    refused(done, 1, "test.conllu: no token has a label in column upos;", "data-formats.md")


@pytest.mark.parametrize("content", ["", "{}\n", '{"label": 1}\n' * 2])
def test_invalid_examples_are_not_left_out_twice(content: str) -> None:
    """A hint to leave invalid examples out would leave nothing."""
    Path("data.jsonl").write_text(content)
    data = ("--train", "data.jsonl", "--dev", "data.jsonl", "--on-error", "skip")
    done = elmo("train", "classification", *data, "-o", "model")
    refused(done, 1, "data.jsonl: contains no ", "data-formats.md")
    assert "--on-error" not in done.err


@pytest.mark.parametrize(("patience", "is_early"), [(1, True), (30, False)])
def test_an_early_end_is_explained(patience: int, is_early: bool) -> None:
    Path("data.conll").write_text(columns(SENTENCES[1:]))
    data = ("--train", "data.conll", "--dev", "data.conll", "--learning-rate", 0.05)
    sizes = ("--epochs", 30, "--set", "hidden=8", "--elmo", "none")
    command = ("train", "ner", *data, *sizes, "--patience", patience, "-o", "model")
    done = made(*command)
    n_epochs = len(Path("model/log.jsonl").read_text().splitlines())
    reason = "no better dev score for 1 epoch (`--patience`)"
    message = f"stopped after epoch {n_epochs} of 30: {reason}"
    assert (n_epochs < 30) == is_early
    shown = [line for line in done.err.splitlines() if "stopped" in line]
    assert shown == [message] * is_early


@pytest.mark.parametrize(
    ("n_examples", "batch_size", "warning"),
    [
        (20, 32, "only 1 step per epoch, with which a model may learn to give one label to"),
        (20, 7, "only 3 steps per epoch, with which a model may learn to give one label to"),
        (20, 5, ""),
        (2, 1, ""),
    ],
)
def test_few_steps_per_epoch_are_warned_of(n_examples: int, batch_size: int, warning: str) -> None:
    """A model that has hardly been trained gives the same label to everything."""
    Path("data.conll").write_text("\n".join(["It PRON\nrains VERB\n"] * n_examples))
    data = ("--train", "data.conll", "--dev", "data.conll", "--batch-size", batch_size)
    err = made("train", "ner", *data, *SMALL, "--elmo", "none", "-o", "model").err
    lines = [line for line in err.splitlines() if "per epoch" in line]
    if warning:
        [line] = lines
        assert line.startswith(f"warning: {warning}")
        assert line.endswith("; `--batch-size 5` gives more")
    else:
        assert not lines
