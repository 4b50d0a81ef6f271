"""Treebank spelling: which quotes open, which documents are spelled so, what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo_cli.lm.read_corpus import read_corpus
from elmo_cli.lm.treebank import OPENING, is_in_treebank_spelling, treebank_spelling
from elmo_cli.text.input import InputReport


@pytest.mark.parametrize(
    ("plain", "spelled"),
    [
        ('" Go , " she said .', "`` Go , '' she said ."),
        ('She said , " go ( now ) . "', "She said , `` go -LRB- now -RRB- . ''"),
        ('and so it ended . "', "and so it ended . ''"),
        ('and so it ended " .', "and so it ended '' ."),
        ('" And so it went on .', "`` And so it went on ."),
        ('" A " and " B " .', "`` A '' and `` B '' ."),
        ('"', "``"),
        ("[ 3 ] { 4 }", "-LSB- 3 -RSB- -LCB- 4 -RCB-"),
        ("It 's 5' 4 (x)", "It 's 5' 4 (x)"),
        ("", ""),
    ],
)
def test_spelling(plain: str, spelled: str) -> None:
    """Without it a model would learn quotes that no treebank has."""
    assert treebank_spelling(plain.split()) == tuple(spelled.split())


@pytest.mark.parametrize("share", [0.0, 0.125, 0.5, 1.0])
def test_documents_are_spread_evenly(share: float) -> None:
    """Without it one genre, whose documents stand together, could have all of them or none."""
    chosen = [is_in_treebank_spelling(n, share) for n in range(4000)]
    for start in range(0, 4000, 200):
        assert abs(sum(chosen[start : start + 200]) - 200 * share) <= 3


def test_too_few_documents_for_a_share_are_told(tmp_path: Path) -> None:
    """A text without blank lines is one document: all of it was spelled so for any share."""
    path = tmp_path / "a.txt"
    for n_documents, share, n_spelled in ((1, 0.125, 0), (1, 0.5, 0), (3, 0.25, 1), (2, 0.9, 2)):
        path.write_text('" a "\n( b )\n\n' * n_documents)
        notes = InputReport()
        types = read_corpus([str(path)], treebank=share, notes=notes).types
        assert (OPENING in types, '"' in types) == (n_spelled > 0, n_spelled < n_documents)
        [said] = notes.warnings
        assert said.startswith(
            f"--treebank-fraction {share:g}: {path}: too few documents for this fraction"
        )
        assert f"spelled so: {n_spelled} of {n_documents};" in said
    for n_documents, share in ((8, 0.125), (2, 0.5), (1, 0.0), (1, 1.0)):
        path.write_text('" a "\n( b )\n\n' * n_documents)
        notes = InputReport()
        types = read_corpus([str(path)], treebank=share, notes=notes).types
        assert not notes.warnings
        assert (OPENING in types, '"' in types) == (share > 0, share < 1)


def test_a_document_is_spelled_in_one_way(tmp_path: Path) -> None:
    """And a sentence's place or the file does not matter."""
    path = tmp_path / "a.txt"
    path.write_text('" a "\n( b )\n\n' * 20)
    corpus = read_corpus([str(path)], treebank=0.5)
    words = [corpus.types[n] for n in corpus.tokens if n > 1]
    documents = [" ".join(words[k : k + 6]) for k in range(0, len(words), 6)]
    assert set(documents) == {'" a " ( b )', "`` a '' -LRB- b -RRB-"}
    assert documents.count('" a " ( b )') == 10
    assert '"' not in read_corpus([str(path)], treebank=1).types
    assert "``" not in read_corpus([str(path)]).types
