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
from command_line import Done, documented, elmo, made, only_tiny, refused

from elmo_cli.analysis import linear
from elmo_cli.analysis.labelled_vectors import LabelSettings
from elmo_cli.cli.options import LabelOptions

TAGS = {
    "the": "DT",
    "a": "DT",
    "cat": "NN",
    "dog": "NN",
    "house": "NN",
    "sat": "VBD",
    "slept": "VBD",
    ".": ".",
    "!": ".",
}
N_SENTENCES = {"train": 30, "dev": 8, "test": 8}
# The end of test has words that are not in train, and a label.
NEW = [("the", "DT"), ("mouse", "NN"), ("ran", "VBD"), ("quickly", "RB"), (".", ".")]

SHOWN = {  # fields of a layer in the order of the columns, and their formats
    "test": ".2f",
    "dev": ".2f",
    "unseen_words": ".2f",
    "weight_decay": ".0e",  # and which end of the weight decays it is
    "control": ".2f",
    "selectivity": ".2f",
    "code_length": ",.0f",
    "compression": ".2f",
}


def tagged(split: str) -> list[list[tuple[str, str]]]:
    """Sentences that are different in every split, and the same in every process."""
    rng = random.Random(split)
    sentences = []
    for number in range(N_SENTENCES[split]):
        words = rng.choices(sorted(TAGS), k=rng.randint(2, 9))
        last = (f"{number}{split}", "CD")  # makes the sentence different
        sentences.append([*((word, TAGS[word]) for word in words), last])
    if split == "test":
        sentences.append(NEW)
    return sentences


def n_tokens(split: str) -> int:
    return sum(len(sentence) for sentence in tagged(split))


def as_conllu(sentence: list[tuple[str, str]]) -> str:
    """The rows of a sentence, with the tags as xpos, and the blank line after it."""
    rows = []
    for number, (word, tag) in enumerate(sentence, 1):
        rows.append(f"{number}\t{word}\t_\t_\t{tag}\t_\t_\t_\t_\t_\n")
    return "".join(rows) + "\n"


def as_tags(sentence: list[tuple[str, str]]) -> str:
    """The line of labels of a sentence."""
    return " ".join(tag for _, tag in sentence) + "\n"


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    """SPLIT.conllu, SPLIT.tags and SPLIT.hdf5."""
    folder = tmp_path_factory.mktemp("probe")
    for split in N_SENTENCES:
        sentences = tagged(split)
        (folder / f"{split}.conllu").write_text("".join(map(as_conllu, sentences)))
        (folder / f"{split}.tags").write_text("".join(map(as_tags, sentences)))
    made("embed", *sorted(folder.glob("*.conllu")), "-o", f"{folder}/", "-q", "-m", tiny)
    return folder


@pytest.fixture(autouse=True)
def here(stock: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of these files as working directory, and short training."""
    only_tiny(monkeypatch, tiny)
    monkeypatch.chdir(stock)
    monkeypatch.setattr(linear, "WEIGHT_DECAYS", (1e-3,))
    monkeypatch.setattr(linear, "EPOCHS", 1)
    monkeypatch.setattr(linear, "PATH_DECAYS", (1.0,))
    monkeypatch.setattr(linear, "TOLERANCE", 1e-2)


def probe(labels: str = "conllu", splits: Sequence[str] = tuple(N_SENTENCES)) -> list[str]:
    """The command line for SPLIT.hdf5 and SPLIT.LABELS."""
    words = ["probe"]
    for split in splits:
        words += [f"--{split}", f"{split}.hdf5", f"{split}.{labels}"]
    return words


def figures(*words: object, **options: Any) -> dict[str, Any]:
    """The result as JSON."""
    done = made(*probe(**options), "--json", "-q", *words)
    assert done.err == ""
    facts: dict[str, Any] = json.loads(done.out)
    return facts


def table(done: Done) -> list[list[str]]:
    return [row.split("\t") for row in done.out.decode().splitlines()]


def test_table_shows_what_json_contains() -> None:
    results = figures("--control", "--mdl")
    done = made(*probe(), "--control", "--mdl")
    header, baseline, *rows = table(done)
    assert header == [
        "%",
        "test",
        "dev",
        "test, unseen words",
        "weight decay",
        "control",
        "selectivity",
        "code length, bits",
        "compression",
    ]
    per_word = results["majority_label_per_word"]
    accuracies = [f"{per_word[name]:.2f}" for name in ("test", "dev", "unseen_words")]
    assert baseline == ["majority label per word", *accuracies, "", "", "", "", ""]
    for number, (row, layer) in enumerate(zip(rows, results["layers"], strict=True)):
        assert layer["selectivity"] == layer["test"] - layer["control"]["test"]
        facts = {**layer, **layer["mdl"], "control": layer["control"]["test"]}
        cells = [format(facts[name], how) for name, how in SHOWN.items()]
        cells[3] += f" ({layer['weight_decay_edge']})"  # the only weight decay is the largest
        assert row == [f"layer {number}", *cells]
    counts = f"train {n_tokens('train')}, dev {n_tokens('dev')}, test {n_tokens('test')}"
    notes = [line for line in done.err.splitlines() if " epochs of " not in line]  # progress
    assert notes == [
        "warning: test.conllu: labels that are not in train count as errors: 1, such as RB",
        f"5 labels in column xpos; tokens: {counts}",
        "model tiny, state zero",
    ]


def test_control_and_mdl_add_columns_and_fields() -> None:
    """The figures of the probe alone do not depend on them."""
    alone = figures()
    more = figures("--control", "--mdl")
    for layer, layer_alone in zip(more["layers"], alone["layers"], strict=True):
        assert list(layer) == [*layer_alone, "control", "selectivity", "mdl"]
        assert layer_alone.items() <= layer.items()
    table_alone = made(*probe(), "-q")
    table_of_more = made(*probe(), "--control", "--mdl", "-q")
    assert table(table_alone) == [row[:5] for row in table(table_of_more)]
    assert table_alone.err == ""


def test_json() -> None:
    facts = figures("--control", "--mdl")
    keys = [
        *("model", "state", "unit", "column", "n_labels", "train", "dev", "test"),
        *("n_unseen_words", "dev_from_train", "majority_label", "majority_label_per_word"),
        *("layers", "seed", "warnings"),
    ]
    assert list(facts) == keys
    layer = facts["layers"][0]
    for key in [*keys, *facts["test"], *layer, *layer["control"], *layer["mdl"]]:
        assert f"`{key}`" in documented("probe"), key
    assert [facts[key] for key in keys[:5]] == ["tiny", "zero", "token", "xpos", 5]
    assert facts["test"] == {
        "files": ["test.hdf5", "test.conllu"],
        "sentences": 9,
        "labels": n_tokens("test"),
        "unknown_labels": 1,
    }
    # The last word of each sentence occurs there only, and three of NEW are new.
    assert facts["n_unseen_words"] == N_SENTENCES["test"] + 3
    assert facts["dev_from_train"] is False
    assert facts["seed"] == 0
    assert [layer["name"] for layer in facts["layers"]] == ["0", "1", "2"]


def test_lines_of_labels_give_the_figures_of_a_column() -> None:
    lines = figures(labels="tags")
    column = figures()
    assert lines["column"] is None
    for name in ("layers", "majority_label", "majority_label_per_word"):
        assert lines[name] == column[name]


def test_labels_in_another_encoding(tmp_path: Path) -> None:
    words: list[object] = ["probe"]
    for split in N_SENTENCES:
        labels = tmp_path / f"{split}.tags"
        labels.write_text(Path(labels.name).read_text(), encoding="utf-16")
        words += [f"--{split}", f"{split}.hdf5", labels]
    done = made(*words, "--encoding", "utf-16", "--json", "-q")
    assert json.loads(done.out)["layers"] == figures(labels="tags")["layers"]


def test_each_option_about_labels_reaches_the_reader() -> None:
    options = LabelOptions(
        label_format="conll", label_column="2", token_column=3, encoding="latin-1"
    )
    assert options.label_settings() == LabelSettings(
        format="conll", column="2", token_column=3, encoding="latin-1"
    )


def test_files_of_another_program_have_no_model(tmp_path: Path) -> None:
    """The summary does not name one either."""
    words: list[object] = ["probe"]
    for split in N_SENTENCES:
        path = tmp_path / f"{split}.hdf5"
        with h5py.File(f"{split}.hdf5") as source, h5py.File(path, "w") as foreign:
            for name in source:
                if name != "sentence_to_index":
                    source.copy(name, foreign)
        words += [f"--{split}", path, f"{split}.tags"]
    facts = json.loads(made(*words, "--layer", 1, "--json", "-q").out)
    assert (facts["model"], facts["state"]) == (None, None)
    layer = figures("--layer", 1, labels="tags")["layers"][0]
    assert facts["layers"] == [{**layer, "unseen_words": None}]
    assert "\nmodel " not in made(*words, "--layer", 1).err


def test_layers_are_probed_in_the_order_given() -> None:
    all_layers = figures()["layers"]
    chosen = figures("--layer", 2, "--layer", 0, "--label-column", 5)["layers"]
    assert chosen == [all_layers[2], all_layers[0]]


def test_the_seed_decides_about_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "BATCH_SIZE", 8)
    other = figures("--seed", 1)
    assert other["seed"] == 1
    assert other["layers"] != figures()["layers"]


def test_dev_is_split_off_train() -> None:
    facts = figures(splits=("train", "test"))
    assert facts["dev_from_train"] is True
    assert facts["train"]["sentences"] == 27


def test_pooled_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for split in N_SENTENCES:
        lines = []
        labels = []
        for sentence in tagged(split):
            lines.append(" ".join(word for word, _ in sentence) + "\n")
            labels.append("short\n" if len(sentence) < 6 else "long\n")
        (tmp_path / f"{split}.txt").write_text("".join(lines))
        (tmp_path / f"{split}.tags").write_text("".join(labels))
    monkeypatch.chdir(tmp_path)
    made("embed", *sorted(tmp_path.glob("*.txt")), "-o", "./", "-q", "--pool", "mean")
    facts = figures(labels="tags")
    assert facts["unit"] == "sentence"
    assert facts["majority_label_per_word"] is None
    assert facts["n_unseen_words"] is None
    done = made(*probe(labels="tags"))
    assert "sentences: train 30, dev 8, test 9\n" in done.err
    assert done.out.startswith(b"%\ttest\tdev\tweight decay\nmajority label\t")
    refused(elmo(*probe(labels="tags"), "--control", "-q"), 2, "`--control`: control labels", "")


def test_corrupt_embeddings_are_read_in_a_child_process(tmp_path: Path) -> None:
    content = Path("test.hdf5").read_bytes()
    corrupt = tmp_path / "test.hdf5"
    corrupt.write_bytes(content)
    with h5py.File(corrupt, "r+") as file:
        file["8"][1, 3, 5] = np.nan
    words = [*probe(splits=("train", "dev")), "--test", corrupt, "test.conllu"]
    refused(elmo(*words), 1, f"{corrupt}: sentence 8: a value in layer 1", "")
    corrupt.write_bytes(content[:-200])
    refused(elmo(*words), 1, f"{corrupt}: truncated", "")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param(probe(splits=("train",)), 2, "missing option '--test'", id="no test"),
        pytest.param(
            [*probe(), "--layer", "3"],
            2,
            "train.hdf5: `--layer 3`: the file has layers 0, 1, 2",
            id="no such layer",
        ),
        pytest.param(
            [*probe(), "--label-format", "conll", "--label-column", "upos"],
            2,
            "`--label-column up",
            id="a column without a name",
        ),
        pytest.param(probe(labels="missing"), 1, "train.missing: no such file", id="no file"),
    ],
)
def test_wrong_command_lines(words: list[str], code: int, message: str) -> None:
    done = elmo(*words)
    refused(done, code, message, "")
    assert len(done.err.splitlines()) == 2
    assert done.out == b""


def test_tokens_are_no_names_of_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters of the library are: `seed` becomes `--seed` in a message."""
    monkeypatch.chdir(tmp_path)
    Path("a.conll").write_text("a DT\nseed NN\n")
    Path("b.conll").write_text("a DT\ntest NN\n")
    made("embed", "a.conll", "-o", "a.hdf5", "--layout", "flat", "-q")
    done = elmo("probe", "--train", "a.hdf5", "b.conll", "--test", "a.hdf5", "a.conll")
    refused(done, 1, "b.conll, line 1: token 2 of sentence 0 is 'test', in a.hdf5 it is 'seed'", "")


def test_labels_are_read_in_the_rows_of_the_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by `inspect`, which is not told; and a shard or a resumed run has the same rows."""
    monkeypatch.chdir(tmp_path)
    for split in N_SENTENCES:
        text = "".join(map(as_conllu, tagged(split)))
        # A range above the first two words of each sentence, and an empty node.
        other = [f"{number}\tx\t_\t_\tR\t_\t_\t_\t_\t_\n" for number in ("1-2", "0.1")]
        trees = text.split("\n\n")[:-1]
        treebank = "".join(f"{other[1]}{other[0]}{tree}\n\n" for tree in trees)
        Path(f"{split}.conllu").write_text(treebank)
    n_added = {"words": 0, "tokens": -1, "all": 2}  # rows of a sentence
    for rows, n in n_added.items():
        made("embed", *map("{}.conllu".format, N_SENTENCES), "-o", "./", "--rows", rows, "-f")
        words = []
        for split in N_SENTENCES:
            words += [f"--{split}", f"{split}.hdf5", f"{split}.conllu"]
            made("inspect", f"{split}.hdf5", "--text", f"{split}.conllu")
            with h5py.File(f"{split}.hdf5") as file:
                assert file.attrs["tokens"] == n_tokens(split) + n * len(tagged(split))
                assert file.attrs.get("rows", "words") == rows
        facts = json.loads(made("probe", *words, "--json").out)
        assert facts["n_labels"] == 5 + (rows != "words")
    for number in (1, 2):
        shard = ("--rows", "all", "--shard", f"{number}/2")
        made("embed", "train.conllu", "-o", f"{number}.hdf5", *shard)
    made("merge", "1.hdf5", "2.hdf5", "-o", "merged.hdf5")
    assert Path("merged.hdf5").read_bytes() == Path("train.hdf5").read_bytes()
    made("embed", "train.conllu", "-o", "train.hdf5", "--rows", "all", "--resume")
    other_rows = elmo("embed", "train.conllu", "-o", "train.hdf5", "--resume")
    assert "made with other settings (rows: all, now words)" in other_rows.err
