"""`elmo probe` as a person runs it, on files of `elmo embed`."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from command_line import Done, documented, elmo, made, only_tiny

TAGS = {
    **dict.fromkeys(("the", "a"), "DT"),
    **dict.fromkeys(("cat", "dog", "house"), "NN"),
    **dict.fromkeys(("sat", "slept"), "VBD"),
    **dict.fromkeys((".", "!"), "."),
}
SIZES = {"train": 30, "dev": 8, "test": 8}
# The end of test has forms that train lacks, and a tag.
NEW = (("the", "DT"), ("mouse", "NN"), ("ran", "VBD"), ("quickly", "RB"), (".", "."))
Tagged = Sequence[tuple[str, str]]
Layers = list[dict[str, Any]]


def sentences(part: str) -> list[Tagged]:
    """Different sentences of every part, the same in every run."""
    rng = random.Random(part)
    words = sorted(TAGS)
    lines = [[*rng.choices(words, k=rng.randint(2, 9)), f"{k}{part}"] for k in range(SIZES[part])]
    found: list[Tagged] = [[(word, TAGS.get(word, "CD")) for word in line] for line in lines]
    return [*found, NEW] if part == "test" else found


def conllu(tagged: Sequence[Tagged]) -> str:
    """CoNLL-U in documents of four sentences, with a range and an empty node in each sentence."""
    lines = []
    for number, line in enumerate(tagged):
        lines += [f"# newdoc id = d_{number // 4}"] if number % 4 == 0 else []
        for k, (word, tag) in enumerate(line, 1):
            lines += ["2-3" + "\t_" * 9] if k == 2 else []
            lines.append(f"{k}\t{word}\t{word}\t{tag[:1].lower()}\t{tag}" + "\t_" * 5)
        lines += ["8.1" + "\t_" * 9, ""]
    return "\n".join(lines) + "\n"


def text(tagged: Sequence[Tagged], place: int) -> str:
    """The words (0) or the tags (1) of sentences, one a line."""
    return "".join(" ".join(pair[place] for pair in line) + "\n" for line in tagged)


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    """Texts and label files of all parts, and the embeddings of `tiny`."""
    folder = tmp_path_factory.mktemp("probe")
    for part in SIZES:
        tagged = sentences(part)
        (folder / f"{part}.conllu").write_text(conllu(tagged), encoding="utf-8")
        (folder / f"{part}.txt").write_text(text(tagged, 0), encoding="utf-8")
        (folder / f"{part}.tags").write_text(text(tagged, 1), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        texts = [f"{part}.conllu" for part in SIZES]
        made("embed", *texts, "-o", "./", "-q", "-m", tiny)
    return folder


@pytest.fixture(scope="session")
def every(stock: Path) -> Layers:
    """What the probes of the three layers tell of the embeddings of the stock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(stock)
        return list(figures()["layers"])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, stock: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with these files, where $ELMO_MODEL is the small model."""
    only_tiny(monkeypatch, tiny)
    shutil.copytree(stock, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line(vectors: str = "hdf5", labels: str = "conllu", parts: Sequence[str] = tuple(SIZES)):
    """The command line for files PART.hdf5 and PART.conllu, or with other ends of their names."""
    words = [[f"--{part}", f"{part}.{vectors}", f"{part}.{labels}"] for part in parts]
    return ["probe", *(word for one in words for word in one)]


def figures(*words: object, **ends: Any) -> dict[str, Any]:
    """What `--json` says."""
    found: dict[str, Any] = json.loads(made(*line(**ends), "--json", "-q", *words).out)
    return found


def embed_all(*options: object, end: str = "conllu", out: str = "other") -> None:
    """PART.OUT of each part's text."""
    for part in SIZES:
        made("embed", f"{part}.{end}", "-o", f"{part}.{out}", "-q", *options)


def refused(done: Done, message: str, hint: str = "", code: int = 1) -> None:
    """Two lines and nothing else; `…` stands for anything."""
    error, advice = done.err.splitlines()
    pattern = ".*".join(map(re.escape, f"error: {message}".split("…")))
    assert re.fullmatch(pattern, error), done.err
    assert advice.startswith("hint: ")
    assert hint in advice
    assert (done.code, done.out) == (code, b"")


def test_what_it_prints() -> None:
    done = made(*line())
    rows = [row.split("\t") for row in done.out.decode().splitlines()]
    n = {part: sum(map(len, sentences(part))) for part in SIZES}
    assert (
        f"5 labels of the column xpos; {n['train']} tokens of train, {n['dev']} of dev, "
        f"{n['test']} of test\nmodel tiny, state zero\n"
    ) in done.err
    assert rows[0] == ["%", "test", "dev", "test, forms train lacks", "decay"]
    assert [row[0] for row in rows[1:]] == [
        "most frequent label of the form",
        "layer 0",
        "layer 1",
        "layer 2",
    ]
    found = figures()
    for row, one in zip(
        rows[1:], [found["majority_label_per_word"], *found["layers"]], strict=True
    ):
        shown = [f"{one[name]:.2f}" for name in ("test", "dev", "unseen_words")]
        assert row[1:4] == shown
        assert row[4] == (f"{one['weight_decay']:.0e}" if "weight_decay" in one else "")
    assert "warning: test.conllu: 1 label is not in train (RB) and counted as wrong\n" in done.err
    assert f"warning: train has {n['train']} labels, from which a probe learns in 10 " in done.err


def test_figures_as_json() -> None:
    found = figures()
    keys = [
        *("model", "state", "unit", "column", "n_labels", "train", "dev", "test"),
        *("n_unseen_words", "dev_from_train", "seed", "majority_label", "majority_label_per_word"),
        *("layers", "warnings"),
    ]
    assert list(found) == keys
    for key in [*keys, *found["test"], *found["layers"][0]]:
        assert f"`{key}`" in documented("probe"), key
    assert (found["model"], found["state"], found["unit"]) == ("tiny", "zero", "token")
    assert (found["column"], found["n_labels"], found["seed"]) == ("xpos", 5, 0)
    assert found["test"] == {
        "files": ["test.hdf5", "test.conllu"],
        "sentences": 9,
        "labels": sum(map(len, sentences("test"))),
        "unknown_labels": 1,
    }
    assert found["dev_from_train"] is False
    # The last word of each sentence is in that sentence alone, and three of NEW are new.
    assert found["n_unseen_words"] == SIZES["test"] + 3
    assert [set(one) for one in found["layers"]] == [
        {"name", "dev", "test", "unseen_words", "weight_decay"}
    ] * 3


def test_baseline_by_hand() -> None:
    """Each word of train has one tag here, and new forms get the most frequent tag of all."""
    seen = {word for one in sentences("train") for word, _ in one}
    of_train = [tag for one in sentences("train") for _, tag in one]
    usual = max(sorted(set(of_train)), key=of_train.count)
    pairs = [pair for one in sentences("test") for pair in one]
    right = [tag == (TAGS[word] if word in seen else usual) for word, tag in pairs]
    found = figures()["majority_label_per_word"]
    assert found["test"] == pytest.approx(100 * sum(right) / len(right))
    new = [tag == usual for word, tag in pairs if word not in seen]
    assert found["unseen_words"] == pytest.approx(100 * sum(new) / len(new))


def test_lines_of_labels_tell_the_same_as_columns() -> None:
    columns, lines = figures(), figures(labels="tags")
    assert lines["column"] is None
    assert lines["majority_label_per_word"] == columns["majority_label_per_word"]
    assert lines["layers"] == columns["layers"]


@pytest.mark.parametrize("labels", ["tags", "conllu"])
@pytest.mark.parametrize("form", ["gz", "xz", "-", "pipe"])
def test_labels_that_are_not_plain_files(form: str, labels: str, every: Layers) -> None:
    stdin = b""
    content = Path(f"dev.{labels}").read_bytes()
    words = line(labels=labels)
    at = words.index(f"dev.{labels}")
    if form == "-":
        words[at], stdin = "-", content
    elif form == "pipe":
        words[at] = f"pipe.{labels}"
        os.mkfifo(words[at])
        writer = Thread(target=Path(words[at]).write_bytes, args=(content,))
        writer.start()
    else:
        packed = {"gz": gzip.compress, "xz": lzma.compress}[form](content)
        words[at] = f"dev.{labels}.{form}"
        Path(words[at]).write_bytes(packed)
    if form == "-" and labels == "conllu":
        words += ["--label-format", "conllu"]
    found = json.loads(made(*words, "--json", "-q", stdin=stdin).out)
    assert found["layers"] == every
    if form == "pipe":
        writer.join()


def test_an_option_in_the_place_of_labels_is_none() -> None:
    """Without it `--test` would be said to be missing where it is there."""
    done = elmo("probe", "--train", "train.hdf5", "--test", "test.hdf5", "test.conllu")
    refused(done, "--train: `--test` stands where it takes a name", "FILE LABELS", 2)


def test_another_column(every: Layers) -> None:
    upos, number = figures("--label-column", "UPOS"), figures("--label-column", "4")
    assert upos["layers"] == number["layers"]
    assert upos["n_labels"] == 5
    for part in SIZES:  # token, tag, and something else
        rows = [[f"{word} {tag} x\n" for word, tag in one] for one in sentences(part)]
        Path(f"{part}.conll").write_text("\n".join("".join(one) for one in rows), encoding="utf-8")
    embed_all(end="conll")
    found = figures("--label-column", "-2", vectors="other", labels="conll")
    assert found["layers"] == every
    assert elmo(*line("other", "conll")).err.startswith("error: train.conll: has one label alone")


def test_columns_of_which_another_than_usual_holds_the_tokens(every: Layers) -> None:
    """The embeddings tell which column they are of; labels are beside it."""
    for part in SIZES:
        rows = [[f"x {word} {tag}\n" for word, tag in one] for one in sentences(part)]
        Path(f"{part}.conll").write_text("\n".join("".join(one) for one in rows), encoding="utf-8")
    embed_all("--column", "2", end="conll")
    assert figures(vectors="other", labels="conll")["layers"] == every


@pytest.mark.parametrize(
    "options",
    [
        ("--layout", "flat"),
        ("--forget-sentences",),
        ("--use-sentence-keys",),
        ("--layout", "bilm"),
        ("--layout", "e2e-coref"),
        ("--layout", "lsgn"),
        ("--layout", "dygie"),
    ],
    ids=lambda options: options[-1],
)
def test_every_layout_tells_the_same(options: tuple[str, ...], every: Layers) -> None:
    embed_all(*options)
    assert figures(vectors="other")["layers"] == every
    lines = figures(vectors="other", labels="tags")
    knows_words = options[-1] in ("flat", "--use-sentence-keys")
    assert (lines["majority_label_per_word"] is not None) == knows_words
    for one, other in zip(lines["layers"], every, strict=True):
        assert one == {**other, "unseen_words": other["unseen_words"] if knows_words else None}


def test_manylangs(every: Layers) -> None:
    expected = every[2:]
    embed_all("--layout", "manylangs", "--layers", "2")
    assert figures(vectors="other")["layers"] == expected
    assert figures(vectors="other", labels="tags")["layers"] == expected


def test_lines_that_occur_again() -> None:
    """Of equal lines the sentence map tells the last only, of manylangs there is but one vector."""
    for end in ("conllu", "txt", "tags"):
        content = Path(f"train.{end}").read_text()
        Path(f"train.{end}").write_text(content + content)
    embed_all(end="txt")
    found = figures(vectors="other", labels="tags")
    assert found["majority_label_per_word"]["test"] > 0
    embed_all("--layout", "manylangs", "--layers", "2", out="many")
    assert figures(vectors="many")["layers"][0] == found["layers"][2]
    refused(
        elmo(*line("many", "tags")),
        "train.many: names its sentences and holds equal sentences once, so lines of labels have "
        "no place in it",
        "in columns",
        code=2,
    )


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_values_of_fewer_bits(dtype: str, every: Layers) -> None:
    embed_all("--dtype", dtype, "--layout", "flat")
    for one, exact in zip(figures(vectors="other")["layers"], every, strict=True):
        assert one["test"] == pytest.approx(exact["test"], abs=10)


def test_parts_may_have_values_of_other_types(every: Layers) -> None:
    made("embed", "test.conllu", "-o", "test.hdf5", "-q", "-f", "--dtype", "float16")
    for one, exact in zip(figures()["layers"], every, strict=True):
        assert one["dev"] == exact["dev"]
        assert one["test"] == pytest.approx(exact["test"], abs=10)


def test_layers_have_the_names_of_the_model(every: Layers) -> None:
    assert [one["name"] for one in every] == ["0", "1", "2"]
    assert figures("--layer", 2, "--layer", 0, "--layer", 2)["layers"] == [every[2], every[0]]
    embed_all("--layers", "0,2")
    assert figures(vectors="other")["layers"] == [every[0], every[2]]
    assert figures("--layer", 2, vectors="other")["layers"] == [every[2]]
    refused(
        elmo(*line("other"), "--layer", 1),
        "train.other: --layer 1: it has layers 0, 2",
        "without it all are probed",
        code=2,
    )


def test_a_layer_of_files_that_hold_others_beside_it(every: Layers) -> None:
    """What is probed has to be in all of them, and nothing else."""
    embed_all("--layers", "2,1", out="some")
    mixed = [*line("some")]
    mixed[mixed.index("train.some")] = "train.hdf5"
    found = json.loads(made(*mixed, "--layer", 2, "--json").out)
    assert found["layers"] == [every[2]]
    refused(
        elmo(*mixed, "--layer", 0),
        "dev.some: --layer 0: it has layers 2, 1",
        "without it all are probed",
        code=2,
    )
    refused(
        elmo(*mixed), "dev.some: layers is '2, 1', that of train.hdf5 is '0, 1, 2'", "same model"
    )


def test_layers_that_nobody_numbers_are_the_same_in_all_files() -> None:
    """A file of another program with the upper two layers looks like one with the lower two."""
    for part in SIZES:
        first = 1 if part == "test" else 0
        with h5py.File(f"{part}.hdf5") as ours, h5py.File(f"{part}.theirs", "w") as theirs:
            for key in (key for key in ours if key.isdecimal()):
                theirs[key] = ours[key][first:]
    refused(
        elmo(*line("theirs"), "--layer", 1),
        "test.theirs: layers is '0, 1', that of train.theirs is '0, 1, 2'",
    )


@pytest.mark.parametrize("layers", ["top", "average", "mix:1,2,3"])
def test_a_layer_without_a_number(layers: str, every: Layers) -> None:
    embed_all("--layers", layers)
    found = figures(vectors="other")
    assert [one["name"] for one in found["layers"]] == [layers]
    if layers == "top":
        assert found["layers"] == [{**every[2], "name": "top"}]
    rows = made(*line("other")).out.decode().splitlines()
    assert rows[-1].startswith(f"{layers}\t")


def test_without_dev_every_tenth_sentence_of_train_is_held_back() -> None:
    """As if these sentences were files of their own."""
    done = made(*line(parts=("train", "test")))
    assert "dev is every tenth sentence of train, held back" in done.err
    found = figures(parts=("train", "test"))
    assert found["dev_from_train"] is True
    tagged = sentences("train")
    held = tagged[9::10]
    assert (found["train"]["sentences"], found["dev"]["sentences"]) == (27, len(held))
    Path("dev.conllu").write_text(conllu(held))
    Path("train.conllu").write_text(conllu([one for one in tagged if one not in held]))
    embed_all()
    assert figures(vectors="other")["layers"] == found["layers"]


def test_one_label_a_sentence() -> None:
    """Pooled vectors are of sentences, and so are their labels; a blank line has none."""
    for part in SIZES:
        tagged = sentences(part)
        labels = ["short" if len(one) < 6 else "long" for one in tagged]
        Path(f"{part}.txt").write_text("\n" + text(tagged, 0))
        Path(f"{part}.tags").write_text("\n" + "\n".join(labels) + "\n")
    embed_all("--pool", "mean", end="txt")
    found = figures(vectors="other", labels="tags")
    assert (found["unit"], found["majority_label_per_word"], found["n_unseen_words"]) == (
        "sentence",
        None,
        None,
    )
    assert found["train"]["labels"] == found["train"]["sentences"] == SIZES["train"]
    done = made(*line("other", "tags"))
    assert "; 30 sentences of train, 8 of dev, 9 of test\n" in done.err
    assert done.out.startswith(b"%\ttest\tdev\tdecay\nmost frequent label\t")
    refused(
        elmo(*line("other")),
        "train.conllu, line 2: … labels for sentence 0, train.other has one vector for it",
        "without `--pool`",
    )


@pytest.mark.parametrize("blank", ["keep", "skip"])
@pytest.mark.parametrize("layout", ["allennlp", "flat"])
def test_blank_lines(blank: str, layout: str, every: Layers) -> None:
    """They keep their numbers, whether the file has an empty sentence for them or none."""
    for part in SIZES:
        for end, place in (("txt", 0), ("tags", 1)):
            lines = text(sentences(part), place).splitlines()
            Path(f"{part}.{end}").write_text("\n".join(["", *lines[:3], "", "", *lines[3:], ""]))
    embed_all("--blank-lines", blank, "--layout", layout, end="txt")
    assert figures(vectors="other", labels="tags")["layers"] == every


def test_a_sentence_that_was_left_out_has_no_place(every: Layers) -> None:
    content = Path("train.txt").read_bytes().splitlines()
    Path("train.txt").write_bytes(b"\n".join([content[0], b"\xff", *content[1:]]))
    tags = Path("train.tags").read_text().splitlines()
    Path("train.tags").write_text("\n".join([tags[0], "NN NN", *tags[1:]]))
    done = elmo("embed", "train.txt", "-o", "train.skip", "-q", "--on-error", "skip")
    assert done.code == 3
    words = line(labels="tags")
    words[words.index("train.hdf5")] = "train.skip"
    found = json.loads(made(*words, "--json", "-q").out)
    assert found["layers"] == every
    assert found["warnings"][0] == (
        "train.skip: lacks 1 sentence that has labels, left out here too"
    )


def test_the_same_again_and_with_other_threads() -> None:
    first, again = made(*line(), "--json", "-q"), made(*line(), "--json", "-q")
    assert (first.out, first.err) == (again.out, "")
    n_threads = torch.get_num_threads()
    try:
        other = figures("--threads", 2, "--layer", 1)
    finally:
        torch.set_num_threads(n_threads)
    assert other["layers"][0]["test"] == pytest.approx(
        json.loads(first.out)["layers"][1]["test"], abs=5
    )


def test_quiet_is_quiet_but_for_the_table() -> None:
    done = made(*line(), "-q")
    assert done.err == ""
    assert done.out == made(*line()).out


def test_test_is_train() -> None:
    """A probe that is tried on what it has learned knows everything."""
    words = [word.replace("test.", "train.") for word in line()]
    assert "warning: train.hdf5: holds the very sentences of train\n" in made(*words).err


def test_labels_that_are_none_are_told() -> None:
    content = Path("train.conllu").read_text().replace("\tNN\t", "\t_\t", 2)
    Path("train.conllu").write_text(content)
    n = sum(map(len, sentences("train")))
    assert f"warning: train.conllu: 2 of {n} labels are `_`, which is taken" in made(*line()).err


def test_files_of_another_program(every: Layers) -> None:
    """Without attributes nothing is known but arrays, which are probed as they are numbered."""
    for part in SIZES:
        with h5py.File(f"{part}.hdf5") as file, h5py.File(f"{part}.other", "w") as other:
            for name in file:
                if name.isdigit():
                    other[name] = file[name][()]
    found = figures(vectors="other")
    assert (found["layers"], found["model"], found["state"]) == (every, None, None)
    assert made(*line("other")).out.startswith(b"%")


# -- errors ---------------------------------------------------------------------------------------


def write(name: str, content: str) -> None:
    Path(name).write_text(content, encoding="utf-8")


def change(name: str, before: str, after: str) -> None:
    content = Path(name).read_text(encoding="utf-8")
    assert before in content
    write(name, content.replace(before, after, 1))


def test_other_tokens() -> None:
    word = sentences("dev")[1][1][0]
    content = Path("dev.conllu").read_text().split("\n\n")
    content[1] = content[1].replace(f"\n2\t{word}\t", "\n2\tdogs\t")
    write("dev.conllu", "\n\n".join(content))
    embed_all("--layout", "flat", end="txt")
    refused(
        elmo(*line("other")),
        "dev.conllu, line …: token 2 of sentence 1 is `dogs`, in dev.other it is `" + word + "`",
        "of one text",
    )


def test_other_numbers_of_tokens() -> None:
    n = len(sentences("dev")[0])
    change("dev.tags", "\n", " NN\n")
    refused(
        elmo(*line(labels="tags")),
        f"dev.tags, line 1: {n + 1} labels for sentence 0, dev.hdf5 has {n} tokens of it",
        "`--label-format conll`",
    )
    change("dev.txt", "\n", " more\n")
    made("embed", "dev.txt", "-o", "dev.hdf5", "-q", "-f")
    refused(
        elmo(*line()),
        "dev.conllu, line 2: … labels for sentence 0, dev.hdf5 has … tokens of it",
        "`elmo inspect dev.hdf5 --text dev.conllu`",
    )


def test_labels_that_are_too_few_or_too_many() -> None:
    content = Path("test.tags").read_text()
    write("test.tags", content + "DT NN\n")
    refused(
        elmo(*line(labels="tags")),
        "test.tags, line 10: sentence 9 has labels, test.hdf5 has no such sentence",
        "sentence by sentence",
    )
    write("test.tags", "".join(content.splitlines(keepends=True)[:-1]))
    refused(
        elmo(*line(labels="tags")),
        "test.hdf5: has 9 sentences, test.tags has 8 of them",
        "sentence by sentence",
    )
    write("test.tags", "")
    refused(elmo(*line(labels="tags")), "test.hdf5: has 9 sentences, test.tags has 0 of them")


def test_labels_of_no_use() -> None:
    tags = Path("train.tags").read_text()
    write("train.tags", re.sub(r"\S+", "NN", tags))
    refused(
        elmo(*line(labels="tags")), "train.tags: has one label alone, `NN`", "two labels or more"
    )
    refused(
        elmo(*line(), "--label-column", "deprel"),
        "train.conllu: column deprel holds `_` alone, which is no label",
        "`--label-column`",
    )
    refused(
        elmo(*line(), "--label-column", "lemma"),
        "train.conllu: column lemma holds the tokens themselves",
        "`--label-column`",
    )


def test_a_text_without_sentences() -> None:
    write("test.txt", "\n\n")
    write("test.tags", "\n\n")
    embed_all(end="txt")
    refused(elmo(*line("other", "tags")), "test.tags: has no labels", "some sentences each")
    write("test.txt", "")
    embed_all("-f", end="txt")
    refused(elmo(*line("other", "tags")), "test.other: has no sentences", "`elmo inspect`")


def test_one_sentence_can_not_be_parted() -> None:
    write("train.txt", "the cat sat .\n")
    write("train.tags", "DT NN VBD .\n")
    embed_all(end="txt")
    refused(
        elmo(*line("other", "tags", ("train", "test"))),
        "train.tags: has one sentence with labels, of which none can be held back",
        "`--dev",
    )


def test_another_model(odd: Path) -> None:
    made("embed", "dev.conllu", "-o", "dev.hdf5", "-q", "-f", "-m", odd)
    refused(
        elmo(*line()),
        "dev.hdf5: model is 'odd', that of train.hdf5 is 'tiny'",
        "the same model",
    )


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--state", "carry", "--batch-size", "2"), "state is 'carry', that of … is 'zero'"),
        (("--layers", "0,1"), "layers is '0, 1', that of … is '0, 1, 2'"),
        (("--precision", "int8"), "precision is 'int8', that of … is None"),
        (("--pool", "max"), "pool is 'max', that of … is 'none'"),
    ],
    ids=lambda one: one[0].strip("-") if isinstance(one, tuple) else "",
)
def test_other_settings(options: tuple[str, ...], what: str) -> None:
    made("embed", "test.txt", "-o", "test.hdf5", "-q", "-f", *options)
    if "--pool" in options:
        write("test.tags", "NN\n" * 9)
    refused(elmo(*line(labels="tags")), f"test.hdf5: {what}", "the same settings")


def test_the_same_layers_asked_for_in_other_words(every: Layers) -> None:
    made("embed", "test.conllu", "-o", "test.hdf5", "-q", "-f", "--layers", "0,1,2")
    assert figures()["layers"] == every


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite(value: float) -> None:
    with h5py.File("test.hdf5", "r+") as file:
        file["8"][1, 3, 5] = value
    refused(
        elmo(*line()),
        "test.hdf5: sentence 8: token 4 (`quickly`) in layer 1 is not finite",
        "embed the text anew",
    )
    assert len(figures("--layer", 0, "--layer", 2)["layers"]) == 2


def test_an_array_that_is_not_like_the_others() -> None:
    with h5py.File("test.hdf5", "r+") as file:
        values = file["8"][:2]
        del file["8"]
        file["8"] = values
    refused(
        elmo(*line()),
        "test.hdf5: sentence 8 has shape (2, 5, 16), others have layers 0, 1, 2, dim 16",
        "corrupt",
    )


def test_files_that_are_no_embeddings_of_a_text() -> None:
    write("types.txt", "the\ncat\n")
    made("embed", "types.txt", "-o", "types.hdf5", "-q", "--layout", "bilm-types")
    words = line()
    at = words.index("test.hdf5")
    words[at] = "types.hdf5"
    refused(elmo(*words), "types.hdf5: holds types, not sentences", "vectors of a text")
    words[at] = "none.hdf5"
    refused(elmo(*words), "none.hdf5: no such file", "give an embeddings file")
    words[at] = "test.txt"
    refused(elmo(*words), "test.txt: not an HDF5 file", "`elmo embed`")
    Path("test.hdf5").write_bytes(Path("test.hdf5").read_bytes()[:-200])
    refused(elmo(*line()), "test.hdf5: truncated")


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            ("--label-column", "ner"),
            "--label-column ner: no column of train.conllu, which is conllu",
            "upos",
        ),
        (
            ("--label-column", "0"),
            "`--label-column 0`: columns are counted from 1",
            "-1",
        ),
        (
            ("--label-format", "conll", "--label-column", "upos"),
            "--label-column upos: no column of train.conllu, which is conll",
            "a number",
        ),
        (("--encoding", "klingon"), "`--encoding klingon`: not a text encoding", "utf-8"),
        (("--layer", "3"), "train.hdf5: --layer 3: it has layers 0, 1, 2", "`--layer` takes"),
        (("--dev", "", "dev.conllu"), "a name is empty: --dev", "variable"),
        (("--layer", "x"), "invalid value for '--layer': 'x' is not a whole number", "--help"),
        (("--test", "test.hdf5"), "option '--test' requires 2 arguments", "--help"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_wrong_command_lines(words: tuple[str, ...], message: str, hint: str) -> None:
    refused(elmo(*line(), *words), message, hint, code=2)


def test_parts_that_are_not_given() -> None:
    refused(elmo(*line(parts=("train",))), "missing option '--test'", "--help", code=2)
    refused(elmo(*line(parts=("test",))), "missing option '--train'", "--help", code=2)


def test_labels_that_are_none_of_the_kind_asked_for() -> None:
    refused(
        elmo(*line(labels="tags"), "--label-column", "upos"),
        "--label-column upos: train.tags is plain text, which has no columns",
        "`--label-format conll`",
        code=2,
    )
    words = line()
    words[words.index("dev.conllu")] = "d.jsonl"
    write("d.jsonl", "{}\n")
    refused(elmo(*words), "d.jsonl: labels are not read from JSON lines", "CoNLL-U", code=2)
    refused(
        elmo(*line(), "--label-column", "12"),
        "train.conllu, line 2: 10 columns, `--label-column 12` is missing",
        "`--label-column` chooses another",
    )
    words = line()
    words[words.index("dev.conllu")] = "no.conllu"
    refused(elmo(*words), "no.conllu: no such file", "check the name")


def test_labels_twice_from_standard_input() -> None:
    words = ["-" if word.endswith(".tags") else word for word in line(labels="tags")]
    refused(elmo(*words), "-: standard input is named twice and can be read only once", code=2)
