"""`elmo probe --structural` on files of `elmo embed`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from analysis.treebanks import Tree, random_trees
from command_line import documented, elmo, made, only_tiny, refused
from disks import disk_of

from elmo_cli.analysis import structural_probe

SIZES = {"train": 25, "dev": 5, "test": 6}
FILES = [word for split in SIZES for word in (f"--{split}", f"{split}.hdf5", f"{split}.conllu")]
SCORES = {"distance": ["uuas", "spearman"], "depth": ["root_accuracy", "spearman"]}
HEADINGS = {"uuas": "UUAS, %", "root_accuracy": "root accuracy, %", "spearman": "Spearman"}


def trees_of(split: str) -> list[Tree]:
    """Each sentence ends with a full stop; the last tree of test is broken."""
    trees = random_trees(len(split), SIZES[split])
    for tree in trees:
        tree.words.append(".")
        tree.heads.append(1)
        tree.upos = [*["X"] * (len(tree.words) - 1), "PUNCT"]
    if split == "test":
        trees[-1].heads = [1] * len(trees[-1].words)
    return trees


@pytest.fixture(scope="module")
def treebanks(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    """SPLIT.conllu and SPLIT.hdf5."""
    folder = tmp_path_factory.mktemp("treebanks")
    for split in SIZES:
        rows = [tree.rows() for tree in trees_of(split)]
        (folder / f"{split}.conllu").write_text("".join(rows))
    made("embed", *sorted(folder.glob("*.conllu")), "-o", f"{folder}/", "-q", "-m", tiny)
    return folder


@pytest.fixture(autouse=True)
def there(treebanks: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of these files as working directory, and short training."""
    only_tiny(monkeypatch, tiny)
    monkeypatch.chdir(treebanks)
    monkeypatch.setattr(structural_probe, "MAX_EPOCHS", 1)


def facts_of(task: str, *words: object) -> dict[str, Any]:
    done = made("probe", "--structural", task, *FILES, "--json", "-q", *words)
    assert done.err == ""
    facts: dict[str, Any] = json.loads(done.out)
    return facts


@pytest.mark.parametrize("task", SCORES)
def test_table_and_json_of_a_structural_probe(task: str) -> None:
    facts = facts_of(task)
    layer = facts["layers"][0]
    names = [*SCORES[task], "dev_loss", "epochs"]
    assert list(layer) == ["name", *names]
    assert list(facts["linear_chain"]) == SCORES[task]
    for name in [*facts, *facts["test"], *layer]:
        assert f"`{name}`" in documented("probe"), name
    n_words = sum(len(tree.words) for tree in trees_of("test")[:-1])
    assert facts["structural"] == task
    assert facts["rank"] == 16
    assert facts["punctuation"] == SIZES["test"] - 1
    assert facts["test"] == {
        "files": ["test.hdf5", "test.conllu"],
        "sentences": SIZES["test"] - 1,
        "words": n_words,
        "sentences_left_out": 1,
    }
    assert [layer["name"] for layer in facts["layers"]] == ["0", "1", "2"]
    done = made("probe", "--structural", task, *FILES)
    header, chain, *rows = [line.split("\t") for line in done.out.decode().splitlines()]
    headings = [HEADINGS[name] for name in SCORES[task]]
    assert header == [task, *headings, "dev loss", "epochs"]
    assert chain[0] == "linear chain"
    assert chain[3:] == ["", ""]
    for row, layer in zip([chain, *rows], [facts["linear_chain"], *facts["layers"]], strict=True):
        assert row[1] == f"{layer[SCORES[task][0]]:.2f}"
        assert row[2] == f"{layer['spearman']:.4f}"
    assert [row[0] for row in rows] == ["layer 0", "layer 1", "layer 2"]
    assert "warning: test.conllu: sentences without a valid tree are left out: 1 of 6" in done.err
    assert f"test 5 sentences, {n_words} words, 5 of them punctuation" in done.err


def test_layer_rank_and_seed_reach_the_probe() -> None:
    first = facts_of("distance", "--layer", 1, "--rank", 2)
    assert facts_of("distance", "--layer", 1, "--rank", 2) == first
    assert first["rank"] == 2
    assert len(first["layers"]) == 1
    other = facts_of("distance", "--layer", 1, "--rank", 2, "--seed", 1)
    assert other["seed"] == 1
    assert other["layers"] != first["layers"]


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["--structural", "depth", "--control"], "--control: has no effect with --struct", "leave"),
        (["--structural", "depth", "--mdl"], "--mdl: has no effect with --structural", "leave"),
        (["--structural", "depth", "--label-column", "4"], "--label-column: has no eff", "leave"),
        (["--rank", "4"], "--rank: has no effect without --structural", "leave"),
        (["--structural", "depth", "--rank", "17"], "`--rank 17`: exceeds the dimension", "rank"),
        (["--structural", "depth", "--label-format", "conll"], "train.conllu: trees are", "conllu"),
        (["--structural", "heads"], "", ""),
    ],
)
def test_options_that_do_not_fit_a_structural_probe(
    words: list[str], message: str, hint: str
) -> None:
    refused(elmo("probe", *FILES, *words), 2, message, hint)


@pytest.mark.parametrize("task", SCORES)
def test_trees_of_the_best_layer_are_written_and_plotted(task: str, tmp_path: Path) -> None:
    output = tmp_path / "trees.jsonl"
    facts = facts_of(task, "--trees", output)
    best = min(facts["layers"], key=lambda layer: layer["dev_loss"])
    trees = [json.loads(line) for line in output.read_text().splitlines()]
    assert [tree["words"] for tree in trees] == [tree.words for tree in trees_of("test")[:-1]]
    assert [tree["heads"] for tree in trees] == [tree.heads for tree in trees_of("test")[:-1]]
    assert {tree["layer"] for tree in trees} == {best["name"]}
    for name in trees[0]:
        assert f"`{name}`" in documented("probe"), name
    if task == "distance":
        n_edges = sum(len(tree["gold_edges"]) for tree in trees)
        n_found = 0
        for tree in trees:
            n_found += len([edge for edge in tree["edges"] if edge in tree["gold_edges"]])
        assert best["uuas"] == pytest.approx(100 * n_found / n_edges)
    else:
        roots = []
        for tree in trees:
            words = [k for k in range(len(tree["words"])) if k + 1 not in tree["punctuation"]]
            root = min(words, key=tree["depths"].__getitem__)
            roots.append(tree["heads"][root] == 0)
        assert best["root_accuracy"] == pytest.approx(100 * sum(roots) / len(roots))
    made("plot", "tree", output, "-o", tmp_path / "tree.svg")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--trees", "a.jsonl"], 2, "--trees: has no effect without --structural"),
        (["--structural", "depth", "-f"], 2, "--overwrite: has no effect without --trees"),
        (["--structural", "depth", "--trees", "-"], 2, "`--trees -`: standard output has"),
        (["--structural", "depth", "--trees", "test.conllu"], 2, "test.conllu: "),
        (["--structural", "depth", "--trees", "no/a.jsonl"], 1, "no/a.jsonl: "),
    ],
)
def test_files_of_trees_that_are_not_written(words: list[str], code: int, message: str) -> None:
    refused(elmo("probe", *FILES, *words), code, message, "")


def test_scores_are_printed_if_the_trees_cannot_be_written(tmp_path: Path) -> None:
    """They may have taken minutes."""
    output = tmp_path / "trees.jsonl"
    words = ("probe", "--structural", "depth", *FILES, "--json")
    with disk_of(10):
        done = elmo(*words, "--trees", output)
    assert done.code == 1
    assert f"error: {output}: no space left" in done.err
    assert done.out == made(*words).out
