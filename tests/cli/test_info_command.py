"""`elmo info`: what it shows, also where something does not work, and what it never names."""

from __future__ import annotations

import configparser
import getpass
import json
import platform
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import documented, made

from elmo_cli import installation, processor
from elmo_cli.pretrained.load import locate

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("folder")


def facts(*words: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(made("info", "--json", *words).out)
    return parsed


def lines() -> dict[str, str]:
    """The lines that are printed, by their first word."""
    printed = made("info").out.decode().splitlines()
    return {line.split()[0]: line[11:] for line in printed}


def test_prints_at_most_twenty_lines_and_every_field_is_documented() -> None:
    assert len(made("info").out.decode().splitlines()) <= 20
    page = documented("info")

    def check(described: dict[str, Any]) -> None:
        for name, fact in described.items():
            assert f"`{name}`" in page, name
            if isinstance(fact, dict) and name not in ("packages", "optional", "variables"):
                check(fact)

    check(facts())


def test_states_the_model_that_commands_would_use(tiny: Path) -> None:
    assert facts()["model"]["sha256"] == locate(tiny).sha256
    named = facts("-m", "elmo-en")["model"]
    assert named["origin"] == "bundled"
    assert named["sha256"] == locate("elmo-en").sha256


@pytest.mark.parametrize("name", ["nope", "./missing", "small", "hf:a/b"])
def test_works_without_a_usable_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_MODEL", name)
    assert list(facts()["model"]) == ["problem"]
    assert lines()["variables"].startswith("ELMO_DEVICE=cpu ELMO_HOME=")


def test_works_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    shown = lines()
    assert "import of torch halted" in shown["PyTorch"]
    assert "threads" not in shown
    assert shown["model"]


@pytest.mark.parametrize("folder_name", ["~", f"/scratch/{getpass.getuser()}", "/mnt/NODE"])
def test_names_neither_the_user_nor_the_machine(
    folder_name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "alice"))
    monkeypatch.setattr(platform, "node", lambda: "node17")
    place = folder_name.replace("~", str(tmp_path / "alice")).replace("NODE", "node17")
    for variable in ("ELMO_HOME", "ELMO_MODEL", "OMP_TOOL_LIBRARIES"):
        monkeypatch.setenv(variable, f"{place}/elmo")
    monkeypatch.setattr(sys, "prefix", f"{place}/venv")
    printed = made("info").out.decode() + made("info", "--json").out.decode()
    named = {word for line in printed.splitlines() for word in re.split(r"[/\s,\"=]+", line)}
    assert not named & {"alice", "node17"}
    assert place not in printed
    assert "/elmo" in printed


def test_shows_folders_that_end_like_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `/data/kept`, where `/kept` is the home folder."""
    monkeypatch.setenv("HOME", "/kept")
    for path, shown in (("/data/kept/m", "/data/kept/m"), ("a:/kept/m", "a:~/m"), ("/kept", "~")):
        monkeypatch.setenv("ELMO_MODEL", path)
        assert f"ELMO_MODEL={shown} " in lines()["variables"] + " "


def test_shows_no_password_of_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_MODEL", "https://user:80 a@ secret@host/model")
    assert "ELMO_MODEL=https://***@host/model" in lines()["variables"]
    assert "secret" not in made("info").out.decode()


@pytest.mark.parametrize("variable", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_says_what_set_the_number_of_threads(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert lines()["threads"].endswith(", set by PyTorch")
    monkeypatch.setenv(variable, "1")
    assert lines()["threads"].endswith(f", set by {variable}")


ARM = "processor\t: 0\nFeatures\t: fp asimd sve\n"
INTEL = "model name\t: Xeon\nflags\t\t: fpu avx2 f16c avx512f amx_tile\n\nmodel name\t: second\n"


@pytest.mark.parametrize(
    ("content", "name", "features"),
    [
        (ARM, platform.machine(), ("neon", "sve")),
        (INTEL, "Xeon", ("avx2", "f16c", "avx512f", "amx_tile")),
        ("", platform.machine(), ()),
    ],
)
def test_reads_what_linux_states_of_a_processor(
    content: str,
    name: str,
    features: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "cpuinfo").write_text(content)
    monkeypatch.setattr(processor, "_CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(processor, "_name_on_macos", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: name if content != INTEL else "x86_64")
    described = processor.Processor.of_this_machine()
    assert (described.name, described.features) == (name, features)
    assert 1 <= described.n_usable_cpus <= described.n_cpus


def test_lists_every_package_that_setup_cfg_names() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = setup["options.extras_require"]
    optional = [lines for name, lines in extras.items() if not name.startswith(("test", "docs"))]
    named = re.findall(r"^([\w-]+)>=", "\n".join(optional), re.M)
    required = re.findall(r"^([\w-]+)>=", setup["options"]["install_requires"], re.M)
    assert set(named) == set(installation.OPTIONAL)
    assert set(required) == {*installation.REQUIRED, "torch"}
