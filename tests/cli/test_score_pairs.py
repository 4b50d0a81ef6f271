"""`elmo score --pairs`: which version of a sentence wins, its table, and what it refuses."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import documented, elmo, made, refused

from elmo_cli.lm.language_model import load_language_model

pytestmark = pytest.mark.usefixtures("language_model")

COLUMNS = (
    "uid linguistics_term source line forward_good forward_bad backward_good backward_bad "
    "unknown_good unknown_bad"
)


def pair(good: str, bad: str, uid: str = "", term: str = "") -> dict[str, str]:
    """An object of a file of pairs."""
    members = {"sentence_good": good, "sentence_bad": bad}
    if uid:
        members["UID"] = uid
    if term:
        members["linguistics_term"] = term
    return members


def write_objects(objects: list[Any], name: str = "pairs.jsonl") -> None:
    Path(name).write_text("".join(json.dumps(content) + "\n" for content in objects))


PAIRS = [
    pair("the old boat", "boat the old", "order", "syntax"),
    pair("boat the old", "the old boat", "order", "syntax"),
    pair("the boat .", "the boat .", "order", "syntax"),
    pair("the qwx .", "the zzy .", "unknown"),
]


def reported(*words: object) -> dict[str, Any]:
    """The object of --json."""
    facts: dict[str, Any] = json.loads(
        made("score", "--pairs", "-m", "model", "--json", *words).out
    )
    return facts


def test_wins_ties_and_groups() -> None:
    """If one pair is another one reversed, one of both is right; equal versions are a tie."""
    write_objects(PAIRS)
    facts = reported("pairs.jsonl", "-o", "scores.tsv")
    assert (facts["pairs"], facts["pairs_with_unknown"], facts["sentences"]) == (4, 1, 5)
    [order, unknown] = facts["paradigms"]
    [syntax] = facts["terms"]
    assert {**order, "name": "syntax"} == syntax
    for name in ("forward", "backward", "sum"):
        assert order["accuracy"][name] == pytest.approx(100 / 3)
        assert order["ties"][name] == facts["ties"][name] == 1
        mean = (100 / 3 + unknown["accuracy"][name]) / 2
        assert facts["paradigm_mean"][name] == pytest.approx(mean)
        n_right = 1 + unknown["accuracy"][name] / 100
        assert facts["accuracy"][name] == pytest.approx(100 * n_right / 4)
    page = documented("score")
    assert all(f"`{field}`" in page for field in {*facts, *order})


def test_the_table_has_the_log_likelihoods_of_each_pair() -> None:
    write_objects(PAIRS)
    done = made("score", "pairs.jsonl", "--pairs", "-m", "model", "-o", "scores.tsv")
    with open("scores.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert list(rows[0]) == COLUMNS.split()
    model = load_language_model("model")
    for number, (row, members) in enumerate(zip(rows, PAIRS, strict=True), 1):
        assert row["uid"] == members["UID"]
        assert row["linguistics_term"] == members.get("linguistics_term", "")
        assert (row["source"], row["line"]) == ("pairs.jsonl", str(number))
        for version in ("good", "bad"):
            scores = model.score(members[f"sentence_{version}"].split())
            for direction, values in zip(("forward", "backward"), scores, strict=True):
                expected = pytest.approx(values.sum(), rel=1e-5)
                assert float(row[f"{direction}_{version}"]) == expected
    assert rows[2]["forward_good"] == rows[2]["forward_bad"]
    assert [rows[3]["unknown_good"], rows[3]["unknown_bad"]] == ["1", "1"]
    lines = done.out.decode().splitlines()
    header = lines[0].split()
    assert header[:6] == ["right,", "%", "forward", "backward", "sum", "pairs"]
    assert lines[1].startswith("mean over pairs ")
    assert lines[1].split()[-2:] == ["4", "25.0"]
    assert lines[2].startswith("mean over paradigms ")
    assert "equal scores, which count as wrong: 1 forward, 1 backward, 1 in sum" in lines
    again = made("score", "pairs.jsonl", "--pairs", "-m", "model", "-o", "-")
    assert again.out == Path("scores.tsv").read_bytes()
    assert "mean over paradigms" in again.err
    pair = ["--options-file", "model/options.json", "--weight-file", "model/weights.hdf5"]
    done = made("score", "pairs.jsonl", "--pairs", *pair)
    assert done.out.decode().splitlines()[-1] == "model model/weights.hdf5"


def test_strings_are_tokenized_and_may_be_two_sentences() -> None:
    """The scores of the sentences are added up; without the tokenizer, there is a warning."""
    raw = pair("It is the boat. It isn't old.", "the old boat.")
    write_objects([raw])
    words = ("score", "pairs.jsonl", "--pairs", "-m", "model")
    made(*words, "--tokenize", "-o", "scores.tsv")
    [row] = csv.DictReader(Path("scores.tsv").read_text().splitlines(), delimiter="\t")
    model = load_language_model("model")
    first, _ = model.score(["It", "is", "the", "boat", "."])
    second, _ = model.score(["It", "is", "n't", "old", "."])
    assert float(row["forward_good"]) == pytest.approx(first.sum() + second.sum(), rel=1e-5)
    done = made(*words)
    assert "warning: pairs.jsonl, line 1: looks untokenized; `--tokenize` splits raw" in done.err


def test_compressed_pairs_and_standard_input() -> None:
    write_objects(PAIRS)
    expected = reported("pairs.jsonl")
    content = Path("pairs.jsonl").read_bytes()
    Path("pairs.jsonl.gz").write_bytes(gzip.compress(content))
    assert reported("pairs.jsonl.gz") == expected
    done = made("score", "-", "--pairs", "-m", "model", "--json", stdin=content)
    assert json.loads(done.out) == expected
    twice = reported("pairs.jsonl", "pairs.jsonl.gz")
    assert (twice["pairs"], twice["sentences"]) == (8, 5)


def test_cut_tokens_and_other_whitespace_are_reported() -> None:
    write_objects([pair("the boat", f"the {'x' * 60}"), pair("the\u00a0old boat", "the old boat")])
    done = made("score", "pairs.jsonl", "--pairs", "-m", "model", "--json")
    facts = json.loads(done.out)
    assert facts["truncated_tokens"] == 1
    assert "warning: cut 1 token to the length that the model reads" in done.err
    [warning] = facts["warnings"]
    assert warning.startswith("pairs.jsonl, line 2: ")


BAD_LINES = {
    "missing": ({"sentence_good": "the tree"}, '"sentence_bad" is missing or not a string'),
    "number": (pair("the tree", 3), '"sentence_bad" is missing or not a string'),  # type: ignore[arg-type]
    "list": ({"sentence_good": ["the"], "sentence_bad": "a"}, '"sentence_good" is missing or not'),
    "empty": (pair("", "the tree"), '"sentence_good" is empty'),
    "blank": (pair("the tree", " \t"), '"sentence_bad" has no tokens'),
    "surrogate": (pair("the \ud800", "the tree"), '"sentence_good" contains a lone surrogate'),
    "UID": ({**pair("a", "b"), "UID": 7}, '"UID" is missing or not a string'),
    "other": ([1, 2], "JSON, but not an object"),
}


def test_pairs_without_the_option_are_recognized() -> None:
    """By both fields, by every command that reads JSON lines."""
    write_objects([PAIRS[0]])
    for command in ("score", "perplexity"):
        done = elmo(command, "pairs.jsonl", "-m", "model")
        refused(done, 1, 'pairs.jsonl, line 1: no "tokens"', "`elmo score --pairs` reads such")
    write_objects([{"sentence_good": "the tree"}])
    refused(elmo("score", "pairs.jsonl", "-m", "model"), 1, "", "each line is an object with")


@pytest.mark.parametrize("name", BAD_LINES)
def test_bad_lines_are_refused_or_skipped(name: str) -> None:
    content, problem = BAD_LINES[name]
    write_objects([PAIRS[0], content, PAIRS[1]])
    words = ("score", "pairs.jsonl", "--pairs", "-m", "model", "--json")
    refused(elmo(*words), 1, f"pairs.jsonl, line 2: {problem}", '"sentence_good" and')
    done = elmo(*words, "--on-error", "skip")
    refused(done, 3, "1 line was left out", "")
    facts = json.loads(done.out)
    assert facts["pairs"] == 2
    assert facts["skipped"][0][:2] == ["pairs.jsonl", 2]


@pytest.mark.parametrize(
    ("words", "code", "message", "hint"),
    [
        ("pairs.jsonl --per sentence", 2, "--per: has no effect with --pairs", "leave it out"),
        ("pairs.jsonl --unit nats", 2, "--unit: has no effect with --pairs", "leave it out"),
        ("pairs.jsonl --spelling", 2, "--spelling: has no effect with --pairs", "leave it out"),
        ("pairs.jsonl --input-format plain", 2, "--input-format: has no effect", "leave it out"),
        ("pairs.jsonl --column 2", 2, "`--column 2`: jsonl has no columns", ""),
        ("pairs.jsonl --json -o -", 2, "--json: has no effect for standard output", ""),
        ("nothing.jsonl", 1, "nothing.jsonl: contains no pairs", "a pair per line"),
        ("text", 1, "text, line 1: not JSON", '"sentence_good"'),
        ("text.tsv", 1, "text.tsv, line 1: not JSON", '"sentence_good"'),
    ],
)
def test_refused_commands_with_pairs(words: str, code: int, message: str, hint: str) -> None:
    write_objects(PAIRS)
    Path("nothing.jsonl").write_text("\n")
    for name in ("text", "text.tsv"):
        Path(name).write_text("the tree\ta tree\n")
    done = elmo("score", "--pairs", "-m", "model", *words.split())
    refused(done, code, message, hint)
    assert done.out == b""
