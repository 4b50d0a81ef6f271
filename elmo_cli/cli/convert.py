"""`elmo convert`: convert an embeddings file to another layout, dtype or choice of layers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import FILE, LAYERS, LAYOUT, argument, command, value
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.messages import plural


@dataclass(frozen=True)
class ConvertOptions:
    """The values of all options of `elmo convert`."""

    file: str
    output: str
    layout: str | None
    dtype: str | None
    layers: str | None
    overwrite: bool


@command
@argument("file", metavar="FILE", type=FILE)
@options.hdf5_output
@value("Output", "--layout NAME",
       "Layout of the new file (see `elmo embed --help`).  [default: that of FILE]",
       type=LAYOUT)  # fmt: skip
@options.dtype_option()
@value("Output", "--layers SPEC", f"Layers to keep: {options.LAYER_SPEC}.  [default: all]",
       type=LAYERS)  # fmt: skip
@options.overwrite_option
@options.general_options
def convert(**values: Any) -> None:
    """Convert an embeddings file to another layout, dtype or choice of layers.

    FILE may have any layout that `elmo embed` writes, and may be written by elmo or by the original
    programs. If the new layout needs information that the file lacks (document keys, the order of
    the sentences), the error names it.

    \b
    Examples:
      elmo convert corpus.hdf5 -o corpus.flat.hdf5 --layout flat
      elmo convert corpus.hdf5 -o small.hdf5 --dtype float16
      elmo convert corpus.hdf5 -o corpus.ly2.hdf5 --layout manylangs --layers 2
      elmo convert corpus.hdf5 -o mixed.hdf5 --layers mix:0.2,0.3,0.5,1.1
    """
    from elmo_cli.isolate import run_isolated
    from elmo_cli.store.convert import convert as convert_file

    chosen = ConvertOptions(**values)
    convert_isolated = partial(
        convert_file,
        chosen.file,
        chosen.output,
        layout=chosen.layout,
        dtype=chosen.dtype,
        layers=chosen.layers,
        overwrite=chosen.overwrite,
    )
    facts = run_isolated(convert_isolated, [chosen.file], EmbeddingsFileError)
    console.warn(*facts["warnings"])
    console.print_result(facts)
    sentences = plural(facts["sentences"], "sentence")
    console.note(f"{chosen.output}: {sentences}, layout {facts['layout']}")
