"""Damaged files of every kind: read or refused, never a crash, a hang or a grab for memory.

What the kept files did to HDF5 2.0.0, to h5py or to elmo is in their names. Another HDF5 may find
the damage itself, so the message is left open, but not that there is one.
"""

from __future__ import annotations

import gzip
import itertools
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import seeds
from command_line import elmo
from targets import TARGETS

from elmo_cli import isolate

KEPT = Path(__file__).parent / "kept"
EMBEDDINGS = sorted(path.stem for path in KEPT.glob("*.gz"))
COMMANDS = {
    "inspect": ["inspect", "in.hdf5"],
    "sample": ["inspect", "in.hdf5", "--no-verify", "--recompute", "2"],
    "convert": ["convert", "in.hdf5", "-o", "out.hdf5"],
    "merge": ["merge", "in.hdf5", "-o", "out.hdf5"],
}
N_DAMAGES = int(os.environ.get("ELMO_DAMAGES", "7"))  # `make fuzz` asks for more
N_OF_A_CHILD = 7


@pytest.fixture(autouse=True, scope="module")
def short_cpu_time() -> Iterator[None]:
    """HDF5 is known to go round in circles; no reader of these files needs a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isolate, "MIN_CPU_SECONDS", 2)
        yield


@pytest.mark.parametrize("name", TARGETS)
def test_the_valid_files_are_read(name: str, tmp_path: Path) -> None:
    """Without this the damage might be done to what nothing would read anyway."""
    target = TARGETS[name]
    outcomes = set(target.outcomes(tmp_path, target.seeds()))
    # Some embeddings lack what another layout would need.
    assert outcomes == {"read"} or (name == "convert" and outcomes == {"read", "refused"})


@pytest.mark.parametrize("first", range(0, N_DAMAGES, N_OF_A_CHILD))
@pytest.mark.parametrize("name", TARGETS)
def test_a_damaged_file_is_read_or_refused(name: str, first: int, tmp_path: Path) -> None:
    """Anything but an ElmoError, a crash outside elmo's own child, or more memory fails here."""
    target = TARGETS[name]
    numbers = range(first, min(first + N_OF_A_CHILD, N_DAMAGES))
    damaged = [target.damaged(Random(f"{name} {number}")) for number in numbers]
    target.outcomes(tmp_path, damaged)


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", ["manylangs-", "checkpoint-", "saved-model-", "allennlp-", "state-"]
)
def test_five_hundred_damages_of_the_files_of_a_model(family: str, tmp_path: Path) -> None:
    """Each in less than 20 seconds, and with the memory that elmo says is enough."""
    targets = [target for name, target in TARGETS.items() if name.startswith(family)]
    for number in range(500):
        random = Random(f"{family} {number}")
        target = random.choice(targets)
        start_s = time.monotonic()
        target.outcome(tmp_path, target.damaged(random))
        assert time.monotonic() - start_s < 20


# -- files that fuzzing found ---------------------------------------------------------------------


def unpacked(name: str, to: Path) -> Path:
    to.write_bytes(gzip.decompress((KEPT / f"{name}.gz").read_bytes()))
    return to


def check_one_error(err: str) -> None:
    error, hint = err.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
    assert "a fault of elmo" not in hint


def files_and_commands() -> list[object]:
    """Each command with each file; one that may take a second to go round in circles is slow."""
    cases = []
    for name, command in itertools.product(EMBEDDINGS, COMMANDS):
        is_slow = name.startswith("loop-") and command != "inspect"
        cases.append(pytest.param(name, command, marks=pytest.mark.slow if is_slow else ()))
    return cases


@pytest.mark.parametrize(("name", "command"), files_and_commands())
def test_commands_end_in_one_error_and_leave_nothing(
    name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The command goes round in circles until then, with some of these files.
    monkeypatch.setattr(isolate, "MIN_CPU_SECONDS", 1)
    monkeypatch.chdir(tmp_path)
    unpacked(name, Path("in.hdf5"))
    done = elmo(*COMMANDS[command], "-q")
    assert done.code in (0, 1, 2)
    if done.code:
        check_one_error(done.err)
        # What a crash leaves of OUT.tmp, the next command replaces.
        assert {path.name for path in tmp_path.iterdir()} <= {"in.hdf5", "out.hdf5.tmp"}


def test_a_model_that_crashes_hdf5_is_refused(tmp_path: Path) -> None:
    """The loader, too, lets a child try a file that came from anywhere."""
    (tmp_path / "options.json").write_bytes(seeds.options())
    shutil.copy(unpacked("crash-btree", tmp_path / "in"), tmp_path / "weights.hdf5")
    (tmp_path / "a.txt").write_text("The cat\n")
    done = elmo("embed", tmp_path / "a.txt", "-m", tmp_path, "-o", tmp_path / "out.hdf5", "-q")
    assert done.code == 1
    check_one_error(done.err)
