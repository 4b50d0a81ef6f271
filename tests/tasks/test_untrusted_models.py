"""Task models from anywhere: changed, exchanged or hostile files are refused, never used."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from command_line import made

from elmo_cli.errors import ModelError
from elmo_cli.pretrained.parts_file import PartsFile
from elmo_cli.tasks.task import Example, load_task
from elmo_cli.tasks.trained_task import PARTS, load_trained
from elmo_cli.training.tensors import write_tensors

DATA = ("--train", "train.conll", "--dev", "train.conll")
SIZES = ("--word-vectors", "words.txt", "--elmo", "none", "--set", "hidden=8")
TEXT = ["Anna likes Oslo", "it rains in Bergen", "Berg lives in Oslo"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that predicts names, and one with persons and places exchanged."""
    folder = tmp_path_factory.mktemp("trained")
    rows = [("Anna", "B-PER"), ("Berg", "I-PER"), ("lives", "O"), ("in", "O"), ("Oslo", "B-LOC")]
    text = "".join(f"{token} {label}\n" for token, label in rows) * 3
    text = "\n".join([text.replace("Anna", name) for name in ("Anna", "Eva", "Ida")])
    (folder / "words.txt").write_text("the 1 0 0\nanna 0 1 0\noslo 0 0 1\nrains 1 1 0\n")
    exchanged = text.replace("PER", "X").replace("LOC", "PER").replace("X", "LOC")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, labelled in (("ner", text), ("other", exchanged)):
            Path("train.conll").write_text(labelled)
            words = ("--epochs", 12, "--learning-rate", 0.03, "-q", "-o", name)
            made("train", "ner", *DATA, *SIZES, *words)
    return folder


@pytest.fixture
def model(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained / "ner", tmp_path / "ner")


def predicted(folder: Path) -> list[Any]:
    model = load_trained(folder)
    sentences = [tuple(line.split()) for line in TEXT]
    examples = [Example((number,), "", target=None) for number in range(len(sentences))]
    return model.predict(examples, model.inputs(sentences, None))


def test_the_predictions_show_a_change(trained: Path) -> None:
    """Otherwise, a damaged model could pass for a valid one."""
    before = predicted(trained / "ner")
    assert before != predicted(trained / "other")
    assert len({label for labels in before for label in labels}) > 1


@pytest.mark.parametrize("part", PARTS.values())
def test_a_file_of_another_model_is_refused(part: str, model: Path, trained: Path) -> None:
    shutil.copy(trained / "other" / part, model / part)
    is_same = part == "word_vectors.npz"  # of both
    if is_same:
        np.savez(model / part, words=np.array(["anna"]), vectors=np.ones((1, 3)))
    with pytest.raises(ModelError, match=rf"{part}: its sha256 is not"):
        load_trained(model)
    (model / part).unlink()
    with pytest.raises(ModelError, match=part):
        load_trained(model)


def test_a_model_without_parts_or_scores_is_refused(model: Path) -> None:
    (model / "parts.json").unlink()
    with pytest.raises(ModelError, match=r"task\.json: parts\.json does not state"):
        load_trained(model)
    (model / "scores.json").unlink()
    with pytest.raises(ModelError, match="is not finished") as caught:
        load_trained(model)
    assert "--resume" in caught.value.hint


def damaged(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    at = random.randrange(len(changed))
    kind = random.randrange(3)
    if kind == 0:
        changed[at] ^= 1 << random.randrange(8)
    elif kind == 1:
        del changed[at:]
    else:
        changed[at : at + 16] = random.randbytes(16)
    return bytes(changed)


def test_a_damaged_model_is_refused_or_predicts_the_same(model: Path, trained: Path) -> None:
    """100 damages of its files; none is silently wrong."""
    expected = predicted(model)
    random = Random(5)
    names = sorted(path.name for path in model.iterdir() if path.is_file())
    n_refused = 0
    for _ in range(100):
        name = random.choice(names)
        (model / name).write_bytes(damaged((trained / "ner" / name).read_bytes(), random))
        try:
            assert predicted(model) == expected, name
        except ModelError:
            n_refused += 1
        shutil.copy(trained / "ner" / name, model / name)
    assert n_refused > 30


def change_config(model: Path, change: Callable[[dict[str, Any]], None]) -> None:
    config = json.loads((model / "task.json").read_text())
    change(config)
    (model / "task.json").write_text(json.dumps(config))


def more_layers(config: dict[str, Any]) -> None:
    config["settings"]["layers"] = 3_000_000


def huge_hidden(config: dict[str, Any]) -> None:
    config["settings"] |= {"hidden": 16_000, "layers": 100}


def many_labels(config: dict[str, Any]) -> None:
    config["labels"]["names"] = [f"T{number}" for number in range(100_000)]


def a_control_character(config: dict[str, Any]) -> None:
    config["labels"]["names"][0] = "\x1b[2J"


def another_scheme(config: dict[str, Any]) -> None:
    config["labels"]["scheme"] = "BILOU"


def numbers_as_labels(config: dict[str, Any]) -> None:
    config["labels"]["names"] = [1, 2]


def a_huge_bilm(config: dict[str, Any]) -> None:
    config["settings"]["elmo.layers"] = "all"
    config["bilm"] = {"source": "x", "sha256": "", "state": "zero", "n_layers": 9**9, "dim": 9**9}


def a_bilm_without_a_name(config: dict[str, Any]) -> None:
    config["bilm"] = {"source": 5, "sha256": "", "state": "zero", "n_layers": 3, "dim": 4}


def no_settings(config: dict[str, Any]) -> None:
    config["settings"] = None


CONFIGS = [
    more_layers,
    huge_hidden,
    many_labels,
    a_control_character,
    another_scheme,
    numbers_as_labels,
    a_huge_bilm,
    a_bilm_without_a_name,
    no_settings,
]


@pytest.mark.parametrize("change", CONFIGS, ids=lambda change: change.__name__)
def test_a_forged_task_file_is_refused(
    change: Callable[[dict[str, Any]], None], model: Path
) -> None:
    """With the right digests, as an attacker writes them."""
    change_config(model, change)
    PartsFile(model, PARTS).write()
    with pytest.raises(ModelError) as caught:
        load_trained(model)
    assert caught.value.hint


def numbered(n: int) -> list[str]:
    return [f"T{number}" for number in range(n)]


# Task -> labels that its models have, and some that none has, with what is wrong with them.
LABELS: dict[str, tuple[list[Any], list[tuple[Any, str]]]] = {
    "ner": (
        [{"scheme": "BIO", "names": numbered(1_000)}, {"scheme": None, "names": numbered(1_001)}],
        [
            ({"scheme": "BIO", "names": numbered(1_001)}, "not 1 to 1,000"),
            ({"scheme": None, "names": [""]}, "is empty"),
        ],
    ),
    "classification": (
        [["a"], numbered(10_000)],
        [
            ([], "there are 0 labels"),
            (["a", "a"], "occurs twice"),
            (["a", ""], "is empty"),
            (["a", "\u2028"], "control character"),
            (["a", "\ud800"], "control character"),
            (numbered(10_001), "not 1 to 10,000"),
            ("ab", "not a list"),
        ],
    ),
    "similarity": (
        [{"mean": -2.5, "deviation": 0.5}],
        [
            ({"mean": 1, "deviation": 0.5}, "the mean"),
            ({"mean": 1.0, "deviation": float("nan")}, "the deviation"),
            ({"mean": 1e30, "deviation": 1.0}, "the mean"),
        ],
    ),
    "srl": ([numbered(1_000)], [(numbered(1_001), "not 1 to 1,000")]),
    "coref": ([{"singletons": False}], [({"singletons": 0}, "not true or false")]),
    "qa": ([None], [([], "no labels"), ({}, "no labels")]),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_that_no_model_of_a_task_has_are_refused(name: str) -> None:
    possible, impossible = LABELS[name]
    task = load_task(name)
    for labels in possible:
        task.check_model_labels(labels)
    for labels, problem in impossible:
        with pytest.raises(ValueError, match=problem):
            task.check_model_labels(labels)


def not_finite(state: dict[str, torch.Tensor]) -> None:
    state["output.bias"][0] = torch.nan


def of_another_shape(state: dict[str, torch.Tensor]) -> None:
    state["output.bias"] = torch.zeros(3)


def of_another_type(state: dict[str, torch.Tensor]) -> None:
    state["output.bias"] = state["output.bias"].double()


def one_value_for_all(state: dict[str, torch.Tensor]) -> None:
    state["output.bias"] = torch.zeros(1).expand(1 << 40)


def a_further_weight(state: dict[str, torch.Tensor]) -> None:
    state["more"] = torch.zeros(1)


def no_tensor(state: dict[str, Any]) -> None:
    state["output.bias"] = "text"


STATES = [
    not_finite,
    of_another_shape,
    of_another_type,
    one_value_for_all,
    a_further_weight,
    no_tensor,
]


@pytest.mark.parametrize("change", STATES, ids=lambda change: change.__name__)
def test_forged_weights_are_refused(change: Callable[[dict[str, Any]], None], model: Path) -> None:
    state = torch.load(model / "model.pt", weights_only=True)
    change(state)
    write_tensors(model / "model.pt", state)
    PartsFile(model, PARTS).write()
    with pytest.raises(ModelError) as caught:
        load_trained(model)
    assert caught.value.hint


def test_words_that_are_not_finite_are_refused(model: Path) -> None:
    words = np.array(["anna"])
    np.savez(model / "word_vectors.npz", words=words, vectors=np.full((1, 3), np.inf))
    PartsFile(model, PARTS).write()
    with pytest.raises(ModelError, match="not finite"):
        load_trained(model)
