"""lsgn: as LSGN looks its caches up; it turns the axes itself."""

from __future__ import annotations

from elmo_cli.store.layouts import keys
from elmo_cli.store.layouts.datasets import DatasetLayout
from elmo_cli.text.sentence import Sentence


class Lsgn(DatasetLayout):
    """A flat name for OntoNotes keys, else a group a document."""

    hint = (
        "give each document a `doc_key` of its own; parts of one document need their `sent_offset`"
    )

    def path(self, sentence: Sentence) -> str:
        if keys.is_ontonotes(sentence.document or ""):
            return keys.ontonotes(sentence, "lsgn")
        return keys.colon_group(sentence, "lsgn")
