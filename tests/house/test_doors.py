"""The public names, the help of every command, and the README, as a user meets them."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

import elmo_cli
from elmo_cli.cli.main import COMMANDS, cli

ROOT = Path(__file__).resolve().parents[2]


def commands():
    """Every command and sub-command, by its words."""
    context = click.Context(cli, info_name="elmo")
    found = [((), cli)]
    for name in COMMANDS:
        command = cli.get_command(context, name)
        found.append(((name,), command))
        if isinstance(command, click.Group):
            found += [((name, sub), command.commands[sub]) for sub in command.commands]
    return found


def run(*args, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "elmo_cli", *args], capture_output=True, text=True, **kwargs
    )


def test_all_is_what_is_there():
    """A name in __all__ that can't be imported would break `from elmo_cli import *`."""
    assert elmo_cli.__all__ == sorted(elmo_cli.__all__, key=lambda n: (not n[0].isupper(), n))
    for name in elmo_cli.__all__:
        assert getattr(elmo_cli, name) is not None
    assert set(elmo_cli._HOMES) | {"__version__"} == set(elmo_cli.__all__)
    with pytest.raises(AttributeError):
        elmo_cli.no_such_name  # noqa: B018


@pytest.mark.parametrize(
    ("words", "command"), commands(), ids=lambda x: " ".join(x) if isinstance(x, tuple) else ""
)
def test_help_of_every_command(words, command):
    """A lazy command that no longer imports shows only when somebody calls it: here."""
    text = command.get_help(click.Context(command, info_name=" ".join(("elmo", *words))))
    assert "Usage: elmo" in text
    assert words == ("models",) or "elmo " + " ".join(words) in text.split("Usage:")[1]
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, f"{parameter.name} has no help"


@pytest.mark.parametrize("name", COMMANDS)
def test_list_of_commands_says_what_they_say(name):
    command = cli.get_command(click.Context(cli), name)
    assert command.get_short_help_str(200) == COMMANDS[name][1]


def test_help_is_quick_and_without_torch():
    """`elmo --help` under 0.3 s: the best of several runs, because machines are shared."""
    code = (
        "import sys\n"
        "from elmo_cli.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'h5py', 'numpy', 'rich', 'nltk'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seconds = []
    for _ in range(8):
        begun = time.perf_counter()
        assert run("--help").returncode == 0
        seconds.append(time.perf_counter() - begun)
    assert min(seconds) < 0.3


def test_no_arguments_give_short_help():
    done = run()
    assert done.returncode == 2
    assert "Usage: elmo" in done.stderr + done.stdout


def test_help_is_a_command_too():
    """`elmo help merge` is what people try first."""
    for words in (["help"], ["help", "merge"], ["help", "models", "pull"]):
        done = run(*words)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == run(*words[1:], "--help").stdout


def test_debug_is_accepted_anywhere():
    """Whoever repeats a failed command adds it at the end."""
    for words in (["--debug", "merge", "no.hdf5"], ["merge", "no.hdf5", "--debug"]):
        done = run(*words, "-o", "out.hdf5")
        assert done.returncode == 1
        assert "Traceback" in done.stderr
    assert "Traceback" not in run("merge", "-o", "out.hdf5", "--", "--debug").stderr


def test_version():
    assert run("--version").stdout == f"elmo, version {elmo_cli.__version__}\n"


def test_python_in_the_readme_runs(tmp_path):
    """Code in a README that no longer runs is the first thing that a new user meets."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", readme, re.S)
    assert blocks
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("The cat sat .\nIt slept .\n", encoding="utf-8")
    made = run("embed", str(corpus), "-o", str(tmp_path / "corpus.hdf5"), "--quiet")
    assert made.returncode == 0, made.stderr
    for block in blocks:
        done = subprocess.run(
            [sys.executable, "-c", block], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr


def test_commands_in_the_readme_exist():
    """Each `elmo …` line of the README names a command and options that are there."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [
        line.split("#")[0].split("|")[-1].strip()
        for block in re.findall(r"```sh\n(.*?)```", readme, re.S)
        for line in block.splitlines()
        if re.search(r"(^|\| )elmo ", line)
    ]
    assert lines
    by_words = dict(commands())
    for line in lines:
        words = line.split()[1:]
        key = tuple(words[:2]) if words[0] == "models" else (words[0],)
        options = {name for p in by_words[key].params for name in p.opts}
        used = {word for word in words if word.startswith("-") and word != "-"}
        assert used <= options, line


def test_embedding_does_not_load_torchs_compiler(tmp_path):
    """Nothing of ours compiles; to load the compiler all the same doubled the time of a start."""
    program = (
        "import sys; from elmo_cli.cli.main import main\n"
        "try: main()\n"
        "finally: print(sorted({'sympy', 'torch._dynamo'} & set(sys.modules)))"
    )
    text = ROOT / "docs" / "sample.txt"
    words = ["embed", "-q", str(text), "-o", str(tmp_path / "out.hdf5")]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stdout
