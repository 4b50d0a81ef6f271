"""Summary: what a run with one output file did."""

from __future__ import annotations

from dataclasses import dataclass

from elmo_cli.text.input import InputReport


@dataclass(frozen=True)
class Summary:
    """What a run did.

    Attributes:
        output: the file.
        sentences, tokens: in the file.
        duplicates: sentences that the file leaves out because it holds an equal one (manylangs).
        computed: tokens computed by this run; less than `tokens` after `--resume`.
        bytes: size of the file.
        notes: what the reader noticed.
    """

    output: str
    sentences: int
    tokens: int
    duplicates: int
    computed: int
    bytes: int
    notes: InputReport
