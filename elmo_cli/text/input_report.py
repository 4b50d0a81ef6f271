"""InputReport: what the readers of text files report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from elmo_cli.messages import shortened
from elmo_cli.text.residue_counts import ResidueCounts
from elmo_cli.text.sentence import Sentence


class SourceStart(NamedTuple):
    """A file of the input, and the key of its first sentence."""

    path: str
    first_key: int


class SkippedLine(NamedTuple):
    """A line that was left out, and why; a sentence of several lines is named by one of them."""

    source: str
    line: int
    reason: str


class TruncatedToken(NamedTuple):
    """A token that is longer than a biLM reads, shortened, and where it is."""

    token: str
    source: str
    line: int


@dataclass
class InputReport:
    """What the readers report; filled while sentences are read, complete after the last."""

    warnings: list[str] = field(default_factory=list)  # each kind once, with its first occurrence
    blank_lines: int = 0  # sentences without tokens, whether yielded or not
    rows_left_out: int = 0  # of CoNLL-U: ranges of words and empty nodes, where words are read
    truncated_tokens: int = 0  # tokens longer than a biLM reads; they lose their ends
    first_truncated: TruncatedToken | None = None
    skipped: list[SkippedLine] = field(default_factory=list)
    residues: ResidueCounts = field(default_factory=ResidueCounts)  # of FASTA
    n_keys: int = 0  # of all sentences, also of those that were left out; known at the end
    sources: list[SourceStart] = field(default_factory=list)
    bytes_read: int = 0  # from the files so far, before decompression
    _kinds: set[str] = field(default_factory=set, repr=False)

    def warn(self, kind: str, message: str) -> None:
        """Add `message` unless there is one of its kind."""
        if kind not in self._kinds:
            self._kinds.add(kind)
            self.warnings.append(message)

    def count_truncated(
        self, sentence: Sentence, max_length: int, *, is_unicode: bool = False
    ) -> None:
        """Count the tokens of more than `max_length` bytes of UTF-8, or Unicode characters."""
        # A character has at most four bytes of UTF-8, so most tokens need not be encoded.
        most_units = 1 if is_unicode else 4  # of a character
        longest = max(map(len, sentence.tokens), default=0)  # characters
        if most_units * longest <= max_length:
            return
        for token in [token for token in sentence.tokens if most_units * len(token) > max_length]:
            if is_unicode or len(token.encode()) > max_length:
                self.truncated_tokens += 1
                if self.first_truncated is None:
                    self.first_truncated = TruncatedToken(
                        token=shortened(token, 60), source=sentence.source, line=sentence.line
                    )
