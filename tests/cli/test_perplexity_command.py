"""`elmo perplexity`: its figures, its table of sentences, and what it refuses."""

from __future__ import annotations

import csv
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import elmo, made, refused
from make_weights import write_arrays

pytestmark = pytest.mark.usefixtures("language_model")

PAIR = "--options-file options --weight-file model/weights.hdf5"


def contents() -> dict[Path, bytes]:
    """The content of every file in the working folder."""
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def measured(*words: object) -> dict[str, Any]:
    """The object of --json."""
    done = made("perplexity", "text", "-m", "model", "--json", *words)
    facts: dict[str, Any] = json.loads(done.out)
    return facts


AVERAGE = 96.0623815  # of bilm-tf, from zero states


@pytest.mark.parametrize(
    ("options", "state", "average", "n_predictions", "n_not_scored"),
    [
        ("", "zero", AVERAGE, 294, 0),
        ("--state carry --batch-size 4", "carry", 109.6402844, 272, 22),
    ],
)
def test_figures_equal_those_of_bilm_tf(
    options: str, state: str, average: float, n_predictions: int, n_not_scored: int
) -> None:
    facts = measured(*options.split())
    assert facts["perplexity"]["average"] == pytest.approx(average, rel=1e-6)
    assert facts["predictions"] == n_predictions
    assert facts["not_scored"] == n_not_scored
    assert facts["model"] == "model"
    assert facts["state"] == state
    assert facts["tokens"] == 264
    assert facts["sentences"] == 30
    assert facts["bits_per_byte"]["average"] > facts["bits_per_byte"]["spelling"] > 0


def test_figures_in_words() -> None:
    done = made("perplexity", "text", "-m", "model", "--state", "carry", "--batch-size", 4)
    lines = done.out.decode().splitlines()
    assert lines[0].split() == ["forward", "backward", "average"]
    assert lines[1].split() == ["perplexity", "136.00", "88.39", "109.64"]
    bits = measured("--state", "carry", "--batch-size", 4)["bits_per_byte"]
    ways = [f"{bits[way]:.4f}" for way in ("forward", "backward", "average")]
    assert lines[2].split() == ["bits", "per", "byte", *ways]
    assert "272 predictions in each direction; 264 tokens in 30 sentences; " in lines[3]
    assert f"% unknown, whose spelling takes {bits['spelling']:.4f} bits per byte" in lines[3]
    assert lines[4].startswith("22 more predictions were not scored")
    assert lines[5] == "model model, state carry"
    pair = ["--options-file", "model/options.json", "--weight-file", "model/weights.hdf5"]
    lines = made("perplexity", "text", *pair).out.decode().splitlines()
    assert lines[-1] == "model model/weights.hdf5, state zero"


def test_warm_states_and_tokenized_input_reach_the_model() -> None:
    warm = measured("--state", "warm")
    assert warm["state"] == "warm"
    assert warm["perplexity"]["average"] != pytest.approx(AVERAGE, rel=1e-3)
    Path("text").write_text("The old tree isn't old. It is the tree.\n")
    raw = measured("--tokenize")
    Path("text").write_text("The old tree is n't old .\nIt is the tree .\n")
    assert raw == measured()
    assert raw["sentences"] == 2


def test_the_table_has_a_row_per_sentence(golden: Path) -> None:
    """With its file and line, also after blank lines and in a second file."""
    expected = json.loads((golden / "lm" / "expected.json").read_text())["zero_state"]
    known = set(Path("model/vocab.txt").read_text().splitlines())
    lines = Path("text").read_text().splitlines()
    Path("text").write_text("\n" + "\n\n".join(lines[:3]) + "\n")
    Path("second").write_text("\n".join(lines[3:]) + "\n")
    made("perplexity", "text", "second", "-m", "model", "-o", "table.tsv")
    with open("table.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    names = "source line tokens unknown predictions forward backward perplexity"
    assert list(rows[0]) == names.split()
    sources = ["text:2", "text:4", "text:6", *(f"second:{number}" for number in range(1, 28))]
    assert [f"{row['source']}:{row['line']}" for row in rows] == sources
    for number, row in enumerate(rows):
        forward = sum(expected["forward_ll"][number])
        backward = sum(expected["backward_ll_reading_order"][number])
        n_tokens = len(lines[number].split())
        n_predictions = n_tokens + 1
        perplexity = math.exp(-(forward + backward) / 2 / n_predictions)
        assert int(row["tokens"]) == n_tokens
        assert int(row["unknown"]) == sum(token not in known for token in lines[number].split())
        assert int(row["predictions"]) == n_predictions
        assert float(row["forward"]) == pytest.approx(forward, rel=1e-4)
        assert float(row["backward"]) == pytest.approx(backward, rel=1e-4)
        assert float(row["perplexity"]) == pytest.approx(perplexity, rel=1e-4)
    done = made("perplexity", "text", "second", "-m", "model", "-o", "-")
    assert done.out == Path("table.tsv").read_bytes()
    assert "bits per byte" in done.err


@pytest.mark.parametrize(
    ("words", "code", "message", "hint"),
    [
        ("latin -m model --on-error skip", 1, "latin: contains no sentences", ""),
        ("text -m model --batch-size 4", 2, "--batch-size: has no effect", "leave it out"),
        ("text -m model --json -o -", 2, "--json: has no effect", "leave it out"),
        ("text -m model -o table", 1, "table: exists", "--overwrite"),
        ("text -m model -o text -f", 2, "text: is also ", ""),
        ("text -m model -f", 2, "--overwrite: has no effect without --output", "leave it out"),
        ("text -m model --vocabulary types -o types -f", 2, "types: is also a file of", ""),
        (f"text {PAIR} -o model/softmax.hdf5 -f", 2, "model/softmax.hdf5: is also a file of", ""),
    ],
)
def test_refused_commands_change_nothing(words: str, code: int, message: str, hint: str) -> None:
    Path("table").write_text("mine")
    Path("latin").write_bytes(b"\xff\n")
    shutil.copy("model/options.json", "options")
    shutil.copy("model/vocab.txt", "types")
    before = contents()
    done = elmo("perplexity", *words.split())
    refused(done, code, message, hint)
    assert done.out == b""
    assert contents() == before


def test_softmax_and_vocabulary_may_be_elsewhere() -> None:
    expected = measured()
    Path("model/softmax.hdf5").rename("s")
    Path("model/vocab.txt").rename("v")
    assert measured("--softmax", "s", "--vocabulary", "v") == expected


def test_parts_that_may_be_of_another_model_are_warned_of_where_they_are_used() -> None:
    """Nothing says to which weights they belong."""
    h = np.zeros((2, 2, 1, 8), np.float32)
    write_arrays(Path("model/state.hdf5"), {"h": h, "c": np.zeros((2, 2, 1, 16), np.float32)})
    Path("model/parts.json").unlink()
    for state, is_used in (("zero", False), ("warm", True)):
        err = made("perplexity", "text", "-m", "model", "--state", state).err
        reason = "no parts.json states that this belongs to "
        assert f"warning: model/softmax.hdf5, model/vocab.txt: {reason}" in err
        assert (f"warning: model/state.hdf5: {reason}" in err) == is_used


def test_warnings_of_the_readers_and_cut_tokens_are_reported() -> None:
    Path("text").write_text(f"the\n[CLS] the {'x' * 60} [SEP]\n")
    done = made("perplexity", "text", "-m", "model", "--json")
    facts = json.loads(done.out)
    assert facts["truncated_tokens"] == 1
    [warning] = facts["warnings"]
    assert warning.startswith("text, line 2: ")
    assert f"warning: {warning}\n" in done.err
    assert (
        f"warning: cut 1 token to the length that the model reads; the first is '{'x' * 9}"
        in done.err
    )


def test_unknown_tokens_and_skipped_lines() -> None:
    """A low perplexity of nothing but <UNK> must not pass for a good one."""
    content = Path("text").read_bytes()
    Path("text").write_text("xyzzy qqq\nfrobnicate\n")
    problem = "text: tokens of the text in the vocabulary: none"
    refused(elmo("perplexity", "text", "-m", "model"), 1, problem, "`--tokenize`?")
    Path("text").write_text("xyzzy qqq\nthe\n")
    done = made("perplexity", "text", "-m", "model", "--json")
    known = "tokens of the text in the vocabulary: 1 of 3 (33.3%), not 'xyzzy'; "
    assert done.err.startswith(f"warning: {known}")
    facts = json.loads(done.out)
    assert facts["unknown_fraction"] == pytest.approx(2 / 3)
    assert facts["fit"] == {"text_in_vocabulary": {"fitting": 1, "of": 3, "example": "xyzzy"}}
    done = made("perplexity", "text", "-m", "model")
    assert b"66.67% unknown" in done.out
    assert made("perplexity", "text", "-m", "model", "-q").err == ""
    Path("text").write_bytes(content + b"caf\xe9 .\n")
    done = elmo("perplexity", "text", "-m", "model", "--on-error", "skip", "--json")
    refused(done, 3, "1 line was left out", "")
    facts = json.loads(done.out)
    assert facts["perplexity"]["average"] == pytest.approx(AVERAGE, rel=1e-6)
    assert len(facts["skipped"]) == 1
