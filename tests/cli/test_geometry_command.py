"""`elmo geometry`: its tables, its JSON, and the table of words."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from command_line import documented, elmo, made, only_tiny, refused
from disks import disk_of

LINES = (
    "the bank of the river .",
    "the bank lends money .",
    "The river has a bank .",
    "the cat sat on the bank .",
    "money in the bank .",
    "the bank of the river .",
)


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    """a.hdf5; b.hdf5 with the same tokens, in one layer; pooled.hdf5."""
    folder = tmp_path_factory.mktemp("geometry")
    text = folder / "a.txt"
    text.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        only_tiny(patch, tiny)
        made("embed", text, "-o", folder / "a.hdf5", "--layout", "flat")
        made("embed", text, "-o", folder / "b.hdf5", "--layers", "1")
        made("embed", text, "-o", folder / "pooled.hdf5", "--pool", "mean")
    return folder


def test_tables_have_a_row_for_each_layer(stock):
    done = made("geometry", stock / "a.hdf5", "--min-contexts", "3")
    measures, adjusted, cka = (part.splitlines() for part in done.out.decode().split("\n\n"))
    assert measures[0].split("\t")[:3] == ["layer", "norm", "anisotropy"]
    assert [row.split("\t")[0] for row in measures[1:]] == ["0", "1", "2"]
    assert measures[1].split("\t")[3] == "1.000"  # self-similarity of layer 0
    assert measures[1].split("\t")[-2:] == ["", ""]  # without variance
    assert adjusted[0] == "minus the same of random tokens"
    assert [row.split("\t")[0] for row in adjusted[2:]] == ["0", "1", "2"]
    assert [row.split("\t")[1 + k] for k, row in enumerate(cka[1:])] == ["1.000"] * 3
    assert "29 random tokens; 5 sentences; 3 of 3 words in at least 3 sentences" in done.err
    assert "left out 1 sentence with the same tokens as one before" in done.err
    assert "layer 0: the vectors of 3 of 3 words are the same in all contexts" in done.err


def test_json_has_the_documented_fields(stock):
    files = [stock / "a.hdf5", stock / "b.hdf5"]
    words = ("geometry", *files, "--min-contexts", "3", "--samples", "7", "--json")
    result = json.loads(made(*words, "--seed", "2").out)
    section = documented("geometry")
    first, second = result["files"]
    for fields in (result, first, first["layers"][0], first["layers"][0]["mev_pca"]):
        for name in fields:
            assert f"`{name}`" in section, name
    assert first["random_tokens"] == 7
    assert (first["sentences"], first["repeated_sentences"]) == (5, 1)
    measure = first["layers"][1]["self_similarity"]
    assert measure["baseline"] == first["layers"][1]["anisotropy"]
    assert measure["adjusted"] == measure["raw"] - measure["baseline"]
    assert second["layers"] == first["layers"][1:2]
    (matrix,) = result["cka"]
    assert [layer["name"] for layer in matrix["layers"]] == ["0", "1", "2", "1"]
    assert matrix["values"][1][3] == pytest.approx(1)
    again = json.loads(made(*words, "--seed", "2").out)
    assert again == result
    other = json.loads(made(*words, "--seed", "3").out)
    assert other["files"][0]["layers"] != first["layers"]


def test_table_of_words_has_a_row_for_each_word_and_layer(stock, tmp_path):
    table = tmp_path / "words.tsv"
    words = ("geometry", stock / "a.hdf5", "--min-contexts", "3", "--words", table)
    made(*words)
    rows = [line.split("\t") for line in table.read_text(encoding="utf-8").splitlines()]
    columns = rows[0]
    by_word = [dict(zip(columns, row, strict=True)) for row in rows[1:]]
    assert [row["layer"] for row in by_word] == [layer for layer in "012" for _ in range(3)]
    bank = [row for row in by_word if row["word"] == "bank"]
    assert [row["occurrences"] for row in bank] == ["5"] * 3
    assert [row["sentences"] for row in bank] == ["5"] * 3
    assert bank[0]["self_similarity"] == "1.000000"
    assert bank[0]["mev_pca"] == ""
    assert 0 < float(bank[1]["mev_pca"]) < 1
    refused(elmo(*words), 1, f"{table}: exists", "`--overwrite`")
    refused(
        elmo(*words[:-1], stock / "a.hdf5", "-f"),
        2,
        f"{stock / 'a.hdf5'}: is also one of the inputs",
        "choose another output path",
    )


def test_measures_are_printed_if_the_table_of_words_cannot_be_written(stock, tmp_path):
    """They may have taken minutes."""
    words = ("geometry", stock / "a.hdf5", "--min-contexts", "3", "--json")
    table = tmp_path / "words.tsv"
    with disk_of(10):
        done = elmo(*words, "--words", table)
    assert done.code == 1
    assert f"error: {table}: no space left" in done.err
    assert done.out == made(*words).out


def test_csv_reads_the_table_of_words_where_they_are_quotation_marks(tmp_path, tiny, monkeypatch):
    """A `"` at the beginning of a cell would join the rows up to the next one."""
    only_tiny(monkeypatch, tiny)
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text('" a \\ "\n" b \\ "\n')
    made("embed", "a.txt", "-o", "a.hdf5", "--layout", "flat", "--layers", "top")
    made("geometry", "a.hdf5", "--min-contexts", "2", "--words", "words.tsv")
    with open("words.tsv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [(row["word"], row["occurrences"]) for row in rows] == [('"', "4"), ("\\", "2")]


def test_a_table_of_words_is_a_file(stock):
    done = elmo("geometry", stock / "a.hdf5", "--words", "-")
    refused(done, 2, "--words -: standard output has the measures", "name a file")
    done = elmo("geometry", stock / "a.hdf5", "-f")
    refused(done, 2, "--overwrite: has no effect without --words", "leave it out")


def test_files_with_different_tokens_have_no_cka_between_them(stock, tmp_path, tiny, monkeypatch):
    only_tiny(monkeypatch, tiny)
    text = tmp_path / "c.txt"
    text.write_text("a b\n", encoding="utf-8")
    made("embed", text, "-o", tmp_path / "c.hdf5", "--layout", "flat", "--layers", "2")
    done = made("geometry", stock / "a.hdf5", tmp_path / "c.hdf5", "--json")
    result = json.loads(done.out)
    assert [len(matrix["layers"]) for matrix in result["cka"]] == [3, 1]
    assert "files with different tokens have no CKA between them" in done.err
    assert "c.hdf5: no word occurs in enough sentences" in done.err
    assert result["files"][1]["layers"][0]["self_similarity"]["raw"] is None


def test_files_without_vectors_of_tokens_are_refused(stock):
    refused(
        elmo("geometry", stock / "pooled.hdf5"),
        2,
        f"{stock / 'pooled.hdf5'}: has vectors of sentences, not of tokens",
        "without pooling",
    )
    missing = stock / "missing.hdf5"
    refused(elmo("geometry", missing), 1, f"{missing}: ", "")
