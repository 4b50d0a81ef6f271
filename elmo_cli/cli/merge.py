"""`elmo merge`: join the shards of a run into one file."""

from __future__ import annotations

from functools import partial

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import argument, command
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.messages import plural


@command
@argument("shards", nargs=-1, required=True, metavar="SHARD…")
@options.hdf5_output
@options.overwrite_option
@options.general_options
def merge(shards: tuple[str, ...], output: str, overwrite: bool) -> None:
    """Join the shards of a run into one file.

    The arrays and attributes equal those of a run without --shard. Shards may be given in any
    order. A missing or repeated shard, or one of another run, is an error.

    \b
    Examples:
      elmo embed corpus.txt --shard 1/2 -o part-1.hdf5
      elmo embed corpus.txt --shard 2/2 -o part-2.hdf5
      elmo merge part-*.hdf5 -o corpus.hdf5
    """
    from elmo_cli.isolate import run_isolated
    from elmo_cli.store.shards import merge_shards

    merged = partial(merge_shards, shards, output, overwrite=overwrite)
    done = run_isolated(merged, shards, EmbeddingsFileError)
    console.print_result(done)
    sentences, tokens = plural(done["sentences"], "sentence"), plural(done["tokens"], "token")
    console.note(f"{output}: {sentences}, {tokens} from {plural(len(shards), 'shard')}")
