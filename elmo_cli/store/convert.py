"""convert: an embeddings file in another layout, dtype or selection of layers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.files import check_distinct
from elmo_cli.isolate import CORRUPT_HINT
from elmo_cli.store.layers import LayerSelection, stored_layers
from elmo_cli.store.layouts import LAYOUTS, Array, Layout, Totals, layout_of_spec
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.spec import DTYPES, WRITER_ATTRIBUTES, FileSpec
from elmo_cli.store.writer import write_embeddings
from elmo_cli.text.sentence import Sentence

_EXACT = DTYPES["float32"]


def convert(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    layout: str | None = None,
    dtype: str | None = None,
    layers: str | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write an embeddings file in another layout, dtype, or with some of its layers.

    Args:
        path: any file that `open_embeddings` reads.
        out: the file to make.
        layout: name of the new layout; None keeps that of the file.
        dtype: "float32", "float16" or, if the layout has scales, "int8"; None keeps that of the
            file, if the layout supports it.
        layers: as `LayerSelection.parse` takes it, of those in the file; None keeps all.
        overwrite: replace `out`.
    Returns:
        output, layout, dtype, sentences, tokens, bytes, sentence_map, warnings.
    Raises:
        UsageError: the file does not record what the layout needs; the message says what.
        EmbeddingsFileError: the file can't be read, or a sentence does not match its checksum.
        OutputError: `out` can't be written, or a value is beyond the dtype.
    """
    check_distinct(os.fspath(out), [os.fspath(path)])
    with Embeddings(path) as source:
        target = _target(source, layout)
        selection = _selection(source, target, layers)
        spec = _spec(source, target, dtype, selection)
        warnings = _Conversion(source, target, spec, selection).write(out, overwrite=overwrite)
    with Embeddings(out) as written:
        return {
            "output": os.fspath(out),
            "layout": written.layout,
            "dtype": spec.dtype,
            "sentences": len(written),
            "tokens": written.attributes["tokens"],
            "bytes": Path(out).stat().st_size,
            "sentence_map": written.has_sentence_map,
            "warnings": warnings,
        }


def _target(source: Embeddings, name: str | None) -> Layout:
    """The layout of the new file.

    Raises:
        UsageError: there is no such layout, or the file does not record what it needs.
    """
    target = layout_of_spec(FileSpec(layout=name or source.layout, keys=_keys(source, name)))
    missing = sorted(target.needs - source.records - {"one layer"})
    if (target.unit == "types") != (source.unit == "types"):
        missing = [f"vectors of {target.unit}"]
    if missing and len(source):
        raise UsageError(
            f"{source.path}: this {source.layout} file does not record {' and '.join(missing)}, "
            f"which {target.name} needs",
            f"embed the text with `layout={target.name}`",
        )
    return target


def _keys(source: Embeddings, layout: str | None) -> str:
    """Names stay the keys of a layout that has a choice; otherwise they are its own."""
    is_kept = layout in (None, source.layout) and source.is_keyed_by_name
    has_choice = source.layout in LAYOUTS and LAYOUTS[source.layout].supports_sentence_keys
    return "sentence" if is_kept and has_choice else "number"


def _selection(source: Embeddings, target: Layout, layers: str | None) -> LayerSelection | None:
    """What is kept of each array; None for all of it.

    Raises:
        UsageError: the file does not have these layers, or the layout holds only one.
    """
    name = "all" if layers is None else "".join(layers.split())
    needs_one, n_layers, owner = "one layer" in target.needs, source.n_layers, str(source.path)
    if name == "all" and (n_layers is None or not needs_one):
        return None
    if n_layers is None and len(source):
        raise UsageError(f"`layers={name}`: {owner} has only one layer", "leave `layers` out")
    available = (stored_layers(source) or range(n_layers or 0)) if len(source) else None
    n_of_model = None if _says_numbers(source) else n_layers
    selection = LayerSelection.parse(name, available, n_of_model, drop_axis=needs_one, owner=owner)
    if needs_one and selection.n_kept > 1:
        raise UsageError(
            f"`layers={name}`: {target.name} holds one layer, {owner} has {selection.n_kept} of it",
            "select one with `layers`: top, average, a mix or a number",
        )
    if selection.is_sum and source.attributes.get("pool") == "max":
        raise UsageError(
            f"`layers={name}`: the vectors of {owner} are maxima over sentences, which cannot be "
            "summed over layers",
            f"embed the text with `pool=max` and `layers={name}`",
        )
    return selection


def _says_numbers(source: Embeddings) -> bool:
    """Whether the file says the numbers of its layers, selected from those of its model."""
    return str(source.attributes.get("layers")).replace(",", "").isdecimal()


def _spec(
    source: Embeddings, target: Layout, dtype: str | None, selection: LayerSelection | None
) -> FileSpec:
    """The settings of the new file.

    Raises:
        UsageError: the layout does not support the dtype.
    """
    stored, settings = source.stored_dtype, _run_settings(source)
    held = str(source.attributes.get("dtype")) if stored is None else stored.name
    kept = held if held in DTYPES and (held != "int8" or target.supports_int8) else "float32"
    is_sum = selection is not None and selection.is_sum
    if selection is not None and selection.name != "all":
        settings["layers"] = selection.name
    if DTYPES.get(held, _EXACT).itemsize < _EXACT.itemsize and (is_sum or held != (dtype or kept)):
        before = settings.get("rounded_from")
        settings["rounded_from"] = held if before is None else f"{before},{held}"
    keys = _keys(source, target.name)
    first = next(iter(source), None)
    has_texts = source.has_sentence_map or (
        first is not None and source.info(first).text is not None
    )
    spec = FileSpec(
        layout=target.name,
        keys=keys,
        forget_sentences=target.supports_sentence_keys and keys == "number" and not has_texts,
        dtype=dtype or kept,
        first_sentence=source.first_sentence,
        run_settings=settings,
    )
    layout_of_spec(spec)
    return spec


def _run_settings(source: Embeddings) -> dict[str, Any]:
    if "elmo_schema" not in source.attributes:
        return {}
    return dict(FileSpec.from_attributes(source.attributes).run_settings)


@dataclass(frozen=True)
class _Conversion:
    """One file on its way to another layout, dtype or selection of layers."""

    source: Embeddings
    target: Layout
    spec: FileSpec
    selection: LayerSelection | None

    def write(self, out: str | os.PathLike[str], *, overwrite: bool) -> list[str]:
        """Write the new file and return warnings."""
        warnings = self._warnings()
        sentences = self._sentences(warnings)
        tokens = self._count_tokens()
        first = next(sentences, None)
        row_shape = None
        if first is not None:
            row_shape = self.target.store(*first, self.spec).values.shape[1:]
            sentences = chain([first], sentences)
        has_rows_of_tokens = not self.spec.pooled and self.target.unit != "types"
        rows = tokens if has_rows_of_tokens else len(self.source)
        return warnings + write_embeddings(
            out,
            self.spec,
            sentences,
            self._attributes(tokens),
            totals=Totals(len(self.source), rows, row_shape, DTYPES[self.spec.dtype]),
            overwrite=overwrite,
        )

    def _count_tokens(self) -> int:
        reader, n = self.source.reader, len(self.source)
        if self.source.unit == "tokens":
            return sum(reader.shape(position)[-2] for position in range(n))
        return n if self.source.unit == "types" else self.source.count("tokens")

    def _attributes(self, tokens: int) -> dict[str, Any]:
        """The attributes that are no settings: those of the source, and what only it knows."""
        theirs = self.source.attributes
        own = WRITER_ATTRIBUTES | self.spec.to_attributes().keys()
        kept = {name: value for name, value in theirs.items() if name not in own}
        if "elmo_schema" not in theirs:
            kept = {}
        if not self.source.order_is_known:
            kept["order_unknown"] = True
        if not self.target.keeps_first:
            kept["tokens"] = tokens
        elif left_out := self.source.count("duplicate_sentences"):
            kept["duplicate_sentences"] = left_out
        if "token_digests" in theirs or "tokens" not in self.target.needs:
            kept["token_digests"] = theirs.get("token_digests")
        return kept

    def _warnings(self) -> list[str]:
        """That the numbers in the new file are not those of the text."""
        is_named = self.source.is_keyed_by_name
        if not is_named or self.target.keyed_by != "number":
            return []
        counts = {
            "equal to an earlier one": self.source.count("duplicate_sentences"),
            "blank or unreadable": self.source.count("skipped_sentences"),
        }
        missing = [f"{n:,} sentences {what}" for what, n in counts.items() if n]
        if not missing:
            return []
        where = f"{self.source.path}: made without {' and '.join(missing)}"
        return [f"{where}; keys are positions in this file, not in the text"]

    def _sentences(self, warnings: list[str]) -> Iterator[tuple[Sentence, Array]]:
        """The sentences as the new layout needs them; adds to the warnings."""
        source, is_warned = self.source, False
        for info, array in source.sentences(verify=True):
            where = f"{source.path}: sentence {info.key!r}"
            if info.tokens is None and "tokens" in self.target.needs:
                raise UsageError(
                    f"{where}: its line is not recorded, and {self.target.name} needs tokens",
                    f"embed the text with `layout={self.target.name}`",
                )
            tokens = info.tokens
            if tokens is None and source.unit == "tokens":
                tokens = ("",) * array.shape[-2]  # only counted
            key = source.first_sentence + info.position if isinstance(info.key, str) else None
            sentence = info.sentence(key=key, tokens=tokens, source=str(source.path))
            if not is_warned and self._is_ambiguous(sentence):
                is_warned = True
                warnings.append(
                    f"{source.path}: the `:` in document keys like {sentence.document} may have "
                    "been `/`, and is kept"
                )
            yield sentence, self._selected(array, where)

    def _is_ambiguous(self, sentence: Sentence) -> bool:
        """Whether the source names documents alike that the new layout distinguishes."""
        if ":" not in (sentence.document or ""):
            return False
        other = replace(sentence, document=str(sentence.document).replace(":", "/"))
        before = LAYOUTS[self.source.layout]
        is_same = before.dataset_name(other) == before.dataset_name(sentence)
        return is_same and self.target.identity(other) != self.target.identity(sentence)

    def _selected(self, array: Array, where: str) -> Array:
        """What is kept of an array; a single numbered layer has an axis if the layout has one."""
        source, selection = self.source, self.selection
        axes = () if source.n_layers is None else (source.n_layers,)
        n_axes = len(axes) + (2 if source.unit == "tokens" else 1)
        if array.ndim != n_axes or (*array.shape[: len(axes)], array.shape[-1]) != (
            *axes,
            source.dim,
        ):
            raise EmbeddingsFileError(
                f"{where}: shape {array.shape}, others have "
                f"{'no layer axis' if not axes else f'{axes[0]} layers'} and dim {source.dim}",
                CORRUPT_HINT,
            )
        if selection is None:
            is_lost = not axes and source.unit != "types" and "one layer" not in self.target.needs
            return array[np.newaxis] if is_lost and _says_numbers(source) else array
        if not selection.is_sum:
            kept: Array = selection.apply(array)
            return kept
        with np.errstate(over="ignore", invalid="ignore"):
            total: Array = selection.apply(array.astype(np.float32))
        if not np.isfinite(total).all() and np.isfinite(array).all():
            raise UsageError(
                f"`layers={selection.name}`: {where}: a value is beyond float32",
                "give smaller weights or a smaller gamma",
            )
        return total
