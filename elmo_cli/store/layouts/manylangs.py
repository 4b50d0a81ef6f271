"""manylangs: one layer per file, named by the tokens (`test` of ELMoForManyLangs)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import h5py

from elmo_cli.errors import InputError, UsageError
from elmo_cli.store.layouts.base import Sample
from elmo_cli.store.layouts.sentence_datasets import NameLayout
from elmo_cli.store.layouts.stored_sentence import Array, Key, SentenceInfo
from elmo_cli.text.sentence import Sentence


class ManyLangs(NameLayout):
    """Tokens joined by TAB, `.` and `/` spelled out; the first of equal sentences is kept."""

    name = "manylangs"
    needs = frozenset({"tokens", "one layer"})
    hint = "leave out sentences without tokens; layout allennlp takes any"
    keeps_first = True

    def dataset_name(self, sentence: Sentence) -> str:
        name = _joined(sentence.tokens)
        if sentence.tokens and _tokens(name) != sentence.tokens:
            what = "`$period$`, `$backslash$` or a TAB in a token would be read as something else"
            raise InputError(f"{sentence.where}: {what}", "layout allennlp takes any token")
        return name

    def names_for(self, key: str | tuple[object, ...]) -> Iterator[str]:
        if isinstance(key, str):
            yield from (key, _joined(key.split("\t")), _joined(key.split()))
        else:
            yield _joined(map(str, key))

    def sentence_info(self, name: str, position: int) -> SentenceInfo:
        tokens = _tokens(name)
        return SentenceInfo(position, name, tokens, " ".join(tokens))

    def key_of(self, sentence: Sentence) -> Key:
        return sentence.tokens

    def to_file(self, array: Array, *, pooled: bool) -> Array:
        n_axes = 1 if pooled else 2
        if array.ndim > n_axes and array.shape[0] > 1:
            raise UsageError(
                f"layout manylangs holds one layer per file, not {array.shape[0]}",
                "`layers=top`, `layers=average` or one number",
            )
        return array.reshape(array.shape[-n_axes:])

    def matches(self, file: h5py.File, sample: Sample) -> bool:
        """Whether names are joined tokens with one vector each; lines may contain a tab too."""
        return any(
            dataset.ndim == 1 or len(name.split("\t")) == dataset.shape[-2]
            for name, dataset in sample
            if "\t" in name or "$period$" in name or "$backslash$" in name
        )


def _joined(tokens: Iterable[str]) -> str:
    return "\t".join(tokens).replace(".", "$period$").replace("/", "$backslash$")


def _tokens(name: str) -> tuple[str, ...]:
    return tuple(name.replace("$backslash$", "/").replace("$period$", ".").split("\t"))
