"""FASTA: ids, residues, what is refused with which lines, and how such a file is recognized."""

from __future__ import annotations

import gzip
import lzma
import string
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from text_files import read, refused, tokens, write

from elmo_cli.errors import InputError, UsageError
from elmo_cli.text.input import InputReport, InputSettings, read_sentences

UNIPROT = (
    ">sp|P12345|TEST1_HUMAN First protein OS=Homo sapiens\n"
    "MNEQYS\n"
    "\n"
    "ALR SN\tV\n"
    ">tr|Q0AAA1|Q0AAA1_ECOLI Second > with a bracket\n"
    "MKTayi*\n"
    ">P3|P00003|\r\n"
    "XUBZOJ\r\n"
)


@pytest.fixture
def fasta(tmp_path: Path) -> Path:
    return tmp_path / "proteins.fasta"


def test_a_record_is_a_document_of_one_sentence(fasta: Path) -> None:
    """Its residues are tokens, whatever white space is between them."""
    sentences = read(write(fasta, UNIPROT))
    assert [(s.key, s.line, s.document, s.text) for s in sentences] == [
        (0, 1, "sp|P12345|TEST1_HUMAN", "M N E Q Y S A L R S N V"),
        (1, 5, "tr|Q0AAA1|Q0AAA1_ECOLI", "M K T A Y I"),
        (2, 7, "P3|P00003|", "X U B Z O J"),
    ]
    for sentence in sentences:
        assert sentence.tokens == tuple(sentence.text.split())
        assert (sentence.place, sentence.starts_document) == (0, True)


@pytest.mark.parametrize(
    ("part", "ids"),
    [
        ("uniprot", ["P12345", "Q0AAA1", "P00003"]),
        (
            "header",
            [
                "sp|P12345|TEST1_HUMAN First protein OS=Homo sapiens",
                "tr|Q0AAA1|Q0AAA1_ECOLI Second  with a bracket",
                "P3|P00003|",
            ],
        ),
    ],
)
def test_the_part_of_the_header_that_is_the_id(fasta: Path, part: str, ids: list[str]) -> None:
    """These are the keys of SeqVec with `--id 1` and `--id -1`."""
    assert [s.document for s in read(write(fasta, UNIPROT), fasta_id=part)] == ids


@pytest.mark.parametrize("suffix", [".fasta", ".FASTA", ".fa", ".faa", ".fa.gz", ".faa.xz"])
def test_suffixes(tmp_path: Path, suffix: str) -> None:
    """A first line that is no header must not make a text of a FASTA file."""
    content = b"; a comment\n\n>a\nM\n"
    if suffix.endswith(".gz"):
        content = gzip.compress(content)
    if suffix.endswith(".xz"):
        content = lzma.compress(content)
    assert tokens(write(tmp_path / f"a{suffix}", content)) == ["M"]


@pytest.mark.parametrize(
    "content",
    [
        ">sp|P1|X a protein\nMKVLAAGIVGLLLAQPSS\n",
        ">sp|P1|X a protein\nm kt\n",
        "> seq1 spaced\nMKVLAAGIVGLL\n",
        ">seq1\nACGT\nACGA\n",
        ">seq1\nMKT\n",
        ">seq1\nmktayiakqrqisfvkshfsrqMKT\n",
    ],
)
def test_a_text_that_begins_like_fasta_is_read_as_sequences(tmp_path: Path, content: str) -> None:
    """Not its headers as words and its lines as tokens; and only what was asked for otherwise."""
    path = write(tmp_path / "a.txt", content)
    (sentence,) = read(path)
    residues = "".join(content.split("\n")[1:]).replace(" ", "").upper()
    assert "".join(sentence.tokens) == residues
    assert "--input-format fasta" in refused(path, format="plain").hint
    with pytest.raises(UsageError, match="fasta files state their tokens"):
        read(path, tokenize=True)


def test_settings_that_do_not_fit_the_format(tmp_path: Path) -> None:
    """They would be ignored."""
    path = write(tmp_path / "a.txt", "a b\n")
    cases: list[tuple[Path, dict[str, Any], str]] = [
        (path, {"fasta_id": "uniprot"}, "`fasta_id=uniprot`: plain has no sequences"),
        (path, {"fasta_raw": True}, "`fasta_raw=True`: plain has no sequences"),
        (path.with_suffix(".fa"), {"column": 2}, "`column=2`: fasta has no columns"),
        (path.with_suffix(".fa"), {"tokenize": True}, "fasta files state their tokens"),
    ]
    write(path.with_suffix(".fa"), ">a\nM\n")
    for text, settings, message in cases:
        with pytest.raises(UsageError, match=message):
            read(text, **settings)


# name -> (content, line of the error, its words, ids that are left with `on_error` "skip")
REFUSED = {
    "text before the first header": ("MKT\nAAA\n>one\nMKV\n", 1, "before the first header", "one"),
    "no name": ("> \t\nWWW\n>b\nM\n", 1, "contains no id", "b"),
    "no residues": (">a\n>b\nM\n", 1, "no residues below the header 'a'", "b"),
    "no residues at the end": (">a\nM\n>b c\n\n", 3, "no residues below the header 'b c'", "a"),
    "only a stop": (">a\n*\n>b\nM\n", 1, "no residues below", "b"),
    "same id": (">a\nM\n>b\nK\n>a x\nV\n>c\nM\n", 5, "'a' is also that of line 1", "a b c"),
    "gap": (">a\nMK\nV-K\n>b\nM\n", 3, "`-` is a gap", "b"),
    "dot": (">a\nMK.\n>b\nM\n", 2, "`.` is a gap", "b"),
    "digits": (">a\nMK\n  1 MK\n>b\nM\n", 3, "'1' is not a residue", "b"),
    "another letter": (">a\nMKÅ\n>b\nM\n", 2, "'Å' is not a residue", "b"),
    "header within a line": (">a\nMK>b\nM\n", 2, "'>' is not a residue", ""),
    "comment": (">a\nMK\n;M\n>b\nM\n", 3, "a comment within a record", "b"),
    "too long": (">a\n" + "MK\n" * 9 + ">b\nM\n", 1, "more than 8 tokens", "b"),
    "too long with a stop": (f">a\n{'M' * 8}*\nK\n>b\nM\n", 1, "more than 8 tokens", "b"),
    "a control character": (">a\nMK\aK\n>b\nM\n", 2, "control character", "b"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_records(fasta: Path, name: str) -> None:
    """With their lines; or they are left out, and the keys of the others stay."""
    content, line, words, ids = REFUSED[name]
    write(fasta, content)
    error = refused(fasta, max_tokens=8)
    assert error.message.startswith(f"{fasta}, line {line}: ")
    assert words in error.message
    report = InputReport()
    sentences = read(fasta, report, on_error="skip", max_tokens=8)
    assert [s.document for s in sentences] == ids.split()
    assert [skipped_line for _, skipped_line, _ in report.skipped] == [line]
    n_records = content.count("\n>") + 1
    assert report.n_keys == n_records
    if sentences and sentences[-1].document == "b":
        assert sentences[-1].key == 1


def test_an_accession_needs_bars(fasta: Path) -> None:
    error = refused(write(fasta, ">P12345 a\nM\n"), fasta_id="uniprot")
    assert "no `|` in the header 'P12345 a'" in error.message
    assert error.parameters == ("fasta_id",)
    for header in ("", "sp||X a"):
        error = refused(write(fasta, f">{header}\nM\n"), fasta_id="uniprot")
        assert error.message == f"{fasta}, line 1: the header contains no id"


def test_every_character_is_kept_on_demand(fasta: Path) -> None:
    """As in SeqVec, which leaves out white space alone."""
    write(fasta, "; one\n>a\nM1-2 3.\n;a c*\n>b\nmÅß*\n")
    assert tokens(fasta, fasta_raw=True) == ["M 1 - 2 3 . ; A C *", "M Å S S *"]


def test_changes_are_counted_in_one_warning_of_each_kind(fasta: Path) -> None:
    """Over all files; a warning names the first record, and nothing else causes one."""
    first = write(fasta.with_name("a.fa"), ">a\nMKXUBZO\n>b\nmkT\n>c\nMK*\n>d\nM*K*\n")
    second = write(fasta.with_name("b.fa"), ">e\nmkJ\n>f\nMK**\n")
    report = InputReport()
    found = list(read_sentences([first, second], report=report))
    assert ["".join(s.tokens) for s in found] == ["MKXUBZO", "MKT", "MK", "M*K", "MKJ", "MK"]
    assert report.warnings == [
        f"{first}, line 3: lower-case letters were read as capitals: 4 in 2 sequences",
        f"{first}, line 5: `*` at the end of a sequence was left out: 4 in 3 sequences",
        f"{first}, line 7: `*` is read as a residue: 1 in 1 sequence",
    ]
    assert report.residues.others == {"*": 1, "J": 1}
    plain = InputReport()
    read(write(fasta, f">a\n{string.ascii_uppercase}\n"), plain)
    assert plain.warnings == []
    assert plain.residues.others == {"J": 1}


def test_an_unreadable_line_leaves_out_its_record(fasta: Path) -> None:
    """It may be a header, whose sequence must not become the end of another one."""
    write(fasta, b">a\nM\n>b \xe9\nK\n>c\nV\n")
    with pytest.raises(InputError, match="line 3"):
        read(fasta)
    assert [(s.document, s.text) for s in read(fasta, on_error="skip")] == [("c", "V")]


def test_memory_grows_with_the_ids_alone(tmp_path: Path) -> None:
    """The sentences take 16 MB, which those of a database of proteins exceed a thousandfold."""
    path = tmp_path / "a.fa.gz"
    records = (f">id{number}\n{'MKVLAAGI' * 50}\n" for number in range(4_000))
    path.write_bytes(gzip.compress("".join(records).encode(), 1))
    tracemalloc.start()
    try:
        n_sentences = sum(1 for _ in read_sentences(path, InputSettings()))
        assert n_sentences == 4_000
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
