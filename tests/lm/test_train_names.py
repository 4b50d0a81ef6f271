"""Names in the recipe of a run: files that are gone, links, models that are called like folders."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command_line import elmo, made

from elmo_cli.lm.recipe import FILE_NAME, Recipe, read_recipe

LINES = [
    f"the cat number {i % 7} sees {'the dog ' * (i % 4)}and {i % 13} more ." for i in range(60)
]
SIZES = (
    "--lstm-dim",
    8,
    "--projection-dim",
    4,
    "--batch-size",
    4,
    "--threads",
    1,
    "--device",
    "cpu",
    "-q",
)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text in a folder of its own."""
    path = tmp_path / "texts/text.txt"
    path.parent.mkdir()
    path.write_text("\n".join(LINES) + "\n")
    return path


def settings(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / FILE_NAME).read_text())
    return found


def test_a_run_goes_on_without_the_files_of_its_beginning(text: Path, tmp_path: Path) -> None:
    """The folder has copies of both, so that it can be carried anywhere."""
    out, vocabulary = tmp_path / "model", tmp_path / "v.txt"
    vocabulary.write_text("<S>\n</S>\n<UNK>\nthe\ncat\n")
    made("pretrain", text, "-o", out, "--max-steps", 1, "--vocabulary", vocabulary, *SIZES)
    own = settings(out)
    (tmp_path / "o.json").write_bytes((out / "options.json").read_bytes())
    other = tmp_path / "other"
    named = ("--vocabulary", vocabulary, "--options-file", tmp_path / "o.json")
    made("pretrain", text, "-o", other, "--max-steps", 1, *named, *SIZES[4:])
    for name in ("v.txt", "o.json"):
        (tmp_path / name).unlink()
    made("pretrain", "-o", out, "--resume", "--max-steps", 2, "-q")
    assert settings(out) == {**own, "max-steps": 2}
    (tmp_path / "far/away").mkdir(parents=True)
    moved = other.rename(tmp_path / "far/away/other")
    own = settings(moved)
    made("pretrain", "-o", moved, "--resume", "--max-steps", 2, "-q")
    assert settings(moved) == {**own, "max-steps": 2}
    told = elmo("pretrain", "-o", moved, "--resume", "--max-steps", 3, "--vocabulary", vocabulary)
    assert "v.txt: can't be read" in told.err


def test_a_run_from_a_pipe_goes_on_at_a_terminal(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its text is kept, and nothing is read from standard input."""
    out = tmp_path / "model"
    made("pretrain", "-", "-o", out, "--max-steps", 1, *SIZES, stdin=text.read_bytes())
    monkeypatch.setattr("elmo_cli.cli.options.is_terminal", lambda stream: True)
    made("pretrain", "-o", out, "--resume", "--max-steps", 2, "-q")
    assert settings(out)["texts"] == ["-"]
    told = elmo("pretrain", "--recipe", out / FILE_NAME, "-o", tmp_path / "again", "-q")
    assert "standard input is a terminal" in told.err


def test_names_are_found_from_a_folder_behind_a_link(tmp_path: Path) -> None:
    """`..` leads out of the folder that the link points to, where another file may have the
    name."""
    for name in ("here", "there/deep", "texts/below"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "here/model").symlink_to(tmp_path / "there/deep")
    (tmp_path / "here/texts").symlink_to(tmp_path / "texts/below")
    for name in ("here/a.txt", "texts/b.txt", "texts/below/c.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "here/d.txt").symlink_to(tmp_path / "texts/b.txt")
    folder = tmp_path / "here/model"
    names = [tmp_path / name for name in ("here/a.txt", "here/texts/../b.txt", "here/texts/c.txt")]
    names += [tmp_path / "here/d.txt"]
    Recipe({"texts": [str(name) for name in names]}).write(folder)
    found = read_recipe(folder / FILE_NAME, ["texts"])["texts"]
    assert [os.path.samefile(*two) for two in zip(names, found, strict=True)] == [True] * 4
    assert found[3].endswith("here/d.txt")  # a link may lead to the next month's text tomorrow
    Recipe({"texts": [str(names[2])]}, tmp_path / "here").write(folder)
    assert settings(folder)["texts"] == ["texts/c.txt"]


def test_a_model_is_recorded_as_it_was_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated run would begin with another model than the first, or with none."""
    monkeypatch.chdir(tmp_path)
    for name in ("elmo-en", "mine", "out"):
        (tmp_path / name).mkdir()
    for home in (Path("out"), Path()):
        for model in ("elmo-en", "./elmo-en", "mine", str(tmp_path / "mine"), "gone/model"):
            Recipe({"init-from": model}, home).write(Path("out"))
            found = read_recipe(Path("out") / FILE_NAME, ["init-from"], data=home)["init-from"]
            if model == "elmo-en":
                assert found == model
                continue
            assert os.sep in found
            assert os.path.realpath(found) == os.path.realpath(model)
    monkeypatch.setenv("HOME", str(tmp_path))
    Recipe({"init-from": "~/mine"}).write(tmp_path / "out")
    assert settings(tmp_path / "out")["init-from"] == "../mine"
    (tmp_path / FILE_NAME).write_text('{"init-from": "~/mine"}')
    assert read_recipe(tmp_path / FILE_NAME, ["init-from"])["init-from"] == "~/mine"


def test_a_name_that_is_no_utf_8_has_a_recipe_too(text: Path, tmp_path: Path) -> None:
    """The run would end before its first step, after the text was read."""
    name, out = text.rename(tmp_path / os.fsdecode(b"caf\xe9.txt")), tmp_path / "model"
    made("pretrain", name, "-o", out, "--max-steps", 1, *SIZES)
    assert settings(out)["texts"] == [os.path.relpath(name, out)]
    made("pretrain", "-o", out, "--resume", "--max-steps", 2, "-q")


def test_a_model_that_is_named_sets_the_sizes_of_a_recipe_aside(text: Path, tmp_path: Path) -> None:
    """They are those of the model, and nobody has said otherwise."""
    one, two = tmp_path / "one", tmp_path / "two"
    vocabulary = tmp_path / "v.txt"
    vocabulary.write_text("<S>\n</S>\n<UNK>\nthe\ncat\n")
    made("pretrain", text, "-o", one, "--max-steps", 1, "--vocabulary", vocabulary, *SIZES)
    vocabulary.unlink()
    begin = ("pretrain", "-o", two, "--recipe", one / FILE_NAME)
    told = elmo(*begin, "--init-from", one, "--lstm-dim", 8)
    assert f"error: --lstm-dim: has no meaning with `--init-from {one}`" in told.err
    made(*begin, "--init-from", one, "-q")
    assert {"lstm-dim", "projection-dim", "vocabulary", "min-count"}.isdisjoint(settings(two))
    assert settings(two)["init-from"] == "../one"
    both = tmp_path / "both.json"
    both.write_text(json.dumps({**settings(two), "texts": ["texts/text.txt"], "lstm-dim": 8}))
    told = elmo("pretrain", "-o", tmp_path / "three", "--recipe", both)
    assert f"error: {both}: `lstm-dim`: has no meaning with `--init-from" in told.err
