"""convert: an embeddings file in another layout, dtype or selection of layers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import chain, islice
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

_ROUNDING = ("float16", "int8")


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
        warnings = _warnings(source, target)
        tokens = _count_tokens(source)
        summary = write_copy(
            out,
            spec,
            _sentences(source, target, selection),
            _attributes(source, target, spec, tokens),
            n_sentences=len(source),
            n_tokens=tokens,
            overwrite=overwrite,
        )
    return {**summary, "warnings": warnings + summary["warnings"]}


def write_copy(
    out: str | os.PathLike[str],
    spec: FileSpec,
    sentences: Iterator[tuple[Sentence, Array]],
    attributes: Mapping[str, Any],
    *,
    n_sentences: int,
    n_tokens: int,
    overwrite: bool,
) -> dict[str, Any]:
    """Write sentences of other files into a new one; return what `convert` does."""
    layout = layout_of_spec(spec)
    first = list(next(zip(sentences), ()))
    row_shape = layout.store(*first[0], spec).values.shape[1:] if first else None
    rows = n_sentences if spec.pooled or layout.unit == "types" else n_tokens
    totals = Totals(n_sentences, rows, row_shape, DTYPES[spec.dtype])
    warnings = write_embeddings(
        out, spec, chain(first, sentences), attributes, totals=totals, overwrite=overwrite
    )
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


def verified_sentences(source: Embeddings) -> Iterator[tuple[Sentence, Array]]:
    """The sentences of a file as they were handed to its writer, as far as it records them.

    Where tokens are not recorded there are empty ones, as many as there are vectors.

    Raises:
        EmbeddingsFileError: a sentence does not match its checksum.
    """
    for info, array in source.sentences(verify=True):
        tokens = info.tokens
        if tokens is None and source.unit == "tokens":
            tokens = ("",) * (0, *array.shape)[-2]
        is_named = source.is_keyed_by_name or source.unit == "types"
        key = source.first_sentence + info.position if is_named else None
        yield info.sentence(key=key, tokens=tokens, source=str(source.path)), array


def _target(source: Embeddings, name: str | None) -> Layout:
    """The layout of the new file.

    Raises:
        UsageError: there is no such layout, or the file does not record what it needs.
    """
    target = layout_of_spec(FileSpec(layout=name or source.layout, keys=_keys(source, name)))
    if target.name == source.layout:
        return target  # names stay as they are
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
    n_of_model = None if _lists_layers(source) else n_layers
    selection = LayerSelection.parse(name, available, n_of_model, drop_axis=needs_one, owner=owner)
    if needs_one and selection.n_kept > 1:
        raise UsageError(
            f"`layers={name}`: layout {target.name} holds one layer, not {selection.n_kept}",
            "select one of the layers, top, average or a mix",
        )
    if selection.is_sum and source.attributes.get("pool") == "max":
        raise UsageError(
            f"`layers={name}`: {owner} has maxima over sentences, of which no sum can be made",
            f"embed the text with `pool=max` and `layers={name}`",
        )
    return selection


def _lists_layers(source: Embeddings) -> bool:
    """Whether the file has numbered layers, selected from those of its model."""
    return str(source.attributes.get("layers")).replace(",", "").isdecimal()


def _spec(
    source: Embeddings, target: Layout, dtype: str | None, selection: LayerSelection | None
) -> FileSpec:
    """The settings of the new file.

    Raises:
        UsageError: the layout does not support the dtype.
    """
    attributes, settings = source.attributes, dict[str, Any]()
    if "elmo_schema" in attributes:
        settings = dict(FileSpec.from_attributes(attributes).run_settings)
    held = str(source.stored_dtype or attributes.get("dtype"))
    kept = held if held in DTYPES and (held != "int8" or target.supports_int8) else "float32"
    if selection is not None and selection.name != "all":
        settings["layers"] = selection.name
    is_sum = selection is not None and selection.is_sum
    if held in _ROUNDING and (is_sum or held != (dtype or kept)):
        settings["rounded_from"] = ",".join(filter(None, [settings.get("rounded_from"), held]))
    keys = _keys(source, target.name)
    has_lines = source.has_sentence_map or any(source.info(k).text for k in islice(source, 1))
    spec = FileSpec(
        layout=target.name,
        keys=keys,
        forget_sentences=target.supports_sentence_keys and keys == "number" and not has_lines,
        dtype=dtype or kept,
        first_sentence=source.first_sentence,
        run_settings=settings,
    )
    layout_of_spec(spec)
    return spec


def _count_tokens(source: Embeddings) -> int:
    if source.unit == "tokens":
        return sum((0, *source.reader.shape(handle))[-2] for handle in source.reader.handles())
    return len(source) if source.unit == "types" else source.count("tokens")


def _attributes(source: Embeddings, target: Layout, spec: FileSpec, tokens: int) -> dict[str, Any]:
    """The attributes that are no settings: those of the source, and what only it knows."""
    theirs, kept = source.attributes, dict[str, Any]()
    if "elmo_schema" in theirs:
        own = WRITER_ATTRIBUTES | spec.to_attributes().keys()
        kept = {name: value for name, value in theirs.items() if name not in own}
    if not source.order_is_known:
        kept["order_unknown"] = True
    if not target.keeps_first:
        kept["tokens"] = tokens
    elif left_out := source.count("duplicate_sentences"):
        kept["duplicate_sentences"] = left_out
    if "token_digests" in theirs or "tokens" not in target.needs:
        kept["token_digests"] = theirs.get("token_digests")
    return kept


def _warnings(source: Embeddings, target: Layout) -> list[str]:
    """That keys in the new file may not be those of the text."""
    found = []
    n = source.count("duplicate_sentences") + source.count("skipped_sentences")
    if n and source.is_keyed_by_name and target.keyed_by == "number":
        found.append(f"{source.path}: lacks {n:,} sentences of the text; keys count without them")
    if "document" in source.records and target.name != source.layout:
        # Some layouts have no `/` in names of documents, and others have.
        before, after = (
            {layout.identity(Sentence((), 0, document=name)) for name in ("a/b", "a:b")}
            for layout in (LAYOUTS[source.layout], target)
        )
        document = next((d for k in source if ":" in (d := source.info(k).document or "")), None)
        if len(before) < len(after) and document is not None:
            found.append(f"{source.path}: the `:` in {document} may have been `/`, and is kept")
    return found


def _sentences(
    source: Embeddings, target: Layout, selection: LayerSelection | None
) -> Iterator[tuple[Sentence, Array]]:
    """The sentences with what is kept of their arrays."""
    n_layers, dim = source.n_layers, source.dim
    expected = (dim,) if n_layers is None else (n_layers, dim)
    # A single numbered layer has an axis, except in layouts with one layer.
    adds_axis = n_layers is None and "one layer" not in target.needs and _lists_layers(source)
    for sentence, array in verified_sentences(source):
        axes = array.shape[:-2] if source.unit == "tokens" else array.shape[:-1]
        if (*axes, array.shape[-1]) != expected:
            what = f"shape {array.shape}, others have layers {n_layers}, dim {dim}"
            raise EmbeddingsFileError(f"{sentence.where}: {what}", CORRUPT_HINT)
        if selection is None:
            kept = array[np.newaxis] if adds_axis and source.unit != "types" else array
        else:
            kept = _reduced(selection, array, sentence.where)
        yield sentence, kept


def _reduced(selection: LayerSelection, array: Array, where: str) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        kept: Array = selection.apply(array.astype(np.float32) if selection.is_sum else array)
    if selection.is_sum and np.isfinite(array).all() and not np.isfinite(kept).all():
        what = f"`layers={selection.name}`: {where}: a value is beyond float32"
        raise UsageError(what, "give smaller weights or a smaller gamma")
    return kept
