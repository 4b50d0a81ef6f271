"""convert: an embeddings file in another format, layout, dtype or selection of layers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import EmbeddingsFileError, OutputError, UsageError
from elmo_cli.files import StrPath, check_distinct
from elmo_cli.messages import CORRUPT_HINT, plural
from elmo_cli.store.derived_file import write_derived_file
from elmo_cli.store.file_formats import FileFormat, format_of_output
from elmo_cli.store.intact_sentence import IntactSentence
from elmo_cli.store.layers import LayerSelection, stored_layers
from elmo_cli.store.layouts import Layout, layout_of_spec
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.spec import DTYPES, FileSpec, other_attributes
from elmo_cli.store.stored_values import to_dtype
from elmo_cli.text.sentence import Sentence


def convert(
    path: StrPath,
    out: StrPath,
    *,
    layout: str | None = None,
    dtype: str | None = None,
    layers: str | None = None,
    sentence_map: str | None = None,
    compression: str = "none",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write an embeddings file in another format, layout, dtype, or with some of its layers.

    What is None stays as it is in the file; `layers` is as `LayerSelection.parse` takes it. The
    suffix of `out` decides the format.

    Args:
        sentence_map: as in `FileSpec`.
        compression: of Parquet: "none" or "zstd".
    Returns:
        output, layout, dtype, sentences, tokens, bytes, sentence_map, warnings.
    Raises:
        UsageError: the file does not record what the layout needs, or has no such layers; or the
            format does not store the dtype.
        ElmoError: the program that the format needs is not installed.
        EmbeddingsFileError: it can't be read, or a sentence does not match its checksum.
        OutputError: `out` can't be written, or a value is beyond the dtype.
    """
    check_distinct(os.fspath(out), [os.fspath(path)])
    with Embeddings(path) as source:
        target = _target_layout(source, layout or source.layout)
        selection = _layer_selection(source, target, layers)
        kept_dtype = _kept_dtype(source, target, format_of_output(out))
        spec = _target_spec(source, target, dtype or kept_dtype, selection, sentence_map)
        written = write_derived_file(
            out,
            spec,
            _converted_sentences(source, target, selection),
            _attributes(source, target, spec),
            n_rows=_count_rows(source),
            preview=_converted_sentences(source, target, selection),
            overwrite=overwrite,
            compression=compression,
        )
        return {
            "output": written.output,
            "layout": written.layout,
            "dtype": written.dtype,
            "sentences": written.n_sentences,
            "tokens": written.n_tokens,
            "bytes": written.n_bytes,
            "sentence_map": written.has_sentence_map,
            "warnings": _warnings(source, target),
        }


def _warnings(source: Embeddings, target: Layout) -> list[str]:
    """That numbers count the sentences of the file, where they should count those of the text."""
    n_left_out = source.count("duplicate_sentences") + source.count("skipped_sentences")
    becomes_numbered = source.is_keyed_by_name and target.keyed_by == "number"
    if not n_left_out or not becomes_numbered:
        return []
    lacks = f"lacks {plural(n_left_out, 'sentence')} of the text"
    return [f"{source.path}: {lacks}; the new keys do not count them"]


def _count_rows(source: Embeddings) -> int:
    """The number of vectors of a file, each with all its layers."""
    if source.unit != "tokens":
        return len(source)
    n_tokens = 0
    for handle in source.reader.handles:
        shape = source.reader.shape(handle)
        n_tokens += shape[-2] if len(shape) > 1 else 0
    return n_tokens


def _target_layout(source: Embeddings, name: str) -> Layout:
    """The layout of the new file, if the source records what it needs."""
    target = layout_of_spec(FileSpec(layout=name))
    if name == source.layout:  # names stay as they are
        is_by_line = source.is_keyed_by_name and target.supports_sentence_keys
        return layout_of_spec(FileSpec(layout=name, keys="sentence")) if is_by_line else target
    missing = sorted(target.needs - source.records - {"one layer"})
    if (target.unit == "types") != (source.unit == "types"):
        missing = [f"vectors of {target.unit}"]
    if missing and len(source):
        lacks = f"this {source.layout} file does not record {' and '.join(missing)}"
        raise UsageError(
            f"{lacks}, which {name} needs",
            f"embed the text with `layout={name}`",
            where=source.path,
        )
    return target


def _layer_selection(
    source: Embeddings, target: Layout, layers: str | None
) -> LayerSelection | None:
    """What is kept of each array; None for all of it."""
    name = "".join((layers or "all").split())
    where = f"`layers={name}`"
    needs_one_layer = "one layer" in target.needs
    n_layers = source.n_layers
    if name == "all" and (n_layers is None or not needs_one_layer):
        return None
    if n_layers is None:
        problem = f"{source.path} has no layers to select from"
        raise UsageError(problem, "leave out `layers`", where=where)
    names_some_layers = str(source.attributes.get("layers")).replace(",", "").isdecimal()
    selection = LayerSelection.parse(
        name,
        stored_layers(source) or range(n_layers),
        None if names_some_layers else n_layers,
        drop_axis=needs_one_layer,
        owner=str(source.path),
    )
    if needs_one_layer and selection.n_kept > 1:
        problem = f"layout {target.name} holds one layer, not {selection.n_kept}"
        hint = "select one of the layers, top, average, sum or a mix"
        raise UsageError(problem, hint, where=where)
    if selection.is_sum and source.attributes.get("pool") == "max":
        problem = f"{source.path} has maxima over sentences, of which no sum can be made"
        raise UsageError(problem, "embed the text with these layers", where=where)
    return selection


def _target_spec(
    source: Embeddings,
    target: Layout,
    dtype: str,
    selection: LayerSelection | None,
    sentence_map: str | None,
) -> FileSpec:
    """The settings of the new file."""
    can_choose_keys = target.supports_sentence_keys
    is_keyed_by_name = target.keyed_by == "name"
    has_map = can_choose_keys and not is_keyed_by_name and _has_lines(source)
    if sentence_map is None:
        sentence_map = source.spec.sentence_map if has_map and source.attributes else "last"
    elif sentence_map != "last" and can_choose_keys and not has_map:
        problem = "has no lines for a mapping from sentences to keys"
        hint = "embed the text with `sentence_map`, or convert without it"
        raise UsageError(problem, hint, where=source.path)
    spec = FileSpec(
        layout=target.name,
        keys="sentence" if can_choose_keys and is_keyed_by_name else "number",
        forget_sentences=can_choose_keys and not is_keyed_by_name and not has_map,
        sentence_map=sentence_map,
        dtype=dtype,
        first_sentence=source.first_sentence,
        run_settings=_run_settings(source, dtype, selection),
    )
    layout_of_spec(spec)  # refuses a dtype that the layout does not support
    return spec


def _stored_dtype(source: Embeddings) -> str:
    return str(source.stored_dtype or source.attributes.get("dtype"))


def _kept_dtype(source: Embeddings, target: Layout, file_format: FileFormat) -> str:
    """The dtype of the source, or float32 if the new file cannot have it."""
    stored = _stored_dtype(source)
    is_supported = stored in file_format.dtypes and (stored != "int8" or target.supports_int8)
    return stored if is_supported else "float32"


def _has_lines(source: Embeddings) -> bool:
    """Whether a file records lines, so that there can be a map."""
    if source.reader.has_map:
        return True
    first = next(source.infos(), None)
    return first is not None and first.text is not None


def _run_settings(
    source: Embeddings, dtype: str, selection: LayerSelection | None
) -> dict[str, Any]:
    """The settings of the run, with those that change: `layers` and `rounded_from`."""
    settings = dict(source.spec.run_settings) if source.attributes else {}
    stored = _stored_dtype(source)
    if selection is not None and selection.name != "all":
        settings["layers"] = selection.name
    is_sum = selection is not None and selection.is_sum
    if stored in ("float16", "int8") and (is_sum or stored != dtype):
        earlier = settings.get("rounded_from")
        settings["rounded_from"] = f"{earlier},{stored}" if earlier else stored
    return settings


def _attributes(source: Embeddings, target: Layout, spec: FileSpec) -> dict[str, Any]:
    """The attributes that are no settings: those of the source, and what only it knows."""
    attributes = other_attributes(source.attributes, spec)
    if not source.order_is_known:
        attributes["order_unknown"] = True
    if target.keeps_first:
        attributes["duplicate_sentences"] = source.count("duplicate_sentences")
    elif source.unit == "sentences":
        attributes["tokens"] = source.count("tokens")
    if source.count("duplicate_sentences") and not target.keeps_first:
        # The digests of the source include those of repeated sentences, which it does not have.
        if "tokens" not in source.records:
            attributes["token_digests"] = None
    elif "token_digests" in source.attributes or "tokens" not in target.needs:
        attributes["token_digests"] = source.numbers("token_digests")
    return attributes


def _converted_sentences(
    source: Embeddings, target: Layout, selection: LayerSelection | None
) -> Iterator[IntactSentence]:
    """The sentences with what is kept of their arrays."""
    # A layer selected by its number has an axis in the layouts that can hold several layers.
    is_numbered_layer = source.n_layers is None and bool(stored_layers(source))
    needs_layer_axis = is_numbered_layer and "one layer" not in target.needs
    for read in source.intact_sentences():
        sentence = read.sentence
        array = read.array
        _check_axes(source, sentence, array)
        if selection is not None:
            yield IntactSentence(sentence, _selected(selection, sentence, array))
        elif needs_layer_axis:
            yield IntactSentence(sentence, array[np.newaxis])
        elif target.name == source.layout:
            yield read
        else:
            yield IntactSentence(sentence, array)


def _check_axes(source: Embeddings, sentence: Sentence, array: AnyArray) -> None:
    """Check that an array has the layers and the dim of the first one."""
    layers = array.shape[:-2] if source.unit == "tokens" else array.shape[:-1]
    expected_layers = () if source.n_layers is None else (source.n_layers,)
    if layers != expected_layers or array.shape[-1] != source.dim:
        others = f"others have layers {source.n_layers}, dim {source.dim}"
        problem = f"shape {array.shape}, {others}"
        raise EmbeddingsFileError(problem, CORRUPT_HINT, where=sentence.where)


def selected_sentences(
    source: Embeddings, layers: str | None, dtype: str | None
) -> Iterator[AnyArray]:
    """The arrays of a file, each compared with its checksum.

    Args:
        layers: what is kept of them; None for all.
        dtype: of the result; None for that of `open_embeddings`.
    Raises:
        UsageError, EmbeddingsFileError, OutputError: as `convert`.
    """
    source_layout = layout_of_spec(FileSpec(layout=source.layout))
    selection = _layer_selection(source, source_layout, layers)
    for read in _converted_sentences(source, source_layout, selection):
        if dtype is None:
            yield np.ascontiguousarray(read.array)
        else:
            yield to_dtype(read.sentence, read.array, DTYPES[dtype])[0]


def _selected(selection: LayerSelection, sentence: Sentence, array: AnyArray) -> AnyArray:
    """Select or sum the layers of an array; sums are float32."""
    if selection.is_sum:
        array = array.astype("f4")
    try:
        with np.errstate(over="raise"):
            selected: AnyArray = selection.apply(array)
    except FloatingPointError:
        problem = "the sum of its layers is beyond float32"
        hint = "choose smaller weights in `layers`"
        raise OutputError(problem, hint, where=sentence.where) from None
    return selected
