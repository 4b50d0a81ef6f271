"""`elmo merge`: join the shards of a run into one file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from elmo_cli.cli import console, file_options, options
from elmo_cli.cli.click_options import FILE, argument, command
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.messages import plural
from elmo_cli.store.file_formats import EMBEDDINGS_FORMATS


@dataclass(frozen=True)
class MergeOptions:
    """The values of all options of `elmo merge`."""

    shards: tuple[str, ...]
    output: str
    compression: str
    overwrite: bool


@command
@argument("shards", nargs=-1, required=True, metavar="SHARD…", type=FILE)
@file_options.embeddings_output(
    EMBEDDINGS_FORMATS, "File to write: Parquet if its suffix is .parquet, otherwise HDF5."
)
@file_options.compression_option
@options.overwrite_option
@options.general_options
def merge(**values: Any) -> None:
    """Join the shards of a run into one file.

    The arrays and attributes equal those of a run without --shard. Shards may be given in any
    order. A missing or repeated shard, or one of another run, is an error.

    \b
    Examples:
      elmo embed corpus.txt --shard 1/2 -o part-1.hdf5
      elmo embed corpus.txt --shard 2/2 -o part-2.hdf5
      elmo merge part-*.hdf5 -o corpus.hdf5
    """
    from elmo_cli.cli.embed_summary import note_equal_lines
    from elmo_cli.isolate import run_isolated
    from elmo_cli.store.shards import merge_shards

    chosen = MergeOptions(**values)
    merge_isolated = partial(
        merge_shards,
        chosen.shards,
        chosen.output,
        compression=chosen.compression,
        overwrite=chosen.overwrite,
    )
    merged = run_isolated(merge_isolated, chosen.shards, EmbeddingsFileError)
    facts = {
        "shards": len(chosen.shards),
        "output": merged.output,
        "layout": merged.layout,
        "sentences": merged.n_sentences,
        "tokens": merged.n_tokens,
        "bytes": merged.n_bytes,
    }
    console.print_result(facts)
    sentences = plural(merged.n_sentences, "sentence")
    tokens = plural(merged.n_tokens, "token")
    shards = plural(len(chosen.shards), "shard")
    console.note(f"{chosen.output}: {sentences}, {tokens} from {shards}")
    if merged.lacks_equal_lines:
        note_equal_lines()
