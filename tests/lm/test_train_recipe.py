"""Recipes: a run from a JSON file, flags that win, and the recipe that a run leaves behind."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import h5py
import pytest
from click.testing import CliRunner, Result

from elmo_cli.cli.pretrain import pretrain
from elmo_cli.errors import UsageError

LINES = [
    f"the cat number {i % 7} sees {'the dog ' * (i % 4)}and {i % 13} more ." for i in range(90)
]
RECIPE: dict[str, Any] = {
    "texts": ["train/*.txt"],
    "heldout": ["dev.txt"],
    "max-steps": 4,
    "lstm-dim": 24,
    "projection-dim": 12,
    "batch-size": 4,
    "threads": 1,
    "learning-rate": 0.01,
    "seed": 0,
    "dropout": 0,
    "min-count": 1,
    "keep-best": True,
}


BEGINNING = ("lstm-dim", "projection-dim", "min-count")  # what is settled when a run has begun


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with texts, and a recipe in a folder of its own below."""
    (tmp_path / "train").mkdir()
    (tmp_path / "train/a.txt").write_text("\n".join(LINES[:50]) + "\n")
    (tmp_path / "train/b.txt").write_text("\n".join(LINES[50:]) + "\n")
    (tmp_path / "dev.txt").write_text("\n".join(LINES[:9]) + "\n")
    (tmp_path / "recipe.json").write_text(json.dumps(RECIPE))
    return tmp_path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(pretrain, [str(a) for a in arguments], catch_exceptions=False)


def weights(folder: Path) -> bytes:
    with h5py.File(folder / "weights.hdf5") as file:
        return file["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"][...].tobytes()


def test_a_run_from_a_recipe_can_be_repeated_from_what_it_leaves(home: Path) -> None:
    """The recipe beside a model is how others make it again."""
    run("--recipe", home / "recipe.json", "-o", home / "one")
    left = json.loads((home / "one/recipe.json").read_text())
    assert left["texts"] == ["../train/a.txt", "../train/b.txt"]
    assert (left["dropout"], left["keep-best"], left["optimizer"]) == (0.0, True, "adamw")
    assert not {"output", "overwrite", "recipe", "resume"} & set(left)
    run("--recipe", home / "one/recipe.json", "-o", home / "two")
    assert weights(home / "two") == weights(home / "one")
    assert (home / "two/recipe.json").read_text() == (home / "one/recipe.json").read_text()


def test_texts_stand_in_the_folder_of_data(home: Path) -> None:
    """A recipe travels with a model; the text is somewhere else on each machine."""
    (home / "elsewhere").mkdir()
    recipe = home / "elsewhere/recipe.json"
    recipe.write_text(json.dumps(RECIPE))
    run("--recipe", recipe, "--data-dir", home, "-o", home / "one")
    left = json.loads((home / "one/recipe.json").read_text())
    assert (left["texts"], left["heldout"]) == (["train/a.txt", "train/b.txt"], ["dev.txt"])
    with pytest.raises(UsageError, match=r"`texts`: no file is called .*elsewhere/train/\*\.txt"):
        run("--recipe", recipe, "-o", home / "two")


def test_flags_win(home: Path) -> None:
    """Without it nobody could try a recipe for a minute; a limit takes the place of all others."""
    run(
        "--recipe",
        home / "recipe.json",
        "-o",
        home / "one",
        "--batch-size",
        3,
        "--max-epochs",
        "0.5",
    )
    left = json.loads((home / "one/recipe.json").read_text())
    assert left["batch-size"] == 3
    assert left["max-epochs"] == 0.5
    assert "max-steps" not in left
    assert left["learning-rate"] == 0.01


def test_a_run_goes_on_by_its_own_recipe(home: Path) -> None:
    """`-o DIR --resume` is all that has to be remembered."""
    run("--recipe", home / "recipe.json", "-o", home / "one")
    result = run("-o", home / "one", "--resume", "--max-steps", "6", "--json")
    assert json.loads(result.stdout)["steps"] == 6


def test_a_run_that_goes_on_has_begun_with_its_vocabulary(home: Path) -> None:
    """Another one would be passed over, and stand in the recipe of what it did not make."""
    for name in ("v", "w"):
        (home / f"{name}.txt").write_text(f"<S>\n</S>\n<UNK>\nthe\ncat\n{name}\n")
    own = ("--vocabulary", home / "v.txt")
    texts = (home / "train/a.txt", *own, "--lstm-dim", 8, "--projection-dim", 4, "--batch-size", 4)
    run(*texts, "--threads", 1, "-o", home / "one", "--max-steps", 2)
    before = (home / "one/recipe.json").read_text()
    again = ("-o", home / "one", "--resume", "--max-steps", 4)
    others = (
        ("--vocabulary", home / "w.txt"),
        ("--min-count", 2),
        ("--init-from", "elmo-en"),
        ("--lstm-dim", 16),
        ("--options-file", home / "other.json"),
        ("--char-filters", 2048),
    )
    options = json.loads((home / "one/options.json").read_text())
    options["lstm"]["projection_dim"] = 8
    (home / "other.json").write_text(json.dumps(options))
    for other in others:
        with pytest.raises(UsageError, match=f"{other[0]} .*: the run began with"):
            run(*again, *other)
    assert (home / "one/recipe.json").read_text() == before
    same = (*own, "--options-file", home / "one/options.json", "--lstm-dim", 8)
    assert json.loads(run(*again, *same, "--json").stdout)["steps"] == 4


def test_a_recipe_of_other_sizes_is_not_taken_by_a_run_that_goes_on(home: Path) -> None:
    """Without it that recipe would stand beside weights of the sizes before."""
    run("--recipe", home / "recipe.json", "-o", home / "one")
    before = (home / "one/recipe.json").read_text()
    (home / "other.json").write_text(json.dumps({**RECIPE, "lstm-dim": 16, "max-steps": 8}))
    (home / "same.json").write_text(json.dumps({**RECIPE, "log-steps": 3, "max-steps": 8}))
    again = ("-o", home / "one", "--resume", "--json", "--recipe")
    with pytest.raises(
        UsageError, match=r"other\.json: `lstm-dim` 16: the run began with 24"
    ) as caught:
        run(*again, home / "other.json")
    assert "leave out `--recipe`" in caught.value.hint
    assert (home / "one/recipe.json").read_text() == before
    assert json.loads(run(*again, home / "same.json").stdout)["steps"] == 8


def test_a_recipe_of_a_run_that_was_changed_is_named(home: Path) -> None:
    """Without it the message begins with `None`, and advises to leave out what is not given."""
    run("--recipe", home / "recipe.json", "-o", home / "one")
    own = home / "one/recipe.json"
    own.write_text(json.dumps({**json.loads(own.read_text()), "lstm-dim": 64}))
    with pytest.raises(UsageError) as caught:
        run("-o", home / "one", "--resume")
    assert caught.value.message == f"{own}: `lstm-dim` 64: the run began with 24"
    assert caught.value.hint.startswith("put `lstm-dim` back as it was, or begin another run")


def test_a_recipe_without_sizes_leaves_those_of_the_run_in_its_recipe(home: Path) -> None:
    """Without it the defaults would stand there, beside weights of other sizes."""
    run("--recipe", home / "recipe.json", "-o", home / "one")
    begun = json.loads((home / "one/recipe.json").read_text())
    named = {name: RECIPE[name] for name in RECIPE if name not in BEGINNING}
    (home / "bare.json").write_text(json.dumps({**named, "max-steps": 6}))
    run("-o", home / "one", "--resume", "--recipe", home / "bare.json")
    assert json.loads((home / "one/recipe.json").read_text()) == {**begun, "max-steps": 6}
    run("-o", home / "one", "--resume", "--recipe", home / "recipe.json", "--max-steps", 7)
    assert json.loads((home / "one/recipe.json").read_text()) == {**begun, "max-steps": 7}


def test_a_run_without_its_recipe_is_told_so(home: Path) -> None:
    """Without it `--resume` would ask for a text, though the folder keeps its own."""
    run("--recipe", home / "recipe.json", "-o", home / "one")
    own = home / "one/recipe.json"
    own.unlink()
    with pytest.raises(UsageError, match=r"one: has no recipe\.json") as caught:
        run("-o", home / "one", "--resume")
    assert "--recipe FILE" in caught.value.hint
    named = {name: RECIPE[name] for name in RECIPE if name not in BEGINNING}
    (home / "bare.json").write_text(json.dumps({**named, "max-steps": 6}))
    run("-o", home / "one", "--resume", "--recipe", home / "bare.json")
    left = json.loads(own.read_text())
    assert (left["options-file"], left["vocabulary"]) == ("options.json", "vocab.txt")
    assert not {"lstm-dim", "projection-dim", "min-count"} & set(left)
    result = run("-o", home / "one", "--resume", "--max-steps", 8, "--json")
    assert json.loads(result.stdout)["steps"] == 8
    assert json.loads(own.read_text()) == {**left, "max-steps": 8}


def test_a_recipe_that_is_damaged_can_be_replaced(home: Path) -> None:
    """Without it the run could not be gone on with, or only by another set of settings."""
    run("--recipe", home / "recipe.json", "-o", home / "one")
    own = home / "one/recipe.json"
    own.write_text("{")
    again = ("-o", home / "one", "--resume", "--recipe", home / "recipe.json", "--max-steps", 6)
    with pytest.raises(UsageError, match=r"one/recipe\.json: not JSON") as caught:
        run(*again)
    assert caught.value.hint == f"remove {own}: `--recipe` takes its place"
    own.unlink()
    assert json.loads(run(*again, "--json").stdout)["steps"] == 6


def test_the_same_vocabulary_may_be_named_from_another_folder(home: Path) -> None:
    """A recipe travels: its names are relative to itself, or to the folder of `--data-dir`."""
    (home / "v.txt").write_text("<S>\n</S>\n<UNK>\nthe\ncat\n")
    recipe = {name: RECIPE[name] for name in RECIPE if name != "min-count"}
    (home / "v.json").write_text(json.dumps({**recipe, "vocabulary": "v.txt"}))
    (home / "below").mkdir()
    (home / "below/v.json").write_text(json.dumps({**recipe, "vocabulary": "v.txt"}))
    run("--recipe", home / "v.json", "-o", home / "one")
    again = ("--recipe", home / "below/v.json", "--data-dir", home, "--max-steps", 6, "--json")
    assert json.loads(run("-o", home / "one", "--resume", *again).stdout)["steps"] == 6
    assert json.loads((home / "one/recipe.json").read_text())["vocabulary"] == "v.txt"
    again = ("--data-dir", home, "--max-steps", 8, "--json")
    assert json.loads(run("-o", home / "one", "--resume", *again).stdout)["steps"] == 8


def test_options_that_contradict_each_other(home: Path) -> None:
    """One of them would be passed over without a word."""
    (home / "v.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")
    run("--recipe", home / "recipe.json", "-o", home / "one")
    begin = (home / "train/a.txt", "-o", home / "two", "--max-steps", 2)
    with pytest.raises(UsageError, match="--lstm-dim: has no meaning with `--options-file"):
        run(*begin, "--options-file", home / "one/options.json", "--lstm-dim", 8)
    with pytest.raises(UsageError, match="--min-count: has no meaning with `--vocabulary"):
        run(*begin, "--vocabulary", home / "v.txt", "--min-count", 2)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"row": 3}, "no setting `row`"),
        ({"rows": 32}, "no setting `rows`"),
        ({"--batch-size": 3}, "no setting `--batch-size`"),
        ({"output": "model"}, "no setting `output`"),
        ({"batch-size": 2.5}, "`batch-size`: '2.5' is not a whole number"),
        ({"batch-size": 0}, "`batch-size`: 0 is not in the range x>=1"),
        ({"seed": -1}, "`seed`: -1 is not in the range 0<=x<="),
        ({"treebank-fraction": math.nan}, "`treebank-fraction`: nan is not a finite number"),
        ({"eval-seconds": "x"}, "`eval-seconds`: 'x' is not a number"),
        ({"batch-size": [3]}, r"`batch-size`: \[3\], not one value"),
        ({"keep-best": "yes"}, "`keep-best`: 'yes', not true or false"),
        ({"optimizer": "sgd"}, "`optimizer`: 'sgd' is not one of"),
        ({"texts": [3]}, "`texts` is not a list of names"),
        ({"texts": ["*.xml"]}, r"`texts`: no file is called .*\*\.xml"),
        ([1], "not a JSON object"),
    ],
)
def test_what_a_recipe_can_t_hold_is_told(content: Any, said: str, home: Path) -> None:
    """A setting with a slip in its name must not be passed over: the run would be another."""
    path = home / "recipe.json"
    path.write_text(json.dumps({**RECIPE, **content} if isinstance(content, dict) else content))
    with pytest.raises(UsageError, match=said) as caught:
        run("--recipe", path, "-o", home / "one")
    assert caught.value.message.startswith(str(path))
    assert caught.value.hint
    assert not (home / "one").exists()


def test_no_recipe_and_no_json_are_told(home: Path) -> None:
    """Without it the user gets a traceback, or a message about texts."""
    with pytest.raises(UsageError, match=r"none\.json: can't be read"):
        run("--recipe", home / "none.json", "-o", home / "one")
    with pytest.raises(UsageError, match=r"dev\.txt: not JSON"):
        run("--recipe", home / "dev.txt", "-o", home / "one")
    (home / "deep.json").write_text("[" * 200_000)
    with pytest.raises(UsageError, match=r"deep\.json: not JSON \(maximum recursion"):
        run("--recipe", home / "deep.json", "-o", home / "one")
    with pytest.raises(UsageError, match="--data-dir: there is no recipe"):
        run(home / "dev.txt", "--data-dir", home, "-o", home / "one", "--max-steps", "1")
    with pytest.raises(UsageError, match="no TEXT is given"):
        run("-o", home / "one", "--max-steps", "1")
