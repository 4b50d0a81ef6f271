"""The public names and the help of every command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from command_line import commands, elmo, made

import elmo_cli
from elmo_cli import errors
from elmo_cli.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]


def test_all_public_names_can_be_imported():
    assert all(hasattr(elmo_cli, name) for name in elmo_cli.__all__)
    assert set(elmo_cli._MODULES) | {"__version__"} == set(elmo_cli.__all__)
    with pytest.raises(AttributeError):
        elmo_cli.no_such_name  # noqa: B018


@pytest.mark.parametrize("name", elmo_cli._NAMES_OF_OTHERS)
def test_a_name_of_another_program_is_refused_with_the_module_that_has_it(name):
    with pytest.raises(ImportError, match=r"docs/guides/moving\.md") as refused:
        exec(f"from elmo_cli import {name}")
    (statement,) = re.findall(r"`(from \S+ import \S+)`", str(refused.value))
    exec(statement)
    assert name not in elmo_cli.__all__


def test_the_tree_of_errors_shows_all_of_them():
    """The docstring of `elmo_cli.errors` lists each error with the built-in that it is, too."""
    shown = dict(re.findall(r"(?:─ |    )(\w+Error)\b(?: \((\w+)\))?", errors.__doc__))
    expected = {}
    for name, error in vars(errors).items():
        if isinstance(error, type) and issubclass(error, errors.ElmoError):
            built_in = [base.__name__ for base in error.__bases__[1:]]
            expected[name] = built_in[0] if built_in else ""
    assert shown == expected


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_help_of_every_command(words):
    command = commands()[words]
    name = " ".join(("elmo", *words))
    # With the names of the help option that click would otherwise keep for later tests.
    context = click.Context(command, info_name=name, **cli.context_settings)
    text = command.get_help(context)
    assert f"Usage: {name} " in text
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{parameter.name} has no help"
        else:
            assert f"\n  {parameter.metavar}\n" not in text  # not among the options


def cpu_s_of_children():
    times = os.times()
    return times.children_user + times.children_system


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], {"torch", "h5py", "numpy", "rich", "nltk", "elmo_cli.cli.embed"}),
        (["embed", "-q", ROOT / "docs" / "sample.txt", "-o", "x.hdf5"], {"sympy", "torch._dynamo"}),
    ],
)
def test_command_imports_nothing_heavy(words, heavy, tmp_path):
    """`elmo --help` takes less than 0.3 s of processor time; and torch's compiler, which nothing of
    ours uses, would double the time that `elmo embed` takes to start."""
    program = (
        "import sys; from elmo_cli.cli.main import main\n"
        f"try: main()\nfinally: sys.exit({heavy} & set(sys.modules) or 0)"
    )
    before_s = cpu_s_of_children()
    subprocess.run([sys.executable, "-c", program, *words], check=True, cwd=tmp_path)
    if words == ["--help"]:
        assert cpu_s_of_children() - before_s < 0.3


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        ([], 2, "Usage: elmo"),
        (["embed"], 2, "Usage: elmo embed [OPTIONS] FILE"),
        (["--version"], 0, f"elmo, version {elmo_cli.__version__}\n"),
        (["help"], 0, "Usage: elmo"),
        (["help", "merge"], 0, "Usage: elmo merge"),
        (["help", "models", "pull"], 0, "Usage: elmo models pull"),
        (["merge", "-o", "out.hdf5", "--", "--debug"], 1, "--debug: no such file"),
    ],
)
def test_general_words(words, code, expected):
    done = elmo(*words)
    assert done.code == code
    assert expected in done.out.decode() + done.err
    if words[:1] == ["help"]:
        assert done == made(*words[1:], "--help")


@pytest.mark.parametrize("at", [0, 2, 4])
def test_debug_anywhere_shows_the_traceback(at):
    words = ["merge", "no.hdf5", "-o", "out.hdf5"]
    plain = elmo(*words)
    debug = elmo(*words[:at], "--debug", *words[at:])
    assert debug.code == plain.code == 1
    assert debug.err.startswith("Traceback")
    assert debug.err.endswith(plain.err)
