"""convert: an embeddings file in another layout, dtype or choice of layers, as far as it knows what
that needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.errors import UsageError
from elmo_cli.store.apart import beside_embeddings, check_apart
from elmo_cli.store.chosen_layers import ChosenLayers, chosen_layers
from elmo_cli.store.damage import damage_as_error
from elmo_cli.store.datasets import Array, NamedSentences, NumberedSentences
from elmo_cli.store.discard import whole_or_nothing
from elmo_cli.store.int8 import INT8
from elmo_cli.store.layouts.keys import is_ontonotes
from elmo_cli.store.naming import Facts
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.repeats import texts_of_repeats
from elmo_cli.store.schema import LAYOUTS
from elmo_cli.store.settings import DTYPES, check_dtype_fits
from elmo_cli.store.stream import (
    Copy,
    as_sentence,
    map_texts,
    run_facts,
    stream,
)
from elmo_cli.store.told import KNOWS_TOKENS
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence

_NUMBERED = ("allennlp", "bilm", "flat")
_DOCUMENTS = ("e2e-coref", "lsgn", "dygie")
_COLONS = ("e2e-coref", "lsgn")
_ANEW = "make it from the text with `elmo embed --layout {}`"


def convert(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    layout: str | None = None,
    dtype: str | None = None,
    layers: str | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write an embeddings file anew, in another layout, dtype, or with some of its layers.

    Args:
        path: any file that `open_embeddings` reads.
        out: the file to make.
        layout: one of `schema.LAYOUTS`; None keeps that of the file.
        dtype: "float32", "float16", or with layout `flat` "int8"; None keeps that of the file, if
            the layout has a place for it.
        layers: as `Embedder` takes them, of those that the file holds; None keeps all.
        overwrite: replace `out`.
    Returns:
        what was done: output, layout, dtype, sentences, tokens, bytes, sentence_map, warnings.
    Raises:
        UsageError: the file doesn't know what the layout needs; says what.
        EmbeddingsFileError: the file can't be read.
        OutputError: `out` can't be written.
    """
    check_apart(
        os.fspath(out),
        [os.fspath(path)],
        what="the file to convert",
        beside=beside_embeddings(os.fspath(out)),
    )
    with Embeddings(path) as embeddings:
        asked = _layout(embeddings, layout)
        chosen = chosen_layers(embeddings, layers, asked)
        work = _Conversion(embeddings, asked, _dtype(embeddings, dtype, asked), chosen)
        return work.write(out, overwrite=overwrite)


def _layout(embeddings: Embeddings, layout: str | None) -> str:
    asked = embeddings.layout if layout is None else layout
    if asked not in LAYOUTS:
        raise UsageError(f"{embeddings.path}: no layout {asked!r} can be written", _choices())
    rows = "bilm-types"
    if (asked == rows) != (embeddings.layout == rows):
        raise UsageError(
            f"{embeddings.path}: {embeddings.layout} can't become {asked}: one holds vectors of "
            "types, the other those of sentences",
            _ANEW.format(asked),
        )
    return asked


def _choices() -> str:
    return f"`--layout` takes {', '.join(LAYOUTS)}"


def _dtype(embeddings: Embeddings, dtype: str | None, layout: str) -> str:
    stored = embeddings.stored_dtype
    kept = stored.name if stored is not None else embeddings.attributes.get("dtype", "float32")
    if kept not in DTYPES or (kept == INT8.name and layout != "flat"):
        kept = "float32"
    asked = dtype or kept
    if asked not in DTYPES:
        raise UsageError(f"no dtype {asked!r}", f"`--dtype` takes {', '.join(DTYPES)}")
    check_dtype_fits(asked, layout)
    return asked


@dataclass(frozen=True)
class _Conversion:
    """One file on its way to another layout, dtype or choice of layers.

    Attributes:
        embeddings: the file.
        layout, dtype: of the new one.
        layers: what goes over of each array; None for all of it.
    """

    embeddings: Embeddings
    layout: str
    dtype: str
    layers: ChosenLayers | None

    def write(self, out: str | os.PathLike[str], *, overwrite: bool) -> dict[str, Any]:
        """Write the new file; see `convert`."""
        warnings = self._warnings()
        if self.layout == "bilm" and isinstance(self.embeddings.sentences, NumberedSentences):
            self.embeddings.sentences.forget_map()
        needs_tokens = self.layout in KNOWS_TOKENS and not self.embeddings.is_pooled
        with damage_as_error(self.embeddings.path, keys_of_file=True):
            repeats = texts_of_repeats(self.embeddings) if needs_tokens else {}
        header, others = run_facts(self.embeddings.attributes)
        if self.layers is not None and self.layers.name is not None:
            header["layers"] = self.layers.name
        if rounded_to := self._rounded_to():  # or it would pass for a file of this run's values
            header["rounded_to"] = ",".join(rounded_to)
        may_have_map = self.layout == "allennlp" and self._keys() == "number"
        with_map = may_have_map and self._knows_texts()
        with whole_or_nothing(
            out,
            layout=self.layout,
            header=header,
            keys=self._keys(),
            forget_sentences=may_have_map and not with_map,
            dtype=self.dtype,
            overwrite=overwrite,
            first_sentence=self.embeddings.first_sentence,
        ) as writer:
            copy = Copy(writer)
            copy.append_all(str(self.embeddings.path), self._sentences(repeats, warnings))
            copy.commit()
            writer.finish(self._facts(others, writer.duplicates))
        summary = self._summary(out, writer, writer.has_map)
        return {**summary, "warnings": warnings + writer.warnings}

    def _rounded_to(self) -> list[str]:
        """The types that values were rounded to, in order, before they get the new file's own."""
        before = self.embeddings.attributes.get("rounded_to")
        names = [] if before is None else str(before).split(",")
        stored = self.embeddings.stored_dtype
        if stored is None:  # no sentences; other shards of the run have them
            stored = DTYPES.get(str(self.embeddings.attributes.get("dtype")))
        if stored is None or stored.itemsize >= DTYPES["float32"].itemsize:
            return names
        # In the type that they have values stay as they are; the sum of layers is rounded anew.
        is_sum = self.layers is not None and self.layers.is_sum
        is_kept = stored.name == self.dtype and not is_sum
        return names if is_kept else [*names, stored.name]

    def _warnings(self) -> list[str]:
        """What numbers as keys would not tell of a file that names its sentences.

        Raises:
            UsageError: the order of the sentences is lost.
        """
        embeddings = self.embeddings
        sentences = embeddings.sentences
        numbered = self.layout in _NUMBERED and self._keys() == "number"
        if not isinstance(sentences, NamedSentences) or not numbered:
            return []
        if not sentences.keeps_order:
            why = "this file lists them by name, not in the order of the text"
            if sentences.nests:
                why = "a `/` in the keys of this file has lost their order"
            elif embeddings.attributes.get("order_lost"):
                why = "their order was lost before this file was made"
            by_name = f", or take a layout that names them: {', '.join(_DOCUMENTS)}"
            raise UsageError(
                f"{embeddings.path}: {self.layout} numbers sentences, and {why}",
                _ANEW.format(self.layout) + (by_name if embeddings.layout in _DOCUMENTS else ""),
            )
        counts = {
            "equal to another": embeddings.count("duplicates"),
            "blank or not to be read": embeddings.count("left_out"),
        }
        lacking = [
            f"{n:,} {'sentence' if n == 1 else 'sentences'} {what}"
            for what, n in counts.items()
            if n
        ]
        if not lacking:
            return []
        keys = "keys count the sentences of this file, not those of the text"
        return [f"{embeddings.path}: made without {' and '.join(lacking)}, so {keys}"]

    def _keys(self) -> str:
        """Lines stay keys where they are; all others are numbers or the layout's own names."""
        named = isinstance(self.embeddings.sentences, NamedSentences)
        return (
            "sentence"
            if named and self.layout == self.embeddings.layout == "allennlp"
            else "number"
        )

    def _knows_texts(self) -> bool:
        sentences = self.embeddings.sentences
        if isinstance(sentences, NumberedSentences):
            return sentences.sentence_map is not None
        return self.embeddings.layout in ("allennlp", "manylangs", "flat", "named")

    def _facts(self, others: dict[str, Any], left_out: int) -> dict[str, Any]:
        """The facts that are no settings; manylangs tells how many equal sentences it left out.

        The new file keeps the order of its sentences, and has to say that it is not the text's.
        """
        sentences = self.embeddings.sentences
        if isinstance(sentences, NamedSentences) and not sentences.keeps_order:
            others = {**others, "order_lost": True}
        if self.layout != "manylangs":
            return others
        before = self.embeddings.count("duplicates")
        return {**others, "duplicates": before + left_out}

    def _summary(
        self, out: str | os.PathLike[str], writer: EmbeddingsWriter, with_map: bool
    ) -> dict[str, Any]:
        return {
            "output": os.fspath(out),
            "layout": self.layout,
            "dtype": self.dtype,
            "sentences": writer.progress.sentences - writer.duplicates,
            "tokens": writer.progress.tokens,
            "bytes": Path(out).stat().st_size,
            "sentence_map": with_map,
        }

    def _sentences(
        self, repeats: dict[int, str], warnings: list[str]
    ) -> Iterator[tuple[Sentence, Array]]:
        """The sentences as the new layout needs them; adds to the warnings."""
        colon_told = self.layout not in ("dygie", "flat") or self.embeddings.layout not in _COLONS
        texts = None if self.layout in KNOWS_TOKENS else map_texts(self.embeddings)
        for position, (facts, array) in enumerate(stream(self.embeddings)):
            if facts.number in repeats:
                line = repeats[facts.number]
                facts = replace(facts, text=line, tokens=tuple(line.split()))
                facts = replace(facts, tokens=self.embeddings.told(facts, array.shape))
            self._check(facts)
            if not colon_told and ":" in (facts.document or ""):
                colon_told = True
                warnings.append(
                    f"{self.embeddings.path}: the `:` in document keys like {facts.document} may "
                    "have been `/`, and is kept"
                )
            sentence = as_sentence(self.embeddings, position, facts, array, texts)
            yield sentence, self._reduced(facts, array)

    def _reduced(self, facts: Facts, array: Array) -> Array:
        """The layers that stay; a single numbered one has an axis where the layout has one."""
        if self.layers is not None:
            n_axes = 2 if self.embeddings.is_pooled else 3
            where = f"{self.embeddings.path}: sentence {facts.number}"
            return self.layers.of(array, n_axes, where)
        return array[np.newaxis] if self._lost_axis(array) else array

    def _lost_axis(self, array: Array) -> bool:
        """Whether a layout that holds one layer without its axis goes over to one with it."""
        facts = self.embeddings.attributes
        return (
            array.ndim == (1 if self.embeddings.is_pooled else 2)
            and self.layout != "manylangs"
            and str(facts.get("layers")).strip().isdecimal()
        )

    def _check(self, facts: Facts) -> None:
        """Refuse a sentence of which the file doesn't know what the layout needs."""
        where = f"{self.embeddings.path}: sentence {facts.number}"
        anew = _ANEW.format(self.layout)
        if self.layout in KNOWS_TOKENS and facts.tokens is None:
            raise UsageError(
                f"{where}: {self.layout} holds tokens, this {self.embeddings.layout} file doesn't "
                "tell them",
                anew,
            )
        if self.layout in _DOCUMENTS and facts.document is None:
            raise UsageError(
                f"{where}: {self.layout} is keyed by documents, this {self.embeddings.layout} file "
                "knows none",
                anew + " and jsonl with `doc_key`",
            )
        if facts.part_lost and self.layout in _DOCUMENTS and self.layout != self.embeddings.layout:
            raise UsageError(
                f"{where}: its key doesn't tell the document's part, which {self.layout} needs",
                anew,
            )
        if self.layout == "lsgn" and facts.offset is None and self.embeddings.layout != "lsgn":
            self._check_offset(where, facts)

    def _check_offset(self, where: str, facts: Facts) -> None:
        document = str(facts.document)
        if self.embeddings.layout in _COLONS:  # where a `:` may have been a `/`
            document = document.replace(":", "/")
        if is_ontonotes(document):
            raise UsageError(
                f"{where}: lsgn counts the sentences of {facts.document} from the document's first "
                f"part on, {self.embeddings.layout} doesn't tell where this part begins",
                _ANEW.format("lsgn") + " and jsonl with `sent_offset`",
            )
