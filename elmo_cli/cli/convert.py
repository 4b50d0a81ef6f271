"""`elmo convert`: an embeddings file in another format, layout, dtype or choice of layers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from elmo_cli.cli import console, file_options, options
from elmo_cli.cli.click_options import FILE, LAYERS, LAYOUT, argument, command, together, value
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.messages import plural
from elmo_cli.store.file_formats import (
    ALL_FORMATS,
    EMBEDDINGS_FORMATS,
    NPZ,
    PARQUET,
    WORD2VEC_FORMATS,
    FileFormat,
    format_of_output,
)

_FOR_TYPES = ("layer", "min_count", "aggregate")
_TYPES = "Types (.vec and .bin)"  # heading in the help


# fmt: off
_output_options = together(
    file_options.embeddings_output(
        ALL_FORMATS, "File to write, in the format of its suffix: .hdf5 (or any other), .parquet, "
        ".npz (one array per key), .vec or .bin (word2vec: one vector per type)."),
    value("Output", "--layout NAME",
          "Layout of the new file (see `elmo embed --help`).  [default: that of FILE]",
          type=LAYOUT),
    options.dtype_option(),
    value("Output", "--layers SPEC",
          f"Layers to keep: {options.LAYER_SPEC}.  [default: all]",
          type=LAYERS),
    file_options.sentence_map_option(),
    file_options.compression_option,
)
_type_options = together(
    options.layer_option(_TYPES),
    value(_TYPES, "--min-count N", "Leave out types that occur fewer than N times.",
          type=options.AT_LEAST_1, default=1),
    value(_TYPES, "--aggregate NAME",
          "Vector of a type: the mean of its occurrences, or their first-component (the first "
          "singular direction, not centered).",
          type=click.Choice(["mean", "first-component"]), default="mean"),
)
# fmt: on


@dataclass(frozen=True)
class ConvertOptions:
    """The values of all options of `elmo convert`."""

    file: str
    output: str
    layout: str | None
    dtype: str | None
    layers: str | None
    sentence_map: str | None
    compression: str
    layer: int | None
    min_count: int
    aggregate: str
    overwrite: bool


@command
@argument("file", metavar="FILE", type=FILE)
@_output_options
@_type_options
@options.overwrite_option
@options.general_options
def convert(**values: Any) -> None:
    """Convert an embeddings file to another format, layout, dtype or choice of layers.

    FILE may have any layout that `elmo embed` writes, and may be written by elmo or by the original
    programs. If the new layout needs information that the file lacks (document keys, the order of
    the sentences), the error names it.

    \b
    Examples:
      elmo convert corpus.hdf5 -o corpus.flat.hdf5 --layout flat
      elmo convert corpus.hdf5 -o small.hdf5 --dtype float16
      elmo convert corpus.hdf5 -o corpus.ly2.hdf5 --layout manylangs --layers 2
      elmo convert corpus.hdf5 -o mixed.hdf5 --layers mix:0.2,0.3,0.5,1.1
      elmo convert corpus.hdf5 -o corpus.parquet --compression zstd
      elmo convert corpus.hdf5 -o types.vec --layer 1 --min-count 5
    """
    chosen = ConvertOptions(**values)
    file_format = format_of_output(chosen.output, ALL_FORMATS)
    _refuse_without_effect(file_format)
    if file_format in EMBEDDINGS_FORMATS:
        _convert_file(chosen)
    elif file_format is NPZ:
        _write_archive(chosen)
    else:
        _write_types(chosen)


def _refuse_without_effect(file_format: FileFormat) -> None:
    """Refuse options that have no effect for the format of the output."""
    suffix = file_format.suffixes[0]
    if file_format is not PARQUET:
        options.refuse_options(["compression"], "unless the output is .parquet")
    if file_format in WORD2VEC_FORMATS:
        options.refuse_options(["layout", "dtype", "layers", "sentence_map"], f"for {suffix}")
    else:
        options.refuse_options(_FOR_TYPES, "unless the output is .vec or .bin")
    if file_format is NPZ:
        options.refuse_options(["layout", "sentence_map"], f"for {suffix}")


def _convert_file(chosen: ConvertOptions) -> None:
    """Write an embeddings file."""
    from elmo_cli.isolate import run_isolated
    from elmo_cli.store.convert import convert as convert_file

    convert_isolated = partial(
        convert_file,
        chosen.file,
        chosen.output,
        layout=chosen.layout,
        dtype=chosen.dtype,
        layers=chosen.layers,
        sentence_map=chosen.sentence_map,
        compression=chosen.compression,
        overwrite=chosen.overwrite,
    )
    facts = run_isolated(convert_isolated, [chosen.file], EmbeddingsFileError)
    console.warn(*facts["warnings"])
    console.print_result(facts)
    sentences = plural(facts["sentences"], "sentence")
    console.note(f"{chosen.output}: {sentences}, layout {facts['layout']}")


def _write_archive(chosen: ConvertOptions) -> None:
    """Write a .npz archive."""
    from elmo_cli.interop.numpy_archive import write_archive
    from elmo_cli.isolate import run_isolated

    write_isolated = partial(
        write_archive,
        chosen.file,
        chosen.output,
        dtype=chosen.dtype,
        layers=chosen.layers,
        overwrite=chosen.overwrite,
    )
    facts = run_isolated(write_isolated, [chosen.file], EmbeddingsFileError)
    console.print_result(facts)
    console.note(f"{chosen.output}: {plural(facts['sentences'], 'array')}")


def _write_types(chosen: ConvertOptions) -> None:
    """Write the vectors of types."""
    from elmo_cli.interop.word2vec import write_types
    from elmo_cli.isolate import run_isolated

    write_isolated = partial(
        write_types,
        chosen.file,
        chosen.output,
        layer=chosen.layer,
        min_count=chosen.min_count,
        aggregate=chosen.aggregate,
        overwrite=chosen.overwrite,
    )
    facts = run_isolated(write_isolated, [chosen.file], EmbeddingsFileError)
    console.warn(*facts["warnings"])
    console.print_result(facts)
    types = plural(facts["types"], "type")
    console.note(f"{chosen.output}: {types} of layer {facts['layer']}, {facts['dim']} dimensions")
