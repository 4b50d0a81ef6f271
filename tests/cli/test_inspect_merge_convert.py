"""`elmo inspect`, `elmo merge`, `elmo convert` as a person runs them, on files of `elmo embed`."""

from __future__ import annotations

import json
import os
import re
import signal
import textwrap
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import Done, elmo, made, only_tiny
from tolerance import ATOL_ORDER

from elmo_cli.embed import blocks
from elmo_cli.embed.embedder import Embedder
from elmo_cli.model.bilm import BiLM
from elmo_cli.store import sample
from elmo_cli.store.reader import open_embeddings

# Different sentences of documents, without a slash, so that every layout takes them.
DOCUMENTS = {
    "d_1": [["The", "cat", "sat", "."], ["It", "slept"], ["naïve", "日本語", "😀"]],
    "e_2": [["Yes"], ["No", ",", "not", "yet", "."]],
    "f_3": [["One"], ["One", "more"]],
}
SENTENCES = [tokens for document in DOCUMENTS.values() for tokens in document]
N_TOKENS = sum(map(len, SENTENCES))
ONE_LAYER = ("--layers", "top")
EVERY: dict[str, tuple[str, tuple[str, ...]]] = {
    "allennlp": ("d.jsonl", ()),
    "sentence": ("d.jsonl", ("--use-sentence-keys",)),
    "bilm": ("d.jsonl", ("--layout", "bilm")),
    "bilm-types": ("types.txt", ("--layout", "bilm-types")),
    "e2e-coref": ("d.jsonl", ("--layout", "e2e-coref")),
    "lsgn": ("d.jsonl", ("--layout", "lsgn")),
    "dygie": ("d.jsonl", ("--layout", "dygie")),
    "manylangs": ("d.jsonl", ("--layout", "manylangs", *ONE_LAYER)),
    "flat": ("d.jsonl", ("--layout", "flat")),
}
FEW_WORDS = "".join(f"w{k} x{k % 7} y{k % 11}\n" for k in range(40))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with texts, where $ELMO_MODEL is the small model."""
    only_tiny(monkeypatch, tiny)
    monkeypatch.chdir(tmp_path)
    rows = [{"doc_key": key, "sentences": text} for key, text in DOCUMENTS.items()]
    Path("d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("types.txt").write_text("the\ncat\n日本語\n", encoding="utf-8")
    return tmp_path


def embedded(name: str, *options: str, out: str = "a.hdf5") -> str:
    """A file of one of the layouts."""
    source, layout = EVERY[name]
    made("embed", source, "-o", out, "-q", *layout, *options)
    return out


def said(done: Done) -> list[str]:
    return done.err.splitlines()


def refused(done: Done, code: int, message: str, hint: str) -> None:
    """Two lines, as every error of the command is."""
    error, advice = said(done)[-2:]
    assert (done.code, error) == (code, f"error: {message}")
    assert advice.startswith("hint: ")
    assert hint in advice


# -- inspect --------------------------------------------------------------------------------------


def rows_of(done: Done) -> dict[str, str]:
    """The facts that `inspect` prints, by their names."""
    facts = done.out.decode().split("\nread it:\n")[0].splitlines()[1:]
    return dict(re.split(r"\s{2,}", row.strip(), maxsplit=1) for row in facts if row)


@pytest.mark.parametrize("name", ["sentence", "manylangs", "flat"])
def test_facts_of_every_layout(name: str) -> None:
    done = made("inspect", embedded(name))
    assert done.err == ""
    assert done.out.startswith(b"a.hdf5\n")
    rows = rows_of(done)
    assert rows["layout"] == ("allennlp" if name == "sentence" else name)
    assert (rows["sentences"], rows["tokens"], rows["dim"]) == ("7", str(N_TOKENS), "16")
    assert rows["layers"] == ("top" if name == "manylangs" else "all")
    assert rows["values"].startswith("float32, ")
    assert (rows["model"], rows["state"]) == ("tiny", "zero")
    assert rows["text"] == "d.jsonl from sentence 0"
    assert (rows["checked"], rows["checksums"]) == ("nothing wrong", "verified")


def test_facts_as_json() -> None:
    done = made("inspect", embedded("allennlp"), "--json", "--recompute", "2")
    facts = json.loads(done.out)
    assert done.out.count(b"\n") == 1
    assert {"kind", "path", "bytes", "layout", "complete", "sentences", "tokens", "n_layers", "dim",
            "dtype", "sentence_map", "checksums", "sources", "attributes", "samples", "recomputed",
            "problems", "problem_count"} == set(facts)  # fmt: skip
    assert (facts["kind"], facts["problems"], facts["sentence_map"]) == ("embeddings", [], True)
    assert (facts["sentences"], facts["n_layers"], facts["dim"]) == (7, 3, 16)
    assert facts["bytes"] == os.path.getsize("a.hdf5")
    assert facts["samples"][0] == {"key": 0, "shape": [3, 4, 16]}
    assert [one["key"] for one in facts["recomputed"]] == [0, 6]
    assert all(one["agrees"] for one in facts["recomputed"])


@pytest.mark.parametrize(
    ("before", "after", "layers"),
    [
        ("float16", "int8", "average"),
        ("int8", "float16", "mix:0.2,-1.5,3"),
        ("int8", "float32", "mix:1,1,1,999"),
    ],
)
def test_the_sum_of_rounded_layers_is_what_the_model_computes(
    before: str, after: str, layers: str
) -> None:
    """Each layer was rounded by its own greatest value, which is larger than the sum's."""
    Path("text.txt").write_text(FEW_WORDS)
    made("embed", "text.txt", "-o", "a.hdf5", "-q", "--layout", "flat", "--dtype", before)
    made("convert", "a.hdf5", "-o", "b.hdf5", "--layers", layers, "--dtype", after)
    facts = json.loads(made("inspect", "b.hdf5", "--json", "--recompute", "40").out)
    assert len(facts["recomputed"]) == 40
    assert all(one["agrees"] for one in facts["recomputed"])
    with h5py.File("b.hdf5", "r+") as file:  # one value off by more than rounding
        values = file["scales" if after == "int8" else "vectors"]
        values[0] = np.float32(1.1) * values[0]
    wrong = json.loads(elmo("inspect", "b.hdf5", "--json", "--recompute", "2").out)
    assert [one["agrees"] for one in wrong["recomputed"]] == [False, True]


@pytest.mark.parametrize(
    ("dtypes", "rounded_from"),
    [
        (("float16", "int8"), "float16"),
        (("int8", "float16", "int8", "float32"), "int8,float16,int8"),
    ],
)
def test_values_rounded_several_times_are_what_the_model_computes(
    dtypes: tuple[str, ...], rounded_from: str | None
) -> None:
    """Each type that they went through has moved them; a sound file would be called wrong."""
    Path("text.txt").write_text(FEW_WORDS)
    made("embed", "text.txt", "-o", "0.hdf5", "-q", "--layout", "flat", "--dtype", dtypes[0])
    for step, dtype in enumerate(dtypes[1:]):
        made("convert", f"{step}.hdf5", "-o", f"{step + 1}.hdf5", "--dtype", dtype)
    done = made("inspect", f"{len(dtypes) - 1}.hdf5", "--json", "--recompute", "40")
    facts = json.loads(done.out)
    assert facts["attributes"].get("rounded_from") == rounded_from
    assert len(facts["recomputed"]) == 40
    assert all(one["agrees"] for one in facts["recomputed"])


def printed_python(done: Done) -> list[str]:
    """The pieces of Python at the end of what `inspect` prints."""
    lines = textwrap.dedent(done.out.decode().split("\nread it:\n\n")[1])
    return lines.strip().split("\n\n")


def expected(name: str, bilm: BiLM, options: tuple[str, ...]) -> np.ndarray:
    """The array of the first sentence, layers first."""
    if name == "bilm-types":
        return Embedder(bilm, device="cpu").embed_types(["the"])[0]
    settings = {option.lstrip("-"): value for option, value in zip(options[::2], options[1::2])}  # noqa: B905
    if name == "manylangs":
        settings["layers"] = "top"
    return Embedder(bilm, device="cpu", **settings).embed(SENTENCES[0])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("allennlp", ()),
        ("bilm-types", ()),
        ("e2e-coref", ()),
        ("flat", ()),
        ("flat", ("--pool", "max", *ONE_LAYER)),
    ],
)
def test_the_printed_python_reads_the_file(
    name: str, options: tuple[str, ...], tiny_bilm: BiLM
) -> None:
    """What `inspect` prints is copied into programs: both pieces give the first sentence."""
    path = embedded(name, *options, out="it's a file.hdf5")
    alone, ours = printed_python(made("inspect", path))
    whole = expected(name, tiny_bilm, options)
    read: dict[str, Any] = {}
    exec(ours, read)
    np.testing.assert_allclose(read["array"], whole, rtol=0, atol=ATOL_ORDER, strict=True)
    if "tokens" in read:
        assert list(read["tokens"]) == SENTENCES[0]
    assert (name in TELLS_TOKENS) == ("tokens" in read)
    axes = re.search(r"array = .*# axes: (.*)\n", f"{ours}\n")
    assert axes is not None
    assert len(axes[1].split(", ")) == whole.ndim

    read = {}
    exec(alone, read)
    array, n_axes = read["array"], whole.ndim
    if name in ("e2e-coref", "dygie"):  # layers are the last axis, also where there is one
        array = np.moveaxis(array, -1, 0)
        array = array[0] if n_axes < array.ndim else array
    elif name == "flat" and n_axes == 3:
        array = array.swapaxes(0, 1)
    np.testing.assert_allclose(array, whole, rtol=0, atol=ATOL_ORDER, strict=True)


def damage(path: str, key: str = "1") -> None:
    """Make a value of a sentence NaN."""
    with h5py.File(path, "r+") as file:
        file[key][0, 0, 0] = np.nan


def arrays_of(path: str) -> list[np.ndarray]:
    with open_embeddings(path) as embeddings:
        return [embeddings[key] for key in embeddings]


def test_what_is_wrong_is_told() -> None:
    damage(embedded("bilm"))
    done = elmo("inspect", "a.hdf5")
    not_finite = "sentence 1: 1 of 96 values are not finite"
    refused(done, 1, f"a.hdf5: {not_finite} (and 1 more problem)", "--json")
    assert rows_of(done)["checked"].startswith(f"{not_finite}; sentence 1: corrupt: ")
    assert rows_of(done)["checksums"].startswith("not all")
    done = elmo("inspect", "a.hdf5", "--json")
    assert len(json.loads(done.out)["problems"]) == 2
    assert done.code == 1
    assert elmo("inspect", "a.hdf5", "-q").out == b""
    assert "checked" not in rows_of(made("inspect", "a.hdf5", "--no-verify"))


def test_problems_are_counted_where_they_are_not_listed() -> None:
    """The count was that of the lines, and the hint promised a list of all."""
    Path("a.txt").write_text("a b\n")
    Path("b.txt").write_text("a b\n" + "c\n" * 60)
    made("embed", "a.txt", "-o", "a.hdf5", "-q")
    done = elmo("inspect", "a.hdf5", "--text", "b.txt")
    first = "sentence 1: not in the file, 1 tokens in the text"
    listed = "`elmo inspect --json` lists 50 of them; "
    refused(done, 1, f"a.hdf5: {first} (and 60 more problems)", listed)
    assert rows_of(done)["checked"].startswith(f"{first}; sentence 2: ")
    assert rows_of(done)["checked"].endswith("sentence 5: not in the file, 1 tokens in the text; "
                                             "and 56 more")  # fmt: skip
    facts = json.loads(elmo("inspect", "a.hdf5", "--text", "b.txt", "--json").out)
    assert (len(facts["problems"]), facts["problem_count"]) == (50, 61)
    assert all(problem.startswith("sentence ") for problem in facts["problems"])


COUNTED: list[tuple[dict[str, tuple[int, ...]], str]] = [
    ({"d/0": (2, 1024, 3), "e/0": (5, 1024, 3)}, "7"),
    ({"a\tb": (2, 16), "c": (1, 16)}, "3"),
    ({"embedding": (9, 16)}, "9"),
    ({"P1": (16,), "P2": (16,)}, "not recorded"),  # a vector a protein
]


@pytest.mark.parametrize(("shapes", "tokens"), COUNTED)
def test_tokens_of_the_original_programs_are_counted(
    shapes: dict[str, tuple[int, ...]], tokens: str
) -> None:
    """All arrays were read, and their tokens were called not counted."""
    with h5py.File("a.hdf5", "w") as file:
        for name, shape in shapes.items():
            file[name] = np.ones(shape, np.float32)
    rows = rows_of(made("inspect", "a.hdf5"))
    assert (rows["tokens"], rows["checksums"]) == (tokens, "none, as in files of other programs")
    assert rows_of(made("inspect", "a.hdf5", "--no-verify"))["tokens"] == "not counted"
    counted = None if tokens == "not recorded" else int(tokens)
    assert json.loads(made("inspect", "a.hdf5", "--json").out)["tokens"] == counted
    assert json.loads(made("inspect", "a.hdf5", "--json", "--no-verify").out)["tokens"] is None


def test_quiet_says_nothing_of_a_sound_file() -> None:
    done = made("inspect", embedded("allennlp"), "--quiet")
    assert (done.out, done.err) == (b"", "")


def test_weights(tiny: Path) -> None:
    done = made("inspect", tiny / "weights.hdf5")
    rows = rows_of(done)
    assert rows["weights"] == "biLM"
    assert json.loads(rows["options"])["lstm"] == {"dim": 16, "projection_dim": 8, "n_layers": 2}
    read: dict[str, Any] = {}
    exec(printed_python(done)[0], read)
    assert read["array"].shape == (261, 4)
    done = elmo("inspect", tiny / "weights.hdf5", "--recompute", "2")
    message = f"{tiny}/weights.hdf5: contains no finished embeddings"
    refused(done, 2, message, "`--recompute` and `--text`")


def test_a_sample_of_int8_may_be_off_by_half_a_step() -> None:
    """Else each sound file would be called wrong, or each damaged one right."""
    path = embedded("flat", "--dtype", "int8")
    done = made("inspect", path, "--json", "--recompute", "3")
    assert all(
        one["agrees"] and one["difference"] > 0 for one in json.loads(done.out)["recomputed"]
    )
    with h5py.File(path, "r+") as file:
        file["vectors"][0, 2, :2] += np.array([3, -3], np.int8)
    assert elmo("inspect", path, "--recompute", "3").code == 1


def test_an_unfinished_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: object, done: int, total: int | None) -> None:
        if done:
            raise KeyboardInterrupt

    monkeypatch.setattr(blocks, "SENTENCES", 3)
    monkeypatch.setattr("elmo_cli.cli.console.Progress.update", stop)
    assert elmo("embed", "d.jsonl", "-o", "a.hdf5").code == 130
    done = elmo("inspect", "a.hdf5.part")
    refused(done, 1, "a.hdf5.part: unfinished: 3 sentences are committed", "`--resume`")
    assert rows_of(done)["unfinished"] == "3 sentences and 9 tokens are committed"
    done = elmo("inspect", "a.hdf5")
    refused(done, 1, "a.hdf5: the run that writes it has not finished", "resume")


TELLS_TOKENS = ("allennlp", "sentence", "manylangs", "flat")


@pytest.mark.parametrize("name", ["sentence", "manylangs", "flat"])
def test_a_sample_is_computed_again(name: str) -> None:
    path = embedded(name)
    text = () if name in TELLS_TOKENS else ("--text", "d.jsonl")
    done = made("inspect", path, "--recompute", "4", *text)
    found = re.fullmatch(r"4 sentences, differences up to (\S+)", rows_of(done)["recomputed"])
    assert found is not None
    assert float(found[1]) < ATOL_ORDER
    if text:
        what = "a.hdf5: does not record the tokens of its sentences"
        refused(elmo("inspect", path, "--recompute", "4"), 2, what, "--text")


@pytest.mark.parametrize(
    "options",
    [("--dtype", "float16"), ("--pool", "max"), ("--state", "warm"), ("--layers", "mix:1,2,3")],
)
def test_a_sample_knows_the_settings_of_its_file(options: tuple[str, ...]) -> None:
    made("inspect", embedded("flat", *options), "--recompute", "7")


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_a_wider_type_does_not_hide_the_rounding(dtype: str) -> None:
    """A file would pass for one of float32, go on as its run, and be called wrong in a sample."""
    made("convert", embedded("flat", "--dtype", dtype), "-o", "b.hdf5", "--dtype", "float32", "-q")
    made("inspect", "b.hdf5", "--recompute", "7")
    done = elmo("embed", "d.jsonl", "-o", "b.hdf5", "--layout", "flat", "--resume")
    what = f"made with other settings (rounded from: {dtype}, now none)"
    refused(done, 1, f"b.hdf5: finished, {what}", "")


@pytest.mark.parametrize(
    ("layout", "pool"), [("flat", ()), ("e2e-coref", ("--pool", "mean")), ("manylangs", ())]
)
def test_a_sample_of_one_numbered_layer(layout: str, pool: tuple[str, ...]) -> None:
    """Some layouts drop its axis, and sound files of theirs were called wrong."""
    made("embed", "d.jsonl", "-o", "a.hdf5", "-q", "--layout", layout, "--layers", "2", *pool)
    done = made("inspect", "a.hdf5", "--recompute", "7", "--text", "d.jsonl", "--json")
    n_tokens = [one["tokens"] for one in json.loads(done.out)["recomputed"]]
    assert n_tokens == [len(tokens) for tokens in SENTENCES]


def test_a_sample_that_has_no_difference_is_json_all_the_same() -> None:
    """`Infinity` and `NaN` are none: programs would refuse the whole answer."""

    def no_number(name: str) -> None:
        raise AssertionError(name)

    def sample(path: str) -> dict[str, object]:
        done = elmo("inspect", path, "--recompute", "1", "--json", "--no-verify")
        assert done.code == 1
        facts = json.loads(done.out, parse_constant=no_number)
        assert [one["difference"] for one in facts["recomputed"]] == [None]
        assert [one["agrees"] for one in facts["recomputed"]] == [False]
        found: dict[str, object] = facts
        return found

    Path("t.txt").write_text("The cat sat .\n")
    made("embed", "t.txt", "-o", "a.hdf5", "-q", "--layers", "top")
    with h5py.File("a.hdf5", "r+") as file:
        for name in list(file.attrs):
            del file.attrs[name]
    shapes = "has the shape (4, 16), the model computes (3, 4, 16)"
    assert sample("a.hdf5")["problems"] == [f"sentence 0: {shapes}"]
    assert rows_of(elmo("inspect", "a.hdf5", "--recompute", "1"))["recomputed"] == "1 sentence"
    made("embed", "t.txt", "-o", "b.hdf5", "-q")
    with h5py.File("b.hdf5", "r+") as file:
        file["0"][0, 1, 2] = np.inf
    assert sample("b.hdf5")["problems"] == ["sentence 0: holds values that are not finite"]


def test_a_sample_of_a_text_whose_equal_sentences_are_left_out() -> None:
    """manylangs keeps the first of them, and the text that it was made from has all."""
    Path("r.txt").write_text("Yes .\nYes .\nNo .\n")
    made("embed", "r.txt", "-o", "r.hdf5", "-q", "--layout", "manylangs", *ONE_LAYER)
    made("inspect", "r.hdf5", "--recompute", "3", "--text", "r.txt")
    Path("other.txt").write_text("Yes .\nNo .\n")
    done = elmo("inspect", "r.hdf5", "--recompute", "3", "--text", "other.txt")
    refused(done, 1, "r.hdf5: has 3 sentences, the text 2", "`--text`")


def test_a_sample_of_a_changed_file() -> None:
    with h5py.File(embedded("bilm"), "r+") as file:
        file["3"][2, 0, 5] += 1
    done = elmo("inspect", "a.hdf5", "--recompute", "7", "--text", "d.jsonl")
    assert done.code == 1
    assert "sentence 3: corrupt" in rows_of(done)["checked"]
    assert (
        "sentence 3: differs from what the model computes, by up to 1" in rows_of(done)["checked"]
    )


def test_a_sample_on_which_hdf5_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --no-verify nothing has looked at its arrays before; it would take the command along."""
    monkeypatch.setattr(sample, "open_embeddings", lambda _: os.kill(os.getpid(), signal.SIGSEGV))
    embedded("allennlp")
    what = "a.hdf5: its reader crashed (SIGSEGV)"
    refused(elmo("inspect", "a.hdf5", "--no-verify", "--recompute", "2"), 1, what, "get it again")


NESTED = (
    '{"doc_key": "a/b", "sentences": [["x", "y"], ["z"]]}\n'
    '{"doc_key": "c", "sentences": [["q", "r", "s"]]}\n'
    '{"doc_key": "a/d", "sentences": [["u"], ["v", "w"]]}\n'
)


CONLLU = "1\tThe\t_\n2\tcat\t_\n\n1\tIt\t_\n2\tslept\t_\n3\t.\t_\n\n"


@pytest.mark.parametrize("name", ["sentence", "bilm", "flat"])
def test_against_conllu(name: str) -> None:
    Path("t.conllu").write_text(CONLLU)
    made("embed", "t.conllu", "-o", "t.hdf5", "-q", *EVERY[name][1])
    assert made("inspect", "t.hdf5", "--text", "t.conllu").err == ""
    Path("u.conllu").write_text(CONLLU + "1\tmore\t_\n\n")
    done = elmo("inspect", "t.hdf5", "--text", "u.conllu")
    what = "t.hdf5: sentence 2: not in the file, 1 tokens in the text (and 1 more problem)"
    refused(done, 1, what, "--json")
    Path("t.txt").write_text("The cat\nIt slept.\n")  # before it was tokenised
    done = elmo("inspect", "t.hdf5", "--text", "t.txt", "--json")
    by_name = name in ("sentence", "manylangs")
    what = (
        "not in the file, 2 tokens in the text"
        if by_name
        else "3 tokens in the file, 2 in the text"
    )
    assert json.loads(done.out)["problems"] == [f"sentence 1: {what}"]
    assert done.code == 1


def test_against_several_texts() -> None:
    for name, lines in (("a.txt", "a b\nc\n"), ("b.txt", "d\n")):
        Path(name).write_text(lines)
    both = ("--text", "a.txt", "--text", "b.txt")
    made("embed", "a.txt", "b.txt", "-o", "ab.hdf5", "-q", "--layout", "bilm")
    texts = ("--recompute", 3, "--text", "a.txt", "--text", "b.txt")
    assert made("inspect", "ab.hdf5", *both).err == ""
    assert made("inspect", "ab.hdf5", *texts).err == ""
    done = elmo("inspect", "ab.hdf5", "--text", "a.txt")
    refused(done, 1, "ab.hdf5: the file is of 3 sentences, the text has 2", "every problem")


def test_a_sample_of_a_shard_by_the_whole_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "SENTENCES", 2)
    Path("t.txt").write_text("a b\nc\nd e f\ng\nh i\n")
    for i in (1, 2):
        made("embed", "t.txt", "-o", "s.hdf5", "-f", "-q", "--layout", "bilm", "--shard", f"{i}/2")
        made("inspect", "s.hdf5", "--recompute", 9, "--text", "t.txt")
    Path("t.txt").write_text("a b\nc\nd e f\n")
    done = elmo("inspect", "s.hdf5", "--recompute", 9, "--text", "t.txt")
    refused(done, 1, "s.hdf5: has 3 sentences, the text 1", "the same input settings")


def test_options_that_would_be_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    path = embedded("flat")
    for option in (("--model", "nosuchmodel"), ("--threads", "1"), ("--device", "cpu")):
        done = elmo("inspect", path, *option, "--text", "d.jsonl")
        refused(done, 2, f"{option[0]}: has no meaning without --recompute", "`--recompute N`")
    done = elmo("inspect", path, "--tokenize")
    refused(done, 2, "--tokenize: has no meaning without --text", "`--text FILE`")
    done = elmo("inspect", path, "--recompute", 1, "--text", "-", "--text", "-")
    refused(done, 2, "-: standard input is named twice and can be read only once", "name `-` once")
    monkeypatch.setenv("ELMO_DEVICE", "cpu")
    made("inspect", path)


# -- merge ----------------------------------------------------------------------------------------


def shards(name: str, n: int, *options: str) -> list[str]:
    return [
        embedded(name, "--shard", f"{i}/{n}", *options, out=f"{i}.hdf5") for i in range(1, n + 1)
    ]


@pytest.mark.parametrize("name", ["allennlp", "bilm-types", "flat"])
def test_three_shards_are_the_whole_byte_by_byte(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of two sentences, in the run and in the merge, give every shard something to do."""
    monkeypatch.setattr(blocks, "SENTENCES", 2)
    embedded(name, out="whole.hdf5")
    one, two, three = shards(name, 3)
    done = made("merge", three, one, two, "-o", "merged.hdf5", "--json")
    assert Path("merged.hdf5").read_bytes() == Path("whole.hdf5").read_bytes()
    n_sentences, n_tokens = (3, 3) if name == "bilm-types" else (7, N_TOKENS)
    assert said(done) == [f"merged.hdf5: {n_sentences} sentences, {n_tokens} tokens from 3 shards"]
    assert json.loads(done.out) == {
        "output": "merged.hdf5",
        "layout": "allennlp" if name == "sentence" else name,
        "shards": 3,
        "sentences": n_sentences,
        "tokens": n_tokens,
        "bytes": os.path.getsize("whole.hdf5"),
        "warnings": [],
    }


# -- convert --------------------------------------------------------------------------------------


def items(path: str) -> dict[Any, np.ndarray]:
    with open_embeddings(path) as embeddings:
        return dict(embeddings.items())


def check_equal(found: str, straight: str) -> None:
    """The same keys in the same order, the same values bit by bit."""
    ours, theirs = items(found), items(straight)
    assert list(ours) == list(theirs)
    for key in ours:
        np.testing.assert_array_equal(ours[key], theirs[key], strict=True)


def test_half_precision_is_what_embed_gives() -> None:
    path = embedded("allennlp")
    done = made("convert", path, "-o", "b.hdf5", "--dtype", "float16", "--json")
    assert json.loads(done.out) == {
        "output": "b.hdf5",
        "layout": "allennlp",
        "dtype": "float16",
        "sentences": 7,
        "tokens": N_TOKENS,
        "bytes": os.path.getsize("b.hdf5"),
        "sentence_map": True,
        "warnings": [],
    }
    check_equal("b.hdf5", embedded("allennlp", "--dtype", "float16", out="c.hdf5"))
