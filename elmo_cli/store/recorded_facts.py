"""RecordedFacts: the counts, checksums and digests of the sentences of a new embeddings file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from elmo_cli.files import StrPath
from elmo_cli.store.digests import tokens_sha256_of_parts
from elmo_cli.store.layouts import Layout, StoredSentence
from elmo_cli.store.layouts.spool import Spool
from elmo_cli.store.spec import SCHEMA, FileSpec

_MAX_PENDING = 1 << 16  # checksums or digests in memory


class RecordedFacts:
    """Collects the facts of a file while its sentences are added.

    Args:
        folder: the folder of temporary files.
    Attributes:
        n_tokens: of all sentences so far.
    """

    def __init__(self, spec: FileSpec, layout: Layout, folder: StrPath) -> None:
        self._spec = spec
        self._layout = layout
        self._checksums = Spool(folder, "<u4")
        self._token_digests = Spool(folder, "<u8")
        self.n_tokens = 0

    def add(self, stored: StoredSentence) -> None:
        """Count the next sentence."""
        self._checksums.pending.append(stored.crc32)
        if len(self._checksums.pending) > _MAX_PENDING:
            self._checksums.move_to_disk()
        self.n_tokens += len(stored.sentence.tokens)

    def add_token_digests(self, digests: bytes) -> None:
        """Add the digests of the next sentences, also of those that the layout leaves out."""
        self._token_digests.pending.frombytes(digests)
        if len(self._token_digests.pending) > _MAX_PENDING:
            self._token_digests.move_to_disk()

    def items(
        self, of_layout: Mapping[str, Any], attributes: Mapping[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        """All attributes of the file in their order; numbers may be in a spool.

        Args:
            of_layout: those of the layout.
            attributes: those of the caller, whose counts win; `duplicate_sentences` are added up.
        """
        n_stored = len(self._checksums)
        from_caller = dict(attributes)
        facts: dict[str, Any] = {"elmo_schema": SCHEMA, **self._spec.to_attributes()}
        facts |= {"sentences": n_stored, "tokens": self.n_tokens}
        if self._layout.keeps_first:
            n_left_out = len(self._token_digests) - n_stored
            facts["duplicate_sentences"] = n_left_out + from_caller.pop("duplicate_sentences", 0)
        facts["sentence_crc32"] = self._checksums
        facts |= of_layout
        facts |= from_caller
        digests = facts.pop("token_digests", self._token_digests)
        yield from facts.items()
        if digests is not None:
            yield "token_digests", digests
            parts = digests.chunks() if isinstance(digests, Spool) else [digests]
            yield "tokens_sha256", tokens_sha256_of_parts(part.data for part in parts)
        yield "complete", True

    def close(self) -> None:
        """Remove temporary files."""
        self._checksums.close()
        self._token_digests.close()
