"""allennlp: what `allennlp elmo` writes, a dataset a line."""

from __future__ import annotations

from elmo_cli.store.layouts.contract import refused
from elmo_cli.store.layouts.datasets import DatasetLayout
from elmo_cli.store.layouts.numbered import NumberedLayout
from elmo_cli.text.sentence import Sentence

_BLANK = (
    "`--blank-lines skip` leaves blank lines out; without `--use-sentence-keys` they are numbered"
)


class AllenNlp(NumberedLayout):
    """Named by line number. The writer adds `sentence_to_index` when the run ends."""


class AllenNlpLines(DatasetLayout):
    """Named by the line itself, as with `--use-sentence-keys`."""

    hint = "leave out `--use-sentence-keys`; then keys are line numbers"

    def path(self, sentence: Sentence) -> str:
        if not sentence.text:
            raise refused(sentence, "a blank line can't be a key", _BLANK)
        return sentence.text
