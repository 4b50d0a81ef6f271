"""Notes: what a reader noticed on its way, for the summary."""

from __future__ import annotations

from dataclasses import dataclass, field

from elmo_cli.text.sentence import Sentence

_SHOWN_CHARACTERS = 60  # of a truncated token that is named; it may be megabytes long


@dataclass
class Notes:
    """What the readers noticed; filled while sentences are read, and complete after the last.

    Attributes:
        warnings: what looks wrong but can be read, each kind once, with the first place.
        blank_lines: sentences without tokens that were met, whatever became of them.
        truncated_tokens: tokens with more bytes than a biLM takes in; they lose their ends.
        first_truncated: (token, source, line) of the first of them, a very long token shortened.
        skipped: (source, line, reason) of each line that could not be read, with on_error "skip".
        skipped_before: for each of them the number of the sentence that came next.
        n_keys: keys that sentences have, or had before they were left out; known at the end.
        sources: (name, first key) of each file in order; the number that its first sentence has.
        bytes_read: bytes taken from the files so far, as they lie there (compressed or not).
    """

    warnings: list[str] = field(default_factory=list)
    blank_lines: int = 0
    truncated_tokens: int = 0
    first_truncated: tuple[str, str, int] | None = None
    skipped: list[tuple[str, int, str]] = field(default_factory=list)
    skipped_before: list[int] = field(default_factory=list)
    n_keys: int = 0
    sources: list[tuple[str, int]] = field(default_factory=list)
    bytes_read: int = 0
    _kinds: set[str] = field(default_factory=set, repr=False)

    def warn(self, kind: str, message: str) -> None:
        """Keep `message` unless one of its kind is there already."""
        if kind not in self._kinds:
            self._kinds.add(kind)
            self.warnings.append(message)

    def place_skipped(self, key: int) -> None:
        """Note that what was skipped since the last sentence came before sentence `key`."""
        new = len(self.skipped) - len(self.skipped_before)
        if new > 0:
            self.skipped_before += [key] * new

    def count_truncated(self, sentence: Sentence, max_bytes: int) -> None:
        """Count the tokens of more than `max_bytes` bytes of UTF-8."""
        # A character has at most four bytes: most sentences are done after one look.
        if 4 * max(map(len, sentence.tokens), default=0) <= max_bytes:
            return
        for token in sentence.tokens:
            if len(token) > max_bytes or len(token.encode()) > max_bytes:
                self._count_truncated_token(token, sentence)

    def _count_truncated_token(self, token: str, sentence: Sentence) -> None:
        self.truncated_tokens += 1
        if self.first_truncated is None:
            shown = token[:_SHOWN_CHARACTERS] + "…" * (len(token) > _SHOWN_CHARACTERS)
            self.first_truncated = (shown, sentence.source, sentence.line)
