"""`elmo probe` on files of `elmo embed`."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import Done, documented, elmo, made, only_tiny

from elmo_cli.analysis import linear

TAGS = {
    **dict.fromkeys(("the", "a"), "DT"),
    **dict.fromkeys(("cat", "dog", "house"), "NN"),
    **dict.fromkeys(("sat", "slept"), "VBD"),
    **dict.fromkeys((".", "!"), "."),
}
N_SENTENCES = {"train": 30, "dev": 8, "test": 8}
# The end of test has words that are not in train, and a label.
NEW = [("the", "DT"), ("mouse", "NN"), ("ran", "VBD"), ("quickly", "RB"), (".", ".")]

SHOWN = {  # fields of a layer in the order of the columns, and their formats
    **dict.fromkeys(("test", "dev", "unseen_words"), ".2f"),
    "weight_decay": ".0e",
    "control": ".2f",
    "selectivity": ".2f",
    "code_length": ",.0f",
    "compression": ".2f",
}


def tagged(split: str) -> list[list[tuple[str, str]]]:
    """Sentences that are different in every split, and the same in every process."""
    rng = random.Random(split)
    n, words = N_SENTENCES[split], sorted(TAGS)
    lines = [[*rng.choices(words, k=rng.randint(2, 9)), f"{k}{split}"] for k in range(n)]
    found = [[(word, TAGS.get(word, "CD")) for word in line] for line in lines]
    return [*found, NEW] if split == "test" else found


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    """SPLIT.conllu, SPLIT.tags and SPLIT.hdf5."""
    folder = tmp_path_factory.mktemp("probe")
    for split in N_SENTENCES:
        rows, lines = [], []
        for sentence in tagged(split):
            rows += [f"{n}\t{word}\t_\t_\t{tag}" + "\t_" * 5 for n, (word, tag) in
                     enumerate(sentence, 1)] + [""]  # fmt: skip
            lines.append(" ".join(tag for _, tag in sentence))
        (folder / f"{split}.conllu").write_text("\n".join(rows) + "\n")
        (folder / f"{split}.tags").write_text("\n".join(lines) + "\n")
    made("embed", *sorted(folder.glob("*.conllu")), "-o", f"{folder}/", "-q", "-m", tiny)
    return folder


@pytest.fixture(autouse=True)
def here(stock: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of these files as working directory, and short training."""
    only_tiny(monkeypatch, tiny)
    monkeypatch.chdir(stock)
    monkeypatch.setattr(linear, "WEIGHT_DECAYS", (1e-3,))
    monkeypatch.setattr(linear, "EPOCHS", 1)


def probe(labels: str = "conllu", splits: Sequence[str] = tuple(N_SENTENCES)) -> list[str]:
    """The command line for SPLIT.hdf5 and SPLIT.LABELS."""
    files = [[f"--{split}", f"{split}.hdf5", f"{split}.{labels}"] for split in splits]
    return ["probe", *(word for words in files for word in words)]


def figures(*words: object, **options: Any) -> dict[str, Any]:
    """The result as JSON."""
    done = made(*probe(**options), "--json", "-q", *words)
    assert done.err == ""
    found: dict[str, Any] = json.loads(done.out)
    return found


def table(done: Done) -> list[list[str]]:
    return [row.split("\t") for row in done.out.decode().splitlines()]


def test_table_shows_what_json_contains() -> None:
    """Columns and fields of --control and --mdl are added to those of the probe alone."""
    alone, found = figures(), figures("--control", "--mdl")
    done, plain = made(*probe(), "--control", "--mdl"), made(*probe(), "-q")
    first, baseline, *rows = table(done)
    names = ["%", "test", "dev", "test, unseen words", "weight decay", "control", "selectivity"]
    assert first == [*names, "code length, bits", "compression"]
    per_word = [f"{found['majority_label_per_word'][name]:.2f}" for name in list(SHOWN)[:3]]
    assert baseline == ["majority label per word", *per_word, *[""] * 5]
    for number, (row, layer) in enumerate(zip(rows, found["layers"], strict=True)):
        one = alone["layers"][number]
        assert list(layer) == [*one, "control", "selectivity", "mdl"]
        assert {key: layer[key] for key in one} == one
        assert layer["selectivity"] == layer["test"] - layer["control"]["test"]
        facts = {**layer, **layer["mdl"], "control": layer["control"]["test"]}
        cells = [format(facts[name], how) for name, how in SHOWN.items()]
        assert row == [f"layer {number}", *cells]
    assert table(plain) == [row[:5] for row in table(done)]
    assert plain.err == ""
    n = {split: sum(map(len, tagged(split))) for split in N_SENTENCES}
    counts = f"train {n['train']}, dev {n['dev']}, test {n['test']}"
    notes = [line for line in done.err.splitlines() if " epochs of " not in line]  # progress
    assert notes == [
        "warning: test.conllu: labels that are not in train count as errors: 1, such as RB",
        f"5 labels in column xpos; tokens: {counts}",
        "model tiny, state zero",
    ]


def test_json() -> None:
    found = figures("--control", "--mdl")
    keys = [
        *("model", "state", "unit", "column", "n_labels", "train", "dev", "test"),
        *("n_unseen_words", "dev_from_train", "majority_label", "majority_label_per_word"),
        *("layers", "seed", "warnings"),
    ]
    assert list(found) == keys
    layer = found["layers"][0]
    for key in [*keys, *found["test"], *layer, *layer["control"], *layer["mdl"]]:
        assert f"`{key}`" in documented("probe"), key
    assert [found[key] for key in keys[:5]] == ["tiny", "zero", "token", "xpos", 5]
    assert found["test"] == {
        "files": ["test.hdf5", "test.conllu"],
        "sentences": 9,
        "labels": sum(map(len, tagged("test"))),
        "unknown_labels": 1,
    }
    # The last word of each sentence occurs there only, and three of NEW are new.
    assert found["n_unseen_words"] == N_SENTENCES["test"] + 3
    assert (found["dev_from_train"], found["seed"]) == (False, 0)
    assert [one["name"] for one in found["layers"]] == ["0", "1", "2"]


def test_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "BATCH_SIZE", 8)  # the seed decides about the batches
    found = figures()
    every, lines = found["layers"], figures(labels="tags")
    assert lines["column"] is None
    for name in ("layers", "majority_label", "majority_label_per_word"):
        assert lines[name] == found[name]
    some = figures("--layer", 2, "--layer", 0, "--label-column", 5)["layers"]
    assert some == [every[2], every[0]]
    other = figures("--seed", 1)
    assert (other["seed"], other["layers"] == every) == (1, False)
    found = figures(splits=("train", "test"))
    assert (found["dev_from_train"], found["train"]["sentences"]) == (True, 27)


def test_pooled_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for split in N_SENTENCES:
        sentences = tagged(split)
        text = "".join(" ".join(word for word, _ in one) + "\n" for one in sentences)
        (tmp_path / f"{split}.txt").write_text(text)
        labels = "".join(f"{'short' if len(one) < 6 else 'long'}\n" for one in sentences)
        (tmp_path / f"{split}.tags").write_text(labels)
    monkeypatch.chdir(tmp_path)
    made("embed", *sorted(tmp_path.glob("*.txt")), "-o", "./", "-q", "--pool", "mean")
    done, found = made(*probe(labels="tags")), figures(labels="tags")
    assert (found["unit"], found["majority_label_per_word"]) == ("sentence", None)
    assert found["n_unseen_words"] is None
    assert "sentences: train 30, dev 8, test 9\n" in done.err
    assert done.out.startswith(b"%\ttest\tdev\tweight decay\nmajority label\t")
    refused = elmo(*probe(labels="tags"), "--control", "-q")
    assert (refused.code, refused.err.startswith("error: `--control`: control labels")) == (2, True)


def test_corrupt_embeddings_are_read_in_a_child_process(tmp_path: Path) -> None:
    content = Path("test.hdf5").read_bytes()
    (tmp_path / "test.hdf5").write_bytes(content)
    with h5py.File(tmp_path / "test.hdf5", "r+") as file:
        file["8"][1, 3, 5] = np.nan
    words = [word.replace("test.hdf5", str(tmp_path / "test.hdf5")) for word in probe()]
    done = elmo(*words)
    where = f"{tmp_path / 'test.hdf5'}: sentence 8: a value in layer 1"
    assert (done.code, done.err.startswith(f"error: {where}")) == (1, True)
    (tmp_path / "test.hdf5").write_bytes(content[:-200])
    assert elmo(*words).err.startswith(f"error: {tmp_path / 'test.hdf5'}: truncated")


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (probe(splits=("train",)), 2, "missing option '--test'"),
        ([*probe(), "--layer", "3"], 2, "train.hdf5: `--layer 3`: the file has layers 0, 1, 2"),
        ([*probe(), "--label-format", "conll", "--label-column", "upos"], 2, "`--label-column up"),
        (probe(labels="missing"), 1, "train.missing: no such file"),
    ],
    ids=lambda one: " ".join(one[-2:]) if isinstance(one, list) else "",
)
def test_wrong_command_lines(words: list[str], code: int, error: str) -> None:
    done = elmo(*words)
    first, second = done.err.splitlines()
    assert (done.code, done.out) == (code, b"")
    assert first.startswith(f"error: {error}")
    assert second.startswith("hint: ")
