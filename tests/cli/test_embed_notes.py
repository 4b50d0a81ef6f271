"""What `elmo embed` notes at the end of a run: the options that other programs need."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import made

from elmo_cli.store.reader import open_embeddings

TREE = "1\tgo\t_\n2-3\tau\t_\n2\ta\t_\n3\tle\t_\n3.1\tx\t_\n\n"
REPEATED_NOTE = (
    "repeated sentences: NeuroX needs `--sentence-map occurrences` of `elmo embed` or "
    "`elmo convert`"
)
BLANK_NOTE = "blank lines: NeuroX needs a text without them"
ROWS_NOTE = (
    "4 rows of multiword tokens or empty nodes left out: structural-probes needs `--rows all`"
)


@pytest.fixture(autouse=True)
def here(folder: Path) -> None:
    """An empty working directory, and a small model as the default."""


@pytest.mark.parametrize(
    ("name", "text", "words", "notes"),
    [
        ("b.txt", "one\ntwo\n", "", []),
        ("b.txt", "one\ntwo\none\none\n", "", [REPEATED_NOTE]),
        ("b.txt", "one\n\ntwo\none\n \n", "", [REPEATED_NOTE, BLANK_NOTE]),
        ("b.txt", "one\n\none\n", "--sentence-map occurrences", [BLANK_NOTE]),
        ("b.txt", "one\n\none\n", "--blank-lines skip", [REPEATED_NOTE]),
        ("b.txt", "one\n\none\n", "--forget-sentences", []),
        ("b.txt", "one\n\none\n", "--layout flat", []),
        ("b.conllu", TREE + TREE, "--layout flat", [ROWS_NOTE]),
        ("b.conllu", TREE + TREE, "--rows all", [REPEATED_NOTE]),
        ("b.conllu", TREE + TREE, "--layout flat --rows tokens", []),
    ],
)
def test_which_option_another_program_needs_is_said_once(
    name: str, text: str, words: str, notes: list[str]
) -> None:
    """However many files there are, after the last one."""
    Path(name).write_text(text)
    Path(f"also-{name}").write_text("1\ta\t_\n" if name.endswith("conllu") else "a\n")
    printed = made("embed", name, f"also-{name}", "-o", "notes/", *words.split()).err.splitlines()
    assert [line for line in printed if line in {REPEATED_NOTE, BLANK_NOTE, ROWS_NOTE}] == notes
    assert printed[len(printed) - len(notes) :] == notes


def test_convert_makes_the_map_that_the_note_names() -> None:
    Path("b.txt").write_text("one\ntwo\none\n")
    made("embed", "b.txt", "-o", "last.hdf5")
    made("convert", "last.hdf5", "-o", "converted.hdf5", "--sentence-map", "occurrences")
    made("embed", "b.txt", "-o", "embedded.hdf5", "--sentence-map", "occurrences")
    with open_embeddings("converted.hdf5") as found, open_embeddings("embedded.hdf5") as expected:
        assert found.attributes["sentence_map"] == expected.attributes["sentence_map"]
        crc32 = found.attributes["sentence_map_crc32"]
        assert crc32 == expected.attributes["sentence_map_crc32"]
