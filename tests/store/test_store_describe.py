"""describe, verify, against and reading_lines: what `elmo inspect` tells of a file."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from reader_files import (
    DIM,
    array,
    biLM_weights,
    content,
    documents,
    foreign,
    lines,
    write,
    write_types,
)

from elmo_cli.errors import EmbeddingsFileError, ResumeError, UsageError, WeightFileError
from elmo_cli.store.against import against
from elmo_cli.store.describe import describe
from elmo_cli.store.findings import MOST
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.reading_lines import reading_lines
from elmo_cli.store.verify import verify
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence

N_TOKENS = sum(len(sentence.tokens) for sentence in lines())


def unfinished(folder: Path) -> Path:
    """OUT.part as a killed run leaves it: a commit, and a block that was not committed."""
    with EmbeddingsWriter.create(folder / "a.hdf5", layout="bilm", header={"state": "x"}) as writer:
        for sentence in lines()[:4]:
            writer.append(sentence, array(sentence))
        writer.commit("hash")
        writer.append(lines()[4], array(lines()[4]))
    return folder / "a.hdf5.part"


def test_facts_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    facts = describe(path)
    attributes = facts.pop("attributes")
    assert facts == {
        "kind": "embeddings",
        "path": str(path),
        "bytes": path.stat().st_size,
        "layout": "allennlp",
        "complete": True,
        "sentences": 12,
        "tokens": N_TOKENS,
        "n_layers": 3,
        "dim": DIM,
        "dtype": "float32",
        "sentence_map": True,
        "sources": [["in.txt", 0]],
        "samples": [
            {"key": 0, "shape": [3, 7, DIM]},
            {"key": 1, "shape": [3, 2, DIM]},
            {"key": 2, "shape": [3, 0, DIM]},
        ],
    }
    assert attributes["state"] == "zero"


def test_facts_of_a_foreign_file(tmp_path: Path) -> None:
    path = foreign(tmp_path / "a.hdf5", {"d/0": np.ones((2, DIM, 3), "f4")})
    facts = describe(path)
    assert (facts["layout"], facts["complete"], facts["tokens"]) == ("e2e-coref", None, None)
    assert facts["samples"] == [{"key": "d:0", "shape": [3, 2, DIM]}]


def test_facts_of_an_empty_file(tmp_path: Path) -> None:
    facts = describe(write(tmp_path / "a.hdf5", [], layout="flat"))
    assert (facts["sentences"], facts["dtype"], facts["samples"]) == (0, "float32", [])
    assert verify(tmp_path / "a.hdf5").problems == []


def test_facts_of_weights(tmp_path: Path) -> None:
    """Without it a user could not tell which options.json belongs to a lone weight file."""
    path = biLM_weights(tmp_path / "weights.hdf5")
    facts = describe(path)
    assert (facts["kind"], facts["weights"], facts["dtypes"]) == ("weights", "biLM", ["float32"])
    assert facts["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert facts["options"] == {
        "char_cnn": {
            "n_characters": 261,
            "embedding": {"dim": 4},
            "filters": [[1, 4], [2, 8]],
            "n_highway": 1,
        },
        "lstm": {"dim": 7, "projection_dim": 5, "n_layers": 2},
    }
    assert facts["shapes"]["char_embed"] == [261, 4]
    cell = 10 * 28 + 28 + 7 * 5
    assert facts["parameters"] == 261 * 4 + 60 + 5 + 16 + 64 + 12 + 2 * (144 + 12) + 4 * cell


def test_weights_without_projection_and_weights_that_lack_a_part(tmp_path: Path) -> None:
    path = biLM_weights(tmp_path / "weights.hdf5")
    with h5py.File(path, "a") as file:
        for direction in (0, 1):
            for layer in (0, 1):
                cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/W_P_0"
                del file[cell]
    assert describe(path)["options"]["lstm"]["projection_dim"] == 7
    with h5py.File(path, "a") as file:
        del file["char_embed"]
    with pytest.raises(WeightFileError, match="'char_embed' is missing"):
        describe(path)


def test_softmax(tmp_path: Path) -> None:
    path = foreign(tmp_path / "s.hdf5", {"softmax/W": np.ones((9, 4)), "softmax/b": np.ones(9)})
    assert (describe(path)["weights"], describe(path)["options"]) == ("softmax", {})


def test_an_unfinished_file_is_told_by_its_journal(tmp_path: Path) -> None:
    """Without it HDF5 would open a file in the middle of a block, and find what is not there."""
    part = unfinished(tmp_path)
    facts = describe(part)
    assert facts["kind"] == "unfinished"
    assert (facts["sentences"], facts["tokens"], facts["only_unnamed"]) == (4, 11, False)
    assert facts["settings"]["state"] == "x"
    assert verify(part).problems == ["unfinished: 4 sentences are committed"]
    part.with_name("a.hdf5.part.journal").write_text("{}")
    with pytest.raises(ResumeError, match="damaged"):
        describe(part)
    part.with_name("a.hdf5.part.journal").unlink()
    assert describe(part)["sentences"] == 0


def test_a_finished_file_may_be_called_part(tmp_path: Path) -> None:
    """Somebody may have asked for `-o run-3.part`, and it would be called unfinished for ever."""
    path = write(tmp_path / "a.part", lines(), layout="allennlp")
    assert describe(path)["kind"] == "embeddings"
    assert verify(path).problems == []


def test_neither(tmp_path: Path) -> None:
    for ask in (describe, verify, reading_lines):
        with pytest.raises(EmbeddingsFileError, match="no such file"):
            ask(tmp_path / "a.hdf5")
    with pytest.raises(EmbeddingsFileError, match="No such file"):
        describe(tmp_path / "a.hdf5.part")


# -- verify ---------------------------------------------------------------------------------------

SOUND: list[tuple[list[Sentence], dict[str, Any]]] = [
    (lines(), {"layout": "allennlp"}),
    (lines(blank=False), {"layout": "allennlp"}),
    (lines()[4:], {"layout": "bilm", "first_sentence": 4}),
    (lines(), {"layout": "flat"}),
    (lines(), {"layout": "flat", "dtype": "int8"}),
    (lines(), {"layout": "flat", "pool": True, "layers": None}),
    (lines(), {"layout": "allennlp", "pool": True}),
    (lines(), {"layout": "allennlp", "dtype": "float16"}),
    (documents("a", "b/c"), {"layout": "e2e-coref"}),
    (documents("a", "b/c"), {"layout": "dygie", "layers": None}),
    (documents("bc/a_0", "bc/a_1"), {"layout": "lsgn"}),
    (lines(blank=False), {"layout": "manylangs", "layers": None}),
]


@pytest.mark.parametrize(("sentences", "options"), SOUND)
def test_a_sound_file_has_no_problems(
    tmp_path: Path, sentences: list[Sentence], options: dict[str, Any]
) -> None:
    assert verify(write(tmp_path / "a.hdf5", sentences, **options)).problems == []


def test_sound_types_and_weights(tmp_path: Path) -> None:
    assert verify(write_types(tmp_path / "a.hdf5", 3)).problems == []
    assert verify(biLM_weights(tmp_path / "w.hdf5")).problems == []


@pytest.fixture
def allennlp(tmp_path: Path) -> Path:
    return write(tmp_path / "a.hdf5", lines(), layout="allennlp")


def test_values_that_are_not_finite(allennlp: Path) -> None:
    with h5py.File(allennlp, "a") as file:
        file["3"][1, 0, 2] = np.nan
        file["10"][0, 0, :2] = np.inf
    assert verify(allennlp).problems == [
        f"sentence 3: 1 of {3 * 2 * DIM} values are not finite",
        f"sentence 10: 2 of {3 * 3 * DIM} values are not finite",
    ]


def test_a_sentence_that_is_gone(allennlp: Path) -> None:
    with h5py.File(allennlp, "a") as file:
        del file["9"]
    assert verify(allennlp).problems == [
        "sentence_to_index: 'Yes .' is sentence 9, which is not there",
        "it has 11 sentences, its attribute says 12",
        f"it has {N_TOKENS - 2} tokens, its attribute says {N_TOKENS}",
    ]


def test_other_shapes_and_types(allennlp: Path) -> None:
    with h5py.File(allennlp, "a") as file:
        for name in list(file):
            if name.isdigit():
                values = file[name][()]
                del file[name]
                file[name] = values.astype("f8") if name != "4" else values[:2].astype("f8")
    assert verify(allennlp).problems == [
        f"sentence 4: shape (2, 5, {DIM}), others have layer 3, dim {DIM}",
        "its values are float64, its attribute says float32",
    ]


def test_a_damaged_sentence(allennlp: Path) -> None:
    with h5py.File(allennlp) as file:
        address = h5py.h5o.get_info(file["9"].id).addr
    with allennlp.open("r+b") as raw:
        raw.seek(address)
        raw.write(b"\xff" * 40)
    problems = verify(allennlp).problems
    assert "'9' can't be read" in problems[0]


def test_gaps_of_a_foreign_file(tmp_path: Path) -> None:
    """fast-elmo leaves blank lines out and goes on numbering: every later look-up may be wrong."""
    values = np.ones((3, 1, DIM), "f4")
    path = foreign(tmp_path / "a.hdf5", {"0": values, "3": values, "5": values})
    assert verify(path).problems == [
        "no sentences 1 to 2: keys have a gap",
        "no sentences 4 to 4: keys have a gap",
    ]


def test_what_is_no_sentence_is_named_and_not_counted(tmp_path: Path) -> None:
    """Three sentences were counted, of which two could be read, and nothing was wrong."""
    values = np.ones((3, 1, DIM), "f4")
    path = foreign(tmp_path / "a.hdf5", {"0": values, "1": values, "extra": values})
    with h5py.File(path, "a") as file:
        file["sentence_to_index"] = ['{"The": "0", "cat": "1"}']
    with open_embeddings(path) as embeddings:
        assert (len(embeddings), list(embeddings)) == (2, [0, 1])
    assert describe(path)["sentences"] == 2
    assert verify(path).problems == ["'extra' is no number of a sentence"]


def test_problems_are_listed_up_to_a_limit(tmp_path: Path) -> None:
    values = np.full((3, 1, DIM), np.nan, "f4")
    path = foreign(tmp_path / "a.hdf5", {str(i): values for i in range(MOST + 9)})
    found = verify(path)
    assert (len(found.problems), found.n_problems) == (MOST, MOST + 9)
    assert found.problems[-1] == f"sentence {MOST - 1}: 18 of 18 values are not finite"


def flat_with(path: Path, name: str, place: int, value: float) -> list[str]:
    write(path, lines(), layout="flat")
    with h5py.File(path, "a") as file:
        file[name][place] = value
    return verify(path).problems


def test_flat(tmp_path: Path) -> None:
    """Without it an offset that points elsewhere gives vectors of other tokens, unseen."""
    assert flat_with(tmp_path / "1.hdf5", "offsets", 3, 2) == [
        "offsets goes down at 3, from 9 to 2"
    ]
    assert flat_with(tmp_path / "2.hdf5", "offsets", 0, 1) == ["offsets begins with 1, not 0"]
    assert flat_with(tmp_path / "3.hdf5", "vectors", 8, np.nan) == [
        "sentence at position 1: 1 rows with values that are not finite"
    ]
    assert flat_with(tmp_path / "4.hdf5", "token_ends", 4, 0) == [
        "token_ends goes down at 4, from 11 to 0"
    ]
    assert flat_with(tmp_path / "5.hdf5", "offsets", 12, N_TOKENS + 1) == [
        f"vectors has {N_TOKENS} rows, offsets say {N_TOKENS + 1}",
        f"token_ends has {N_TOKENS} rows, offsets end with {N_TOKENS + 1}",
        f"it has {N_TOKENS + 1} tokens, its attribute says {N_TOKENS}",
    ]
    assert flat_with(tmp_path / "6.hdf5", "token_ends", N_TOKENS - 1, 999) == [
        "token_bytes has 125 bytes, token_ends ends with 999"
    ]
    with h5py.File(tmp_path / "1.hdf5", "a") as file:
        del file["vectors"]
    assert verify(tmp_path / "1.hdf5").problems == [
        "offsets goes down at 3, from 9 to 2",
        f"{tmp_path / '1.hdf5'}: no dataset `vectors`",
    ]


@pytest.mark.parametrize(
    ("name", "rows", "problem"),
    [
        ("numbers", [[1, 5], [3, 9]], "numbers begins with 1, not 0"),
        ("numbers", [[0, 5], [0, 9]], "numbers does not rise at 1, from 0 to 0"),
        ("numbers", [[0, 5], [6, 12]], "numbers ends with position 6, there are 6 sentences"),
        ("numbers", [[0, 5], [3, 7]], "numbers: key less position goes down at 1, from 5 to 4"),
        ("numbers", [[0, -5], [3, 9]], "numbers: key less position begins with -5"),
        ("numbers", np.zeros((0, 2), np.int64), "numbers has no rows for 6 sentences"),
        ("numbers", [0, 5], "`numbers` holds int64 in rows of shape (), not integers in (2,)"),
        ("documents", [[1, 0, 0], [1, 0, 0]], "documents does not rise at 1, from 1 to 1"),
        ("documents", [[-1, 0, 0], [3, 0, 0]], "documents begins with -1"),
        ("documents", [[0, 0, 0], [9, 0, 0]],
         "documents ends with position 9, there are 6 sentences"),
        ("document_ends", [1, 9], "document_bytes has 2 bytes, document_ends ends with 9"),
        ("document_ends", [2, 1], "document_ends goes down at 1, from 2 to 1"),
        ("document_ends", [2], "document_ends has 1 rows, documents has 2"),
        ("texts", [4, 2], "texts goes down at 1, from 4 to 2"),
        ("texts", [2, 6], "texts ends with position 6, there are 6 sentences"),
        ("text_ends", [-3, 13], "text_ends begins with -3"),
        ("text_ends", [7, 13], "text_bytes has 14 bytes, text_ends ends with 13"),
        ("text_ends", [7, 14.5],
         "`text_ends` holds float64 in rows of shape (), not integers in ()"),
    ],
)  # fmt: skip
def test_flat_names_texts_and_documents(
    tmp_path: Path, name: str, rows: list[Any], problem: str
) -> None:
    """Without it sentences had the keys, texts and documents of others, and nothing was wrong."""
    sentences = [
        replace(one, key=one.key + 5 + (k > 2), text=f"text {k} " if k in (2, 4) else one.text)
        for k, one in enumerate(documents("a", "b"))
    ]
    path = write(tmp_path / "a.hdf5", sentences, layout="flat")
    assert verify(path).problems == []
    with h5py.File(path, "a") as file:
        del file[name]
        file[name] = np.array(rows)
    assert problem in [text.removeprefix(f"{path}: ") for text in verify(path).problems]


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    path = biLM_weights(tmp_path / "w.hdf5")
    with h5py.File(path, "a") as file:
        file["CNN_proj/b_proj"][2] = np.inf
    assert verify(path).problems == ["CNN_proj/b_proj has values that are NaN or infinite"]


def test_verifying_changes_nothing(allennlp: Path) -> None:
    before = content(allennlp)
    verify(allennlp)
    assert content(allennlp) == before


# -- against --------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["allennlp", "flat"])
def test_against_a_text(tmp_path: Path, layout: str) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout=layout)
    text = lines()
    assert against(path, text).problems == []
    text[3] = replace(text[3], tokens=("Yes", ",", "yes", "."))
    assert against(path, [*text, Sentence(("more",), 12)]).problems == [
        "sentence 3: 2 tokens in the file, 4 in the text",
        "sentence 12: not in the file, 1 tokens in the text",
        "the file has 12 sentences, the text 13",
    ]
    assert against(path, text[:2]).problems == ["the file has 12 sentences, the text 2"]


SHARDED: list[dict[str, Any]] = [
    {"layout": "flat"},
    {"layout": "bilm"},
    {"layout": "manylangs", "layers": None},  # which counts equal lines once
]


@pytest.mark.parametrize("options", SHARDED)
def test_a_shard_has_its_own_part_of_the_text(tmp_path: Path, options: dict[str, Any]) -> None:
    """A sound shard was told that it lacks what the others have."""
    text = lines(blank=False)
    for i, (begin, end) in enumerate([(0, 3), (3, 8), (8, len(text))], start=1):
        part, first = text[begin:end], text[begin].key
        header = {"shard": f"{i}/3"}
        path = tmp_path / f"{i}.hdf5"
        write(path, part, first_sentence=first, header=header, **options)
        assert against(path, text).problems == []
        longer = [*text[: end - 1], replace(text[end - 1], tokens=("x",) * 9), *text[end:]]
        assert against(path, longer).n_problems == 1
        held = len({one.tokens for one in part}) if options["layout"] == "manylangs" else len(part)
        said = f"the file has {held} sentences, the text {held - 1} for shard {i}/3"
        assert against(path, text[: end - 1]).problems == [said]
    more = against(path, [*text, Sentence(("more",), 12)])  # the last shard goes on to the end
    assert more.problems[0] == "sentence 12: not in the file, 1 tokens in the text"
    assert more.n_problems == 2
    with h5py.File(path, "a") as file:
        file.attrs["shard"] = "x"
    with pytest.raises(EmbeddingsFileError, match="its attribute `shard` is 'x', not i/n"):
        against(path, text)


NESTED = documents("a/b", "c", "a/d")
PARTS = documents("bc/cctv/00/cctv_0000_0", "bc/cctv/00/cctv_0000_1", "bc/cnn/00/cnn_0_0")
BY_NAME: list[tuple[list[Sentence], dict[str, Any]]] = [
    (NESTED, {"layout": "e2e-coref"}),
    (NESTED, {"layout": "lsgn"}),
    (NESTED, {"layout": "dygie"}),  # whose order is lost, as `/` nests
    (PARTS, {"layout": "lsgn"}),
    (lines(blank=False, repeats=False), {"layout": "allennlp", "keys": "sentence"}),
    (lines(blank=False), {"layout": "manylangs", "layers": None}),  # repeats are left out
]


@pytest.mark.parametrize(("sentences", "options"), BY_NAME)
def test_against_asks_by_name_where_sentences_have_names(
    tmp_path: Path, sentences: list[Sentence], options: dict[str, Any]
) -> None:
    """By number a sentence after one that was left out, or that `/` nests, would be another's."""
    path = write(tmp_path / "a.hdf5", sentences, **options)
    assert against(path, sentences).problems == []
    first = len(dict.fromkeys(sentence.tokens for sentence in sentences))
    held = first if options["layout"] == "manylangs" else len(sentences)
    assert (
        against(path, sentences[1:]).problems[-1]
        == f"the file has {held} sentences, the text {held - 1}"
    )
    other = replace(sentences[0], tokens=("other",) * 9, text="other", document="other")
    said = against(path, [other, *sentences[1:]]).problems
    assert said == ["sentence 0: not in the file, 9 tokens in the text"]


def test_against_the_lengths_of_a_document(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", NESTED, layout="dygie")
    text = [*NESTED[:-1], replace(NESTED[-1], tokens=("one",) * 9)]
    held = len(NESTED[-1].tokens)
    assert against(path, text).problems == [f"sentence 8: {held} tokens in the file, 9 in the text"]


def test_against_needs_tokens(tmp_path: Path) -> None:
    pooled = write(tmp_path / "a.hdf5", lines(), layout="flat", pool=True)
    with pytest.raises(UsageError, match="pooled, so it has no number of tokens"):
        against(pooled, [])
    with pytest.raises(UsageError, match="one vector a type"):
        against(write_types(tmp_path / "b.hdf5", 2), [])


# -- reading_lines --------------------------------------------------------------------------------

READ: list[tuple[list[Sentence], dict[str, Any], str]] = [
    (lines(), {"layout": "allennlp"}, f"layers 3, tokens 7, dim {DIM}"),
    (lines(), {"layout": "allennlp", "layers": None}, f"tokens 7, dim {DIM}"),
    (lines(), {"layout": "bilm", "pool": True}, f"layers 3, dim {DIM}"),
    (lines(), {"layout": "bilm", "pool": True, "layers": None}, f"dim {DIM}"),
    (lines(repeats=False)[4:], {"layout": "allennlp", "keys": "sentence"}, "layers 3, tokens 5"),
    (documents("a/b'\""), {"layout": "e2e-coref"}, f"tokens 1, dim {DIM}, layers 3"),
    (documents("a/b"), {"layout": "e2e-coref", "pool": True}, f"dim {DIM}, layers 3"),
    (documents("a/b"), {"layout": "dygie", "layers": None}, f"tokens 1, dim {DIM}, layers 1"),
    (documents("bc/a_0"), {"layout": "lsgn"}, f"layers 3, tokens 1, dim {DIM}"),
    (lines(blank=False), {"layout": "manylangs", "layers": None}, f"tokens 7, dim {DIM}"),
    (lines(), {"layout": "flat"}, f"tokens 7, layers 3, dim {DIM}"),
    (lines(), {"layout": "flat", "layers": None}, f"tokens 7, dim {DIM}"),
    (lines(), {"layout": "flat", "pool": True}, f"layers 3, dim {DIM}"),
]


def run(program: str) -> dict[str, Any]:
    """The names that a program leaves."""
    names: dict[str, Any] = {}
    exec(program, names)
    return names


@pytest.mark.parametrize(("sentences", "options", "axes"), READ)
def test_the_lines_read_the_first_sentence(
    tmp_path: Path, sentences: list[Sentence], options: dict[str, Any], axes: str
) -> None:
    """The lines are printed to be pasted, so each must run and say the right axes."""
    path = write(tmp_path / "it's.hdf5", sentences, **options)
    plain, ours = reading_lines(path).split("\n\n")
    assert axes in plain
    for program in (plain, ours):
        assert 3 <= program.count("\n") + 1 <= 6
        compile(program, "lines", "exec")
    expected = array(sentences[0], options.get("layers", 3))
    if options.get("pool"):
        expected = expected.sum(-2)
    found = run(ours)
    np.testing.assert_array_equal(found["array"], expected)
    in_file = run(plain)["array"]
    assert sorted(in_file.ravel().tolist()) == sorted(expected.ravel().tolist())
    shape = plain.split("array = ")[1].split("  # ")[1].split("\n")[0]
    assert list(in_file.shape) == [int(part.split()[-1]) for part in shape.split(", ")]
    with open_embeddings(path) as embeddings:
        key = next(iter(embeddings))
        assert found.get("tokens") == embeddings.tokens(key)


def test_the_lines_for_types_weights_and_nothing(tmp_path: Path) -> None:
    plain, ours = reading_lines(write_types(tmp_path / "t.hdf5", 2)).split("\n\n")
    assert run(plain)["array"].tolist() == run(ours)["array"].tolist() == [0] * DIM
    weights = reading_lines(biLM_weights(tmp_path / "w.hdf5"))
    assert run(weights)["array"].shape == (261, 4)
    empty = reading_lines(write(tmp_path / "e.hdf5", [], layout="bilm"))
    assert run(empty)["names"] == []
