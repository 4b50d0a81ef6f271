"""`elmo inspect`, `elmo merge` and `elmo convert` on files of `elmo embed`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import textwrap
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import Done, elmo, made, refused
from tolerance import ATOL_ORDER

from elmo_cli.embed import blocks
from elmo_cli.embed.embedder import Embedder
from elmo_cli.messages import format_bytes
from elmo_cli.model.bilm import BiLM
from elmo_cli.store import sentence_sample
from elmo_cli.version import __version__

# Different sentences without a slash, so that every layout takes them.
DOCUMENTS = {
    "d_1": [["The", "cat", "sat", "."], ["It", "slept"], ["naïve", "日本語", "😀"]],
    "e_2": [["Yes"], ["No", ",", "not", "yet", "."]],
    "f_3": [["One"], ["One", "more"]],
}
SENTENCES = [tokens for document in DOCUMENTS.values() for tokens in document]
N_TOKENS = sum(map(len, SENTENCES))


@pytest.fixture(autouse=True)
def here(folder: Path) -> None:
    """A working directory with a text."""
    rows = [{"doc_key": key, "sentences": text} for key, text in DOCUMENTS.items()]
    Path("d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def embedded(layout: str, *options: str, out: str = "a.hdf5") -> str:
    """Embed the documents in a layout."""
    made("embed", "d.jsonl", "-o", out, "-q", "--layout", layout, *options)
    return out


# -- inspect --------------------------------------------------------------------------------------


def rows_of(done: Done) -> dict[str, str]:
    """The facts that `inspect` prints, by their names."""
    facts = done.out.decode().split("\nread it:\n")[0].splitlines()[1:]
    return dict(re.split(r"\s{2,}", row.strip(), maxsplit=1) for row in facts if row)


def test_facts_of_embeddings() -> None:
    path = embedded("manylangs", "--layers", "top", out="it's a file.hdf5")
    done = made("inspect", path, "--recompute", "4")
    assert done.err == ""
    assert done.out.startswith(b"it's a file.hdf5\n")
    rows = rows_of(done)
    assert rows.pop("values").startswith("float32, ")
    match = re.fullmatch(r"4 sentences, differences up to (\S+)", rows.pop("recomputed"))
    assert match is not None
    assert float(match[1]) < ATOL_ORDER
    expected = {
        "layout": "manylangs",
        "sentences": "7",
        "tokens": str(N_TOKENS),
        "dim": "16",
        "layers": "top",
        "model": "tiny",
        "state": "zero",
        "text": "d.jsonl",
        "checked": "nothing wrong",
        "checksums": "stored",
    }
    assert expected.items() <= rows.items()
    quiet = made("inspect", path, "--quiet")
    assert quiet.out == b""
    assert quiet.err == ""
    assert "checked" not in rows_of(made("inspect", path, "--no-verify"))


def test_the_program_that_is_printed_reads_the_first_sentence(tiny_bilm: BiLM) -> None:
    path = embedded("manylangs", "--layers", "top", out="it's a file.hdf5")
    done = made("inspect", path)
    program = done.out.decode().split("\nread it:\n")[1]
    variables: dict[str, Any] = {}
    exec(textwrap.dedent(program), variables)
    array = variables["array"].squeeze()
    top = Embedder(tiny_bilm, device="cpu", layers="top").embed(SENTENCES[0])
    np.testing.assert_allclose(array, top.squeeze(), rtol=0, atol=ATOL_ORDER)


def test_facts_as_json(tiny: Path) -> None:
    done = made("inspect", embedded("allennlp"), "--json", "--recompute", "2")
    facts = json.loads(done.out)
    assert done.out.count(b"\n") == 1
    names = (
        "kind path bytes layout complete sentences tokens n_layers dim dtype sentence_map "
        "checksums sources attributes samples problems problem_count recomputed"
    )
    assert set(facts) == set(names.split())
    assert facts["kind"] == "embeddings"
    assert facts["sentences"] == 7
    assert facts["problems"] == []
    assert [sentence["key"] for sentence in facts["recomputed"]] == [0, 6]
    assert all(sentence["agrees"] for sentence in facts["recomputed"])
    weights = tiny / "weights.hdf5"
    assert json.loads(made("inspect", weights, "--json").out)["shapes"]["char_embed"] == [261, 4]
    rows = rows_of(made("inspect", weights))
    described = json.loads(made("inspect", weights, "--json").out)
    assert rows["weights"] == "biLM"
    assert rows["values"].startswith("float32, ")
    assert rows["parameters"] == f"{described['parameters']:,}"
    assert rows["sha256"] == described["sha256"]


def test_problems_are_listed_and_counted() -> None:
    with h5py.File(embedded("bilm"), "r+") as file:
        file["1"][0, 0, 0] = np.nan
        file["3"][2, 0, 5] += 1
    done = elmo("inspect", "a.hdf5")
    not_finite = "sentence 1: not finite: 1 of 96 values"
    refused(done, 1, f"a.hdf5: {not_finite} (and 2 more problems)", "--json")
    first, second, third = rows_of(done)["checked"].split("; ")
    assert first == not_finite
    assert rows_of(done)["layers"] == "all 3"
    assert second.startswith("sentence 1: corrupt: ")
    assert third.startswith("sentence 3: corrupt: ")  # all are shown: no "and 0 more"
    done = elmo("inspect", "a.hdf5", "--json", "--recompute", "7", "--text", "d.jsonl")
    facts = json.loads(done.out)
    assert done.code == 1
    assert facts["problem_count"] == 5
    assert len(facts["problems"]) == 5
    assert [record["key"] for record in facts["recomputed"] if not record["agrees"]] == [1, 3]
    assert facts["recomputed"][1]["difference"] is None  # NaN is no JSON
    assert elmo("inspect", "a.hdf5", "-q").out == b""


def test_a_difference_is_shown_and_damaged_weights_are_no_embeddings(tiny: Path) -> None:
    """Values that are not finite differ by no number."""
    with h5py.File(embedded("bilm"), "r+") as file:
        file["0"][0, 0, 0] = np.nan
        file["2"][1, 1, 5] += 4
        file["3"][2, 0, 5] += 1
    rows = rows_of(
        elmo("inspect", "a.hdf5", "--no-verify", "--recompute", "7", "--text", "d.jsonl")
    )
    assert rows["recomputed"] == "7 sentences, differences up to 4"
    shutil.copy(tiny / "weights.hdf5", "w.hdf5")
    with h5py.File("w.hdf5", "r+") as file:
        file["CNN_proj/b_proj"][0] = np.nan
    refused(
        elmo("inspect", "w.hdf5"), 1, "w.hdf5: CNN_proj/b_proj", "get the weights from their so"
    )


def test_only_some_of_many_problems_are_listed() -> None:
    Path("a.txt").write_text("a b\n")
    Path("b.txt").write_text("c\n" * 60)
    made("embed", "a.txt", "-o", "a.hdf5", "-q")
    made("inspect", "a.hdf5", "--text", "a.txt")
    done = elmo("inspect", "a.hdf5", "--text", "a.txt", "--text", "b.txt")
    first = "sentence 1: not in the file, 1 token in the text"
    refused(done, 1, f"a.hdf5: {first} (and 60 more problems)", "`elmo inspect --json` lists")
    assert rows_of(done)["checked"].endswith("; and 56 more")
    done = elmo("inspect", "a.hdf5", "--text", "a.txt", "--text", "b.txt", "--json")
    facts = json.loads(done.out)
    assert len(facts["problems"]) == 50
    assert facts["problem_count"] == 61


def test_tokens_are_no_names_of_options() -> None:
    """Parameters of the library are: `text` becomes `--text` in a message."""
    Path("a.txt").write_text("the text reads\n")
    Path("b.txt").write_text("the model reads\n")
    made("embed", "a.txt", "-o", "a.hdf5", "-q")
    done = elmo("inspect", "a.hdf5", "--text", "b.txt")
    refused(done, 1, "a.hdf5: sentence 0: its tokens are not those of the text: token 1 is", "")
    assert "is 'text', not 'model'" in done.err


def test_blank_lines_of_a_text_are_read_as_they_were_embedded() -> None:
    Path("gaps.txt").write_text("the cat\n\na dog\n")
    made("embed", "gaps.txt", "-o", "gaps.hdf5", "--blank-lines", "skip", "-q")
    made("inspect", "gaps.hdf5", "--text", "gaps.txt", "--blank-lines", "skip")
    done = elmo("inspect", "gaps.hdf5", "--text", "gaps.txt")
    assert done.code == 1
    assert "gaps.hdf5: " in done.err


@pytest.mark.parametrize(
    ("names", "shape", "tokens", "layers"),
    [
        ("d/0 e/0", (5, 1024, 3), "10", "3"),
        ("P1 P2", (16,), "not recorded", "one"),  # a vector per protein
    ],
)
def test_tokens_of_the_original_programs_are_counted(
    names: str, shape: tuple[int, ...], tokens: str, layers: str
) -> None:
    with h5py.File("a.hdf5", "w") as file:
        for name in names.split():
            file[name] = np.ones(shape, np.float32)
    rows = rows_of(made("inspect", "a.hdf5"))
    assert (rows["tokens"], rows["layers"]) == (tokens, layers)
    assert rows["checksums"] == "none, as in files of other programs"
    assert rows_of(made("inspect", "a.hdf5", "--no-verify"))["tokens"] == "not recorded"
    assert json.loads(made("inspect", "a.hdf5", "--json", "--no-verify").out)["tokens"] is None


def test_an_unfinished_file(stop_run: Any) -> None:
    stop_run("embed", "d.jsonl", "-o", "a.hdf5")
    done = elmo("inspect", "a.hdf5.part")
    refused(done, 1, "a.hdf5.part: unfinished: 3 sentences committed", "`elmo embed … --resume`")
    rows = rows_of(done)
    assert rows["unfinished"] == "3 sentences and 9 tokens committed"
    n_bytes = Path("a.hdf5.part").stat().st_size
    assert rows["size"] == format_bytes(n_bytes)
    done = elmo("inspect", "a.hdf5")
    refused(done, 1, "a.hdf5: the run that writes it has not finished", "resume")


def test_a_sample_on_which_hdf5_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --no-verify nothing has read its arrays before; it would end the command too."""

    def crash(*args: object) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    monkeypatch.setattr(sentence_sample, "take_sample", crash)
    embedded("allennlp")
    done = elmo("inspect", "a.hdf5", "--no-verify", "--recompute", "2")
    refused(done, 1, "a.hdf5: its reader crashed (SIGSEGV)", "get it again")


def test_options_without_effect_are_refused(monkeypatch: pytest.MonkeyPatch, tiny: Path) -> None:
    path = embedded("flat")
    for words in (("--text", "d.jsonl"), ("--recompute", "2")):
        done = elmo("inspect", tiny / "weights.hdf5", *words)
        refused(done, 2, f"{tiny / 'weights.hdf5'}: contains no finished embeddings", "--recompute")
    for option, value in (("--model", "nosuchmodel"), ("--threads", "1"), ("--device", "cpu")):
        done = elmo("inspect", path, option, value, "--text", "d.jsonl")
        refused(done, 2, f"{option}: has no effect without --recompute", "leave it out")
    done = elmo("inspect", path, "--tokenize")
    refused(done, 2, "--tokenize: has no effect without --text", "leave it out")
    done = elmo("inspect", path, "--blank-lines", "skip")
    refused(done, 2, "--blank-lines: has no effect without --text", "leave it out")
    monkeypatch.setenv("ELMO_DEVICE", "cpu")
    made("inspect", path)


# -- merge and convert ----------------------------------------------------------------------------


def test_merged_shards_are_the_whole_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two sentences, in the run and in the merge, give every shard something to do."""
    monkeypatch.setattr(blocks, "SENTENCES", 2)
    embedded("allennlp", out="whole.hdf5")
    first = embedded("allennlp", "--shard", "1/3", out="1.hdf5")
    second = embedded("allennlp", "--shard", "2/3", out="2.hdf5")
    third = embedded("allennlp", "--shard", "3/3", out="3.hdf5")
    made("inspect", second, "--recompute", 9, "--text", "d.jsonl")  # the text of all shards
    done = made("merge", third, first, second, "-o", "merged.hdf5", "--json")
    assert Path("merged.hdf5").read_bytes() == Path("whole.hdf5").read_bytes()
    assert done.err == f"merged.hdf5: 7 sentences, {N_TOKENS} tokens from 3 shards\n"
    assert json.loads(done.out) == {
        "output": "merged.hdf5",
        "layout": "allennlp",
        "shards": 3,
        "sentences": 7,
        "tokens": N_TOKENS,
        "bytes": os.path.getsize("whole.hdf5"),
    }
    done = elmo("merge", first, second, third, "-o", "merged.hdf5")
    refused(done, 1, "merged.hdf5: exists", "`--overwrite`")
    made("merge", first, second, third, "-o", "merged.hdf5", "--overwrite", "-q")


def test_half_precision_is_what_embed_gives() -> None:
    path = embedded("flat")
    done = made("convert", path, "-o", "b.hdf5", "--dtype", "float16", "--json")
    assert done.err == "b.hdf5: 7 sentences, layout flat\n"
    assert json.loads(done.out) == {
        "output": "b.hdf5",
        "layout": "flat",
        "dtype": "float16",
        "sentences": 7,
        "tokens": N_TOKENS,
        "bytes": os.path.getsize("b.hdf5"),
        "sentence_map": False,
        "warnings": [],
    }
    embedded("flat", "--dtype", "float16", out="c.hdf5")
    with h5py.File("b.hdf5") as ours, h5py.File("c.hdf5") as theirs:
        assert list(ours) == list(theirs)
        np.testing.assert_array_equal(ours["vectors"], theirs["vectors"], strict=True)


def test_what_a_conversion_warns_of_is_printed() -> None:
    Path("a.txt").write_text("one more\ntwo\none more\n")
    made("embed", "a.txt", "-o", "a.hdf5", "-q", "--layout", "manylangs", "--layers", "top")
    done = made("convert", "a.hdf5", "-o", "b.hdf5", "--layout", "allennlp", "--json")
    warning = "a.hdf5: lacks 1 sentence of the text; the new keys do not count them"
    assert done.err == f"warning: {warning}\nb.hdf5: 2 sentences, layout allennlp\n"
    facts = json.loads(done.out)
    assert (facts["warnings"], facts["sentence_map"]) == ([warning], True)
    refused(elmo("convert", "a.hdf5", "-o", "b.hdf5"), 1, "b.hdf5: exists", "`--overwrite`")
    assert rows_of(made("inspect", "b.hdf5"))["layers"] == "top"
    made("convert", "a.hdf5", "-o", "b.hdf5", "--overwrite")


def test_facts_of_a_shard_of_several_texts() -> None:
    """Rows state each setting that is not the usual one, and where each text begins."""
    names = [f"{number}.txt" for number in range(1, 7)]
    for name in names:
        Path(name).write_text("the cat\n")
    settings = "--layout flat --precision int8 --pool mean --shard 1/1 --state warm --layers 0,2"
    made("embed", *names, "-o", "a.hdf5", "-q", *settings.split())
    rows = rows_of(made("inspect", "a.hdf5"))
    assert re.fullmatch(r"float32, [\d.]+ KiB", rows.pop("values"))
    assert rows == {
        "layout": "flat",
        "sentences": "6",
        "tokens": "12",
        "layers": "0,2",
        "dim": "16",
        "first": "0 (2, 16), 1 (2, 16), 2 (2, 16)",
        "checksums": "stored",
        "model": "tiny",
        "state": "warm",
        "precision": "int8",
        "pool": "mean",
        "shard": "1/1",
        "elmo_version": __version__,
        "text": "1.txt, 2.txt (from sentence 1), 3.txt (from sentence 2), 4.txt (from sentence 3), "
        "5.txt (from sentence 4), and 1 more",
        "checked": "nothing wrong",
    }


def test_sentences_whose_tokens_are_not_known_are_passed_over_with_a_warning() -> None:
    """A map of another program has only the last of equal lines."""
    made("embed", "d.jsonl", "-o", "a.hdf5", "-q")
    with h5py.File("a.hdf5") as ours, h5py.File("b.hdf5", "w") as theirs:
        for name, number in (("0", "0"), ("1", "1"), ("2", "1")):
            theirs[name] = ours[number][()]
        theirs["sentence_to_index"] = ['{"It slept": "1", "The cat sat .": "0"}']
    done = made("inspect", "b.hdf5", "--recompute", "3")
    problem = "b.hdf5: skipped 1 sentence whose tokens the file does not record"
    assert done.err == f"warning: {problem}; give them with --text\n"
    assert rows_of(done)["recomputed"].startswith("2 sentences, differences up to ")


def test_a_wider_type_does_not_undo_rounding() -> None:
    half = embedded("flat", "--dtype", "float16")
    made("convert", half, "-o", "d.hdf5", "--dtype", "float32", "-q")
    done = elmo("embed", "d.jsonl", "-o", "d.hdf5", "--layout", "flat", "--resume")
    problem = "made with other settings (rounded from: float16, now none)"
    refused(done, 1, f"d.hdf5: finished, {problem}", "")
