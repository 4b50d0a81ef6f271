"""manylangs: data sets named by their tokens, as ELMoForManyLangs names them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import h5py

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import InputError
from elmo_cli.store.layouts.base import Key, SampledDatasets, SentenceInfo
from elmo_cli.store.layouts.sentence_datasets import NameLayout
from elmo_cli.text.sentence import Sentence


class ManyLangs(NameLayout):
    """Tokens joined by TAB, `.` and `/` spelled out; the first of equal sentences is kept."""

    name = "manylangs"
    needs = frozenset({"tokens", "one layer"})
    records = frozenset({"tokens"})
    keeps_first = True
    hint = "leave out sentences without tokens; layout allennlp takes any"

    def dataset_name(self, sentence: Sentence) -> str:
        name = _join_tokens(sentence.tokens)
        if sentence.tokens and _split_tokens(name) != sentence.tokens:
            raise InputError(
                "`$period$`, `$backslash$` or a TAB in a token would be read as something else",
                "layout allennlp takes any token",
                where=sentence.where,
            )
        return name

    def key_of(self, sentence: Sentence) -> Key:
        return sentence.tokens

    def names_for(self, key: Key) -> Iterator[str]:
        if isinstance(key, str):
            yield key
            yield _join_tokens(key.split("\t"))
            yield _join_tokens(key.split())
        elif isinstance(key, tuple):
            yield _join_tokens(map(str, key))

    def sentence_info(self, name: str) -> SentenceInfo:
        tokens = _split_tokens(name)
        return SentenceInfo(tokens=tokens, text=" ".join(tokens))

    def to_file(self, array: AnyArray, *, pooled: bool) -> AnyArray:
        return array.reshape(array.shape[-1 if pooled else -2 :])

    def holds(self, array: AnyArray, n_tokens: int, *, pooled: bool) -> bool:
        has_layer_axis = array.ndim != (1 if pooled else 2)
        if has_layer_axis and array.shape[0] != 1:
            return False
        return super().holds(array, n_tokens, pooled=pooled)

    def matches(self, file: h5py.File, sample: SampledDatasets) -> bool:
        """Whether names are joined tokens with one vector each; lines may contain a tab too."""
        for name, dataset in sample:
            is_spelled = "\t" in name or "$period$" in name or "$backslash$" in name
            is_pooled = dataset.ndim == 1
            if is_spelled and (is_pooled or len(name.split("\t")) == dataset.shape[-2]):
                return True
        return False


def _join_tokens(tokens: Iterable[str]) -> str:
    """The name of a sentence in the layout of ELMoForManyLangs."""
    return "\t".join(tokens).replace(".", "$period$").replace("/", "$backslash$")


def _split_tokens(name: str) -> tuple[str, ...]:
    """Reverse `_join_tokens`."""
    return tuple(name.replace("$backslash$", "/").replace("$period$", ".").split("\t"))
