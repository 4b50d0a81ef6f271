"""`elmo inspect` of folders, prefixes, archives and names."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import documented, elmo, made, refused
from families.checkpoint_files import DATA, GOLDEN, INDEX, PREFIX, checkpoint

from elmo_cli.families.assumed_options import options_and_assumed
from elmo_cli.pretrained.load import load


@pytest.fixture
def full(tmp_path: Path) -> Path:
    return checkpoint("full", tmp_path / "full")


def facts_of(*words: object) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(made("inspect", *words, "--json").out)
    return facts


def test_a_checkpoint(full: Path) -> None:
    facts = facts_of(full)
    assert all(f"`{key}`" in documented("inspect") for key in facts)
    assert (facts["kind"], facts["family"], facts["name"]) == ("model", "tf-checkpoint", "full")
    assert (facts["layers"], facts["dim"], facts["optimizer"]) == (3, 16, "adagrad")
    assert facts["options"]["lstm"]["cell_clip"] == 0.6
    assert facts["assumed"] == {"lstm.forget_bias": 1.0}
    assert facts["softmax"] == {"file": INDEX, "types": 41}
    assert facts["vocabulary"] == {"file": "vocab.txt", "types": 41}
    assert facts["sha256"] is None
    assert facts["problems"] == []
    assert facts["next"][0] == f"elmo embed TEXT -m {full} -o OUT.hdf5"
    for path in (full / PREFIX, full / INDEX):
        assert facts_of(path)["dim"] == 16


def test_verify_reads_all_weights(full: Path) -> None:
    facts = facts_of(full, "--verify")
    bilm = load(full)
    assert facts["sha256"] == bilm.sha256
    assert facts["parameters"] == sum(values.numel() for values in bilm.parameters())
    content = bytearray((full / DATA).read_bytes())
    content[30_000] ^= 1
    (full / DATA).write_bytes(content)
    assert facts_of(full)["problems"] == []
    done = elmo("inspect", full, "--verify")
    refused(done, 1, str(full / DATA), "copy all of its files again")
    assert b"its values have changed" in done.out


def test_lines_for_people(full: Path) -> None:
    lines = made("inspect", full).out.decode().splitlines()
    rows = {}
    for line in lines[1 : lines.index("use it:")]:
        name, row = line.strip().split("  ", 1)
        rows[name] = row.strip()
    assert "char_cnn.n_highway 2, char_cnn.embedding.dim 4" in rows.pop("options")
    assert rows.pop("files").startswith("options.json (505 bytes), model.ckpt-60.index (2.4 KiB), ")
    assert rows == {
        "family": "a TensorFlow checkpoint",
        "name": "full",
        "layers": "3 of 16 dimensions",
        "assumed": "lstm.forget_bias 1.0",
        "characters": "bytes of UTF-8, at most 48 of a token",
        "softmax": "41 types, model.ckpt-60.index",
        "vocabulary": "41 types, vocab.txt",
        "warm state": "none",
        "optimizer": "adagrad",
        "sha256": "not computed; --verify reads all weights",
        "problems": "none",
    }
    assert f"    elmo perplexity TEXT -m {full}" in lines
    assert f"    elmo models convert {full} -o FOLDER" in lines


def test_commands_that_use_a_model(full: Path, tiny: Path, tmp_path: Path) -> None:
    """They run as they are printed, except for the words in capitals."""
    (full / "vocab.txt").unlink()
    (full / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-70"\n')
    options = (full / "options.json").rename(tmp_path / "o.json")
    facts = facts_of(full, "--options-file", options)
    model = f"{full} --options-file {options}"
    assert facts["next"] == [
        f"elmo embed TEXT -m {model} -o OUT.hdf5",
        f"elmo perplexity TEXT -m {model} --vocabulary FILE",
        f"elmo models convert {model} -o FOLDER",
    ]
    lines = made("inspect", full, "--options-file", options).out.decode().splitlines()
    note = f"{full}: the newest checkpoint, model.ckpt-70, is not in the folder; {PREFIX} is read"
    assert f"  notes       {note}" in lines
    assert "  vocabulary  none" in lines
    facts = facts_of(tiny)
    assert facts["next"] == [f"elmo embed TEXT -m {tiny} -o OUT.hdf5"]
    assert facts["softmax"] is None


OPTIONAL = {  # an option -> the value that bilm-tf assumes, without it
    "char_cnn.n_highway": 0,
    "char_cnn.max_characters_per_token": 50,
    "char_cnn.n_characters": 262,
    "lstm.n_layers": 1,
    "lstm.cell_clip": None,
    "lstm.proj_clip": None,
    "lstm.use_skip_connections": False,
    "lstm.forget_bias": 1.0,
}


def test_each_option_that_is_not_stated_is_said_to_be_assumed(full: Path) -> None:
    path = full / "options.json"
    content = json.loads(path.read_text())
    for option in OPTIONAL:
        section, key = option.split(".")
        content[section].pop(key, None)
    path.write_text(json.dumps(content))
    _, assumed = options_and_assumed(path)
    assert assumed == OPTIONAL


@pytest.mark.parametrize("kind", ["folder", "archive"])
def test_weights_in_hdf5(kind: str, tiny: Path, tmp_path: Path) -> None:
    source = folder = shutil.copytree(tiny, tmp_path / "mine")
    if kind == "archive":
        source = Path(shutil.make_archive(str(tmp_path / "mine"), "zip", folder))
    facts = facts_of(source, "--verify")
    assert (facts["family"], facts["name"], facts["softmax"]) == ("bilm-tf", "mine", None)
    assert facts["sha256"] == load(folder).sha256
    assert facts_of("elmo-en")["where"] == "bundled"


def test_what_is_wrong_is_listed(full: Path, tmp_path: Path) -> None:
    """Two errors of one folder; the first is printed as well."""
    types = (full / "vocab.txt").read_text("utf-8")
    (full / "vocab.txt").write_text(types.replace("<UNK>\n", ""), "utf-8")
    options = json.loads((full / "options.json").read_text())
    options["lstm"]["projection_dim"] = 9
    (full / "options.json").write_text(json.dumps(options))
    done = elmo("inspect", full, "--json")
    facts = json.loads(done.out)
    assert (facts["problem_count"], facts["next"]) == (2, [])
    assert "is of shape" in facts["problems"][0]
    assert "<UNK> is not among the types" in facts["problems"][1]
    refused(done, 1, facts["problems"][0], "must come from one model")


def test_unknown_folders_and_options_of_files(full: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = elmo("inspect", tmp_path / "empty")
    refused(done, 1, f"{tmp_path / 'empty'}: not an ELMo model", "a TensorFlow checkpoint (")
    text = tmp_path / "a.txt"
    text.touch()
    for option, value in (
        ("--recompute", 2),
        ("--text", text),
        ("--device", "cpu"),
        ("--threads", 1),
    ):
        message = f"{option}: has no effect for a model"
        refused(elmo("inspect", full, option, value), 2, message, "leave")
    refused(elmo("inspect", tmp_path / "nothing"), 1, f"{tmp_path / 'nothing'}: no such file", "")


def a_checkpoint_without_options(folder: Path) -> Path:
    made_folder = checkpoint("full", folder)
    (made_folder / "options.json").unlink()
    return made_folder


def a_module(folder: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "savedmodel", folder))


def an_archive(folder: Path) -> Path:
    folder.mkdir()
    return Path(shutil.copy(GOLDEN.parent / "allennlp_archive" / "model.tar.gz", folder))


@pytest.mark.parametrize("make", [a_checkpoint_without_options, a_module, an_archive])
def test_missing_settings_can_be_written_as_printed(
    make: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sizes are those of the weights; the settings are those of the published models."""
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    model = make(tmp_path / "my model")
    done = elmo("inspect", model)
    assert b"use it with the settings of the published models, unless it has others:" in done.out
    assert "`elmo inspect MODEL` prints one to correct" in done.err
    write, embed = done.out.decode().splitlines()[-2:]
    echo, content, _, name = shlex.split(write)
    assert (echo, json.loads(content)["lstm"]["cell_clip"]) == ("echo", 3)
    Path(name).write_text(content)
    Path("TEXT").write_text("the cat\n")
    made(*shlex.split(embed)[1:], "-q")
    assert facts_of(model, "--options-file", name)["problems"] == []


def test_what_a_folder_contains_is_named(full: Path, tmp_path: Path) -> None:
    """A folder of archives and of other folders is no model; hints name those that may be."""
    shutil.make_archive(str(tmp_path / "packed"), "gztar", full)
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("a\n")
    hint = f"name one that it contains: {full}, {tmp_path / 'packed.tar.gz'}"
    refused(elmo("inspect", tmp_path), 1, f"{tmp_path}: not an ELMo model", hint)
