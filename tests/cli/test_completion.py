"""What the shell completes, and the scripts that it reads for it (docs/guides/completion.md)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from elmo_cli.cli.main import cli
from elmo_cli.pretrained.catalogue import CATALOGUE
from elmo_cli.store.layouts import LAYOUTS
from elmo_cli.tasks.settings import PREDICTION_FORMATS, PRESETS, TASKS
from elmo_cli.tasks.task import load_task
from elmo_cli.text.input_settings import FORMATS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "completion.md"

# Runs `elmo` and prints whether a library was imported that takes long.
RUN = """
import atexit, sys
from contextlib import suppress
from elmo_cli.cli.main import main
with suppress(SystemExit):
    main()
print("torch" in sys.modules, file=sys.stderr)
"""


def completed(line: str) -> list[str]:
    """The completions of the last word of a line, as bash gets them from a new process."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "_ELMO_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == "False\n"
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("elmo embed x -o y --layout ", LAYOUTS),
        ("elmo convert x --layout ", LAYOUTS),
        ("elmo convert x --layers ", ["all", "top", "average", "sum"]),
        ("elmo embed x --input-format ", FORMATS),
        ("elmo models pull ", [model.name for model in CATALOGUE]),
        ("elmo train ", TASKS),
        ("elmo train ner --preset ", ["paper"]),
        ("elmo predict ner/ x --output-format ", ["conll", "json", "jsonl"]),
        ("elmo embed x --device ", ["auto", "cpu", "cuda", "mps"]),
        ("elmo embed x --encoding utf-16", ["utf-16", "utf-16-be", "utf-16-le"]),
        ("elmo probe --label-column x", ["xpos"]),
        ("elmo neighbors x the --occurrence ", ["all"]),
        ("elmo convert x --sentence-map ", ["last", "occurrences"]),
    ],
)
def test_all_values_are_completed_without_torch(line: str, values: list[str]) -> None:
    """torch takes more than a second, for which nobody waits who has pressed Tab."""
    assert completed(line) == [f"plain,{value}" for value in values]


# Their values are no names and no paths: words of a text, keys, addresses, and settings of a task,
# whose values the task parses.
FREE_TEXTS = {
    "embed": {"--shard", "--ray-address"},
    "neighbors": {"queries", "--text"},
    "kwic": {"word"},
    "senses": {"--word"},
    "similarity": {"first", "second"},
    "tree": {"--sentence"},
    "train": {
        "--batch-size",
        "--epochs",
        "--fraction",
        "--learning-rate",
        "--patience",
        "--seed",
        "--set",
    },
}


def parameters_without_completion(command: click.Command) -> Iterator[tuple[str, str]]:
    """The command and the name of each parameter of text whose values nothing completes."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from parameters_without_completion(found)
        return
    for parameter in command.params:
        if type(parameter.type) is type(click.STRING):
            yield str(command.name), parameter.opts[-1]


def test_every_value_that_is_a_name_or_a_path_is_completed() -> None:
    found: dict[str, set[str]] = {}
    for command, parameter in parameters_without_completion(cli):
        found.setdefault(command, set()).add(parameter)
    assert found == FREE_TEXTS


def test_presets_and_formats_of_tasks_are_known_without_torch() -> None:
    tasks = [load_task(name) for name in TASKS]
    assert {preset for task in tasks for preset in task.presets} == set(PRESETS)
    assert {name for task in tasks for name in task.formats} == set(PREDICTION_FORMATS)


def test_commands_and_options_are_completed() -> None:
    assert sorted(completed("elmo pre")) == ["plain,predict", "plain,pretrain"]
    assert sorted(completed("elmo embed --lay")) == ["plain,--layers", "plain,--layout"]


# Calls the function of the script for bash, as bash does, for each line that follows it.
BASH = """
eval "$(_ELMO_COMPLETE=bash_source elmo)"
compopt() { :; }
for line in "$@"; do
    IFS=' ' read -ra COMP_WORDS <<< "$line"
    [[ $line == *' ' ]] && COMP_WORDS+=("")
    COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
    COMPREPLY=()
    _elmo_completion elmo
    echo "${COMPREPLY[*]}"
done
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_offers_models_where_a_path_is_possible(tmp_path: Path) -> None:
    """The script for bash drops the names that come before an item for paths."""
    command = tmp_path / "elmo"
    command.write_text(f"#!{sys.executable}\n{RUN}", encoding="utf-8")
    command.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    lines = ["elmo embed x -m ori", "elmo models show ", "elmo embed ori"]
    done = subprocess.run(
        ["bash", "-c", BASH, "bash", *lines],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    names = [model.name for model in CATALOGUE]
    of_option, of_argument, of_files = done.stdout.splitlines()
    assert of_option.split() == [name for name in names if name.startswith("ori")]
    assert of_argument.split() == names
    assert of_files == ""  # bash completes files itself


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_page_has_the_line_that_prints_the_script(shell: str) -> None:
    (line,) = re.findall(rf"^\| {shell} .*`([^`]*)` \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert f"_ELMO_COMPLETE={shell}_source elmo" in line
    environment = {**os.environ, "_ELMO_COMPLETE": f"{shell}_source"}
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=True
    )
    assert f"_ELMO_COMPLETE={shell}_complete" in done.stdout
    assert done.stderr == "False\n"
