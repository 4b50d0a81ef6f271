"""Hints can be followed: each option or parameter that a message names exists where it is printed.

The messages of every command that a test runs are checked in `command_line.elmo`. Here all texts of
the source are checked, also of errors that no test causes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from hints import PARAMETER, all_commands, missing_options, parameters_of

from elmo_cli.cli import console

PACKAGE = Path(__file__).resolve().parents[2] / "elmo_cli"
COMMANDS = all_commands()
EMBED = {"embed"}
PRETRAIN = {"pretrain"}
FINETUNE = {"finetune"}
SCORE_TEXT = {"perplexity", "score"}
TRAIN_LM = {"pretrain", "finetune"}
READ_TEXT = {"embed", "finetune", "inspect", "predict", "pretrain", "usages", "vocab", *SCORE_TEXT}
READ_LABELS = {"probe", "plot senses"}
USE_MODEL = {
    "embed",
    "evaluate",
    "finetune",
    "inspect",
    "models convert",
    "models export",
    "models random",
    "models show",
    "neighbors",
    "perplexity",
    "predict",
    "pretrain",
    "score",
    "train",
    "usages",
}
# Path -> the commands that print its messages; the longest path that fits is used. None: messages
# of the library alone, which name its parameters.
PRINTED_BY: dict[str, set[str] | None] = {
    "analysis/geometry": {"geometry"},
    "analysis/labelled_vectors.py": READ_LABELS,
    "analysis/neighbors.py": {"neighbors"},
    "analysis/probe_data.py": {"probe"},
    "analysis/probe_layers.py": {"probe"},
    "analysis/query.py": {"neighbors"},
    "analysis/structural": {"probe"},
    "analysis/usages.py": {"usages"},
    "analysis/vectors.py": {"geometry", "neighbors", "plot senses", "probe"},
    "cluster/": EMBED,
    "dataset.py": None,
    "embed/": EMBED,
    "embed/embedder.py": USE_MODEL,
    "embed/output_reduction.py": USE_MODEL,
    "embed/verify_sample.py": {"inspect"},
    "engine/": {name for name in COMMANDS if "device" in parameters_of(COMMANDS[name])},
    "engine/engines.py": EMBED,  # of the precisions that only `embed` has
    "families/": USE_MODEL,
    "files.py": {name for name in COMMANDS if "overwrite" in parameters_of(COMMANDS[name])},
    "fit.py": {*TRAIN_LM, *SCORE_TEXT},
    "interop/": None,
    "interop/numpy_archive.py": {"convert"},
    "interop/parquet": {"convert", "embed", "merge"},
    "interop/word2vec.py": {"convert"},
    "lm/": TRAIN_LM,
    "lm/converted_model.py": {"models convert", "models export"},
    "lm/distributed.py": PRETRAIN,
    "lm/evaluation.py": {*TRAIN_LM, *SCORE_TEXT},
    "lm/finetune/": FINETUNE,
    "lm/language_model.py": {
        *TRAIN_LM,
        "models convert",
        "models export",
        "models random",
        *SCORE_TEXT,
    },
    "lm/pretrain.py": PRETRAIN,
    "lm/pretrain_config.py": PRETRAIN,
    "model/": None,
    "plot/": {name for name in COMMANDS if name.startswith("plot ")},
    "plot/figures.py": None,
    "plot/tree_plot.py": {"plot tree"},
    "pretrained/": USE_MODEL,
    "pretrained/hub_download.py": {"models pull"},
    "store/": EMBED,
    "store/convert.py": {"convert"},
    "store/derived_file.py": {"convert", "merge"},
    "store/inspection.py": {"inspect"},
    "store/layers.py": {"convert", "embed", "usages"},
    "store/layouts/": {"convert", "embed"},
    "store/sentence_sample.py": {"inspect"},
    "store/shards.py": {"embed", "merge"},
    "tasks/": {"evaluate", "predict", "train"},
    "tasks/classification.py": {"predict"},
    "tasks/data_files.py": {"train"},
    "tasks/inputs.py": {"train"},
    "tasks/task.py": {"train"},
    "tasks/trainer.py": {"train"},
    "text/": READ_TEXT,
    "text/conll.py": READ_TEXT | READ_LABELS,
    "text/lines.py": READ_TEXT | READ_LABELS | {"change", "tokenize"},
    "text/vocabulary.py": {*TRAIN_LM, "vocab"},
    "training/": {*TRAIN_LM, "train"},
    "weightfile/": TRAIN_LM,
}


class OnlyBy(NamedTuple):
    """A parameter that a module names although not all of its commands have it."""

    commands: set[str]  # that can print the message; none if it names no option
    reason: str


EXCEPTIONS = {
    ("analysis/query.py", "word"): OnlyBy(set(), "an argument, no option"),
    ("embed/output_reduction.py", "layers"): OnlyBy(EMBED, "names what was computed, no option"),
    ("files.py", "resume"): OnlyBy({*TRAIN_LM, "embed", "train"}, "an output that can be resumed"),
    ("interop/parquet_rows.py", "sentence"): OnlyBy(set(), "a column, no option"),
    ("lm/converted_model.py", "optimizer_state"): OnlyBy(
        {"models convert"}, "the option was given"
    ),
    ("lm/evaluation.py", "batch_size"): OnlyBy(
        {*TRAIN_LM, "perplexity"}, "only a carried state has streams"
    ),
    ("lm/language_model.py", "output"): OnlyBy({"models random"}, "its output folder has content"),
    ("pretrained/load.py", "options"): OnlyBy(
        {"embed", "finetune", "inspect", *SCORE_TEXT}, "half a pair of files was given"
    ),
    ("pretrained/load.py", "weights"): OnlyBy(
        {"embed", "finetune", "inspect", *SCORE_TEXT}, "half a pair of files was given"
    ),
    ("store/layouts/__init__.py", "forget_sentences"): OnlyBy(EMBED, "the option was given"),
    ("store/file_formats.py", "compression"): OnlyBy({"convert", "merge"}, "`embed` has none"),
    ("store/layers.py", "layer"): OnlyBy({"convert", "neighbors"}, "of `find_layer`"),
    ("store/layouts/__init__.py", "sentence_map"): OnlyBy(EMBED, "the option was given"),
    ("store/layouts/allennlp.py", "blank"): OnlyBy(EMBED, "of the keys of a new file"),
    ("store/shards.py", "shard"): OnlyBy(EMBED, "the option, or the name of an attribute"),
    ("tasks/embeddings_folder.py", "embeddings"): OnlyBy(
        {"evaluate", "train"}, "`predict` computes"
    ),
    ("tasks/embeddings_folder.py", "state"): OnlyBy(set(), "names what a file states"),
    ("tasks/ner.py", "label_column"): OnlyBy(set(), "a setting, which `--set` changes"),
    ("tasks/ner.py", "token_column"): OnlyBy(set(), "a setting, which `--set` changes"),
    ("tasks/train.py", "batch_size"): OnlyBy({"train"}, "of a run that trains"),
    ("tasks/train.py", "on_error"): OnlyBy({"train"}, "of a run that trains"),
    ("tasks/trained_task.py", "learning_rate"): OnlyBy({"train"}, "of a run that trains"),
    ("text/input_settings.py", "rows"): OnlyBy(EMBED, "the option was given"),
    ("text/lines.py", "blank"): OnlyBy({"embed", "inspect"}, "only `blank='error'` refuses"),
    ("text/lines.py", "max_tokens"): OnlyBy(EMBED, "only `embed` can lower the limit"),
    ("text/row_groups.py", "max_tokens"): OnlyBy(EMBED, "only `embed` can lower the limit"),
    ("text/conll.py", "max_tokens"): OnlyBy(EMBED, "only `embed` can lower the limit"),
    ("store/sentence_sample.py", "state"): OnlyBy(set(), "names what a file states"),
    ("tasks/word_vectors.py", "words"): OnlyBy(set(), "an array of the file, no option"),
}


class NamedParameter(NamedTuple):
    """A parameter that a text of the source names."""

    path: str
    line: int
    name: str


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the content of each text of a module, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            left_out.add(node.value)  # a docstring
        if isinstance(node, ast.JoinedStr):
            left_out.update(node.values)
            parts = []
            for value in node.values:
                is_text = isinstance(value, ast.Constant)
                parts.append(str(value.value) if is_text else "{}")
            yield node.lineno, "".join(parts)
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and node not in left_out:
            yield node.lineno, str(node.value)


def named_parameters() -> list[NamedParameter]:
    """All parameters of commands that a text names in backticks, in the library."""
    every = set().union(*map(parameters_of, COMMANDS.values()))
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE).as_posix()
        if relative.startswith("cli/"):
            continue  # names options
        for line, text in texts_of(path):
            for name in PARAMETER.findall(text):
                if name in every:
                    found.append(NamedParameter(relative, line, name))
    return found


def printed_by(path: str) -> set[str] | None:
    """The commands that print the messages of a module."""
    fitting = [prefix for prefix in PRINTED_BY if path.startswith(prefix)]
    assert fitting, f"{path}: which commands print its messages?"
    return PRINTED_BY[max(fitting, key=len)]


def test_parameters_are_those_of_all_commands_that_print_them() -> None:
    """Else the library's word is printed, which no command knows: "raise `max_tokens`"."""
    named = named_parameters()
    faults = []
    for parameter in named:
        commands = printed_by(parameter.path)
        if (parameter.path, parameter.name) in EXCEPTIONS:
            commands = EXCEPTIONS[parameter.path, parameter.name].commands
        if commands is None:
            continue
        without = [name for name in commands if parameter.name not in parameters_of(COMMANDS[name])]
        if without:
            faults.append((parameter, sorted(without)))
    assert faults == []
    assert len(named) > 100


def test_options_that_a_text_of_the_command_line_names_exist() -> None:
    """In help, hints and warnings; in quotes those of the command that is named there."""
    parameters = [parameter for command in COMMANDS.values() for parameter in command.params]
    any_command = click.Command("any", params=parameters)  # of modules that commands share
    faults = []
    n_checked = 0
    for path in sorted((PACKAGE / "cli").glob("*.py")):
        command = COMMANDS.get(path.stem, any_command)
        if isinstance(command, click.Group):
            command = any_command
        for line, text in texts_of(path):
            if text.lstrip().startswith("-"):
                continue  # a declaration, or an option as the result of a command
            faults += [f"{path.name}:{line}: {name}" for name in missing_options(text, command)]
            n_checked += 1
    assert faults == []
    assert n_checked > 100


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "models"])
def test_parameters_become_options_of_the_command(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = click.Context(COMMANDS[name])
    monkeypatch.setattr(console, "running", console.RunningCommand(context=context))
    for parameter in parameters_of(COMMANDS[name]):
        shown = console.with_options(f"`{parameter}`, `{parameter}=True` and `{parameter}=7`")
        assert "`--" in shown
        assert f"`{parameter}" not in shown
