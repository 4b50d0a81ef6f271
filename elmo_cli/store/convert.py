"""convert: an embeddings file in another layout, dtype or selection of layers; and write_copy."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import EmbeddingsFileError, OutputError, UsageError
from elmo_cli.files import (
    StrPath,
    check_distinct,
    check_output_path,
    lock_own,
    output_errors,
    publish,
    resolve,
)
from elmo_cli.messages import CORRUPT_HINT, plural
from elmo_cli.store.digests import tokens_digest
from elmo_cli.store.layers import LayerSelection, stored_layers
from elmo_cli.store.layouts import (
    Layout,
    StoredSentence,
    UniqueNames,
    ValueSink,
    layout_of_spec,
)
from elmo_cli.store.output_file import write_at, write_hdf5
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.spec import DTYPES, WRITER_ATTRIBUTES, FileSpec
from elmo_cli.text.sentence import Sentence

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def convert(
    path: StrPath,
    out: StrPath,
    *,
    layout: str | None = None,
    dtype: str | None = None,
    layers: str | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write an embeddings file in another layout, dtype, or with some of its layers.

    What is None stays as it is in the file; `layers` is as `LayerSelection.parse` takes it.

    Returns:
        output, layout, dtype, sentences, tokens, bytes, sentence_map, warnings.
    Raises:
        UsageError: the file does not record what the layout needs, or has no such layers.
        EmbeddingsFileError: it can't be read, or a sentence does not match its checksum.
        OutputError: `out` can't be written, or a value is beyond the dtype.
    """
    check_distinct(os.fspath(out), [os.fspath(path)])
    with Embeddings(path) as source:
        target = _target(source, layout or source.layout)
        selection = _selection(source, target, layers)
        spec = _spec(source, target, dtype, selection)
        shapes = map(source.reader.shape, source.reader.handles)
        is_of_tokens = source.unit == "tokens"
        done = write_copy(
            out,
            spec,
            _sentences(source, selection, has_layer_axis="one layer" not in target.needs),
            _attributes(source, target, spec),
            n_rows=sum((0, *shape)[-2] for shape in shapes) if is_of_tokens else len(source),
            overwrite=overwrite,
        )
        n = source.count("duplicate_sentences") + source.count("skipped_sentences")
        what = f"lacks {plural(n, 'sentence')} of the text; the new keys do not count them"
        is_numbered = source.is_keyed_by_name and target.keyed_by == "number"
        return {**done, "warnings": [f"{source.path}: {what}"] if n and is_numbered else []}


def write_copy(
    out: StrPath,
    spec: FileSpec,
    sentences: Iterable[tuple[Sentence, AnyArray]],
    attributes: Mapping[str, Any],
    *,
    n_rows: int,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write sentences of other files into one, by way of OUT.tmp, which the next run replaces.

    Args:
        n_rows: of all vectors: types, sentences of a pooled file, or tokens.
    Returns:
        output, layout, dtype, sentences, tokens, bytes, sentence_map.
    """
    check_output_path(out, overwrite=overwrite, regular=True)
    layout, digests, temporary = layout_of_spec(spec), bytearray(), Path(f"{resolve(out)}.tmp")
    names = UniqueNames(layout)

    def stored() -> Iterator[StoredSentence]:
        for sentence, values in sentences:
            digests.extend(tokens_digest(sentence.tokens))
            if names.add(sentence):
                yield layout.store(sentence, values, spec)

    def put(address: int, values: AnyArray) -> None:
        write_at(lock.descriptor, values.reshape(-1).view(np.uint8).data, address)

    with output_errors(out):
        lock = lock_own(temporary, _HDF5_SIGNATURE)
        try:
            sink = ValueSink(n_rows, put)
            write_hdf5(temporary, spec, stored(), digests, attributes, sink)
            os.fsync(lock.descriptor)
            publish(temporary, out, overwrite=overwrite, hint="`overwrite=True` replaces it")
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            lock.release()
    with Embeddings(out) as written:
        return {
            "output": os.fspath(out),
            "layout": written.layout,
            "dtype": spec.dtype,
            "sentences": len(written),
            "tokens": written.attributes["tokens"],
            "bytes": Path(out).stat().st_size,
            "sentence_map": written.reader.has_map,
        }


def other_attributes(attributes: Mapping[str, Any], spec: FileSpec) -> dict[str, Any]:
    """The attributes of a file of ours that are no settings and not the writer's."""
    own = WRITER_ATTRIBUTES | spec.to_attributes().keys()
    return {name: value for name, value in attributes.items() if name not in own}


def _target(source: Embeddings, name: str) -> Layout:
    """The layout of the new file, if the source records what it needs."""
    target = layout_of_spec(FileSpec(layout=name))
    if name == source.layout:  # names stay as they are
        is_by_line = source.is_keyed_by_name and target.supports_sentence_keys
        return layout_of_spec(FileSpec(layout=name, keys="sentence")) if is_by_line else target
    missing = sorted(target.needs - source.records - {"one layer"})
    if (target.unit == "types") != (source.unit == "types"):
        missing = [f"vectors of {target.unit}"]
    if missing and len(source):
        raise UsageError(
            f"{source.path}: this {source.layout} file does not record {' and '.join(missing)}, "
            f"which {name} needs",
            f"embed the text with `layout={name}`",
        )
    return target


def _selection(source: Embeddings, target: Layout, layers: str | None) -> LayerSelection | None:
    """What is kept of each array; None for all of it."""
    name = "".join((layers or "all").split())
    needs_one, n_layers, owner = "one layer" in target.needs, source.n_layers, str(source.path)
    if name == "all" and (n_layers is None or not needs_one):
        return None
    if n_layers is None:
        what = f"`layers={name}`: {owner} has no layers to select from"
        raise UsageError(what, "leave out `layers`")
    available = stored_layers(source) or range(n_layers)
    is_whole = not str(source.attributes.get("layers")).replace(",", "").isdecimal()
    n_of_model = n_layers if is_whole else None
    selection = LayerSelection.parse(name, available, n_of_model, drop_axis=needs_one, owner=owner)
    what, hint = "", "embed the text with these layers"
    if needs_one and selection.n_kept > 1:
        what = f"layout {target.name} holds one layer, not {selection.n_kept}"
        hint = "select one of the layers, top, average or a mix"
    elif selection.is_sum and source.attributes.get("pool") == "max":
        what = f"{owner} has maxima over sentences, of which no sum can be made"
    if what:
        raise UsageError(f"`layers={name}`: {what}", hint)
    return selection


def _spec(
    source: Embeddings, target: Layout, dtype: str | None, selection: LayerSelection | None
) -> FileSpec:
    """The settings of the new file."""
    settings = dict(source.spec.run_settings) if source.attributes else {}
    held = str(source.stored_dtype or source.attributes.get("dtype"))
    if dtype is None:
        is_kept = held in DTYPES and (held != "int8" or target.supports_int8)
        dtype = held if is_kept else "float32"
    if selection is not None and selection.name != "all":
        settings["layers"] = selection.name
    is_sum = selection is not None and selection.is_sum
    if held in ("float16", "int8") and (is_sum or held != dtype):
        settings["rounded_from"] = ",".join(filter(None, [settings.get("rounded_from"), held]))
    can_choose, is_by_line = target.supports_sentence_keys, target.keyed_by == "name"
    infos = (source.info(key) for key in islice(source, 1))
    has_lines = source.reader.has_map or any(info.text is not None for info in infos)
    spec = FileSpec(
        target.name,
        keys="sentence" if can_choose and is_by_line else "number",
        forget_sentences=can_choose and not is_by_line and not has_lines,
        dtype=dtype,
        first_sentence=source.first_sentence,
        run_settings=settings,
    )
    layout_of_spec(spec)  # refuses a dtype that the layout does not support
    return spec


def _attributes(source: Embeddings, target: Layout, spec: FileSpec) -> dict[str, Any]:
    """The attributes that are no settings: those of the source, and what only it knows."""
    theirs = source.attributes
    kept = other_attributes(theirs, spec)
    if not source.order_is_known:
        kept["order_unknown"] = True
    if target.keeps_first:
        kept["duplicate_sentences"] = source.count("duplicate_sentences")
    elif source.unit == "sentences":
        kept["tokens"] = source.count("tokens")
    if "token_digests" in theirs or "tokens" not in target.needs:
        kept["token_digests"] = theirs.get("token_digests")
    return kept


def _sentences(
    source: Embeddings, selection: LayerSelection | None, *, has_layer_axis: bool
) -> Iterator[tuple[Sentence, AnyArray]]:
    """The sentences with what is kept of their arrays, all of which must have the same axes."""
    layers = () if source.n_layers is None else (source.n_layers,)
    # A layer selected by its number has an axis in the layouts that can hold several layers.
    adds_axis = source.n_layers is None and bool(stored_layers(source)) and has_layer_axis
    for sentence, array in source.sentences():
        axes = array.shape[:-2] if source.unit == "tokens" else array.shape[:-1]
        if (*axes, array.shape[-1]) != (*layers, source.dim):
            what = f"shape {array.shape}, others have layers {source.n_layers}, dim {source.dim}"
            raise EmbeddingsFileError(f"{sentence.where}: {what}", CORRUPT_HINT)
        if selection is not None:
            array = array.astype("f4") if selection.is_sum else array
            try:
                with np.errstate(over="raise"):
                    array = selection.apply(array)
            except FloatingPointError:
                what = f"{sentence.where}: the sum of its layers is beyond float32"
                raise OutputError(what, "choose smaller weights in `layers`") from None
        elif adds_axis:
            array = array[np.newaxis]
        yield sentence, array
